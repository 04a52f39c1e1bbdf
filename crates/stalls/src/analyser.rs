//! The analysis as it runs: events in, stalls out as they end.

use std::collections::{HashSet, VecDeque};

use super::busy::{Busy, Cutter};
use super::cause::{Judged, Known, judge};
use super::connections::Connections;
use super::event::{ENDED_KEPT, Event, GOROUTINES, Tid, Wait, WaitKind, Waker, What};
use super::group::{Begun, GroupId, Groups};
use super::home::Homes;
use super::pieces::Pieces;
use super::poll::Poll;
use super::segment::{Segment, State};
use super::stalled::{Stall, stalls_of};
use super::suspect::Suspects;
use super::thread::Thread;
use super::timeline::Timelines;
use super::tokens::Tokens;
use super::turns::Turns;
use observe::table::Table;
use sched::recording::Facts;
use sched::watch::Turn;

/// Segments are judged this often.
const ADVANCE_NS: u64 = 250_000_000;
/// How far behind the newest event segments are judged: what explains a wait (a sample, a count of
/// the time without a CPU, a sample) may come in later than its end.
const SETTLE_NS: u64 = 200_000_000;
/// History kept behind the oldest open busy period.
const KEEP_NS: u64 = 4_000_000_000;
/// A busy period older than this no longer holds back the history of all others.
const KEEP_MOST_NS: u64 = 120_000_000_000;
/// Stalls kept for the summary.
pub const STALLS_MAX: usize = 60_000;

#[derive(Debug, Default)]
pub struct Analyser {
    pub lines: Timelines,
    pub groups: Groups,
    homes: Homes,
    suspects: Suspects,
    turns: Turns,
    tokens: Tokens,
    pub stalls: Vec<Stall>,
    pub pieces: Pieces,
    pub connections: Connections,
    /// Goroutines were seen: threads stand for them.
    has_goroutines: bool,
    /// Stalls past [`STALLS_MAX`].
    pub dropped_stalls: u64,
    /// Threads that lived when the watch began; the first busy period of any other is its start.
    since_start: HashSet<Tid>,
    cursors: Table<Tid, Cursor>,
    /// Threads that are gone, the newest last.
    ended: VecDeque<Tid>,
    started_ns: u64,
    advanced_ns: u64,
}

#[derive(Debug)]
struct Cursor {
    next: u64,
    cutter: Cutter,
    poll: Poll,
}

/// Threads born within this time of the subject's own start are part of its start.
const STARTUP_NS: u64 = 1_000_000_000;

impl Analyser {
    /// A watch that began at `started_ns` on threads that lived already.
    pub fn new(started_ns: u64, living: impl IntoIterator<Item = Tid>) -> Analyser {
        Analyser {
            started_ns,
            advanced_ns: started_ns,
            since_start: living.into_iter().collect(),
            ..Analyser::default()
        }
    }

    /// Of a watch, live or recorded.
    pub fn of(facts: &Facts) -> Analyser {
        let mut analyser = Analyser::new(facts.started_ns, facts.living.iter().copied());
        analyser.lines.wakers_unseen = facts.wakers_are_unseen;
        analyser.lines.sampled = facts.samples_the_kernel;
        analyser.groups.carriers = facts.goroutines_are_unseen;
        analyser
    }

    /// Takes a turn of the watch at `now_ns`, and judges what has settled when that is due: the stalls that ended.
    pub fn follow(&mut self, turn: Turn, now_ns: u64) -> Option<&[Stall]> {
        self.take_turn(turn);
        if now_ns.saturating_sub(self.advanced_ns) < ADVANCE_NS {
            return None;
        }
        self.advanced_ns = now_ns;
        Some(self.advance(now_ns.saturating_sub(SETTLE_NS)))
    }

    /// What a turn of the watch brought.
    pub fn take_turn(&mut self, turn: Turn) {
        turn.events.iter().for_each(|event| self.push(event));
        self.told_until(turn.told_ns);
        let answered = turn.answered.iter();
        answered.for_each(|request| self.groups.answers(request.sender));
        self.connections.take(&turn.answered, &turn.replies);
        for stretch in &turn.throttled {
            let quota = &mut self.pieces.quota;
            quota.throttled(stretch.start_ns, stretch.end_ns);
        }
        for (tid, group) in turn.groups {
            match group {
                Some(group) => self.set_group(tid, group),
                None => self.groups.is_a_librarys(tid),
            }
        }
    }

    pub fn push(&mut self, event: &Event) {
        self.has_goroutines |= event.tid >= GOROUTINES;
        match event.what {
            // Of threads that carry none nothing else is told.
            What::RunDelay { ns } if self.has_goroutines && event.tid < GOROUTINES => {
                let start_ns = event.at_ns.saturating_sub(ns);
                self.pieces.unpolled.waited(start_ns, event.at_ns);
            }
            _ => self.lines.push(event),
        }
    }

    /// What happened until then has been pushed. Where all threads wait nothing happens, and time passes.
    pub fn told_until(&mut self, at_ns: u64) {
        self.lines.newest_ns = self.lines.newest_ns.max(at_ns);
    }

    pub fn set_group(&mut self, tid: Tid, group: GroupId) {
        self.groups.set(tid, group);
    }

    /// Judges what has settled; gives the stalls that ended.
    pub fn advance(&mut self, settled_ns: u64) -> &[Stall] {
        let from = self.stalls.len();
        // In order: a group's habit is learnt on the way, and the same timeline gives the same stalls.
        let mut tids: Vec<Tid> = self.lines.tids().collect();
        tids.sort_unstable();
        for tid in tids {
            let mut ended = self.cut(tid, settled_ns);
            ended.extend(self.last(tid, settled_ns));
            ended.iter().for_each(|busy| self.take(busy));
        }
        self.connections
            .follow(&self.pieces, &self.lines, settled_ns);
        self.forget(settled_ns);
        &self.stalls[from..]
    }

    /// The threads that are busy, or wait, and since when.
    pub fn busy_since(&self) -> impl Iterator<Item = (Tid, u64)> + '_ {
        self.cursors.iter().filter_map(|(tid, cursor)| {
            let now = self.lines.thread(*tid)?.now();
            let since_ns = cursor.cutter.started_ns();
            Some((*tid, since_ns.or(now.map(|(since_ns, _)| since_ns))?))
        })
    }

    /// What stalls the thread's busy period that lasts still by now. Its wait is walked anew each time that is asked.
    pub fn open(&self, tid: Tid, since_ns: u64) -> Vec<Stall> {
        let busy = self.cursors.get(&tid).and_then(|of| of.cutter.open());
        let busy = busy.unwrap_or_else(|| empty(tid, since_ns));
        let now = self.lines.thread(tid).and_then(Thread::now);
        let busy = self.with_present(busy, now);
        stalls_of(&busy, &self.groups, &self.lines)
    }

    /// The rest of the timeline at the end of a watch.
    pub fn finish(&mut self) {
        self.advance(u64::MAX);
        let busy = self.busy_since();
        let open: Vec<_> = busy
            .flat_map(|(tid, since)| self.open(tid, since))
            .collect();
        self.stalls.extend(open);
        let mut found = self.connections.turns_of_slow_requests();
        found.extend(self.connections.waits_for_replies());
        found.extend(self.connections.waits_past_requests());
        found.into_iter().for_each(|stall| self.keep(stall));
    }

    fn keep(&mut self, stall: Stall) {
        match self.stalls.len() < STALLS_MAX {
            true => self.stalls.push(stall),
            false => self.dropped_stalls += 1,
        }
    }

    fn with_present(&self, mut busy: Busy, now: Option<(u64, State)>) -> Busy {
        let Some((start_ns, state)) = now else {
            return busy;
        };
        let segment = Segment {
            start_ns,
            end_ns: self.lines.newest_ns.max(start_ns),
            state,
        };
        busy.end_ns = segment.end_ns;
        let known = Known {
            lines: &self.lines,
            quota: &self.pieces.quota,
            groups: &self.groups,
            homes: &self.homes,
            suspects: &self.suspects,
            turns: &self.turns,
            tokens: &self.tokens,
        };
        match judge(known, busy.tid, &segment) {
            Judged::Part(part) => busy.parts.push(part),
            Judged::OnCpu => busy.on_cpu_ns += segment.ns(),
            Judged::Idle { .. } => {}
        }
        busy
    }

    fn cut(&mut self, tid: Tid, settled_ns: u64) -> Vec<Busy> {
        let Analyser {
            lines,
            groups,
            homes,
            suspects,
            turns,
            tokens,
            cursors,
            pieces,
            ..
        } = self;
        let Some(thread) = lines.thread(tid) else {
            return Vec::new();
        };
        let cursor = cursors.entry(tid).or_insert_with(|| Cursor {
            next: 0,
            cutter: Cutter::new(tid, !lines.wakers_unseen),
            poll: Poll::default(),
        });
        let mut ended = Vec::new();
        for (at, segment) in thread.since(cursor.next) {
            if segment.end_ns > settled_ns {
                break;
            }
            cursor.next = at + 1;
            let whole = cursor.poll.took_up(segment);
            if let State::Blocked { wait, by, .. } = &segment.state {
                waited(homes, tid, (wait, segment.ns()), whole.is_none());
                suspects.learn(lines, tid, wait, (segment.start_ns, segment.end_ns));
                if let Some(Waker::Thread(by)) = by {
                    tokens.waited(tid, wait, *by);
                }
            }
            let known = Known {
                lines,
                quota: &pieces.quota,
                groups,
                homes,
                suspects,
                turns,
                tokens,
            };
            let judged = judge(known, tid, whole.as_ref().unwrap_or(segment));
            let rare = waits(segment, |wait| homes.is_rare(tid, wait));
            let in_request = waits(segment, |wait| homes.is_once_a_request(tid, wait));
            if let State::Blocked { wait, by, .. } = &segment.state {
                if let Judged::Idle { timed, .. } = judged
                    && wait.kind != WaitKind::Unknown
                {
                    let by = match by {
                        Some(by) => by.tid(),
                        None => unseen_waker(known, tid, wait, segment),
                    };
                    groups.began(tid, begun(wait.kind, timed, by), by);
                    groups.rested(tid, wait.stack);
                }
                if wait.kind == WaitKind::Lock && wait.object != 0 {
                    let for_work = matches!(judged, Judged::Idle { behind: true, .. });
                    turns.waited(wait.object, segment.ns(), for_work);
                }
            }
            pieces.keep(tid, segment, &judged, (rare, in_request), whole.as_ref());
            let busy = cursor.cutter.push(segment.start_ns, segment.end_ns, judged);
            ended.extend(busy);
        }
        ended
    }

    /// What a thread that is over was at to its end. Of one that was started meanwhile and never idled, its life.
    fn last(&mut self, tid: Tid, settled_ns: u64) -> Option<Busy> {
        let ended_ns = self.lines.thread(tid)?.ended_ns;
        ended_ns.filter(|end_ns| *end_ns <= settled_ns)?;
        let born_here = !self.since_start.contains(&tid);
        if born_here {
            self.groups.was_a_job(tid);
        }
        let last = self.cursors.get_mut(&tid)?.cutter.end()?;
        let first = last.first && !born_here;
        Some(Busy { first, ..last })
    }

    fn take(&mut self, busy: &Busy) {
        let born_here = !self.since_start.contains(&busy.tid);
        let starting = busy.start_ns < self.started_ns + STARTUP_NS;
        if busy.first && born_here && starting {
            return;
        }
        if !busy.first && !busy.endless {
            self.groups.learn(busy.tid, busy.on_cpu_ns);
        }
        let stalls = stalls_of(busy, &self.groups, &self.lines);
        stalls.into_iter().for_each(|stall| self.keep(stall));
        self.connections.learn(busy, &self.groups, &self.lines);
    }

    /// History is needed back to the start of every wait that is not judged yet.
    fn forget(&mut self, settled_ns: u64) {
        let newest = self.lines.newest_ns.min(settled_ns);
        let oldest = self.cursors.values().filter_map(|c| c.cutter.started_ns());
        let oldest = oldest.min().unwrap_or(newest);
        let tids: Vec<Tid> = self.lines.tids().collect();
        let locked = tids.iter().filter_map(|tid| self.locked_since(*tid));
        let waiting = locked.min().unwrap_or(newest);
        let keep = oldest.min(waiting).min(newest).saturating_sub(KEEP_NS);
        let floor = newest.saturating_sub(KEEP_MOST_NS);
        self.lines.forget_before(keep.max(floor));
        let Analyser {
            lines,
            cursors,
            homes,
            groups,
            ended,
            ..
        } = self;
        let gone = cursors.keys().filter(|tid| lines.thread(**tid).is_none());
        ended.extend(gone);
        cursors.retain(|tid, _| lines.thread(*tid).is_some());
        homes.forget(|tid| lines.thread(tid).is_some());
        let too_many = ended.len().saturating_sub(ENDED_KEPT);
        ended.drain(..too_many).for_each(|tid| groups.forget(tid));
    }

    fn locked_since(&self, tid: Tid) -> Option<u64> {
        let (since, state) = self.lines.thread(tid)?.now()?;
        let lock = matches!(state, State::Blocked { wait, .. } if wait.kind == WaitKind::Lock);
        lock.then_some(since)
    }
}

/// It is a wait of such a kind.
fn waits(segment: &Segment, of_kind: impl Fn(&Wait) -> bool) -> bool {
    matches!(&segment.state, State::Blocked { wait, .. } if of_kind(wait))
}

/// One that goes on with those before it is no further one at its place.
fn waited(homes: &mut Homes, tid: Tid, (wait, ns): (&Wait, u64), is_new: bool) {
    if is_new {
        homes.waited(tid, wait);
    }
    homes.lasted(tid, wait, ns);
}

fn unseen_waker(known: Known, tid: Tid, wait: &Wait, segment: &Segment) -> Option<Tid> {
    // Of connections, who ends a wait is outside.
    if wait.kind == WaitKind::Outbound {
        return None;
    }
    let span = (segment.start_ns, segment.end_ns);
    known.suspects.pick(known.lines, tid, wait, span)
}

/// What begins at the end of an idle wait that somebody looked at.
fn begun(waited_for: WaitKind, timed: bool, by: Option<Tid>) -> Begun {
    match waited_for {
        _ if timed => Begun::ByClock,
        WaitKind::Inbound => Begun::ByClients,
        // A consumer's loop: its work comes by connections that it opened.
        WaitKind::Outbound if by.is_none() => Begun::ByClients,
        _ => Begun::ByOthers,
    }
}

fn empty(tid: Tid, since_ns: u64) -> Busy {
    Busy {
        tid,
        start_ns: since_ns,
        end_ns: since_ns,
        on_cpu_ns: 0,
        parts: Vec::new(),
        open: true,
        first: false,
        endless: false,
    }
}
