//! Stalls: what of a busy period is above the threshold, by cause.

use super::busy::Busy;
use super::cause::{Cause, Leaf, Part};
use super::event::{StackId, Tid, WaitKind};
use super::group::Groups;
use super::segment::Sample;
use super::timeline::Timelines;
use super::walk::{Hop, LeafKind};

/// Time on a CPU from which on a thread's own giving back of memory is looked for, and the samples
/// in which it must have been seen.
const ALLOCATING_LEAST_NS: u64 = 8_000_000;
const ALLOCATING_SEEN: usize = 2;

/// Of a thread that never idles, short waits of one cause are a stall where they take this part of its time: some there
/// always are.
const ENDLESS_PART: u64 = 4;

/// Stacks of one stall on a CPU.
pub const SAMPLES_KEPT: usize = 16;

/// Time on a CPU of which less than this part was in the allocator has nothing to do with it.
const SOME_OF_IT: usize = 5;

/// One thread, one busy period, one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    pub tid: Tid,
    /// From the first to the last of its waits.
    pub start_ns: u64,
    pub end_ns: u64,
    /// The sum of its waits.
    pub ns: u64,
    pub waits: u32,
    pub cause: Cause,
    pub waited_for: WaitKind,
    pub object: u64,
    pub leaf: Leaf,
    pub hops: Vec<Hop>,
    pub waiter_stack: StackId,
    /// Of a thread on a CPU: stacks evenly over that time, at most [`SAMPLES_KEPT`].
    pub samples: Vec<StackId>,
    /// The thread itself also did, in this period, what the leaf did: it is one of its kind.
    pub did_the_same: bool,
    pub inferred: bool,
    pub open: bool,
}

/// The stalls of a busy period; none of a thread's first when that is its start.
pub fn stalls_of(busy: &Busy, groups: &Groups, lines: &Timelines) -> Vec<Stall> {
    let threshold_ns = groups.threshold_ns(busy.tid);
    let mut found = Vec::new();
    let mut rest: Vec<&Part> = busy.parts.iter().collect();
    while let Some(first) = rest.first().map(|part| key(part)) {
        let (alike, other): (Vec<&Part>, Vec<&Part>) =
            rest.into_iter().partition(|part| key(part) == first);
        rest = other;
        found.extend(match busy.endless {
            true => of_endless(busy, &alike, threshold_ns),
            false if total_ns(&alike) >= threshold_ns => sum(busy, &alike).into_iter().collect(),
            false => Vec::new(),
        });
    }
    found.extend(on_cpu(busy, groups, lines));
    found
}

/// Waits of one cause in a stretch of a thread that never idles: the long ones by themselves, or else all of them where
/// they add up.
fn of_endless(busy: &Busy, alike: &[&Part], threshold_ns: u64) -> Vec<Stall> {
    let long = |part: &&&Part| part.ns() >= threshold_ns;
    let long: Vec<&Part> = alike.iter().filter(long).copied().collect();
    let all_ns = total_ns(alike);
    let adds_up = all_ns >= threshold_ns
        && all_ns * ENDLESS_PART >= busy.end_ns.saturating_sub(busy.start_ns);
    match adds_up && total_ns(&long) * 2 < all_ns {
        true => sum(busy, alike).into_iter().collect(),
        false => long.iter().filter_map(|part| sum(busy, &[part])).collect(),
    }
}

fn total_ns(parts: &[&Part]) -> u64 {
    parts.iter().map(|part| part.ns()).sum()
}

/// Waits of one key are one stall; locks by their address.
fn key(part: &Part) -> (Cause, u64) {
    let object = if part.cause == Cause::Lock {
        part.object
    } else {
        0
    };
    (part.cause, object)
}

fn sum(busy: &Busy, parts: &[&Part]) -> Option<Stall> {
    let longest = parts.iter().max_by_key(|part| part.ns())?;
    let kind = longest.leaf.kind;
    let direct = |part: &&Part| part.leaf.tid == busy.tid && part.leaf.kind == kind;
    Some(Stall {
        tid: busy.tid,
        start_ns: parts.iter().map(|p| p.start_ns).min()?,
        end_ns: parts.iter().map(|p| p.end_ns).max()?,
        ns: total_ns(parts),
        waits: parts.len() as u32,
        cause: longest.cause,
        waited_for: longest.waited_for,
        object: longest.object,
        leaf: leaf_of(longest, parts),
        hops: longest.hops.clone(),
        waiter_stack: longest.waiter_stack,
        samples: Vec::new(),
        did_the_same: matches!(kind, LeafKind::Wait(WaitKind::Disk | WaitKind::Fault))
            && longest.leaf.tid != busy.tid
            && busy.parts.iter().any(|part| direct(&part)),
        inferred: parts.iter().any(|p| p.inferred),
        open: busy.open && parts.iter().any(|p| p.end_ns == busy.end_ns),
    })
}

/// That of the longest part; where nobody looked at it, with the stack of one at the same thing.
fn leaf_of(longest: &Part, parts: &[&Part]) -> Leaf {
    let mut leaf = longest.leaf.clone();
    let same = |part: &&&Part| {
        let other = &part.leaf;
        (other.tid, other.kind, other.activity) == (leaf.tid, leaf.kind, leaf.activity)
    };
    let seen = parts
        .iter()
        .filter(same)
        .filter(|part| part.leaf.stack != 0);
    let stack = seen
        .max_by_key(|part| part.ns())
        .map(|part| part.leaf.stack);
    if leaf.stack == 0 {
        leaf.stack = stack.unwrap_or(0);
    }
    leaf
}

/// The thread was slow by itself: far more time on a CPU than its group ever takes, or in the
/// allocator for longer than a stall is.
fn on_cpu(busy: &Busy, groups: &Groups, lines: &Timelines) -> Option<Stall> {
    let limit_ns = groups.on_cpu_threshold_ns(busy.tid)?;
    on_cpu_from(limit_ns, busy, groups, lines)
}

/// Some of the stacks, as far apart as they can be.
fn spread_over(samples: &[&Sample]) -> Vec<StackId> {
    let step = samples.len().div_ceil(SAMPLES_KEPT).max(1);
    let some = samples.iter().skip(step / 2).step_by(step);
    some.map(|sample| sample.stack).collect()
}

/// A turn on a CPU of `limit_ns` and more, however usual that is for its group: a stall where a request was slow by it.
pub fn long_turn(limit_ns: u64, busy: &Busy, groups: &Groups, lines: &Timelines) -> Option<Stall> {
    let known = groups.on_cpu_threshold_ns(busy.tid);
    let told = known.is_some_and(|told_ns| busy.on_cpu_ns >= told_ns && !busy.endless);
    if told || busy.on_cpu_ns < limit_ns {
        return None;
    }
    let bounded = Busy {
        endless: false,
        parts: Vec::new(),
        ..*busy
    };
    on_cpu_from(limit_ns, &bounded, groups, lines)
}

fn on_cpu_from(limit_ns: u64, busy: &Busy, groups: &Groups, lines: &Timelines) -> Option<Stall> {
    let least_ns = groups.threshold_ns(busy.tid).max(ALLOCATING_LEAST_NS);
    let bounded = groups.rests(busy.tid) && !busy.first && !busy.endless;
    if busy.on_cpu_ns < limit_ns.min(least_ns) || !bounded {
        return None;
    }
    let thread = lines.thread(busy.tid)?;
    let all: Vec<_> = thread.samples(busy.start_ns, busy.end_ns).collect();
    // One that could not be unwound says nothing, where others can.
    let known: Vec<_> = all.iter().filter(|s| s.stack != 0).copied().collect();
    let samples = if known.is_empty() { all } else { known };
    let allocating: Vec<_> = samples.iter().filter(|s| s.allocator).copied().collect();
    let in_allocator = allocating.len() * 2 > samples.len() && allocating.len() >= ALLOCATING_SEEN;
    if busy.on_cpu_ns < limit_ns && !in_allocator {
        return None;
    }
    let shown = if in_allocator { &allocating } else { &samples };
    // Without a single sample the thread was hardly on the CPU: the hypervisor had it.
    let sample = Some(shown.get(shown.len() / 2)?);
    Some(Stall {
        tid: busy.tid,
        start_ns: busy.start_ns,
        end_ns: busy.end_ns,
        ns: busy.on_cpu_ns,
        waits: 0,
        cause: if in_allocator {
            Cause::Allocator
        } else {
            Cause::OnCpu
        },
        waited_for: WaitKind::Other,
        object: 0,
        leaf: Leaf {
            activity: sample.map_or(0, |s| s.activity),
            stack: sample.map_or(0, |s| s.stack),
            // Some of it at least: it may be the same as where it was most of it.
            allocator: allocating.len() * SOME_OF_IT >= samples.len(),
            ..Leaf::of(busy.tid, LeafKind::OnCpu)
        },
        hops: Vec::new(),
        waiter_stack: sample.map_or(0, |s| s.stack),
        samples: spread_over(shown),
        did_the_same: false,
        inferred: false,
        open: busy.open,
    })
}
