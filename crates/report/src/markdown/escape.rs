//! Text as text: what Markdown, HTML or GitHub would read as something else.

use crate::visible::{visible, visible_lines};

/// Text with names between backquotes, which become code.
pub fn sentence(words: &str) -> String {
    let parts = words.split('`').enumerate().map(|(at, part)| match at % 2 {
        1 => format!("<code>{}</code>", escaped(part)),
        _ => escaped(part),
    });
    parts.collect()
}

/// Text as text: what Markdown, HTML or GitHub would read as something else becomes a character
/// reference.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let visible = visible(text);
    let mut before = ' ';
    for character in visible.chars() {
        let is_link = (character == ':' || character == '.') && before.is_alphanumeric();
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '#' | '@' | '~' | '\\' | '[' | ']' | '!' | '$' => {
                safe.push_str(&format!("&#{};", character as u32));
            }
            // "www.x" and "http://x" would become links; "2.0.9" and "p99 5.3 ms" would not.
            ':' | '.' if is_link && is_link_start(&safe) => {
                safe.push_str(&format!("&#{};", character as u32));
            }
            other => safe.push(other),
        }
        before = character;
    }
    safe
}

/// Lines as code, between fences that nothing inside can end.
pub fn fenced(language: &str, text: &str) -> String {
    let text = visible_lines(text.trim_end());
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Rows as a table; cells are escaped already.
pub fn table(titles: &[&str], numbers_from: usize, rows: &[Vec<String>]) -> String {
    let rule = |at: usize| if at >= numbers_from { "--:" } else { "---" };
    let rules: Vec<&str> = (0..titles.len()).map(rule).collect();
    let mut lines = vec![
        format!("| {} |", titles.join(" | ")),
        format!("|{}|", rules.join("|")),
    ];
    lines.extend(rows.iter().map(|row| format!("| {} |", row.join(" | "))));
    lines.join("\n")
}

/// Whether what was written so far ends like the beginning of a link.
fn is_link_start(written: &str) -> bool {
    let end = written.to_ascii_lowercase();
    ["www", "http", "https", "ftp", "mailto", "xmpp"]
        .iter()
        .any(|start| end.ends_with(start))
}

#[cfg(test)]
mod tests {
    use super::{escaped, fenced};

    #[test]
    fn nothing_of_a_name_is_markup() {
        let cases = [
            ("a|b", "a&#124;b"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("[x](https://y)", "&#91;x&#93;(https&#58;//y)"),
            ("www.example.org", "www&#46;example.org"),
            ("@everyone #1 `x`", "&#64;everyone &#35;1 &#96;x&#96;"),
            ("a\nb", "a&#92;nb"),
            ("mimalloc-2.0.9", "mimalloc-2.0.9"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn nothing_ends_a_fence() {
        let text = fenced("ini", "a\n````\n[x](y)\u{1b}[0m\n");
        assert_eq!(text, "`````ini\na\n````\n[x](y)\\x1b[0m\n`````");
    }
}
