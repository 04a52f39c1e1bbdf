//! Small parts of a message: the known word nearest to a typed one, and foreign text made safe to show.

/// Longest piece of foreign text that a message shows, in characters.
const QUOTED_CHARS_MAX: usize = 60;

/// The known word that `typed` was probably meant to be, if any is near enough: at most one slip
/// (letter wrong, missing, doubled, two swapped) in a short word, one in three letters in a long one.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let length = typed.chars().count();
    known
        .into_iter()
        .map(|word| (strsim::osa_distance(&word.to_lowercase(), &typed), word))
        .filter(|(slips, word)| {
            let known_length = word.chars().count();
            // A one-letter unit is one slip from any other letter: something must agree.
            *slips <= (known_length / 3).max(1) && *slips < length.max(known_length)
        })
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, word)| word)
}

/// Foreign text between backquotes: bounded in length, control characters made visible, so that neither
/// an escape sequence nor a megabyte reaches the terminal.
pub fn quoted(text: &str) -> String {
    format!("`{}`", shown(text, QUOTED_CHARS_MAX))
}

/// Foreign text without control characters, at most `chars` long.
pub fn shown(text: &str, chars: usize) -> String {
    let mut shown: String = text.chars().take(chars).map(visible).collect();
    if text.chars().nth(chars).is_some() {
        shown.push('…');
    }
    shown
}

/// One word as a shell would take it.
pub fn shell_word(word: &str) -> String {
    // Braces are the placeholders of a plan; with a comma a shell would expand them.
    let is_list = word.contains('{') && word.contains(',');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
    match !word.is_empty() && !is_list && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Control characters and the ones that reverse or hide text become U+FFFD.
fn visible(c: char) -> char {
    let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    if c.is_control() || hides {
        '\u{fffd}'
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_forgiven_and_another_word_is_not() {
        let keys = ["replicas", "duration", "arm", "arms", "name"];
        assert_eq!(nearest("replcas", keys), Some("replicas"));
        assert_eq!(nearest("durtaion", keys), Some("duration"));
        assert_eq!(nearest("Arms", keys), Some("arms"));
        assert_eq!(nearest("nmae", keys), Some("name"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("x", ["m", "s"]), None);
        assert_eq!(nearest("hh", ["h", "s"]), Some("h"));
    }

    #[test]
    fn no_word_leaves_its_quotes_in_a_shell() {
        for plain in ["tor@a.service", "{port}", "narenas:2,tcache:false"] {
            assert_eq!(shell_word(plain), plain);
        }
        assert_eq!(shell_word("a b; rm -rf '"), "'a b; rm -rf '\\'''");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("{a,b}"), "'{a,b}'");
    }

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(quoted("a\x1b[2Jb\u{202e}"), "`a\u{fffd}[2Jb\u{fffd}`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
        assert_eq!(shown("abc", 3), "abc");
    }
}
