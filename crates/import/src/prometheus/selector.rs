//! A plain selector, `name{label="value",...}`, told from any other expression: only a selector can be read
//! raw, and only of one are the sister metrics known.

use std::fmt;

/// Names and matchers of a selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    pub name: Option<String>,
    pub matchers: Vec<Matcher>,
}

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    pub label: String,
    /// `=`, `!=`, `=~` or `!~`.
    pub operator: &'static str,
    pub value: String,
}

const OPERATORS: [&str; 4] = ["=~", "!~", "!=", "="];

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.replace('\\', "\\\\").replace('"', "\\\"");
        let value = value.replace('\n', "\\n");
        write!(f, "{}{}\"{value}\"", self.label, self.operator)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(""))?;
        if self.matchers.is_empty() && self.name.is_some() {
            return Ok(());
        }
        let all: Vec<String> = self.matchers.iter().map(Matcher::to_string).collect();
        write!(f, "{{{}}}", all.join(","))
    }
}

impl Selector {
    /// The same series of another metric: matchers for which `keeps` holds.
    pub fn sister(&self, name: &str, keeps: impl Fn(&str) -> bool) -> Selector {
        let of_label = |m: &&Matcher| m.label != "__name__" && keeps(&m.label);
        Selector {
            name: Some(name.to_owned()),
            matchers: self.matchers.iter().filter(of_label).cloned().collect(),
        }
    }

    pub fn matches_on(&self, label: &str) -> bool {
        self.matchers.iter().any(|m| m.label == label)
    }
}

/// A condition as it is typed on a command line, without quotes: `job=api`, `pod=~api-.*`.
pub fn parse_match(text: &str) -> Result<Matcher, String> {
    let first = OPERATORS
        .iter()
        .filter_map(|o| Some((text.find(o)?, *o)))
        .min_by_key(|(at, o)| (*at, std::cmp::Reverse(o.len())));
    let (label, operator, value) = match first {
        Some((at, operator)) => (&text[..at], operator, &text[at + operator.len()..]),
        None => return Err("write LABEL=VALUE, or LABEL=~REGEX".to_owned()),
    };
    let (label, value) = (label.trim(), value.trim().trim_matches('"'));
    if !is_name(label) {
        return Err(format!("{label:?} is no name of a label"));
    }
    Ok(Matcher {
        label: label.to_owned(),
        operator,
        value: value.to_owned(),
    })
}

fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    !text.is_empty() && text.chars().all(of_name) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// `None` when it is any other expression (or one that the server will refuse).
pub fn parse_selector(text: &str) -> Option<Selector> {
    let text = text.trim();
    let (name, rest) = match text.find('{') {
        Some(at) => (text[..at].trim(), Some(&text[at + 1..])),
        None => (text, None),
    };
    if !name.is_empty() && !is_name(name) {
        return None;
    }
    let matchers = match rest {
        Some(rest) => parse_matchers(rest)?,
        None => Vec::new(),
    };
    let given = |m: &Matcher| m.label == "__name__" && m.operator == "=";
    let inner = matchers.iter().find(|m| given(m)).map(|m| m.value.clone());
    let name = Some(name.to_owned()).filter(|n| !n.is_empty()).or(inner);
    (name.is_some() || !matchers.is_empty()).then(|| Selector {
        name,
        matchers: matchers.into_iter().filter(|m| !given(m)).collect(),
    })
}

/// What stands between the braces, to the closing one, after which nothing may come.
fn parse_matchers(text: &str) -> Option<Vec<Matcher>> {
    let mut rest = text.trim_start();
    let mut all = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return after.trim().is_empty().then_some(all);
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let label = &rest[..end];
        rest = rest[end..].trim_start();
        let operator = *OPERATORS.iter().find(|o| rest.starts_with(**o))?;
        let (value, after) = parse_quoted(rest[operator.len()..].trim_start())?;
        if !is_name(label) {
            return None;
        }
        all.push(Matcher {
            label: label.to_owned(),
            operator,
            value,
        });
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

/// A string in double or single quotes or backticks, and what follows it. Escapes other than of quotes,
/// backslash and the usual white space are left to the server: `None`.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| "\"'`".contains(*c))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((value, &text[at + c.len_utf8()..]));
        }
        if c != '\\' || quote == '`' {
            value.push(c);
            continue;
        }
        value.push(match chars.next()?.1 {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            c @ ('\\' | '"' | '\'') => c,
            _ => return None,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_read_and_written() {
        for (text, written) in [
            ("up", "up"),
            (" up {} ", "up"),
            ("up{job=\"a\", pod=~'b.*' ,}", "up{job=\"a\",pod=~\"b.*\"}"),
            ("{__name__=\"up\",job!=`a\\d`}", "up{job!=\"a\\\\d\"}"),
            ("{job=\"a,}\\\"\"}", "{job=\"a,}\\\"\"}"),
            ("up{job=\"ü\"}", "up{job=\"ü\"}"),
        ] {
            let selector = parse_selector(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(selector.to_string(), written, "{text}");
        }
    }

    #[test]
    fn an_expression_is_none() {
        for text in [
            "",
            "{}",
            "rate(up[5m])",
            "up[5m]",
            "up offset 5m",
            "up{job=\"a\"} @ 5",
            "sum by (job) (up)",
            "up + up",
            "1",
            "up{job=\"a\"",
            "up{job}",
            "up{job=a}",
            "up{job=\"\\x41\"}",
        ] {
            assert_eq!(parse_selector(text), None, "{text}");
        }
    }

    #[test]
    fn a_match_of_the_command_line() {
        let m = |t: &str| parse_match(t).map(|m| m.to_string());
        assert_eq!(m("job=api"), Ok("job=\"api\"".to_owned()));
        assert_eq!(m("pod=~a=b.*"), Ok("pod=~\"a=b.*\"".to_owned()));
        assert_eq!(m("pod!~x"), Ok("pod!~\"x\"".to_owned()));
        assert_eq!(
            m("instance!=127.0.0.1:9000"),
            Ok("instance!=\"127.0.0.1:9000\"".to_owned())
        );
        assert!(m("job").is_err() && m("=x").is_err() && m("a b=x").is_err());
    }

    #[test]
    fn a_sister_keeps_what_she_shares() {
        let of = parse_selector("a{job=\"x\",memtype=\"resident\"}").unwrap();
        assert_eq!(
            of.sister("b", |l| l != "memtype").to_string(),
            "b{job=\"x\"}"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_query_panics(text in ".{0,60}") {
            if let Some(selector) = parse_selector(&text) {
                proptest::prop_assert_eq!(parse_selector(&selector.to_string()), Some(selector));
            }
        }
    }
}
