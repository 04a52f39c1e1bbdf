//! The doctor's findings as text: a line each, and under what is missing what is lost and the cure.

use std::fmt::Write;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub level: Level,
    pub state: String,
    /// What does not work without it; empty when it is there.
    pub lost: String,
    /// How to get it; empty when it is there.
    pub how: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Good,
    Lost,
}

impl Finding {
    pub fn good(what: &str, state: &str) -> Finding {
        Finding {
            what: what.into(),
            level: Level::Good,
            state: state.into(),
            lost: String::new(),
            how: String::new(),
        }
    }

    pub fn lost(what: &str, state: &str, lost: &str, how: &str) -> Finding {
        Finding {
            what: what.into(),
            level: Level::Lost,
            state: state.into(),
            lost: lost.into(),
            how: how.into(),
        }
    }
}

pub fn render(headline: &str, findings: &[Finding], width: usize) -> String {
    let mut text = textwrap::fill(headline, width);
    text.push_str("\n\n");
    let column = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    for finding in findings {
        let mark = match finding.level {
            Level::Good => "yes",
            Level::Lost => "no ",
        };
        let _ = writeln!(text, "{mark}  {:column$}  {}", finding.what, finding.state);
        for (word, words) in [("lost", &finding.lost), ("get it", &finding.how)] {
            if !words.is_empty() {
                let lead = format!("{:>width$}: ", word, width = column + 5);
                let rest = " ".repeat(column + 7);
                let options = textwrap::Options::new(width)
                    .initial_indent(&lead)
                    .subsequent_indent(&rest);
                let _ = writeln!(text, "{}", textwrap::fill(words, options));
            }
        }
    }
    text
}

/// Lines to copy: never wrapped, each below what it gives.
pub fn render_ways(headline: &str, ways: &[(String, String)]) -> String {
    let mut text = format!("{headline}\n");
    for (what, line) in ways {
        let _ = writeln!(text, "  {what}:\n    {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_what_is_lost_and_how_to_get_it() {
        let findings = [
            Finding::good("switches", "works"),
            Finding::lost(
                "eBPF",
                "not permitted",
                "holders are inferred",
                "run as root",
            ),
        ];
        let expected = "Mode.\n\n\
            yes  switches  works\n\
            no   eBPF      not permitted\n\
            \x20        lost: holders are inferred\n\
            \x20      get it: run as root\n";
        assert_eq!(render("Mode.", &findings, 80), expected);
    }
}
