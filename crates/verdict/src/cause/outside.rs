//! The cause when what grows is in no mapping: data in sockets, files in memory, the kernel's own. It is charged to the
//! process's cgroup.

use super::sentence::{rate, verdict};
use super::{Case, Cause, CauseVerdict, GROWN_NOISES};
use heap::outside::{Charge, Connections, Holder, Opened};
use memory::outside::OutsideGrowth;
use units::written::{bytes, seconds};

/// Holders that are named.
const NAMED: usize = 2;
/// Tables count the bytes of queues exactly; of files it may be another process of the same user that wrote them; of
/// the kernel's own part may be caches.
const CONFIDENCE: f64 = 0.9;
const FILES_CONFIDENCE: f64 = 0.8;
const KERNEL_CONFIDENCE: f64 = 0.8;
const ALL_OF_KERNEL_CONFIDENCE: f64 = 0.6;
/// Data in sockets is part of what the kernel keeps; where it is half of that, it is what grows.
const PART_OF_KERNEL: f64 = 0.5;
/// Descriptors that become more by less than that many, or that part of all, may be those of more requests at once.
const OPENED_MIN: f64 = 16.0;
const OPENED_SHARE: f64 = 0.1;
/// A limit that is further away is not named.
const LIMIT_AHEAD_S: f64 = 7.0 * 86_400.0;

/// `None`: nothing there grows, or RSS grows by more.
pub fn judge(case: &Case) -> Option<CauseVerdict> {
    let most = most(case)?;
    let resident = case.rss.map_or(0.0, |rss| rss.bytes);
    (most.growth.bytes > resident).then(|| {
        let mut verdict = of(case, most);
        verdict.limitations.extend(also(case));
        verdict
    })
}

/// What grows beside the cause, a sentence each.
pub fn beside(case: &Case) -> Vec<String> {
    let beside = most(case).map(|most| {
        let grown = rate(&most.growth);
        format!(
            "beside it, what is in no mapping grows by {grown}: {}",
            named(most)
        )
    });
    beside.into_iter().chain(also(case)).collect()
}

/// Caches and descriptors that become more, whatever the cause is.
fn also(case: &Case) -> impl Iterator<Item = String> {
    [caches(case), descriptors(case)].into_iter().flatten()
}

fn most(case: &Case) -> Option<&OutsideGrowth> {
    let grows = |one: &&OutsideGrowth| {
        !is_cache(one) && case.grows(&one.growth) && (!may_be_cache(one) || opens_more(case))
    };
    let growing: Vec<&OutsideGrowth> = case.outside.iter().filter(grows).collect();
    let of_kernel = growing.iter().find(|one| is_kernel(one));
    let is_part = |one: &OutsideGrowth| {
        let all = of_kernel.map_or(0.0, |kernel| kernel.growth.bytes);
        !is_kernel(one) && one.growth.bytes > PART_OF_KERNEL * all
    };
    let is_told = growing.iter().any(|one| is_part(one));
    let told = growing.iter().copied();
    let told = told.filter(|one| !is_told || is_part(one));
    told.max_by(|a, b| a.growth.bytes.total_cmp(&b.growth.bytes))
}

fn is_kernel(one: &OutsideGrowth) -> bool {
    matches!(one.grown.first(), Some((Holder::Kernel(_), _)))
}

/// Or nothing that has a name.
fn is_cache(one: &OutsideGrowth) -> bool {
    one.grown.iter().all(|(holder, _)| holder.is_cache())
}

/// On cgroups of version 1 the kernel's caches of names and inodes are in one number with the rest.
fn may_be_cache(one: &OutsideGrowth) -> bool {
    matches!(
        one.grown.first(),
        Some((Holder::Kernel(Charge::AllOfKernel), _))
    )
}

/// Then something that is the process's own must become more with it.
fn opens_more(case: &Case) -> bool {
    descriptors(case).is_some() || case.threads_last > case.threads_first
}

fn caches(case: &Case) -> Option<String> {
    let of_caches = |one: &&OutsideGrowth| !one.grown.is_empty() && is_cache(one);
    let caches = case.outside.iter().find(of_caches)?;
    case.grows(&caches.growth).then(|| {
        let grown = rate(&caches.growth);
        format!(
            "beside it, caches of its cgroup grow by {grown}, which the kernel frees when memory is short: {}",
            named(caches)
        )
    })
}

/// Descriptors that become more.
fn descriptors(case: &Case) -> Option<String> {
    let opened = case.opened.as_ref()?;
    let growth = &opened.growth;
    let least = OPENED_MIN.max(OPENED_SHARE * growth.level);
    if !growth.still || growth.bytes < least.max(GROWN_NOISES * growth.noise) {
        return None;
    }
    let name = |(opened, grown): &(Opened, f64)| format!("{opened} (+{grown:.0})");
    let names: Vec<String> = opened.grown.iter().take(NAMED).map(name).collect();
    let ahead = opened.most.and_then(|most| {
        let ahead_s = (most as f64 - growth.level) / (growth.bytes / growth.over_s);
        (ahead_s < LIMIT_AHEAD_S).then(|| {
            let ahead = seconds(ahead_s.max(0.0));
            format!("; at that rate it reaches its limit of {most} in {ahead}")
        })
    });
    Some(format!(
        "its open descriptors become more: +{:.0} in {:.0} s, {:.0} now, most of them {}{}",
        growth.bytes,
        growth.over_s,
        growth.level,
        names.join(", "),
        ahead.unwrap_or_default()
    ))
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
        Holder::Kernel(charge) => {
            let sentence = format!(
                "memory that the kernel keeps for the process grows by {grown}: {named}; {charged}"
            );
            let confidence = match charge {
                Charge::AllOfKernel => ALL_OF_KERNEL_CONFIDENCE,
                _ => KERNEL_CONFIDENCE,
            };
            verdict(Cause::Kernel, confidence, sentence, kernel_next(*charge))
        }
    }
}

fn kernel_next(charge: Charge) -> &'static str {
    match charge {
        Charge::Stacks => "find what starts threads and does not end them (ls /proc/PID/task)",
        Charge::PageTables => {
            "find what maps and does not unmap (/proc/PID/maps): page tables stay for all that was ever touched"
        }
        Charge::SocketBuffers => {
            "see the queues of its sockets (ss -tmp, ss -xp), and limit SO_RCVBUF and SO_SNDBUF"
        }
        _ => {
            "find what it opens and does not close: files, sockets, pipes, epoll and inotify watches (ls -l \
              /proc/PID/fd), threads, mappings; `slabtop` as root shows the kernel's objects by type"
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
    use memory::outside::OpenedGrowth;

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
    fn what_the_kernel_keeps_is_named_and_what_is_open() {
        let mut case = case(Holder::Kernel(Charge::Objects), 0.0);
        case.opened = Some(OpenedGrowth {
            growth: Growth {
                bytes: 300.0,
                level: 424.0,
                ..growth(0.0)
            },
            grown: vec![(Opened::Kernel("eventfd".to_owned()), 300.0)],
            most: Some(1_024),
        });
        let kernel = judge(&case);
        assert_eq!(kernel.cause, Cause::Kernel);
        let opened = "+300 in 30 s, 424 now, most of them eventfd (+300); at that rate it reaches its limit of \
            1024 in 1 min";
        let is_said = kernel.limitations.iter().any(|one| one.contains(opened));
        assert!(is_said, "{kernel:?}");
        // What is in its sockets is part of it.
        case.outside.push(OutsideGrowth {
            growth: growth(15e6),
            grown: vec![(Holder::Unread(Connections::Udp(53)), 15e6)],
        });
        assert_eq!(judge(&case).cause, Cause::Sockets);
    }

    #[test]
    fn caches_are_no_cause() {
        let cache = judge(&case(Holder::Kernel(Charge::PageCache), 0.0));
        assert_eq!(cache.cause, Cause::Flat);
        let is_said = cache
            .limitations
            .iter()
            .any(|one| one.contains("page cache"));
        assert!(is_said, "{cache:?}");
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
