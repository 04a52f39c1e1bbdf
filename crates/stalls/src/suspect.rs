//! Who ended a wait, where nobody saw it: without privileges, when the lock keeps no owner.
//!
//! Whoever did was on a CPU just then and did not wait for the same thing; whoever held a lock was also at what it
//! did for half of the wait at least. After one wait that leaves several; after several for one thing, it is the one
//! that is left each time.

use std::collections::HashMap;

use super::event::{Tid, Wait, WaitKind};
use super::segment::{Segment, State};
use super::thread::Thread;
use super::timeline::Timelines;
use observe::table::Table;

/// A thread that was on a CPU this shortly before a wait's end may have ended it: what a wake takes.
const WAKE_NS: u64 = 200_000;
/// Shorter waits are not worth a guess.
const WORTH_NS: u64 = 200_000;
/// Shorter waits tell chance more than who ended them.
const TELLS_FROM_NS: u64 = 1_000_000;
/// Whoever held a lock was at what it did for this part of a wait for it.
const AT_IT: f64 = 0.5;
/// Whoever hands over what a condition or a queue waits for was there at the end of this part of the waits; else it is
/// many, or somebody outside.
const MOST_TIMES: f64 = 0.5;
/// A thread that idled, once, until just before the wait's end is half as likely as one that was at work.
const IDLED: f64 = 0.5;
/// Suspects whose shares differ by less than this are alike: the last to come back to a CPU is taken.
const ALIKE: f64 = 0.8;
/// A shorter wait that nobody looked at is part of the work: there are hundreds while somebody syncs a file.
const IDLES_FROM_NS: u64 = 2_000_000;
/// Earlier segments asked for what a thread's waits are for that nobody looked at.
const ASKED: usize = 32;
/// Locks and conditions remembered; past it they are learnt anew.
const OBJECTS_MAX: usize = 4_096;
/// Suspects remembered of one of them; the least likely gives way.
const SUSPECTS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Suspect {
    tid: Tid,
    came_ns: u64,
    /// 0 to 1.
    likely: f64,
}

/// Of each lock and condition, who may have ended the waits for it.
#[derive(Debug, Default)]
pub struct Suspects {
    of: HashMap<(WaitKind, u64), Evidence>,
    /// Those of the wait learnt from last, which is asked for next.
    last: (Tid, (u64, u64), Vec<Suspect>),
}

/// Nanoseconds of waiting: all, and those that speak for each thread.
#[derive(Debug, Default)]
struct Evidence {
    all: f64,
    against: Table<Tid, f64>,
}

impl Evidence {
    fn add(&mut self, ns: f64, suspects: &[Suspect]) {
        self.all += ns;
        for suspect in suspects {
            *self.against.entry(suspect.tid).or_default() += suspect.likely * ns;
        }
        while self.against.len() > SUSPECTS_MAX {
            let least = self.against.iter().min_by(|a, b| a.1.total_cmp(b.1));
            let Some(least) = least.map(|(tid, _)| *tid) else {
                break;
            };
            self.against.remove(&least);
        }
    }
}

impl Suspects {
    /// Learns from a wait that ended.
    pub fn learn(&mut self, lines: &Timelines, waiter: Tid, wait: &Wait, span: (u64, u64)) {
        if !lines.wakers_unseen || !is_telling(lines, wait, span) {
            return;
        }
        let of = (wait.kind, wait.object);
        if self.of.len() == OBJECTS_MAX && !self.of.contains_key(&of) {
            self.of.clear();
        }
        let suspects = suspects(lines, waiter, wait, span);
        let ns = span.1.saturating_sub(span.0) as f64;
        self.of.entry(of).or_default().add(ns, &suspects);
        self.last = (waiter, span, suspects);
    }

    /// Of the waits for the same, no thread of the program was there at the end of half of them: another process ends
    /// them.
    pub fn is_ended_outside(&self, wait: &Wait) -> bool {
        let known = self.of.get(&(wait.kind, wait.object));
        let most = |known: &Evidence| known.against.values().copied().fold(0.0, f64::max);
        known.is_some_and(|known| most(known) < MOST_TIMES * known.all)
    }

    /// Who most likely ended this wait, by it and by the others for the same thing.
    pub fn pick(
        &self,
        lines: &Timelines,
        waiter: Tid,
        wait: &Wait,
        span: (u64, u64),
    ) -> Option<Tid> {
        let worth = span.1.saturating_sub(span.0) >= WORTH_NS;
        if !lines.wakers_unseen || !worth || lasts(lines, waiter, span.0) {
            return None;
        }
        let known = self.of.get(&(wait.kind, wait.object));
        let weight = |suspect: &Suspect| match known {
            Some(known) => known.against.get(&suspect.tid).copied().unwrap_or(0.0),
            None => suspect.likely,
        };
        let fresh = || suspects(lines, waiter, wait, span);
        let all = match &self.last {
            (tid, of, all) if (*tid, *of) == (waiter, span) => all,
            _ => &fresh(),
        };
        let most = all.iter().map(weight).fold(0.0, f64::max);
        let often = known.is_none_or(|known| most >= MOST_TIMES * known.all);
        if wait.kind == WaitKind::Queue && !often {
            return None;
        }
        let likely = all.iter().filter(|s| weight(s) >= ALIKE * most);
        likely.max_by_key(|s| (s.came_ns, s.tid)).map(|s| s.tid)
    }
}

/// A wait for a lock that nobody had between: whoever ended it held it all the time. Or one for something that others
/// hand over.
fn is_telling(lines: &Timelines, wait: &Wait, (start_ns, end_ns): (u64, u64)) -> bool {
    let taken = || lines.taken(wait.object, end_ns).map_or(0, |t| t.at_ns);
    let alone = match wait.kind {
        WaitKind::Lock => wait.holder.is_none() && taken() <= start_ns,
        WaitKind::Queue => true,
        _ => false,
    };
    alone && wait.object != 0 && end_ns.saturating_sub(start_ns) >= TELLS_FROM_NS
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
    let (mut segment, mut at) = lines.before_at(tid, until_ns, None)?;
    while segment.state != State::Running {
        at = at.checked_sub(1)?;
        segment = thread.segment_at(at)?;
        if segment.end_ns + WAKE_NS < end_ns {
            return None;
        }
    }
    let rest = 1.0 - thread.on_cpu_share(lines.newest_ns);
    let came_ns = segment.start_ns;
    let likely = match wait.kind {
        WaitKind::Queue => Some(rest).filter(|_| !is_fellow(thread, at, wait)),
        _ => at_it(thread, (at, came_ns), wait, (start_ns, end_ns)).map(|part| part * rest),
    };
    likely.map(|likely| Suspect {
        tid,
        came_ns,
        likely,
    })
}

/// It ran at position `at` after it had waited for the very same.
fn is_fellow(thread: &Thread, at: usize, wait: &Wait) -> bool {
    let before = (0..at).rev().filter_map(|at| thread.segment_at(at));
    let mut waits = before.filter_map(|segment| match segment.state {
        State::Blocked { wait, .. } => Some(wait),
        _ => None,
    });
    let last = waits.next();
    last.is_some_and(|last| (last.kind, last.object) == (wait.kind, wait.object))
}

/// The part of the wait that the thread was at one thing until it ran, at position `at` since `came_ns`; less for one
/// that idled in it.
fn at_it(
    thread: &Thread,
    (at, came_ns): (usize, u64),
    wait: &Wait,
    (start_ns, end_ns): (u64, u64),
) -> Option<f64> {
    let (since_ns, idled) = at_it_since(thread, at, came_ns, wait, start_ns);
    let ns = end_ns.saturating_sub(since_ns.max(start_ns)) as f64;
    let part = ns / end_ns.saturating_sub(start_ns).max(1) as f64;
    // Of several that have a lock, each for its time, the last one lets go.
    let long = wait.shared || part >= AT_IT;
    long.then_some(if idled { part * IDLED } else { part })
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
    let (mut idled, mut later) = (false, WaitKind::Unknown);
    while since_ns > start_ns
        && let Some(before) = at.checked_sub(1)
        && let Some(segment) = thread.segment_at(before)
    {
        if let State::Blocked { wait: other, .. } = segment.state {
            let same = (other.kind, other.object) == (wait.kind, wait.object);
            let short = other.kind == WaitKind::Unknown && segment.ns() < IDLES_FROM_NS;
            later = kind_at(thread, before, other.kind, later);
            let idles = !short && is_idle(later);
            if same && wait.object != 0 || idles && idled {
                break;
            }
            idled |= idles;
        }
        (at, since_ns) = (before, segment.start_ns);
    }
    (since_ns, idled)
}

/// What a wait was for; of one that nobody looked at, what the next one was for that somebody did, or the one before.
fn kind_at(thread: &Thread, at: usize, kind: WaitKind, later: WaitKind) -> WaitKind {
    let known = |at: usize| match thread.segment_at(at)?.state {
        State::Blocked { wait, .. } if wait.kind != WaitKind::Unknown => Some(wait.kind),
        _ => None,
    };
    match kind {
        WaitKind::Unknown if later != WaitKind::Unknown => later,
        WaitKind::Unknown => {
            let earlier = (at.saturating_sub(ASKED)..at).rev();
            earlier.into_iter().find_map(known).unwrap_or(kind)
        }
        kind => kind,
    }
}

fn is_idle(kind: WaitKind) -> bool {
    use WaitKind::{Inbound, Other, Outbound, Queue, Sleep, Unknown};
    matches!(kind, Queue | Sleep | Inbound | Outbound | Other | Unknown)
}

/// The wait that began then is not over.
fn lasts(lines: &Timelines, waiter: Tid, start_ns: u64) -> bool {
    let now = lines.thread(waiter).and_then(Thread::now);
    now.is_some_and(|(since_ns, _)| since_ns == start_ns)
}
