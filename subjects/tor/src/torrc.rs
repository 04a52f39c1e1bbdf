//! What tor is told: the configuration of each kind of node, as text. Ports are those inside the private network, where
//! nobody else is.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The page that circuits lead to; the port that exits allow.
pub const PAGE_PORT: u16 = 8080;
pub const CLIENT_SOCKS_PORT: u16 = 9050;
pub const CLIENT_CONTROL_PORT: u16 = 9051;
/// Tor's own rule for test networks.
const VOTE_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// Intervals divide the day, so that all authorities vote at the same time.
const DAY_S: u64 = 86_400;

/// Authority `number`, from 0.
pub fn authority_ports(number: u16) -> (u16, u16) {
    (5000 + number, 7000 + number)
}

/// How often the authorities vote, and how long votes and signatures may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Votes {
    pub interval_s: u64,
    pub delay_s: u64,
}

impl Votes {
    /// # Errors
    /// When tor would not take the interval.
    pub fn every(interval: Duration) -> Result<Self> {
        let interval_s = interval.as_secs();
        ensure!(
            interval >= VOTE_INTERVAL_MIN && DAY_S.is_multiple_of(interval_s),
            "votes every {interval:?}: tor takes 10 s and more, in seconds that divide a day"
        );
        Ok(Self {
            interval_s,
            delay_s: interval_s / 5,
        })
    }
}

/// What every node is told. The GeoIP files stay unread: they are 36 MB in every arm (measured), whatever the
/// allocator.
fn node(nickname: &str, data: &Path) -> String {
    format!(
        "TestingTorNetwork 1\n\
         DataDirectory {}\n\
         Nickname {nickname}\n\
         Address 127.0.0.1\n\
         AssumeReachable 1\n\
         ShutdownWaitLength 0\n\
         RunAsDaemon 0\n\
         Log notice stdout\n\
         LogTimeGranularity 1\n\
         GeoIPFile /dev/null\n\
         GeoIPv6File /dev/null\n",
        quoted(&data.display().to_string())
    )
}

/// Authority `number`; its own `DirAuthority` line is among those that are appended.
pub fn authority(number: u16, data: &Path, votes: Votes) -> String {
    let (or_port, dir_port) = authority_ports(number);
    let Votes {
        interval_s,
        delay_s,
    } = votes;
    format!(
        "{}\
         SocksPort 0\n\
         ORPort 127.0.0.1:{or_port} IPv4Only\n\
         DirPort 127.0.0.1:{dir_port}\n\
         ContactInfo nobody\n\
         AuthoritativeDirectory 1\n\
         V3AuthoritativeDirectory 1\n\
         ExitPolicy reject *:*\n\
         TestingV3AuthInitialVotingInterval {interval_s}\n\
         TestingV3AuthInitialVoteDelay {delay_s}\n\
         TestingV3AuthInitialDistDelay {delay_s}\n\
         V3AuthVotingInterval {interval_s}\n\
         V3AuthVoteDelay {delay_s}\n\
         V3AuthDistDelay {delay_s}\n\
         TestingDirAuthVoteGuard *\n\
         TestingDirAuthVoteExit *\n\
         TestingDirAuthVoteHSDir *\n\
         TestingMinExitFlagThreshold 0\n",
        node(&authority_name(number), data)
    )
}

pub fn authority_name(number: u16) -> String {
    format!("authority{number}")
}

/// A relay that is an exit to the page. A policy that allows private addresses alone would be summed up in the
/// consensus as "rejects all", and no client would find an exit.
pub fn relay(or_port: u16, data: &Path, authorities: &[String], extra: &[String]) -> String {
    let own = format!(
        "SocksPort 0\n\
         ORPort 127.0.0.1:{or_port} IPv4Only\n\
         ContactInfo nobody\n\
         ExitRelay 1\n\
         ExitPolicy accept *:{PAGE_PORT}\n\
         ExitPolicy reject *:*\n\
         ExitPolicyRejectPrivate 0\n\
         DirCache 1\n"
    );
    let ours = node(&format!("relay{or_port}"), data) + &own;
    let is_changed = |line: &&str| {
        extra
            .iter()
            .any(|other| option_of(other) == option_of(line))
    };
    let kept = ours
        .lines()
        .filter(|line| !is_changed(line))
        .map(str::to_owned);
    let lines: Vec<String> = kept.collect();
    joined(lines.iter().chain(authorities).chain(extra))
}

/// The name of the option that a line sets, as tor compares it.
fn option_of(line: &str) -> String {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.to_ascii_lowercase()
}

/// A client whose circuits are built by hand, over its control port.
pub fn client(data: &Path, authorities: &[String]) -> String {
    let own = format!(
        "SocksPort 127.0.0.1:{CLIENT_SOCKS_PORT}\n\
         ControlPort 127.0.0.1:{CLIENT_CONTROL_PORT}\n\
         ClientOnly 1\n\
         UseEntryGuards 0\n\
         __LeaveStreamsUnattached 1\n\
         __DisablePredictedCircuits 1\n"
    );
    node("client", data) + &own + &joined(authorities.iter())
}

fn joined<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

/// A path as one word of a torrc, whatever is in it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The line by which all nodes know an authority.
pub fn dir_authority(number: u16, identity: &str, fingerprint: &str) -> String {
    let (or_port, dir_port) = authority_ports(number);
    format!(
        "DirAuthority {} orport={or_port} no-v2 v3ident={identity} 127.0.0.1:{dir_port} {fingerprint}",
        authority_name(number)
    )
}

/// A line that makes an authority's torrc valid before anybody knows the authorities.
pub fn placeholder_authority() -> String {
    let zeros = "0".repeat(40);
    dir_authority(9, &zeros, &zeros)
}

/// The `fingerprint` line of a certificate: the authority's identity for votes.
///
/// # Errors
/// When there is none.
pub fn parse_identity(certificate: &str) -> Result<String> {
    let line = certificate
        .lines()
        .find_map(|line| line.strip_prefix("fingerprint "));
    let identity = line.map(str::trim).filter(|identity| is_hex(identity));
    Ok(identity
        .context("the certificate has no fingerprint line")?
        .to_owned())
}

/// What `tor --list-fingerprint` prints, and what a relay writes into `fingerprint`: a nickname, then 40 digits with
/// or without spaces.
///
/// # Errors
/// When there is no such line.
pub fn parse_fingerprint(text: &str) -> Result<String> {
    let digits = |line: &str| {
        let (_, rest) = line.split_once(' ')?;
        let plain: String = rest.split_whitespace().collect();
        is_hex(&plain).then_some(plain)
    };
    text.lines()
        .find_map(digits)
        .with_context(|| format!("no fingerprint in {text:?}"))
}

fn is_hex(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_as_tor_prints_and_writes_them() {
        // `--list-fingerprint --quiet` of one tor 0.4.9.11, DataDirectory/fingerprint of another.
        let printed = "authority0 0E96 CD2F C9C2 DBF8 9D5E 79DC 192E EB2B 2E60 5A79\n";
        let written = "authority0 1BB7C0FE2071E053490B6B69F2784B6FA4D918D4\n";
        let parse = |text| parse_fingerprint(text).unwrap();
        assert_eq!(parse(printed), "0E96CD2FC9C2DBF89D5E79DC192EEB2B2E605A79");
        assert_eq!(parse(written), "1BB7C0FE2071E053490B6B69F2784B6FA4D918D4");
        assert!(parse_fingerprint("authority0 7DD9BE66\n").is_err());
        assert!(parse_fingerprint("").is_err());
    }

    #[test]
    fn the_identity_of_a_certificate() {
        // The head of a certificate by tor-gencert of tor 0.4.9.11.
        let text = "dir-key-certificate-version 3\ndir-address 127.0.0.1:7000\n\
                    fingerprint 348814120C7253025A002B088DF60B4F6B53A6AC\n\
                    dir-key-published 2026-11-22 00:01:29\ndir-key-expires 2027-11-22 00:01:29\n\
                    dir-identity-key\n";
        assert_eq!(
            parse_identity(text).unwrap(),
            "348814120C7253025A002B088DF60B4F6B53A6AC"
        );
        assert!(parse_identity("fingerprint xyz\n").is_err());
    }

    #[test]
    fn an_option_is_changed_and_not_doubled() {
        let extra = ["dircache 0".to_owned()];
        let text = relay(
            15001,
            Path::new("/data/a \"b\""),
            &[placeholder_authority()],
            &extra,
        );
        assert!(
            !text.contains("DirCache 1") && text.contains("dircache 0"),
            "{text}"
        );
        assert!(text.contains(r#"DataDirectory "/data/a \"b\"""#), "{text}");
        assert!(
            text.contains("ExitPolicy accept *:8080\nExitPolicy reject *:*\n"),
            "{text}"
        );
        assert!(text.contains("GeoIPFile /dev/null"), "{text}");
    }

    #[test]
    fn votes_that_tor_takes() {
        let every = |s| Votes::every(Duration::from_secs(s));
        assert_eq!(
            every(20).unwrap(),
            Votes {
                interval_s: 20,
                delay_s: 4
            }
        );
        assert!(every(9).is_err() && every(11).is_err());
        assert!(Votes::every(Duration::from_millis(20_500)).is_ok());
    }
}
