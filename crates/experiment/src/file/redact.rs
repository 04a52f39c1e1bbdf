//! Secrets kept out of everything that is written: the frozen experiment, the record, the report.
//!
//! What counts as one: the value of an environment variable or of an option whose name says so (`API_TOKEN`,
//! `--password x`, `--db-secret=x`), the user part of an address (`postgres://me:x@host`), and a query
//! parameter named likewise (`?token=x`). A secret under an innocent name is not found; nothing else could be
//! done than hiding everything.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::Experiment;

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Parts of a name, in any case, that make its value a secret.
const SECRET_WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "privatekey",
];
/// Words that count only as a whole, between `_`, `-` or `.`: `API_KEY` but not `MONKEY`, `PASS` but not `BYPASS`.
const SECRET_SEGMENTS: &[&str] = &[
    "key", "keys", "pass", "pwd", "auth", "cookie", "dsn", "pat", "jwt", "bearer", "salt",
];
/// Variables that a shell sets, whose names look like secrets.
const INNOCENT: &[&str] = &["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"];

/// Whether a variable or option of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    if INNOCENT.contains(&name) {
        return false;
    }
    let lower = name.to_lowercase();
    let plain: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| SECRET_SEGMENTS.contains(&part))
}

/// The value of an environment variable, safe to write down.
pub fn redact_value(name: &str, value: &str) -> String {
    if is_secret_name(name) && !value.is_empty() {
        REDACTED.into()
    } else {
        redact_text(value)
    }
}

/// An environment, safe to write down.
pub fn redact_environment(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    environment
        .iter()
        .map(|(name, value)| (name.clone(), redact_value(name, value)))
        .collect()
}

/// A command line, safe to write down: also the word after `--password`.
pub fn redact_command(command: &[String]) -> Vec<String> {
    let mut secret_next = false;
    let mut redacted = Vec::with_capacity(command.len());
    for word in command {
        let hide = std::mem::take(&mut secret_next) && !word.starts_with('-');
        redacted.push(if hide {
            REDACTED.into()
        } else {
            redact_word(word)
        });
        secret_next = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
    }
    redacted
}

/// Any text: the user part and the secret query parameters of every address in it.
pub fn redact_text(text: &str) -> String {
    static USER: LazyLock<Regex> = LazyLock::new(|| {
        // The longest run up to the last @ before the path: a password may hold an @ itself.
        Regex::new(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#]+@").expect("a constant expression")
    });
    static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"([?&;])([A-Za-z0-9_.-]+)=([^&;#\s]*)").expect("a constant expression")
    });
    let text = USER.replace_all(text, format!("${{1}}{REDACTED}@"));
    let hide = |found: &Captures| match is_secret_name(&found[2]) {
        true => format!("{}{}={REDACTED}", &found[1], &found[2]),
        false => found[0].to_owned(),
    };
    PARAMETER.replace_all(&text, hide).into_owned()
}

/// The experiment, safe to write down.
pub fn redact_experiment(experiment: &Experiment) -> Experiment {
    use super::{Condition, Ready};
    let mut safe = experiment.clone();
    let subject = &mut safe.subject;
    subject.command = redact_command(&subject.command);
    subject.environment = redact_environment(&subject.environment);
    subject.metrics = subject.metrics.as_deref().map(redact_text);
    for group in &mut subject.attach {
        group.environ = redact_environment(&group.environ);
    }
    if let Some(Ready::Http { url, .. }) = &mut subject.ready {
        *url = redact_text(url);
    }
    if let Some(backing) = &mut safe.backing {
        backing.command = redact_command(&backing.command);
        backing.environment = redact_environment(&backing.environment);
        if let Some(Ready::Http { url, .. }) = &mut backing.ready {
            *url = redact_text(url);
        }
    }
    if let Some(load) = &mut safe.load {
        load.command = redact_command(&load.command);
        load.environment = redact_environment(&load.environment);
    }
    for arm in &mut safe.arms {
        arm.environment = redact_environment(&arm.environment);
        arm.arguments = redact_command(&arm.arguments);
        arm.command = arm.command.as_deref().map(redact_command);
    }
    for check in safe.verify.iter_mut().chain(&mut safe.guard) {
        match &mut check.condition {
            Condition::Http { url, .. } => *url = redact_text(url),
            Condition::Command { command, .. } => *command = redact_command(command),
            _ => {}
        }
    }
    for command in &mut safe.revert.commands {
        *command = redact_command(command);
    }
    safe
}

/// Variables of an experiment read back from its frozen form whose values were left out. Whoever starts
/// processes from it (`--resume`) must have them from elsewhere, or say that they are missing.
pub fn redacted_names(experiment: &Experiment) -> Vec<String> {
    let load = experiment.load.as_ref().map(|load| &load.environment);
    let backing = experiment.backing.as_ref();
    let backing = backing.map(|backing| &backing.environment);
    let environments = [Some(&experiment.subject.environment), backing, load]
        .into_iter()
        .flatten();
    let mut names: Vec<String> = environments
        .chain(experiment.arms.iter().map(|arm| &arm.environment))
        .flatten()
        .filter(|(_, value)| value.contains(REDACTED))
        .map(|(name, _)| name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// `NAME=secret`, `--name=secret`, or an address in the word.
fn redact_word(word: &str) -> String {
    match word.split_once('=') {
        // A name, not the middle of an address or of a sentence.
        Some((name, value))
            if !name.contains(['/', '?', ' ']) && is_secret_name(name) && !value.is_empty() =>
        {
            format!("{name}={REDACTED}")
        }
        _ => redact_text(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets() {
        for name in [
            "API_TOKEN",
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "PGPASSWORD",
            "SECRET",
            "AWS_SECRET_ACCESS_KEY",
            "STRIPE_API_KEY",
            "apiKey",
            "--auth",
            "PRIVATE-KEY",
            "SENTRY_DSN",
            "MY_CREDENTIALS",
            "DB_PASS",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "MALLOC_CONF",
            "GLIBC_TUNABLES",
            "MIMALLOC_PURGE_DELAY",
            "LD_PRELOAD",
            "PATH",
            "PWD",
            "HOME",
            "KEYBOARD",
            "MONKEY",
            "BYPASS",
            "SSH_AUTH_SOCK",
            "AUTHOR",
            "--port",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn addresses_lose_their_user() {
        let cases = [
            ("postgres://me:pa@ss@db/x", "postgres://[redacted]@db/x"),
            (
                "http://h/p?a=1&token=abc#f",
                "http://h/p?a=1&token=[redacted]#f",
            ),
            ("http://127.0.0.1:{port}/a@b", "http://127.0.0.1:{port}/a@b"),
            ("mail me@example.org", "mail me@example.org"),
            (
                "two http://u:p@a and http://v:q@b",
                "two http://[redacted]@a and http://[redacted]@b",
            ),
        ];
        for (text, safe) in cases {
            assert_eq!(redact_text(text), safe);
            assert_eq!(redact_text(safe), safe, "redacting twice changes nothing");
        }
    }

    #[test]
    fn command_lines() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let cases = [
            (
                "a --password hunter2 --port 1",
                "a --password [redacted] --port 1",
            ),
            ("a --api-key=abc b=c", "a --api-key=[redacted] b=c"),
            ("env TOKEN=abc a", "env TOKEN=[redacted] a"),
            ("a --no-auth --port 1", "a --no-auth --port 1"),
            (
                "a http://h/?x=1 --url=http://u:p@h",
                "a http://h/?x=1 --url=http://[redacted]@h",
            ),
        ];
        for (command, safe) in cases {
            assert_eq!(redact_command(&words(command)), words(safe));
        }
    }
}
