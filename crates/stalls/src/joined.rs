//! Which locks are one cause: those that one thread held up at one thing, and those of one place in the program.

use std::collections::HashMap;

use super::activity::activity_of;
use super::cause::{Cause, Leaf};
use super::event::{StackId, Tid};
use super::group::{GroupId, Groups};
use super::stalled::Stall;
use super::walk::LeafKind;

/// Locks that one thread held up at one thing are one cause.
pub struct Joined {
    of_lock: HashMap<u64, u64>,
    of_leaf: HashMap<(Tid, LeafKind), u64>,
}

impl Joined {
    pub fn of(&self, stall: &Stall) -> u64 {
        match stall.object {
            0 => self.of_activity(&stall.leaf).unwrap_or(0),
            lock => self.of_lock.get(&lock).copied().unwrap_or(lock),
        }
    }

    /// The lock that most waited for meanwhile.
    pub fn of_activity(&self, leaf: &Leaf) -> Option<u64> {
        let lock = *self.of_leaf.get(&activity_of(leaf))?;
        Some(self.of_lock.get(&lock).copied().unwrap_or(lock))
    }
}

/// Another lock of a culprit's makes no row of its own with less than this part of the first one's time.
pub const SHADOW: u64 = 5;

/// Where the waiters of a lock wait, and which threads it was that made them, at what: a lock that has each waiter wait
/// at an address of its own (parking_lot's) is one by this.
type Site = (StackId, GroupId, LeafKind);

/// The leaf that filled most of a lock's waits names the lock's cause; locks with the same one join, and so do those of
/// one site.
pub fn join_locks(stalls: &[&Stall], groups: &Groups) -> Joined {
    let waiters = waiters_of_locks(stalls);
    let mut filled: HashMap<u64, HashMap<(Tid, LeafKind), u64>> = HashMap::new();
    for stall in stalls.iter().filter(|s| s.cause == Cause::Lock) {
        let leaf = (stall.leaf.tid, stall.leaf.kind);
        let filled = filled.entry(stall.object).or_default();
        *filled.entry(leaf).or_default() += stall.ns;
    }
    let mut of_leaf: HashMap<(Tid, LeafKind), u64> = HashMap::new();
    let mut of_thread: HashMap<Tid, (u64, u64)> = HashMap::new();
    let mut of_site: HashMap<Site, u64> = HashMap::new();
    let mut of_lock = HashMap::new();
    let mut locks: Vec<_> = filled.into_iter().collect();
    locks.sort_by_key(|(lock, filled)| (std::cmp::Reverse(filled.values().sum::<u64>()), *lock));
    for (lock, filled) in locks {
        let total: u64 = filled.values().sum();
        let stack = waiters.get(&lock).copied();
        let site = stack.zip(most_of_a_group(&filled, groups));
        // Waits without an address are for different things.
        let site = site.filter(|_| lock != 0);
        let site: Option<Site> = site.map(|(stack, (group, kind))| (stack, group, kind));
        let there = site.and_then(|site| of_site.get(&site).copied());
        let most = filled.into_iter().max_by_key(|(leaf, ns)| (*ns, *leaf));
        let to = match most.filter(|(leaf, ns)| leaf.0 != 0 && ns * 2 > total) {
            Some((leaf, _)) => {
                // Sorted: the first lock of a thread is the one that cost most. Little beside it, under another lock
                // and while the thread did something else, is its shadow.
                let first = *of_thread.entry(leaf.0).or_insert((lock, total));
                let shadow = total * SHADOW <= first.1;
                let of_first = || of_lock.get(&first.0).copied().unwrap_or(first.0);
                let own = if shadow { of_first() } else { lock };
                *of_leaf.entry(leaf).or_insert(there.unwrap_or(own))
            }
            None => there.unwrap_or(lock),
        };
        if let Some(site) = site {
            of_site.entry(site).or_insert(to);
        }
        of_lock.insert(lock, to);
    }
    Joined { of_lock, of_leaf }
}

/// The threads of one kind, at one kind of thing, that filled most of a lock's waits.
fn most_of_a_group(
    filled: &HashMap<(Tid, LeafKind), u64>,
    groups: &Groups,
) -> Option<(GroupId, LeafKind)> {
    let mut of_group: HashMap<(GroupId, LeafKind), u64> = HashMap::new();
    for ((tid, kind), ns) in filled.iter().filter(|((tid, _), _)| *tid != 0) {
        *of_group.entry((groups.of(*tid), *kind)).or_default() += ns;
    }
    let most = of_group.into_iter().max_by_key(|(of, ns)| (*ns, *of))?;
    (most.1 * 2 > filled.values().sum()).then_some(most.0)
}

/// The stack that most of a lock's waiters were in; none where nobody looked.
fn waiters_of_locks(stalls: &[&Stall]) -> HashMap<u64, StackId> {
    let mut seen: HashMap<u64, HashMap<StackId, u64>> = HashMap::new();
    let locks = stalls.iter().filter(|s| s.cause == Cause::Lock);
    for stall in locks.filter(|s| s.waiter_stack != 0) {
        let of_lock = seen.entry(stall.object).or_default();
        *of_lock.entry(stall.waiter_stack).or_default() += stall.ns;
    }
    let most = |stacks: HashMap<StackId, u64>| stacks.into_iter().max_by_key(|of| (of.1, of.0));
    let most = seen
        .into_iter()
        .filter_map(|(lock, of)| Some((lock, most(of)?.0)));
    most.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::WaitKind;

    fn stall(object: u64, holder: Tid, waiter_stack: StackId) -> Stall {
        Stall {
            tid: 90 + object,
            start_ns: 0,
            end_ns: 10,
            ns: 10,
            waits: 1,
            cause: Cause::Lock,
            waited_for: WaitKind::Lock,
            object,
            leaf: Leaf::of(holder, LeafKind::OnCpu),
            hops: Vec::new(),
            waiter_stack,
            samples: Vec::new(),
            did_the_same: false,
            inferred: false,
            open: false,
        }
    }

    /// parking_lot parks each thread at an address of its own, and a pool takes turns at holding.
    #[test]
    fn locks_of_one_place_are_one_for_all_their_holders() {
        let mut groups = Groups::default();
        for tid in 1..=6 {
            groups.set(tid, 7);
        }
        let stalls = [
            stall(1, 1, 40),
            stall(1, 2, 40),
            stall(1, 3, 40),
            stall(2, 2, 40),
            stall(2, 4, 40),
            stall(2, 5, 40),
            stall(3, 6, 41),
        ];
        let stalls: Vec<&Stall> = stalls.iter().collect();
        let joined = join_locks(&stalls, &groups);
        let locks: Vec<u64> = stalls.iter().map(|stall| joined.of(stall)).collect();
        assert_eq!(locks[..6], [locks[0]; 6], "{locks:?}");
        assert_ne!(locks[6], locks[0], "another place");
        // What is little beside a thread's first lock goes where that one went.
        let mut little = stall(4, 8, 43);
        little.ns = 1;
        little.leaf = Leaf::of(8, LeafKind::Wait(WaitKind::Disk));
        let more = [
            stall(1, 2, 40),
            stall(1, 3, 40),
            stall(5, 8, 40),
            little,
            stall(0, 2, 40),
        ];
        groups.set(8, 7);
        let more: Vec<&Stall> = more.iter().collect();
        let joined = join_locks(&more, &groups);
        let locks: Vec<u64> = more.iter().map(|stall| joined.of(stall)).collect();
        assert_eq!(locks[..4], [1; 4], "{locks:?}");
        assert_eq!(locks[4], 0, "no address, no place");
    }
}
