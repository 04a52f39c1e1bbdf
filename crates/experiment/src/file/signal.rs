//! Names of the signals that may stop a subject.

use units::wording::{nearest, quoted};

/// Signals by their usual names, without SIG.
const SIGNALS: &[(&str, i32)] = &[
    ("TERM", libc::SIGTERM),
    ("INT", libc::SIGINT),
    ("HUP", libc::SIGHUP),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("KILL", libc::SIGKILL),
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("PIPE", libc::SIGPIPE),
    ("WINCH", libc::SIGWINCH),
];

/// "TERM", "SIGTERM", "term", or a number from 1 to 64, to the number.
pub fn parse_signal(text: &str) -> Result<i32, String> {
    if let Some(number) = text
        .trim()
        .parse()
        .ok()
        .filter(|number| (1..=64).contains(number))
    {
        return Ok(number);
    }
    let upper = text.trim().to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    let names = SIGNALS.iter().map(|(known, _)| *known);
    Err(match nearest(name, names.clone()) {
        Some(near) => format!("{} is no signal; did you mean {near}?", quoted(text)),
        None => {
            let known: Vec<&str> = names.collect();
            format!("{} is no signal; known: {}", quoted(text), known.join(", "))
        }
    })
}

/// The name that [`parse_signal`] reads; the number where there is none.
pub fn signal_name(number: i32) -> String {
    let found = SIGNALS.iter().find(|(_, known)| *known == number);
    found.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_prefix() {
        for text in ["TERM", "SIGTERM", "term", " sigterm "] {
            assert_eq!(parse_signal(text), Ok(libc::SIGTERM), "{text}");
        }
        assert_eq!(
            parse_signal("TREM").unwrap_err(),
            "`TREM` is no signal; did you mean TERM?"
        );
        assert_eq!(parse_signal("34").map(signal_name), Ok("34".into()));
        assert!(parse_signal("99").unwrap_err().contains("known: TERM, INT"));
        for (name, number) in SIGNALS {
            assert_eq!(signal_name(*number), *name);
            assert_eq!(parse_signal(name), Ok(*number));
        }
    }
}
