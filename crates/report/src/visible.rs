//! Hostile text made visible: what a terminal, a browser or a reader's eye would act upon is
//! spelled out.

use std::borrow::Cow;

/// On one line: control characters (ANSI escapes, newlines, NUL), characters that reverse or hide
/// text (bidirectional controls, zero-width ones, tags) become `\n`, `\x1b`, `\u{202e}` and so on.
pub fn visible(text: &str) -> Cow<'_, str> {
    spell(text, false)
}

/// Like [`visible`], but newlines stay: for log lines in a block of their own.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    spell(text, true)
}

/// At most as wide as `columns` letters, the last character an ellipsis when some were left out.
pub fn shortened(text: &str, columns: usize) -> String {
    let text = visible(text);
    if drawn_columns(&text) <= columns {
        return text.into_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let taken = drawn_columns(c.encode_utf8(&mut [0; 4]));
        let fits = taken <= left;
        left = left.saturating_sub(taken);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// How wide a text is, in letters of the Latin alphabet: letters of East Asia and pictures are as wide as two, accents
/// that stand over another letter have no width.
pub fn drawn_columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

fn spell(text: &str, keeps_newlines: bool) -> Cow<'_, str> {
    let is_kept = |c: char| !is_hidden(c) || (keeps_newlines && c == '\n');
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            kept if is_kept(kept) => spelled.push(kept),
            '\n' => spelled.push_str("\\n"),
            '\r' => spelled.push_str("\\r"),
            '\t' => spelled.push_str("\\t"),
            low if (low as u32) < 0x100 => spelled.push_str(&format!("\\x{:02x}", low as u32)),
            other => spelled.push_str(&format!("\\u{{{:x}}}", other as u32)),
        }
    }
    Cow::Owned(spelled)
}

/// Controls, and the format characters of Unicode that change or hide what stands around them.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled() {
        assert_eq!(visible("\u{1b}[31mred\u{7}"), "\\x1b[31mred\\x07");
        assert_eq!(visible("a\nb\r\tc\u{0}\u{9b}"), "a\\nb\\r\\tc\\x00\\x9b");
        assert_eq!(
            visible("\u{202e}gpj.exe\u{200b}"),
            "\\u{202e}gpj.exe\\u{200b}"
        );
    }

    #[test]
    fn ordinary_text_of_any_language_stays() {
        for text in ["mimalloc-2.0.9", "größer, Änderung", "日本語", "🙂 emoji"] {
            assert!(matches!(visible(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn lines_of_a_log_stay_lines() {
        assert_eq!(visible_lines("one\ntwo\u{1b}[0m"), "one\ntwo\\x1b[0m");
    }

    #[test]
    fn long_names_end_in_an_ellipsis() {
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        assert_eq!(shortened("内存占用", 8), "内存占用");
        assert_eq!(shortened("内存占用", 6), "内存…");
        assert_eq!(shortened("a – b → c", 9), "a – b → c");
        assert_eq!(
            shortened("e\u{301}e\u{301}e\u{301}", 3),
            "e\u{301}e\u{301}e\u{301}"
        );
    }
}
