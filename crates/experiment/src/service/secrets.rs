//! The secret values of one process, kept out of log lines and messages. What counts as a secret, and how commands
//! and environments are shown, is said in `experiment::redact`.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::redact::{REDACTED, is_secret_name, redact_text};

/// Values shorter than this are not searched for: replacing every "1" would destroy a log line.
const SEARCHED_LENGTH_MIN: usize = 6;

/// The secret values themselves.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    values: BTreeSet<String>,
}

impl Secrets {
    /// Collects the secret values of an environment and of arguments: `--token=x`, `--token x`, `API_KEY=x`.
    pub fn of(environment: &BTreeMap<String, String>, arguments: &[String]) -> Self {
        let mut secrets = Self::default();
        for (name, value) in environment {
            secrets.add(name, value);
        }
        let mut before = "";
        for argument in arguments {
            match argument.split_once('=') {
                Some((name, value)) => secrets.add(name, value),
                None if before.starts_with('-') => secrets.add(before, argument),
                None => {}
            }
            before = argument;
        }
        secrets
    }

    fn add(&mut self, name: &str, value: &str) {
        if value.len() >= SEARCHED_LENGTH_MIN && !name.contains('/') && is_secret_name(name) {
            self.values.insert(value.into());
        }
    }

    /// The text with every secret value and every URL credential replaced.
    pub fn out_of(&self, text: &str) -> String {
        let replace = |text: String, value: &String| text.replace(value, REDACTED);
        redact_text(&self.values.iter().fold(text.to_owned(), replace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_disappear_from_texts() {
        let environment = BTreeMap::from([
            ("DB_PASSWORD".to_owned(), "correct-horse".to_owned()),
            ("SHORT_KEY".to_owned(), "1".to_owned()),
            ("LEVEL".to_owned(), "verbose-enough".to_owned()),
        ]);
        let arguments = ["--token", "tok-12345", "--api-key=ak-98765"].map(str::to_owned);
        let secrets = Secrets::of(&environment, &arguments);
        let line = "login 1 correct-horse tok-12345 ak-98765 verbose-enough http://u:p@h/";
        assert_eq!(
            secrets.out_of(line),
            "login 1 [redacted] [redacted] [redacted] verbose-enough http://[redacted]@h/"
        );
    }
}
