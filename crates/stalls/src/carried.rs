//! Threads of a runtime whose goroutines nobody sees: what keeps such a thread on a CPU may be anybody's.

use super::cause::Cause;
use super::stalled::Stall;

/// Without slow code that no two threads were in at a time. A goroutine that computes by itself now and then looks so,
/// on whatever thread it is carried; of requests several are in it at once.
pub fn without_lone_ones(stalls: Vec<&Stall>) -> Vec<&Stall> {
    let slow = |stall: &&&Stall| stall.cause == Cause::OnCpu;
    let all: Vec<&Stall> = stalls.iter().filter(slow).copied().collect();
    let beside = |stall: &Stall| all.iter().any(|other| overlap(stall, other));
    let kept = |stall: &&Stall| stall.cause != Cause::OnCpu || beside(stall);
    stalls.into_iter().filter(kept).collect()
}

/// Half of the shorter one at least, and another thread.
fn overlap(one: &Stall, other: &Stall) -> bool {
    let until = one.end_ns.min(other.end_ns);
    let shared = until.saturating_sub(one.start_ns.max(other.start_ns));
    one.tid != other.tid && 2 * shared >= one.ns.min(other.ns)
}
