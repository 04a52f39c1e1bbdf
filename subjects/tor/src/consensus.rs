//! The consensus that the authorities agreed on: which relays it lists, and with which flags.

use anyhow::{Context, Result};
use data_encoding::{BASE64_NOPAD, HEXUPPER_PERMISSIVE};

/// One relay of a consensus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    pub nickname: String,
    /// Base64 without padding, as the `r` line has it.
    pub identity: String,
    pub flags: Vec<String>,
    /// Its exit policy lets some port through.
    pub is_exit: bool,
}

impl Listed {
    pub fn is_running(&self) -> bool {
        self.flags.iter().any(|flag| flag == "Running")
    }
}

/// Every `r` line with the `s` and `p` lines after it; lines of other kinds are passed over. (In the microdescriptor
/// flavour there is no `p` line, and nobody counts as an exit.)
pub fn parse_consensus(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), all.last_mut()) {
            (Some("r"), _) => {
                let mut next = || words.next().unwrap_or_default().to_owned();
                let (nickname, identity) = (next(), next());
                all.push(Listed {
                    nickname,
                    identity,
                    ..Listed::default()
                });
            }
            (Some("s"), Some(last)) => last.flags = words.map(str::to_owned).collect(),
            (Some("p"), Some(last)) => last.is_exit = words.next() == Some("accept"),
            _ => {}
        }
    }
    all
}

/// A fingerprint of 40 hexadecimal digits as an `r` line has it: base64, without padding.
///
/// # Errors
/// When it is none.
pub fn identity_of(fingerprint: &str) -> Result<String> {
    let bytes = HEXUPPER_PERMISSIVE.decode(fingerprint.as_bytes());
    let bytes = bytes.with_context(|| format!("{fingerprint:?} is no fingerprint"))?;
    Ok(BASE64_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An authority's cached-consensus of tor 0.4.9.11 in a private network of three authorities and two relays, cut
    /// to the lines of one authority and one relay.
    const TEXT: &str = include_str!("../tests/consensus.txt");

    #[test]
    fn relays_of_a_real_consensus() {
        let listed = parse_consensus(TEXT);
        let names: Vec<&str> = listed.iter().map(|one| one.nickname.as_str()).collect();
        assert_eq!(names, ["authority0", "relay15001"]);
        assert!(listed.iter().all(Listed::is_running));
        let exits: Vec<bool> = listed.iter().map(|one| one.is_exit).collect();
        assert_eq!(exits, [false, true]);
        assert!(parse_consensus("").is_empty());
        assert!(
            parse_consensus("r\ns\np")
                .iter()
                .all(|one| !one.is_running())
        );
    }

    #[test]
    fn a_fingerprint_is_found_among_them() {
        let fingerprint = "9695DFC35FFEB861329B9F1AB04C46397020CE31";
        // The same relay (a directory authority of the public network) in a public consensus.
        assert_eq!(
            identity_of(fingerprint).unwrap(),
            "lpXfw1/+uGEym58asExGOXAgzjE"
        );
        assert!(identity_of("not one").is_err());
    }
}
