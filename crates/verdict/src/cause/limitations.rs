//! What limits a verdict: facts behind it that contradict each other, a sentence each.

use super::{Case, CauseVerdict};
use memory::limit::Overcount;
use units::written::{bytes, percent};

/// What the probe counts too much, and why.
pub fn overcounted(case: &Case, over: &Overcount) -> String {
    let most = match over.by_headers {
        true => "glibc's own headers show",
        false => "RSS and swap are",
    };
    let why = match case.freed_past.as_slice() {
        [] => "a library that is bound past the probe frees blocks unseen".to_owned(),
        libraries => format!(
            "{} calls the C library's free past the probe",
            libraries.join(", ")
        ),
    };
    let (counted, at_most) = (bytes(over.counted), bytes(over.most));
    format!("the probe counts {counted} live where {most} {at_most}: {why}")
}

/// Facts that contradict the account or limit it.
pub fn limitations(case: &Case) -> Vec<String> {
    let mut limitations = Vec::new();
    if let Some(witness) = case.account.witness {
        let (live, least) = (case.account.live, 1_048_576.0);
        if (witness - live).abs() > 0.2 * witness.max(live) + least {
            limitations.push(format!(
                "glibc's own headers show {} in use where the probe counts {} live: part of the \
                 heap was allocated before the probe saw it, or past it",
                bytes(witness),
                bytes(live)
            ));
        }
    }
    let unexplained = case.account.unexplained() / case.account.rss_bytes.max(1.0);
    if unexplained < -1.0 {
        let beyond = bytes(-case.account.unexplained());
        limitations.push(format!("the parts claim {beyond} more than is resident"));
    } else if unexplained.abs() > 0.05 {
        let share = percent(unexplained);
        limitations.push(format!(
            "{share} of RSS is unexplained: the parts do not add up"
        ));
    }
    if case.snapshots < memory::growth::SAMPLES_MIN {
        limitations.push(format!(
            "only {} samples: growth cannot be classified yet",
            case.snapshots
        ));
    }
    limitations
}

/// A pool that warms up starts a few threads; from so many more on, and this share of those before, they are a finding.
const THREADS_MORE: usize = 10;
const THREADS_SHARE: f64 = 0.25;

/// Threads that become more while something else is the largest part that grows: their stacks are elsewhere in the
/// account, and what each of them allocates is anywhere.
pub fn more_threads(case: &Case, verdict: &CauseVerdict) -> Option<String> {
    let (first, last) = (case.threads_first, case.threads_last);
    let more = last.saturating_sub(first);
    let is_much = more >= THREADS_MORE && more as f64 >= THREADS_SHARE * first as f64;
    let is_said = verdict.sentence.contains("threads");
    (is_much && !is_said).then(|| {
        format!(
            "its threads rose from {first} to {last}: each has a stack and memory of its own, so what grows may be \
             theirs (who starts them, and for what do they wait? `ls /proc/PID/task`)"
        )
    })
}
