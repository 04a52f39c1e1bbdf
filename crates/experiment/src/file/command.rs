//! Command lines: a list is taken as it stands, a text is split into words.
//!
//! A text is split by the shell's rules for quotes and backslashes (`'...'`, `"..."`, `\ `), and by those only: no
//! shell runs, so variables, wildcards, pipes and redirections mean nothing. A text that uses an operator
//! is refused rather than misunderstood; whoever wants a shell writes `["sh", "-c", "..."]`.

/// Words that only a shell understands.
const OPERATORS: &[&str] = &[
    "|", "||", "&", "&&", ";", "<", ">", ">>", "<<", "2>", "2>&1", "&>", "|&",
];

/// Splits a command line into program and arguments.
pub fn parse_command(text: &str) -> Result<Vec<String>, String> {
    // `#` would start a comment: the rest of a command must not vanish without a word.
    let comment = text.starts_with('#') || text.contains(" #");
    let words = shlex::split(text).ok_or("a quote or a backslash is left open")?;
    if words.is_empty() {
        return Err("the command is empty".into());
    }
    if let Some(operator) = words.iter().find(|word| OPERATORS.contains(&word.as_str())) {
        return Err(format!(
            "no shell runs the command, so `{operator}` means nothing; write [\"sh\", \"-c\", \"...\"]"
        ));
    }
    if comment && shlex::split(&text.replace('#', "x")).is_some_and(|all| all.len() != words.len())
    {
        return Err("everything after # would be left out; put it in quotes".into());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_as_in_a_shell() {
        let cases: &[(&str, &[&str])] = &[
            ("./relay --port {port}", &["./relay", "--port", "{port}"]),
            ("a 'b c' \"d e\" f\\ g", &["a", "b c", "d e", "f g"]),
            ("echo $HOME *.txt", &["echo", "$HOME", "*.txt"]),
            ("x ''", &["x", ""]),
            ("sh -c 'a | b'", &["sh", "-c", "a | b"]),
            ("curl http://x/#top", &["curl", "http://x/#top"]),
            ("echo '# no'", &["echo", "# no"]),
        ];
        for (text, words) in cases {
            assert_eq!(parse_command(text).unwrap(), *words, "{text}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_refused() {
        for text in ["a | b", "a && b", "a > /tmp/x", "a 2>&1", "a; b ; c"] {
            assert!(parse_command(text).unwrap_err().contains("sh"), "{text}");
        }
        assert!(parse_command("").unwrap_err().contains("empty"));
        assert!(parse_command("a 'b").unwrap_err().contains("left open"));
        assert!(parse_command("a b # c").unwrap_err().contains("left out"));
    }
}
