//! Who ended a wait, where nobody saw it: without privileges, when the lock keeps no owner.
//!
//! Whoever did was on a CPU just then, did not wait for the same thing, and was at what it did for half of the wait at least.
//! After one wait that leaves several; of several waits for one lock, it is the one that is left each time.

use std::collections::HashMap;

use super::event::{Tid, Wait, WaitKind};
use super::timeline::{Segment, State, Thread, Timelines};
use crate::observe::switches::Table;

/// A thread that was on a CPU this shortly before or after a wait's end may have ended it: what a wake takes.
const WAKE_NS: u64 = 200_000;
/// Shorter waits are not worth a guess.
const WORTH_NS: u64 = 200_000;
/// Shorter waits for a lock tell chance more than its holder.
const TELLS_FROM_NS: u64 = 1_000_000;
/// Whoever ended a wait was at what it did for this part of it.
const AT_IT: f64 = 0.5;
/// A thread that idled, once, until just before the wait's end is half as likely as one that was at work.
const IDLED: f64 = 0.5;
/// Suspects whose shares differ by less than this are alike: the last to come back to a CPU is taken.
const ALIKE: f64 = 0.8;
/// Earlier segments asked for what a thread's waits are for that nobody looked at.
const ASKED: usize = 32;
/// Locks remembered; past it they are learnt anew.
const LOCKS_MAX: usize = 4_096;
/// Suspects remembered of one lock; the least likely gives way.
const SUSPECTS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Suspect {
    tid: Tid,
    came_ns: u64,
    /// 0 to 1.
    likely: f64,
}

/// Of each lock, who may have held it, with the nanoseconds of waiting that speak for it.
#[derive(Debug, Default)]
pub struct Suspects {
    of: HashMap<u64, Table<Tid, f64>>,
}

impl Suspects {
    /// Learns from a wait that ended.
    pub fn learn(&mut self, lines: &Timelines, waiter: Tid, wait: &Wait, span: (u64, u64)) {
        let ns = span.1 - span.0;
        if !lines.wakers_unseen || !is_telling(lines, wait, span) {
            return;
        }
        if self.of.len() == LOCKS_MAX && !self.of.contains_key(&wait.object) {
            self.of.clear();
        }
        let of = self.of.entry(wait.object).or_default();
        for suspect in suspects(lines, waiter, wait, span) {
            *of.entry(suspect.tid).or_default() += suspect.likely * ns as f64;
        }
        while of.len() > SUSPECTS_MAX {
            let least = of.iter().min_by(|a, b| a.1.total_cmp(b.1));
            let Some(least) = least.map(|(tid, _)| *tid) else {
                break;
            };
            of.remove(&least);
        }
    }

    /// Who most likely ended this wait, by it and by the others for the same lock.
    pub fn pick(
        &self,
        lines: &Timelines,
        waiter: Tid,
        wait: &Wait,
        span: (u64, u64),
    ) -> Option<Tid> {
        let worth = span.1 - span.0 >= WORTH_NS;
        if !lines.wakers_unseen || !worth || lasts(lines, waiter, span.0) {
            return None;
        }
        let known = self.of.get(&wait.object).filter(|_| wait.object != 0);
        let weight = |suspect: &Suspect| match known.and_then(|known| known.get(&suspect.tid)) {
            Some(ns) => *ns,
            None if known.is_some() => 0.0,
            None => suspect.likely,
        };
        let all = suspects(lines, waiter, wait, span);
        let most = all.iter().map(weight).fold(0.0, f64::max);
        let likely = all.iter().filter(|s| weight(s) >= ALIKE * most);
        likely.max_by_key(|s| (s.came_ns, s.tid)).map(|s| s.tid)
    }
}

/// A wait for a lock that nobody had between: whoever ended it held it all the time.
fn is_telling(lines: &Timelines, wait: &Wait, (start_ns, end_ns): (u64, u64)) -> bool {
    let lock = wait.kind == WaitKind::Lock && wait.object != 0 && wait.holder.is_none();
    let before = || lines.taken(wait.object, end_ns);
    lock && end_ns - start_ns >= TELLS_FROM_NS && before().is_none_or(|t| t.at_ns <= start_ns)
}

fn suspects(lines: &Timelines, waiter: Tid, wait: &Wait, span: (u64, u64)) -> Vec<Suspect> {
    let until_ns = came_back(lines, waiter, span.1);
    let others = lines.tids().filter(|tid| *tid != waiter);
    let suspects = others.filter_map(|tid| suspect(lines, tid, wait, span, until_ns));
    suspects.collect()
}

/// When the waiter got its CPU: it was woken between the end of its wait and then.
fn came_back(lines: &Timelines, waiter: Tid, end_ns: u64) -> u64 {
    match lines.before(waiter, end_ns + 1) {
        Some(Segment {
            state: State::Runnable { .. },
            end_ns,
            ..
        }) => end_ns,
        _ => end_ns,
    }
}

fn suspect(
    lines: &Timelines,
    tid: Tid,
    wait: &Wait,
    (start_ns, end_ns): (u64, u64),
    until_ns: u64,
) -> Option<Suspect> {
    let thread = lines.thread(tid)?;
    let latest_ns = until_ns.max(end_ns + WAKE_NS).min(lines.newest_ns);
    let (mut segment, mut at) = lines.before_at(tid, latest_ns, None)?;
    while segment.state != State::Running {
        at = at.checked_sub(1)?;
        segment = thread.segment_at(at)?;
        if segment.end_ns + WAKE_NS < end_ns {
            return None;
        }
    }
    let (since_ns, idled) = at_it_since(thread, at, segment.start_ns, wait, start_ns);
    let ns = end_ns.saturating_sub(since_ns.max(start_ns)) as f64;
    let part = ns / (end_ns - start_ns) as f64;
    let likely = part * (1.0 - thread.on_cpu_share(lines.newest_ns));
    (part >= AT_IT).then_some(Suspect {
        tid,
        came_ns: segment.start_ns,
        likely: if idled { likely * IDLED } else { likely },
    })
}

/// Since when the thread, which ran from `since_ns` on at position `at`, was at one thing, and whether it idled in it:
/// once, for whatever a holder may sleep for; who idles again and again does something else.
fn at_it_since(
    thread: &Thread,
    mut at: usize,
    mut since_ns: u64,
    wait: &Wait,
    start_ns: u64,
) -> (u64, bool) {
    let mut idled = false;
    while since_ns > start_ns
        && let Some(before) = at.checked_sub(1)
        && let Some(segment) = thread.segment_at(before)
    {
        if let State::Blocked { wait: other, .. } = segment.state {
            let same = (other.kind, other.object) == (wait.kind, wait.object);
            let idles = is_idle(kind_at(thread, before, other.kind));
            if same && wait.object != 0 || idles && idled {
                break;
            }
            idled |= idles;
        }
        (at, since_ns) = (before, segment.start_ns);
    }
    (since_ns, idled)
}

/// What a wait was for; of one that nobody looked at, what the last one was for that somebody did.
fn kind_at(thread: &Thread, at: usize, kind: WaitKind) -> WaitKind {
    let known = |at: usize| match thread.segment_at(at)?.state {
        State::Blocked { wait, .. } if wait.kind != WaitKind::Unknown => Some(wait.kind),
        _ => None,
    };
    match kind {
        WaitKind::Unknown => {
            let earlier = (at.saturating_sub(ASKED)..at).rev();
            earlier.into_iter().find_map(known).unwrap_or(kind)
        }
        kind => kind,
    }
}

fn is_idle(kind: WaitKind) -> bool {
    use WaitKind::{Inbound, Other, Queue, Sleep, Unknown};
    matches!(kind, Queue | Sleep | Inbound | Other | Unknown)
}

/// The wait that began then is not over.
fn lasts(lines: &Timelines, waiter: Tid, start_ns: u64) -> bool {
    let now = lines.thread(waiter).and_then(Thread::now);
    now.is_some_and(|(since_ns, _)| since_ns == start_ns)
}
