//! What a holder is in itself while others wait for its lock is part of their row: one cause, one row.

use std::collections::HashMap;

use super::cause::Cause;
use super::event::Tid;
use super::recurrence::episodes;
use super::stalled::Stall;
use super::walk::LeafKind;

/// Without the stalls of holders that were in the very thing, for half of the time at least, that kept others from
/// their lock.
pub fn without_holders(stalls: Vec<&Stall>) -> Vec<&Stall> {
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

fn is_anothers(stall: &Stall) -> bool {
    let lock = matches!(stall.cause, Cause::Lock | Cause::Allocator);
    lock && stall.leaf.tid != stall.tid
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
