//! What a holder is in itself while others wait for its lock is part of their row: one cause, one row.

use std::collections::HashMap;

use super::cause::Cause;
use super::event::{TextId, Tid};
use super::recurrence::episodes;
use super::stalled::Stall;
use super::walk::LeafKind;

/// A thread's own stalls in what a lock's holder is in mostly are no row of their own with less than this part of
/// the lock's time.
const SHADOW: u64 = 5;

/// Without the stalls of holders that are told by those who waited for their locks.
pub fn without_holders(stalls: Vec<&Stall>) -> Vec<&Stall> {
    without_shadows(without_overlapping(stalls))
}

/// Without those whose doing filled the locks' waits, and that are little beside them: a holder that nobody waited
/// for just then.
fn without_shadows(stalls: Vec<&Stall>) -> Vec<&Stall> {
    let mut sums: HashMap<(LeafKind, TextId), (u64, u64)> = HashMap::new();
    for stall in stalls.iter().filter(|s| s.leaf.activity != 0) {
        let (others, own) = sums
            .entry((stall.leaf.kind, stall.leaf.activity))
            .or_default();
        *others += u64::from(is_anothers(stall)) * stall.ns;
        *own += u64::from(stall.leaf.tid == stall.tid) * stall.ns;
    }
    let little = |stall: &&Stall| {
        let sums = sums.get(&(stall.leaf.kind, stall.leaf.activity));
        stall.leaf.tid == stall.tid && sums.is_some_and(|(others, own)| own * SHADOW <= *others)
    };
    stalls.into_iter().filter(|s| !little(s)).collect()
}

/// Without those that were in the very thing, for half of the time at least, that kept others from their lock.
fn without_overlapping(stalls: Vec<&Stall>) -> Vec<&Stall> {
    let mut waited: HashMap<(Tid, LeafKind), Vec<(u64, u64)>> = HashMap::new();
    for stall in stalls.iter().filter(|s| is_anothers(s)) {
        let leaf = (stall.leaf.tid, stall.leaf.kind);
        let times = waited.entry(leaf).or_default();
        times.push((stall.start_ns, stall.end_ns));
    }
    let waited: HashMap<_, _> = waited
        .into_iter()
        .map(|(leaf, times)| (leaf, episodes(times)))
        .collect();
    let told_by_others = |stall: &&Stall| {
        let times = waited.get(&(stall.tid, stall.leaf.kind));
        let times = times.filter(|_| stall.leaf.tid == stall.tid);
        times.is_some_and(|times| 2 * within(times, stall) >= stall.ns)
    };
    stalls.into_iter().filter(|s| !told_by_others(s)).collect()
}

/// Of a lock that is more than a queue before a device.
fn is_anothers(stall: &Stall) -> bool {
    let lock = matches!(stall.cause, Cause::Lock | Cause::Allocator);
    lock && !stall.did_the_same && stall.leaf.tid != stall.tid
}

/// Nanoseconds of the stall's time that lie in `times`.
fn within(times: &[(u64, u64)], stall: &Stall) -> u64 {
    let from = times.partition_point(|(_, end)| *end <= stall.start_ns);
    let shared = times[from..]
        .iter()
        .take_while(|(start, _)| *start < stall.end_ns);
    shared
        .map(|(start, end)| end.min(&stall.end_ns) - start.max(&stall.start_ns))
        .sum()
}
