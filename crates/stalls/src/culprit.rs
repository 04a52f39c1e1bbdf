//! Who is to blame for the stalls of one cause.

use std::collections::HashMap;

use super::cause::Leaf;
use super::event::{StackId, TextId, Tid, WaitKind};
use super::group::Groups;
use super::stalled::Stall;
use super::walk::LeafKind;

/// Who filled most of the waits, and what it was seen doing most.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// 0: nobody in particular.
    pub tid: Tid,
    pub kind: LeafKind,
    pub activity: TextId,
    pub stack: StackId,
    /// Of one on a CPU: some of the stacks that it was sampled with, and the time that each stands for, most first.
    pub samples: Vec<(StackId, u64)>,
    /// Its stack when it let its waiters go; its innermost own function is the one that held.
    pub release: StackId,
    /// That of the thread that ended the waiters' own waits, for a culprit at the end of a chain.
    pub held: StackId,
    /// Those with which it waits for its next work, and nobody for it.
    pub rests: Vec<StackId>,
}

/// The part of the time of the one before it that makes a culprit of somebody who did something.
const DID_SOMETHING: u64 = 5;

/// Stacks of one culprit on a CPU.
const SAMPLES_KEPT: usize = 64;

pub fn culprit_of(stalls: &[&Stall], groups: &Groups) -> Culprit {
    let leaves = stalls.iter().map(|s| ((s.leaf.tid, s.leaf.kind), s.ns));
    let ranked = ranked(leaves);
    let seen = |(leaf, _): &&((Tid, LeafKind), u64)| leaf.1 != LeafKind::Unseen;
    // One that waited for a lock itself, nobody knows whose, is a waiter too: another one that was seen for a part of
    // that time did something.
    let first = ranked.iter().find(seen);
    let waiter = |leaf: LeafKind| leaf == LeafKind::Wait(WaitKind::Lock);
    let did = ranked.iter().filter(seen).find(|(leaf, _)| !waiter(leaf.1));
    let did = did.filter(|(_, ns)| first.is_some_and(|(_, most)| ns * DID_SOMETHING >= *most));
    let ((tid, kind), _) = did
        .or(first)
        .or(ranked.first())
        .copied()
        .unwrap_or(((0, LeafKind::Unseen), 0));
    let mine = || {
        stalls
            .iter()
            .filter(move |s| (s.leaf.tid, s.leaf.kind) == (tid, kind))
    };
    let most = |of: fn(&Leaf) -> u32| -> u32 {
        let all = most_first(mine().map(|s| (of(&s.leaf), s.ns)));
        all.first().map_or(0, |most| most.0)
    };
    let activity = most(|leaf| leaf.activity);
    let mut samples = Vec::new();
    if kind == LeafKind::OnCpu {
        samples = most_first(mine().flat_map(|s| stacks_of(s)));
        samples.truncate(SAMPLES_KEPT);
    }
    Culprit {
        samples,
        tid,
        kind,
        activity,
        stack: match most(|leaf| leaf.stack) {
            0 => stack_of_another(stalls, kind, activity),
            own => own,
        },
        release: most(|leaf| leaf.release),
        held: most(|leaf| leaf.held),
        rests: groups
            .rests_of(tid)
            .filter(|stack| mine().all(|stall| stall.leaf.stack != *stack))
            .collect(),
    }
}

/// Those of one stall, each with its part of the time.
fn stacks_of(stall: &Stall) -> Vec<(StackId, u64)> {
    match stall.samples.len() as u64 {
        0 => vec![(stall.leaf.stack, stall.ns)],
        count => {
            let each = stall.samples.iter();
            each.map(|stack| (*stack, stall.ns / count)).collect()
        }
    }
}

/// Of a thread at the same device for itself; few of many short waits are looked at.
fn stack_of_another(stalls: &[&Stall], kind: LeafKind, activity: TextId) -> StackId {
    let device = matches!(kind, LeafKind::Wait(WaitKind::Disk | WaitKind::Fault));
    let alike = |s: &&&Stall| device && (s.leaf.kind, s.leaf.activity) == (kind, activity);
    let stacks = stalls.iter().filter(alike).map(|s| (s.leaf.stack, s.ns));
    most_first(stacks).first().map_or(0, |most| most.0)
}

/// Sums by key, most first; 0 (not known) is left out.
pub fn most_first(pairs: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    ranked(pairs.filter(|(key, _)| *key != 0))
}

pub fn ranked<K: Ord + Copy + std::hash::Hash>(
    pairs: impl Iterator<Item = (K, u64)>,
) -> Vec<(K, u64)> {
    let mut sums: HashMap<K, u64> = HashMap::new();
    for (key, ns) in pairs {
        *sums.entry(key).or_default() += ns;
    }
    let mut ranked: Vec<(K, u64)> = sums.into_iter().collect();
    ranked.sort_by_key(|(key, ns)| (std::cmp::Reverse(*ns), *key));
    ranked
}
