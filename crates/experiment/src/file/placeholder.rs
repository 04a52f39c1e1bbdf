//! Placeholders in commands, addresses and environment values: `{port}`, `{arm}` ...
//!
//! A placeholder is a word of letters, digits and `_` between single braces. `{{word}}` stands for a literal
//! `{word}`, and `${word}` is left to a shell. Every other brace is an ordinary character, so that JSON and
//! awk programs pass unharmed.

use std::sync::LazyLock;

use regex::Regex;

use units::wording::{nearest, quoted};

/// Every placeholder and what it stands for.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("port", "a free TCP port of this process"),
    ("port2", "another free port; up to {port9}"),
    ("port3", "another free port"),
    ("port4", "another free port"),
    ("port5", "another free port"),
    ("port6", "another free port"),
    ("port7", "another free port"),
    ("port8", "another free port"),
    ("port9", "another free port"),
    ("arm", "name of the arm"),
    ("replica", "number of the replica inside its arm, from 0"),
    ("run", "name of the run's folder"),
    (
        "data",
        "a folder of this process: empty at its first start, kept over its restarts",
    ),
    (
        "seed",
        "a number for random choices: the same for one replica number in every arm",
    ),
    (
        "unit",
        "name of the systemd unit; of processes that were found by their unit",
    ),
    ("pid", "process id of the replica; only once it runs"),
    (
        "processes",
        "a JSON file that lists all processes of the run; for load and checks",
    ),
    ("backing", "the folder of the backing service"),
    ("backing_port", "the backing service's own {port}"),
];

/// A piece of a text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// To be taken as it stands.
    Literal(&'a str),
    /// `{word}`: the word, known or not.
    Placeholder(&'a str),
}

/// Whether the process that the text is about runs already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Its own command, arguments and environment: `{pid}` does not exist yet.
    BeforeStart,
    /// Readiness, load, checks.
    Running,
}

/// Cuts a text into literals and placeholders; joined again, the pieces are the text less the doubled braces.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"\$\{[A-Za-z0-9_]*\}|\{(\{[A-Za-z][A-Za-z0-9_]*\})\}|\{([A-Za-z][A-Za-z0-9_]*)\}",
        )
        .expect("a constant expression")
    });
    let mut pieces = Vec::new();
    let mut done = 0;
    for found in WORD.captures_iter(text) {
        let whole = found.get_match();
        let piece = match (found.get(1), found.get(2)) {
            (Some(doubled), _) => Piece::Literal(doubled.as_str()),
            (_, Some(word)) => Piece::Placeholder(word.as_str()),
            _ => continue,
        };
        if whole.start() > done {
            pieces.push(Piece::Literal(&text[done..whole.start()]));
        }
        pieces.push(piece);
        done = whole.end();
    }
    if done < text.len() {
        pieces.push(Piece::Literal(&text[done..]));
    }
    pieces
}

/// Whether every placeholder in the text is known and has a value at that moment.
pub fn check(text: &str, moment: Moment) -> Result<(), String> {
    for piece in pieces(text) {
        let Piece::Placeholder(word) = piece else {
            continue;
        };
        let names = PLACEHOLDERS.iter().map(|(name, _)| *name);
        if !names.clone().any(|name| name == word) {
            return Err(match nearest(word, names) {
                Some(near) => format!("unknown placeholder {{{word}}}; did you mean {{{near}}}?"),
                None => format!(
                    "unknown placeholder {}; known: {}. For a literal brace write {{{{{word}}}}}",
                    quoted(&format!("{{{word}}}")),
                    "{port} {port2} ... {arm} {replica} {run} {data} {seed} {unit} {pid} {processes} {backing} \
                     {backing_port}"
                ),
            });
        }
        if matches!(word, "pid" | "processes" | "unit") && moment == Moment::BeforeStart {
            return Err(format!(
                "{{{word}}} is not known before the process has started"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_placeholders_and_nothing_else_is() {
        use Piece::{Literal as L, Placeholder as P};
        let cases: &[(&str, &[Piece])] = &[
            ("", &[]),
            ("--port={port}", &[L("--port="), P("port")]),
            ("{arm}-{replica}", &[P("arm"), L("-"), P("replica")]),
            ("{{arm}}", &[L("{arm}")]),
            ("a{{arm}}b", &[L("a"), L("{arm}"), L("b")]),
            ("${HOME}", &[L("${HOME}")]),
            ("${port}/{port}", &[L("${port}/"), P("port")]),
            (r#"{"a":{"b":1}}"#, &[L(r#"{"a":{"b":1}}"#)]),
            ("{print $1}", &[L("{print $1}")]),
            ("{}{é}{", &[L("{}{é}{")]),
        ];
        for (text, expected) in cases {
            assert_eq!(&pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_ones_are_named() {
        assert_eq!(check("{port9} {data}", Moment::BeforeStart), Ok(()));
        assert_eq!(check("{pid}", Moment::Running), Ok(()));
        assert!(check("{pid}", Moment::BeforeStart).is_err());
        let words = check("{prot}", Moment::Running).unwrap_err();
        assert_eq!(words, "unknown placeholder {prot}; did you mean {port}?");
        assert!(
            check("{colour}", Moment::Running)
                .unwrap_err()
                .contains("{{colour}}")
        );
    }
}
