//! Secrets stay out of everything that is recorded or shown: values of variables and arguments whose names say that
//! they hold one, and the credentials inside URLs.
//!
//! Names are judged, not values: a value that only looks random may be the seed that explains a result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Values shorter than this are not searched for in texts: replacing every "1" would destroy a log line.
const SEARCHED_LENGTH_MIN: usize = 6;

/// A name with one of these anywhere inside holds a secret.
const ANYWHERE: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "PRIVATE_KEY",
];

/// A name with one of these as a word of its own (between `_`, `-` and `.`) does: MONKEY_COUNT and KEYBOARD do not.
const WORDS: &[&str] = &[
    "KEY",
    "PASS",
    "PWD",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "DSN",
    "CREDS",
];

static URL_CREDENTIALS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b([a-z][a-z0-9+.-]*://)([^/\s@?#]+)@").expect("a constant pattern")
});

/// Parameters of a URL whose names say secret: `?token=...&`.
static URL_PARAMETERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([?&])([^=&\s#]+)=([^&\s#]+)").expect("a constant pattern"));

/// Whether a variable, option or parameter of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
    if name == "PWD" || name == "OLDPWD" {
        return false;
    }
    ANYWHERE.iter().any(|part| name.contains(part))
        || name.split('_').any(|word| WORDS.contains(&word))
}

/// `postgres://user:password@host/db?token=x` without what must not be seen.
pub fn redact_urls(text: &str) -> String {
    let text = URL_CREDENTIALS.replace_all(text, format!("${{1}}{REDACTED}@"));
    URL_PARAMETERS
        .replace_all(&text, |found: &regex::Captures| {
            let value = if is_secret_name(&found[2]) {
                REDACTED
            } else {
                &found[3]
            };
            format!("{}{}={value}", &found[1], &found[2])
        })
        .into_owned()
}

/// Environment as it may be recorded.
pub fn redact_environment(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let redact = |(name, value): (&String, &String)| {
        let shown = if is_secret_name(name) {
            REDACTED.into()
        } else {
            redact_urls(value)
        };
        (name.clone(), shown)
    };
    environment.iter().map(redact).collect()
}

/// Arguments as they may be recorded: `--password=x`, `--password x`, `API_KEY=x`, URLs.
pub fn redact_arguments(arguments: &[String]) -> Vec<String> {
    let mut next_is_secret = false;
    let mut shown = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let (text, announces) = redact_argument(argument);
        let hide = next_is_secret && !argument.starts_with('-');
        shown.push(if hide { REDACTED.into() } else { text });
        next_is_secret = announces;
    }
    shown
}

/// The argument as shown, and whether the one after it is its secret value.
fn redact_argument(argument: &str) -> (String, bool) {
    let option = argument.starts_with('-');
    let name_and_value = argument.split_once('=').filter(|(name, _)| is_name(name));
    match name_and_value {
        Some((name, _)) if is_secret_name(name) => (format!("{name}={REDACTED}"), false),
        Some(_) => (redact_urls(argument), false),
        None => (redact_urls(argument), option && is_secret_name(argument)),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The secret values themselves, to keep them out of log lines and error messages.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    values: BTreeSet<String>,
}

impl Secrets {
    /// Collects the secret values of an environment and of arguments.
    pub fn of(environment: &BTreeMap<String, String>, arguments: &[String]) -> Self {
        let mut secrets = Self::default();
        for (name, value) in environment {
            secrets.add(is_secret_name(name), value);
        }
        for (at, argument) in arguments.iter().enumerate() {
            match argument.split_once('=').filter(|(name, _)| is_name(name)) {
                Some((name, value)) => secrets.add(is_secret_name(name), value),
                None if argument.starts_with('-') && is_secret_name(argument) => {
                    secrets.add(true, arguments.get(at + 1).map_or("", String::as_str));
                }
                None => {}
            }
        }
        secrets
    }

    fn add(&mut self, secret: bool, value: &str) {
        if secret && value.len() >= SEARCHED_LENGTH_MIN {
            self.values.insert(value.into());
        }
    }

    /// The text with every secret value and every URL credential replaced.
    pub fn out_of(&self, text: &str) -> String {
        let without = self
            .values
            .iter()
            .fold(text.to_owned(), |text, value| text.replace(value, REDACTED));
        redact_urls(&without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn names_that_say_secret() {
        for name in [
            "GITHUB_TOKEN",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "API_KEY",
            "apikey",
            "X-Auth",
            "SSH_PRIVATE_KEY",
            "--password",
            "MYSQL_PWD",
            "SENTRY_DSN",
            "session.cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn names_that_do_not() {
        for name in [
            "PATH",
            "PWD",
            "MONKEY_COUNT",
            "KEYBOARD",
            "AUTHOR",
            "MALLOC_CONF",
            "LD_PRELOAD",
            "PASSES",
            "COMPASS",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn urls_lose_their_credentials_only() {
        let cases = [
            (
                "postgres://bob:hunter2@db:5432/app",
                "postgres://[redacted]@db:5432/app",
            ),
            (
                "https://example.org/a@b?x=1&token=abc#f",
                "https://example.org/a@b?x=1&token=[redacted]#f",
            ),
            (
                "http://127.0.0.1:8080/health",
                "http://127.0.0.1:8080/health",
            ),
            ("mail bob@example.org", "mail bob@example.org"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact_urls(text), expected);
        }
    }

    #[test]
    fn arguments_in_every_spelling() {
        let arguments = strings(&[
            "server",
            "--password=hunter2",
            "--token",
            "abcdef",
            "-v",
            "API_KEY=xyz",
            "--secret",
            "--port",
            "80",
            "--db=redis://u:p@h/0",
        ]);
        let expected = strings(&[
            "server",
            "--password=[redacted]",
            "--token",
            "[redacted]",
            "-v",
            "API_KEY=[redacted]",
            "--secret",
            "--port",
            "80",
            "--db=redis://[redacted]@h/0",
        ]);
        assert_eq!(redact_arguments(&arguments), expected);
    }

    #[test]
    fn values_disappear_from_texts() {
        let environment = BTreeMap::from([
            ("DB_PASSWORD".to_owned(), "correct-horse".to_owned()),
            ("SHORT_KEY".to_owned(), "1".to_owned()),
            ("LEVEL".to_owned(), "verbose-enough".to_owned()),
        ]);
        let secrets = Secrets::of(
            &environment,
            &strings(&["--token", "tok-12345", "--api-key=ak-98765"]),
        );
        let line = "login 1 correct-horse tok-12345 ak-98765 verbose-enough";
        assert_eq!(
            secrets.out_of(line),
            "login 1 [redacted] [redacted] [redacted] verbose-enough"
        );
        assert_eq!(redact_environment(&environment)["DB_PASSWORD"], REDACTED);
        assert_eq!(redact_environment(&environment)["LEVEL"], "verbose-enough");
    }
}
