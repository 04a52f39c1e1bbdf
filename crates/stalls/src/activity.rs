//! What one thread does while others wait for it in more than one way: one cause.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cause::{Cause, Leaf};
use super::event::{Tid, WaitKind};
use super::stalled::Stall;
use super::walk::LeafKind;

/// What a thread does under a lock is nothing of its own with less than this part of the time that others wait for its
/// disk otherwise.
const SHADOW: u64 = 5;

pub fn activity_of(leaf: &Leaf) -> (Tid, LeafKind) {
    (leaf.tid, leaf.kind)
}

/// What one thread did at a disk while some waited for it through a condition, and fewer of them for the lock
/// that goes with the condition: one cause, the disk.
pub fn activities_with_two_names(stalls: &[&Stall]) -> BTreeSet<(Tid, LeafKind)> {
    let at_disk = |kind| matches!(kind, LeafKind::Wait(WaitKind::Disk | WaitKind::Fault));
    let both = |kind, locked, plain| at_disk(kind) && locked > 0 && plain > locked;
    activities(stalls, both)
}

/// What one thread did while others waited for locks of its, for longer than for it in any other way.
pub fn activities_under_locks(stalls: &[&Stall]) -> BTreeSet<(Tid, LeafKind)> {
    activities(stalls, |_, locked, plain| locked > plain)
}

/// What threads did while others waited for them, chosen by how long these waited for locks and otherwise, nanoseconds.
fn activities(
    stalls: &[&Stall],
    chosen: impl Fn(LeafKind, u64, u64) -> bool,
) -> BTreeSet<(Tid, LeafKind)> {
    let mut sums: BTreeMap<(Tid, LeafKind), (u64, u64)> = BTreeMap::new();
    for stall in stalls.iter().filter(|s| s.leaf.tid != s.tid) {
        let (locked, plain) = sums.entry(activity_of(&stall.leaf)).or_default();
        match stall.cause {
            Cause::Lock => *locked += stall.ns,
            _ => *plain += stall.ns,
        }
    }
    let sums = sums.into_iter();
    sums.filter(|((_, kind), (locked, plain))| chosen(*kind, *locked, *plain))
        .map(|(activity, _)| activity)
        .collect()
}

/// A wait for another thread of which nobody saw whether it was for a lock: a lock that parks each waiter on a word of
/// its own is told by the waiter's stack alone.
pub fn may_be_for_a_lock(stall: &Stall) -> bool {
    let did = matches!(stall.leaf.kind, LeafKind::OnCpu | LeafKind::Wait(_));
    let queued = stall.waited_for == WaitKind::Queue && stall.waiter_stack == 0;
    queued && did && stall.leaf.tid != stall.tid && stall.cause != Cause::Allocator
}

/// Threads that were at a disk, or in faults, while others waited for them and not for a lock.
pub struct Disks {
    of: HashMap<Tid, AtDisk>,
}

/// Nanoseconds that others waited for one thread: for its disk, for locks of its, and for those without a name. A lock
/// that parks each waiter on a word of its own is none to the kernel.
struct AtDisk {
    plain_ns: u64,
    locked_ns: u64,
    unnamed_ns: u64,
    cause: Cause,
}

impl Disks {
    pub fn of_all(stalls: &[&Stall]) -> Disks {
        let mut of: HashMap<Tid, AtDisk> = HashMap::new();
        for stall in stalls.iter().filter(|s| s.leaf.tid != s.tid) {
            of.entry(stall.leaf.tid).or_default().add(stall);
        }
        Disks { of }
    }

    /// The cause that a lock's stall is part of: what its holder did between the waits for its disk is none of its own.
    pub fn of(&self, stall: &Stall) -> Option<Cause> {
        let at_disk = self.of.get(&stall.leaf.tid)?;
        let part = match stall.object {
            0 => at_disk.plain_ns > at_disk.unnamed_ns,
            _ => at_disk.plain_ns > at_disk.locked_ns * SHADOW,
        };
        part.then_some(at_disk.cause)
    }
}

impl Default for AtDisk {
    fn default() -> AtDisk {
        AtDisk {
            plain_ns: 0,
            locked_ns: 0,
            unnamed_ns: 0,
            cause: Cause::Disk,
        }
    }
}

impl AtDisk {
    fn add(&mut self, stall: &Stall) {
        match stall.cause {
            Cause::Lock if stall.object == 0 => self.unnamed_ns += stall.ns,
            Cause::Lock => self.locked_ns += stall.ns,
            Cause::Disk | Cause::PageFault => {
                (self.plain_ns, self.cause) = (self.plain_ns + stall.ns, stall.cause);
            }
            _ => {}
        }
    }
}
