//! Findings: all stalls of one cause, added up.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::activity::{
    Disks, activities_under_locks, activities_with_two_names, activity_of, may_be_for_a_lock,
};
use super::carried::without_lone_ones;
use super::cause::{Cause, Leaf};
use super::culprit::{Culprit, culprit_of, most_first};
use super::event::{StackId, TextId, Tid, WaitKind};
use super::felt::Felt;
use super::group::Groups;
use super::joined::{SHADOW, join_locks};
use super::own::without_holders;
use super::recurrence::{episodes, period_ns};
use super::stalled::Stall;
use super::walk::{Hop, LeafKind};

/// Stalls of one cause. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub cause: Cause,
    /// Busy periods that were stalled.
    pub count: usize,
    pub threads: BTreeSet<Tid>,
    pub longest_ns: u64,
    pub total_ns: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub episodes: usize,
    /// Episodes in which the culprit is the same as overall, or one of its kind.
    pub agreeing: usize,
    pub period_ns: Option<u64>,
    pub open: bool,
    pub inferred: bool,
    /// Most of the waits were ended by nobody seen: the culprit is inferred, or there is none.
    pub unsure: bool,
    pub culprit: Culprit,
    /// Of the longest stall of the culprit's: who waited, and what each hop waited for.
    pub chain: Vec<Link>,
    /// Who had the CPU meanwhile: (text, ns), most first.
    pub ran_instead: Vec<(TextId, u64)>,
    /// Stacks of the waiters with the time behind each, most first.
    pub waiters: Vec<(StackId, u64)>,
    pub objects: BTreeSet<u64>,
    /// The stalls that it is made of.
    pub members: Vec<Member>,
}

/// One stall of a finding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    pub tid: Tid,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cause: Cause,
    /// Who filled it; the thread itself, or 0 where nobody was seen.
    pub culprit: Tid,
    /// The thread was on a CPU itself.
    pub on_cpu: bool,
}

impl Member {
    fn of(stall: &Stall) -> Member {
        Member {
            tid: stall.tid,
            start_ns: stall.start_ns,
            end_ns: stall.end_ns,
            cause: stall.cause,
            culprit: stall.leaf.tid,
            on_cpu: stall.leaf.tid == stall.tid && stall.leaf.kind == LeafKind::OnCpu,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    pub hop: Hop,
    pub ns: u64,
}

/// Sums the stalls up: one finding per cause, most time first. Stalls of background threads,
/// whose own waits nobody feels, are left out while there are others to look at.
pub fn summarise(
    stalls: &[Stall],
    groups: &Groups,
    felt_by: &Felt,
    watched: &[Tid],
) -> Vec<Finding> {
    let sizes = groups.sizes(watched);
    let background: BTreeSet<Tid> = watched
        .iter()
        .copied()
        .filter(|tid| groups.is_background(*tid, &sizes))
        .collect();
    let all_are = watched.iter().all(|tid| background.contains(tid));
    let felt = stalls
        .iter()
        .filter(|stall| all_are || !background.contains(&stall.tid) || felt_by.by(stall));
    let alone = |tid: Tid| groups.is_alone(tid, &sizes);
    let felt = match groups.carriers {
        true => without_lone_ones(felt.collect()),
        false => felt.collect(),
    };
    let felt = without_holders(others_first(felt, alone, groups, felt_by));
    let of_cause = sorted_by_cause(felt, groups).into_iter();
    let mut findings: Vec<Finding> = of_cause
        .map(|((cause, _), stalls)| finding(cause, stalls, groups))
        .collect();
    sort(&mut findings);
    findings
}

/// Most time first; but a machine without a free CPU makes everything else longer, and is never
/// above what would stall without it, unless that is nothing beside it.
fn sort(findings: &mut [Finding]) {
    const NOTHING_BESIDE: u64 = 20;
    let starved = |finding: &Finding| finding.cause == Cause::CpuStarvation;
    let shortage = findings.iter().filter(|f| starved(f)).map(|f| f.total_ns);
    let shortage: u64 = shortage.sum();
    findings.sort_by_key(|finding| {
        let before = !starved(finding) && finding.total_ns >= shortage / NOTHING_BESIDE;
        std::cmp::Reverse((before, finding.total_ns))
    });
}

/// A lone thread that others wait for is a culprit; what it waits for itself is part of their rows, unless that is far
/// more than they do, or the same for the clients that it serves: an event loop, and a helper waits for it once. Where
/// slow requests were with it, they are what waits.
fn others_first<'a>(
    stalls: Vec<&'a Stall>,
    alone: impl Fn(Tid) -> bool,
    groups: &Groups,
    felt_by: &Felt,
) -> Vec<&'a Stall> {
    let mut causes: BTreeSet<(Tid, Cause)> = BTreeSet::new();
    let mut waited: BTreeMap<Tid, u64> = BTreeMap::new();
    let mut own: BTreeMap<Tid, u64> = BTreeMap::new();
    for stall in stalls.iter().filter(|s| alone(s.leaf.tid)) {
        let sums = if stall.leaf.tid == stall.tid {
            &mut own
        } else {
            causes.insert((stall.leaf.tid, stall.cause));
            &mut waited
        };
        *sums.entry(stall.leaf.tid).or_default() += stall.ns;
    }
    let is_told = |tid: Tid| {
        let waited_ns = waited.get(&tid).copied().unwrap_or(0);
        waited_ns > 0 && waited_ns * SHADOW >= own.get(&tid).copied().unwrap_or(0)
    };
    let for_clients = |s: &Stall| {
        felt_by.by(s) || groups.serves_clients(s.tid) && causes.contains(&(s.tid, s.cause))
    };
    let told = |s: &&Stall| s.leaf.tid == s.tid && is_told(s.tid) && !for_clients(s);
    stalls.into_iter().filter(|s| !told(s)).collect()
}

type Key = (Cause, u64);

fn sorted_by_cause<'a>(stalls: Vec<&'a Stall>, groups: &Groups) -> BTreeMap<Key, Vec<&'a Stall>> {
    let same_work = locks_that_only_queue(&stalls);
    let locks = join_locks(&stalls, groups);
    let allocators = locks_of_the_allocator(&stalls);
    let peers = Peers::of_all(&stalls);
    let own_purges = own_time_is_the_allocators(&stalls);
    let through_both = activities_with_two_names(&stalls);
    let under_locks = activities_under_locks(&stalls);
    let at_disk = Disks::of_all(&stalls);
    let mut found: BTreeMap<Key, Vec<&Stall>> = BTreeMap::new();
    for stall in stalls {
        let key = match (stall.cause, stall.leaf.kind) {
            (Cause::Lock, LeafKind::Wait(_)) if same_work.contains(&stall.object) => {
                (of_kind(&stall.leaf), 0)
            }
            (Cause::Lock, _) if unknown(stall) && allocators.contains(&stall.object) => {
                (Cause::Allocator, 0)
            }
            (Cause::Lock, LeafKind::Wait(_))
                if through_both.contains(&activity_of(&stall.leaf)) =>
            {
                (of_kind(&stall.leaf), 0)
            }
            (Cause::Lock, _) => match at_disk.of(stall) {
                Some(cause) => (cause, 0),
                None => (Cause::Lock, locks.of(stall)),
            },
            _ if under_locks.contains(&activity_of(&stall.leaf)) && may_be_for_a_lock(stall) => {
                match locks.of_activity(&stall.leaf) {
                    Some(lock) => (Cause::Lock, lock),
                    None => (stall.cause, 0),
                }
            }
            (cause @ (Cause::Network | Cause::Process), _) => (cause, peers.of(stall)),
            (Cause::OnCpu, _) if own_purges && may_be_the_allocators(&stall.leaf) => {
                (Cause::Allocator, 0)
            }
            (Cause::OnCpu, _) => (Cause::OnCpu, groupless(stall)),
            (cause, _) => (cause, 0),
        };
        found.entry(key).or_default().push(stall);
    }
    found
}

/// Peers and processes that are asked at one place of the program are one cause: each connection of a pool has its own
/// name.
struct Peers {
    of_peer: HashMap<TextId, TextId>,
}

impl Peers {
    fn of_all(stalls: &[&Stall]) -> Peers {
        let mut of_stack: HashMap<StackId, TextId> = HashMap::new();
        let mut of_peer = HashMap::new();
        for stall in stalls
            .iter()
            .filter(|s| matches!(s.cause, Cause::Network | Cause::Process) && s.leaf.stack != 0)
        {
            let first = *of_stack
                .entry(stall.leaf.stack)
                .or_insert(stall.leaf.activity);
            of_peer.entry(stall.leaf.activity).or_insert(first);
        }
        Peers { of_peer }
    }

    fn of(&self, stall: &Stall) -> u64 {
        let own = stall.leaf.activity;
        u64::from(*self.of_peer.get(&own).unwrap_or(&own))
    }
}

/// Nobody looked at what the holder did on its CPU.
fn unknown(stall: &Stall) -> bool {
    let leaf = &stall.leaf;
    !matches!(leaf.kind, LeafKind::Wait(_)) && leaf.stack == 0 && !leaf.allocator
}

/// Locks under which memory is given back: whenever the holder was seen, it mostly did that. Its
/// shorter turns fall between two samples.
fn locks_of_the_allocator(stalls: &[&Stall]) -> BTreeSet<u64> {
    let mut seen: HashMap<u64, (u64, u64)> = HashMap::new();
    for stall in stalls.iter().filter(|s| s.object != 0 && !unknown(s)) {
        let (allocating, all) = seen.entry(stall.object).or_default();
        *allocating += u64::from(stall.cause == Cause::Allocator) * stall.ns;
        *all += stall.ns;
    }
    let most = |(_, (allocating, all)): &(u64, (u64, u64))| allocating * 2 > *all;
    let most = seen.into_iter().filter(most);
    most.map(|(lock, _)| lock).collect()
}

/// Threads were slow by themselves, and whenever it was seen in what, it was mostly the allocator.
fn own_time_is_the_allocators(stalls: &[&Stall]) -> bool {
    let own = stalls
        .iter()
        .filter(|s| s.leaf.tid == s.tid && s.leaf.stack != 0);
    let own = own.filter(|s| s.leaf.kind == LeafKind::OnCpu);
    let (allocating, other) = own.fold((0, 0), |(allocating, other), s| match s.cause {
        Cause::Allocator => (allocating + s.ns, other),
        _ if may_be_the_allocators(&s.leaf) => (allocating, other + s.ns),
        _ => (allocating, other),
    });
    allocating > other
}

/// Not seen, or seen in the allocator at times.
fn may_be_the_allocators(leaf: &Leaf) -> bool {
    leaf.stack == 0 || leaf.allocator
}

/// Slow code is told apart by the function; without a stack all of it is one.
fn groupless(stall: &Stall) -> u64 {
    u64::from(stall.leaf.stack != 0)
}

fn of_kind(leaf: &Leaf) -> Cause {
    match leaf.kind {
        LeafKind::Wait(WaitKind::Fault) => Cause::PageFault,
        _ => Cause::Disk,
    }
}

/// Locks whose waiters, most of them, do under it themselves what its holder was seen doing (each
/// writes and syncs in turn): the device is the cause, and the lock only makes the queue.
fn locks_that_only_queue(stalls: &[&Stall]) -> BTreeSet<u64> {
    let mut seen: HashMap<u64, (usize, usize)> = HashMap::new();
    for stall in stalls.iter().filter(|stall| stall.cause == Cause::Lock) {
        let (same, all) = seen.entry(stall.object).or_default();
        *same += usize::from(stall.did_the_same);
        *all += 1;
    }
    let most = |(_, (same, all)): &(u64, (usize, usize))| same * 2 > *all;
    seen.into_iter()
        .filter(most)
        .map(|(lock, _)| lock)
        .collect()
}

fn finding(cause: Cause, stalls: Vec<&Stall>, groups: &Groups) -> Finding {
    let culprit = culprit_of(&stalls, groups);
    let merged = episodes(stalls.iter().map(|s| (s.start_ns, s.end_ns)));
    let unsure = stalls.iter().filter(|s| unsure(s)).count() * 2 > stalls.len();
    // Short ones, in between, are anybody's: a guess is held against the long ones.
    let told = if unsure {
        long_ones(&merged)
    } else {
        merged.clone()
    };
    let agreeing = told
        .iter()
        .filter(|episode| agrees(&stalls, **episode, &culprit, groups))
        .count();
    Finding {
        cause,
        count: stalls.len(),
        threads: stalls.iter().map(|s| s.tid).collect(),
        longest_ns: stalls.iter().map(|s| s.ns).max().unwrap_or(0),
        total_ns: stalls.iter().map(|s| s.ns).sum(),
        first_ns: merged.first().map_or(0, |e| e.0),
        last_ns: merged.last().map_or(0, |e| e.1),
        episodes: told.len(),
        agreeing,
        period_ns: period_ns(&merged).or_else(|| period_ns(&long_ones(&merged))),
        open: stalls.iter().any(|s| s.open),
        inferred: stalls.iter().filter(|s| s.inferred).count() * 2 > stalls.len(),
        unsure,
        chain: chain_of(&stalls, &culprit),
        culprit,
        ran_instead: most_first(stalls.iter().map(|s| (s.leaf.after, s.ns))),
        waiters: most_first(stalls.iter().map(|s| (s.waiter_stack, s.ns))),
        objects: stalls
            .iter()
            .map(|s| s.object)
            .filter(|o| *o != 0)
            .collect(),
        members: stalls.iter().map(|stall| Member::of(stall)).collect(),
    }
}

fn unsure(stall: &Stall) -> bool {
    stall.inferred || stall.leaf.kind == LeafKind::Unseen
}

/// The episodes at least half as long as the longest: a rhythm shows in these when there are short
/// ones at any time between.
fn long_ones(episodes: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let ns = |(start, end): &(u64, u64)| end.saturating_sub(*start);
    let longest = episodes.iter().map(ns).max().unwrap_or(0);
    let long = episodes.iter().filter(|e| ns(e) * 2 >= longest);
    long.copied().collect()
}

/// In the episode it was the culprit too, or another of its kind in the same: a pool takes turns at being it.
fn agrees(
    stalls: &[&Stall],
    (start_ns, end_ns): (u64, u64),
    culprit: &Culprit,
    groups: &Groups,
) -> bool {
    let inside = |s: &&&Stall| s.start_ns >= start_ns && s.end_ns <= end_ns;
    let group = groups.of(culprit.tid);
    let kin = |leaf: &Leaf| leaf.kind == culprit.kind && groups.of(leaf.tid) == group;
    let mut leaves = stalls.iter().filter(inside).map(|s| &s.leaf);
    leaves.any(|leaf| leaf.tid == culprit.tid || leaf.tid != 0 && kin(leaf))
}

fn chain_of(stalls: &[&Stall], culprit: &Culprit) -> Vec<Link> {
    let longest = stalls
        .iter()
        .filter(|s| s.leaf.tid == culprit.tid && s.leaf.kind == culprit.kind)
        .max_by_key(|s| s.ns);
    let Some(stall) = longest else {
        return Vec::new();
    };
    let waiter = Hop {
        tid: stall.tid,
        kind: stall.waited_for,
        object: stall.object,
    };
    let hops = std::iter::once(&waiter).chain(&stall.hops);
    hops.map(|hop| Link {
        hop: *hop,
        ns: stall.ns,
    })
    .collect()
}
