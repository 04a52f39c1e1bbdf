//! The cause when what grows is in no mapping: data in sockets, files in memory. It is charged to the process's cgroup.

use super::sentence::{rate, verdict};
use super::{Case, Cause, CauseVerdict};
use heap::outside::{Connections, Holder};
use memory::outside::OutsideGrowth;
use units::written::bytes;

/// Holders that are named.
const NAMED: usize = 2;
/// Tables count the bytes of queues exactly; of files it may be another process of the same user that wrote them.
const CONFIDENCE: f64 = 0.9;
const FILES_CONFIDENCE: f64 = 0.8;

/// `None`: nothing there grows, or RSS grows by more.
pub fn judge(case: &Case) -> Option<CauseVerdict> {
    let most = most(case)?;
    let resident = case.rss.map_or(0.0, |rss| rss.bytes);
    (most.growth.bytes > resident).then(|| of(case, most))
}

/// What grows beside the cause, a sentence.
pub fn beside(case: &Case) -> Option<String> {
    let most = most(case)?;
    let grown = rate(&most.growth);
    Some(format!(
        "beside it, what is in no mapping grows by {grown}: {}",
        named(most)
    ))
}

fn most(case: &Case) -> Option<&OutsideGrowth> {
    let grows = |one: &&OutsideGrowth| !one.grown.is_empty() && case.grows(&one.growth);
    let growing = case.outside.iter().filter(grows);
    growing.max_by(|a, b| a.growth.bytes.total_cmp(&b.growth.bytes))
}

fn named(one: &OutsideGrowth) -> String {
    let name = |(holder, grown): &(Holder, f64)| format!("{holder} (+{})", bytes(*grown));
    let mut names: Vec<String> = one.grown.iter().take(NAMED).map(name).collect();
    if one.grown.len() > NAMED {
        names.push(format!("{} more", one.grown.len() - NAMED));
    }
    names.join(", ")
}

fn of(case: &Case, most: &OutsideGrowth) -> CauseVerdict {
    let rss = bytes(case.account.rss_bytes);
    let charged =
        format!("RSS ({rss}) does not show it; it is charged to the cgroup of the process");
    let named = named(most);
    let (holder, _) = &most.grown[0];
    let grown = rate(&most.growth);
    match holder {
        Holder::Unread(connections) => {
            let sentence =
                format!("data that the process does not read grows by {grown}: {named}; {charged}");
            verdict(
                Cause::Sockets,
                CONFIDENCE,
                sentence,
                &unread_next(connections),
            )
        }
        Holder::Unsent(_) => {
            let sentence = format!(
                "data that its peers do not take from the process grows by {grown}: {named}; {charged}"
            );
            let next = "find what reads the other ends; close connections whose writes do not go on \
                (TCP_USER_TIMEOUT, a deadline for each write), and limit SO_SNDBUF where there are many";
            verdict(Cause::Sockets, CONFIDENCE, sentence, next)
        }
        Holder::Files(_) => {
            let sentence = format!("files in memory grow by {grown}: {named}; {charged}");
            let next = "find what writes there and what should remove it (ls -l, inotifywait): a file in a tmpfs is \
                memory until it is deleted; limit the mount (size=), or put it on a disk";
            verdict(Cause::Files, FILES_CONFIDENCE, sentence, next)
        }
        Holder::Unnamed(_) => {
            let sentence = format!(
                "files in memory that are open and have no name grow by {grown}: {named}; {charged}"
            );
            let next = "find what opens it and what should close it (ls -l /proc/PID/fd): deleted, it is memory until \
                its last descriptor is closed";
            verdict(Cause::Files, CONFIDENCE, sentence, next)
        }
    }
}

fn unread_next(connections: &Connections) -> String {
    let which = match connections {
        Connections::AcceptedOn(port) => {
            format!("what should read the connections that are accepted on port {port}")
        }
        Connections::To(address) => format!("what should read the connections to {address}"),
        Connections::Udp(port) => format!("what should read the UDP socket on port {port}"),
        Connections::Others => "what should read its connections".to_owned(),
    };
    format!(
        "find {which} (ss -tmp shows each queue): read them or close them, and limit SO_RCVBUF where there are many"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::judge;
    use memory::growth::Growth;

    fn growth(bytes: f64) -> Growth {
        Growth {
            bytes,
            over_s: 30.0,
            still: true,
            ..Growth::default()
        }
    }

    fn case(holder: Holder, rss: f64) -> Case {
        let mut case = Case {
            rss: Some(growth(rss)),
            outside: vec![OutsideGrowth {
                growth: growth(20e6),
                grown: vec![(holder, 20e6)],
            }],
            ..Case::default()
        };
        case.account.rss_bytes = 30e6;
        case
    }

    #[test]
    fn what_grows_in_sockets_and_in_files_is_named() {
        let port = Connections::AcceptedOn(8080);
        let of = |holder| judge(&case(holder, 0.0));
        let unread = of(Holder::Unread(port.clone()));
        assert_eq!(unread.cause, Cause::Sockets);
        assert!(
            unread
                .sentence
                .contains("unread data of connections accepted on port 8080"),
            "{unread:?}"
        );
        assert!(
            of(Holder::Unsent(port))
                .sentence
                .contains("peers do not take")
        );
        let files = of(Holder::Files("/dev/shm/spool".to_owned()));
        assert_eq!(files.cause, Cause::Files);
        assert!(files.sentence.contains("/dev/shm/spool"), "{files:?}");
        assert_eq!(
            of(Holder::Unnamed("memfd:ring".to_owned())).cause,
            Cause::Files
        );
    }

    #[test]
    fn what_grows_by_less_than_rss_is_no_cause() {
        let files = Holder::Files("/dev/shm/spool".to_owned());
        let beside = judge(&case(files, 25e6));
        assert_ne!(beside.cause, Cause::Files);
        assert!(
            beside
                .limitations
                .iter()
                .any(|one| one.contains("/dev/shm/spool")),
            "{beside:?}"
        );
    }
}
