//! Patterns as systemctl and shells have them: `*`, `?`, `[a-z]`; `*` passes over any character.

use regex::Regex;

/// A pattern that a whole text must match.
#[derive(Debug, Clone)]
pub struct Glob {
    regex: Regex,
}

impl Glob {
    /// # Errors
    /// In words: a bracket that is not closed, a range that runs backwards.
    pub fn new(pattern: &str) -> Result<Glob, String> {
        let mut expression = String::from("(?s)^");
        let mut rest = pattern.chars();
        while let Some(character) = rest.next() {
            match character {
                '*' => expression.push_str("(.*)"),
                '?' => expression.push('.'),
                '[' => expression.push_str(&class(&mut rest, pattern)?),
                other => expression.push_str(&regex::escape(&other.to_string())),
            }
        }
        expression.push('$');
        let wrong = |_| format!("{pattern:?} is no pattern: write *, ? or [a-z]");
        Ok(Glob {
            regex: Regex::new(&expression).map_err(wrong)?,
        })
    }

    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// What the first `*` stands for in the text; `None` without a star, or when the text does not match.
    pub fn star<'a>(&self, text: &'a str) -> Option<&'a str> {
        Some(self.regex.captures(text)?.get(1)?.as_str())
    }
}

/// The inside of brackets up to the closing one.
fn class(rest: &mut std::str::Chars<'_>, pattern: &str) -> Result<String, String> {
    let mut inside = String::from("[");
    let mut is_first = true;
    for character in rest.by_ref() {
        match character {
            ']' if !is_first => return Ok(inside + "]"),
            '!' | '^' if is_first => inside.push('^'),
            '-' => inside.push('-'),
            other => inside.push_str(&regex::escape(&other.to_string())),
        }
        is_first = false;
    }
    Err(format!("{pattern:?}: a [ is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_match_as_systemctl_has_it() {
        let glob = |text: &str| Glob::new(text).unwrap();
        assert!(glob("tor@*.service").matches("tor@relay-1.service"));
        assert!(!glob("tor@*.service").matches("xtor@relay-1.service"));
        assert!(!glob("tor@a.service").matches("tor@aXservice"));
        assert!(glob("tor@[a-c]?.service").matches("tor@b7.service"));
        assert!(!glob("tor@[!a-c]?.service").matches("tor@b7.service"));
        assert!(Glob::new("[guard").is_err());
        assert!(Glob::new("[z-a]").is_err());
        assert!(glob("a(b|c)+").matches("a(b|c)+") && !glob("a(b|c)+").matches("ab"));
    }

    #[test]
    fn the_first_star_is_the_name() {
        let glob = Glob::new("tor@*.service").unwrap();
        assert_eq!(glob.star("tor@relay-1.service"), Some("relay-1"));
        assert_eq!(Glob::new("tor.service").unwrap().star("tor.service"), None);
        assert_eq!(glob.star("nginx.service"), None);
    }
}
