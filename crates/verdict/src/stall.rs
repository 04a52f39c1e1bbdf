//! Which findings are worth a row: a cause has to keep threads for long, or often.
//!
//! A quiet service on a busy machine has waits of a few milliseconds for a CPU, now and then a
//! page that is not there, a lock that two threads want at once. None of that is a stall that
//! anybody looks for, unless it adds up.

use stalls::cause::Cause;
use stalls::event::WaitKind;
use stalls::finding::Finding;
use stalls::walk::LeafKind;

/// The rule for one cause: either of the two makes a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The longest stall is at least this.
    pub longest_ns: u64,
    /// All stalls together are at least this share of the watch.
    pub share: f64,
}

const MS: u64 = 1_000_000;
/// One stall alone is a row from here on; shorter ones have to come again.
const ALONE_NS: u64 = 100 * MS;

/// However often, stalls this many times shorter than the rule's longest are noise.
const FAR_BELOW: u64 = 4;

/// Set on services with known truth beside a busy machine's load: corpus/stalls.
pub fn rule(cause: Cause) -> Rule {
    let (longest_ms, share) = match cause {
        Cause::Lock | Cause::Runtime => (10, 0.01),
        Cause::Allocator => (2, 0.005),
        Cause::CpuQuota => (5, 0.005),
        Cause::CpuStarvation => (40, 0.03),
        Cause::Disk | Cause::Network | Cause::Process => (10, 0.02),
        Cause::PageFault => (5, 0.01),
        Cause::Sleep => (50, 0.05),
        Cause::OnCpu => (50, 0.02),
    };
    Rule {
        longest_ns: longest_ms * MS,
        share,
    }
}

/// Where slow requests were seen, the CPU's shortage is a row when at least this share of their time went to it: the
/// share that makes it the answer to one wait, too.
const SHORTAGE_SHARE: f64 = 0.2;

/// The CPU's shortage is nothing to slow requests: `share` of their time went to it.
pub fn is_no_shortage(finding: &Finding, share: Option<f64>) -> bool {
    finding.cause == Cause::CpuStarvation && share.is_some_and(|share| share < SHORTAGE_SHARE)
}

/// A long turn on a CPU that kept its own thread alone, and that no slow request was with: a compiler's, a cleaner's.
/// `served`: a slow request was with that thread while it ran; `None`: too little is known of requests.
pub fn is_beside_requests(finding: &Finding, served: Option<bool>) -> bool {
    let alone = finding
        .threads
        .iter()
        .all(|tid| *tid == finding.culprit.tid);
    finding.cause == Cause::OnCpu && alone && served == Some(false)
}

/// Those worth a row. Beside the first, what has little of its time and only short stalls is its shadow: the mutex that
/// goes with a condition, a peer that was slow once.
pub fn worth_a_row(findings: Vec<Finding>, watched_ns: u64, asked: bool) -> Vec<Finding> {
    const LITTLE: u64 = 20;
    const SHORT: u64 = 4;
    let mut rows = findings;
    rows.retain(|finding| is_worth_a_row(finding, watched_ns, asked));
    let first = rows.iter().find(|f| f.cause != Cause::CpuStarvation);
    let Some((total, longest)) = first.map(|f| (f.total_ns, f.longest_ns)) else {
        return rows;
    };
    rows.retain(|f| asked || f.total_ns * LITTLE > total || f.longest_ns * SHORT > longest);
    rows
}

/// Worth a row; `asked` when the user named a threshold, and then everything above it is.
pub fn is_worth_a_row(finding: &Finding, watched_ns: u64, asked: bool) -> bool {
    if asked {
        return true;
    }
    if finding.unsure && !is_agreed_on(finding) {
        return false;
    }
    let rule = rule(finding.cause);
    let again = finding.count >= 2 || finding.longest_ns >= ALONE_NS;
    let long = finding.longest_ns >= rule.longest_ns;
    let often = finding.total_ns as f64 >= rule.share * watched_ns as f64
        && finding.longest_ns >= rule.longest_ns / FAR_BELOW;
    again && (long || often)
}

/// A guess has to come out the same most times, and more than twice; of a lock that was held for
/// long by somebody at work, once is enough. Sleep, a condition and a client are what idle threads wait for as well.
/// With nobody seen at all, only a very long one is news.
fn is_agreed_on(finding: &Finding) -> bool {
    const EPISODES: usize = 3;
    const NOBODY_NS: u64 = 500 * MS;
    const SEVERAL: usize = 3;
    if finding.culprit.tid == 0 {
        return finding.longest_ns >= NOBODY_NS;
    }
    // A guess at one that waits for a lock as well tells nobody.
    if finding.culprit.kind == LeafKind::Wait(WaitKind::Lock) {
        return false;
    }
    let idle = matches!(
        finding.culprit.kind,
        LeafKind::Wait(
            WaitKind::Sleep
                | WaitKind::Queue
                | WaitKind::Inbound
                | WaitKind::Outbound
                | WaitKind::Unknown
        )
    );
    let long = finding.cause == Cause::Lock && finding.longest_ns >= ALONE_NS && !idle;
    // Whoever it was had no CPU by the kernel's own count, and where several wait it is another each time.
    let short_of_cpu = finding.cause == Cause::CpuStarvation
        && finding.longest_ns >= ALONE_NS
        && finding.threads.len() >= SEVERAL;
    short_of_cpu
        || finding.agreeing * 2 > finding.episodes && (long || finding.episodes >= EPISODES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stalls::culprit::Culprit;

    fn finding(cause: Cause, count: usize, longest_ms: u64, total_ms: u64) -> Finding {
        Finding {
            cause,
            count,
            threads: [1].into(),
            longest_ns: longest_ms * MS,
            total_ns: total_ms * MS,
            first_ns: 0,
            last_ns: 0,
            episodes: count,
            agreeing: count,
            period_ns: None,
            open: false,
            inferred: false,
            unsure: false,
            culprit: Culprit {
                tid: 0,
                kind: LeafKind::Unseen,
                activity: 0,
                stack: 0,
                release: 0,
                held: 0,
                samples: Vec::new(),
                rests: Vec::new(),
            },
            chain: Vec::new(),
            ran_instead: Vec::new(),
            waiters: Vec::new(),
            objects: [].into(),
            members: Vec::new(),
        }
    }

    #[test]
    fn a_shortage_that_no_slow_request_waited_for_is_no_row() {
        let short = finding(Cause::CpuStarvation, 9, 50, 900);
        assert!(!is_no_shortage(&short, None));
        assert!(!is_no_shortage(&short, Some(0.3)));
        assert!(is_no_shortage(&short, Some(0.11)));
        assert!(!is_no_shortage(
            &finding(Cause::Lock, 9, 50, 900),
            Some(0.0)
        ));
    }

    #[test]
    fn a_turn_that_no_slow_request_was_with_is_no_row() {
        let mut turn = finding(Cause::OnCpu, 1, 112, 112);
        turn.culprit.tid = 1;
        assert!(is_beside_requests(&turn, Some(false)));
        assert!(!is_beside_requests(&turn, Some(true)));
        assert!(!is_beside_requests(&turn, None));
        turn.threads.insert(2);
        assert!(!is_beside_requests(&turn, Some(false)), "another waited");
    }

    #[test]
    fn a_guess_that_differs_each_time_makes_no_row() {
        let guessed = |cause, longest_ms, episodes, agreeing| {
            let mut guessed = Finding {
                unsure: true,
                episodes,
                agreeing,
                ..finding(cause, 40, longest_ms, 9_000)
            };
            guessed.culprit.tid = 7;
            guessed
        };
        let row = |finding: &Finding| is_worth_a_row(finding, 30_000 * MS, false);
        assert!(row(&guessed(Cause::Lock, 30, 8, 7)));
        let mut once = guessed(Cause::Lock, 300, 1, 1);
        once.culprit.kind = LeafKind::Wait(WaitKind::Network);
        assert!(row(&once));
        once.culprit.kind = LeafKind::Wait(WaitKind::Queue);
        assert!(!row(&once), "it may have been idle");
        assert!(!row(&guessed(Cause::Lock, 30, 12, 2)));
        assert!(!row(&guessed(Cause::Disk, 300, 2, 2)));
        assert!(row(&guessed(Cause::Disk, 300, 3, 3)));
        let mut nobody = guessed(Cause::Lock, 300, 3, 3);
        nobody.culprit.tid = 0;
        assert!(!row(&nobody));
        let mut waiter = guessed(Cause::Lock, 300, 3, 3);
        waiter.culprit.kind = LeafKind::Wait(WaitKind::Lock);
        assert!(!row(&waiter));
        let mut starved = guessed(Cause::CpuStarvation, 130, 1, 0);
        assert!(!row(&starved), "one thread, and a guess");
        starved.threads = [1, 2, 3].into();
        assert!(row(&starved));
        assert!(!row(&Finding {
            longest_ns: 60 * MS,
            ..starved
        }));
    }

    #[test]
    fn what_is_little_beside_the_first_is_its_shadow() {
        let all = [
            finding(Cause::Disk, 700, 140, 4_500),
            finding(Cause::Lock, 73, 14, 160),
            finding(Cause::Network, 2, 90, 120),
            finding(Cause::CpuStarvation, 90, 40, 900),
        ];
        let causes = |asked| -> Vec<Cause> {
            let rows = worth_a_row(all.to_vec(), 4_000 * MS, asked);
            rows.iter().map(|row| row.cause).collect()
        };
        assert_eq!(
            causes(false),
            [Cause::Disk, Cause::Network, Cause::CpuStarvation]
        );
        assert_eq!(causes(true).len(), 4);
    }

    #[test]
    fn noise_makes_no_row_and_a_threshold_that_was_asked_for_makes_all() {
        let watched = 30_000 * MS;
        let cases = [
            (finding(Cause::CpuStarvation, 40, 6, 120), false),
            (finding(Cause::CpuStarvation, 40, 60, 900), true),
            (finding(Cause::Lock, 9, 1_480, 9_000), true),
            (finding(Cause::Lock, 1, 12, 12), false),
            (finding(Cause::PageFault, 700, 3, 900), true),
            (finding(Cause::Disk, 1, 400, 400), true),
        ];
        for (finding, row) in cases {
            assert_eq!(is_worth_a_row(&finding, watched, false), row, "{finding:?}");
            assert!(is_worth_a_row(&finding, watched, true));
        }
    }
}
