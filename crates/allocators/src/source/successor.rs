//! What takes the place of a pinned Debian package when a point release of its suite has moved on.
//!
//! A recipe may name the start of the versions that serve as well (`2.41-`: Debian's revisions of one
//! upstream version). The archive's signed index then holds what the recipe's checksum held before,
//! and the library's source says which version it is.

use anyhow::{Error, Result, anyhow};

/// A package of one exact version.
#[derive(Debug)]
pub struct Pin<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub sha256: &'a str,
}

/// A version of a package in the archive's signed index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub version: String,
    /// Of the package's file; empty for a source package, which has several.
    pub sha256: String,
}

impl Listed {
    /// What follows the recipe's words in the source of a library.
    pub fn note(&self, pin: &Pin<'_>) -> String {
        format!(
            "; the archive has moved on from {} to {} {}, sha256 {} by its signed index",
            pin.version, pin.name, self.version, self.sha256
        )
    }
}

pub fn moved_on(pin: &Pin<'_>) -> String {
    format!("fetching {} {}", pin.name, pin.version)
}

/// The newest listed version that may take a pin's place.
///
/// # Errors
/// The pin is still listed, so that it failed for another reason; the recipe allows none, or none
/// that is listed.
pub fn succeed(
    pin: &Pin<'_>,
    successors: Option<&str>,
    listed: Vec<Listed>,
    failed: Error,
) -> Result<Listed> {
    // Nothing listed: there was no index to ask, and the failure says why.
    if listed.is_empty() || listed.iter().any(|l| l.version == pin.version) {
        return Err(failed.context(moved_on(pin)));
    }
    let has: Vec<String> = listed.iter().map(|l| l.version.clone()).collect();
    let serves = |l: &Listed| successors.is_some_and(|start| l.version.starts_with(start));
    // apt lists the newest first.
    listed.into_iter().find(serves).ok_or_else(|| {
        let allowed = successors.map_or_else(
            || "no other".to_owned(),
            |start| format!("only versions that begin with {start}"),
        );
        anyhow!(
            "the archive has moved on: of {} it has {}, and the recipe pins {} and allows {allowed} in \
             its place; next: a newer highwater, or another version (`highwater allocators list` \
             shows them)",
            pin.name,
            has.join(", "),
            pin.version
        )
    })
}

/// The stanzas of `apt-cache show` or `showsrc`, an empty line between two.
pub fn parse_listed(text: &str) -> Vec<Listed> {
    let stanzas = text.split("\n\n");
    stanzas
        .filter_map(|stanza| {
            let value = |key: &str| {
                let line = stanza.lines().find_map(|l| l.strip_prefix(key));
                line.map(|value| value.trim().to_owned())
            };
            Some(Listed {
                version: value("Version: ")?,
                sha256: value("SHA256: ").unwrap_or_default(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // `apt-cache show libc6` of apt 2.6.1 with the lists of trixie, the lines that matter.
    const SHOWN: &str = "Package: libc6\nSource: glibc\nVersion: 2.41-12+deb13u5\nSize: 2849020\n\
        SHA256: 967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9\n\n\
        Package: libc6\nVersion: 2.41-12\nSHA256: 00\n\n";

    fn pin() -> Pin<'static> {
        Pin {
            name: "libc6",
            version: "2.41-12+deb13u4",
            sha256: "11",
        }
    }

    fn after(successors: Option<&str>, listed: &str) -> Result<Listed, String> {
        let failed = anyhow!("apt-get ended with exit code 100");
        succeed(&pin(), successors, parse_listed(listed), failed).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn a_revision_of_the_same_upstream_version_takes_the_place() {
        let next = after(Some("2.41-"), SHOWN).unwrap();
        assert_eq!(next.version, "2.41-12+deb13u5");
        let note = next.note(&pin());
        assert!(
            note.contains("moved on from 2.41-12+deb13u4 to libc6 2.41-12+deb13u5, sha256 967aa")
        );
    }

    #[test]
    fn another_upstream_version_does_not() {
        let said = after(Some("2.42-"), SHOWN).unwrap_err();
        assert!(said.contains("it has 2.41-12+deb13u5, 2.41-12"), "{said}");
        assert!(
            said.contains("only versions that begin with 2.42-"),
            "{said}"
        );
        assert!(after(None, SHOWN).unwrap_err().contains("allows no other"));
    }

    #[test]
    fn a_pin_that_is_still_listed_failed_for_another_reason() {
        let listed = SHOWN.replace("u5", "u4");
        assert!(
            after(Some("2.41-"), &listed)
                .unwrap_err()
                .contains("exit code 100")
        );
        assert!(
            after(Some("2.41-"), "")
                .unwrap_err()
                .contains("exit code 100")
        );
    }
}
