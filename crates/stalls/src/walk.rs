//! The backward walk: what really filled a wait.
//!
//! Whoever woke the waiter is asked what it did until then, backwards. While it ran, it is the
//! answer. While it waited for a CPU, a disk or a reply, that is. While it waited for the same lock
//! it was just another waiter, and the one who woke *it* is asked; for another lock, the walk goes
//! down that chain for as long as that wait lasted and then goes on. The time of a wait is handed
//! out whole: shares add up to it.

use super::event::{StackId, TextId, Tid, Wait, WaitKind, Waker};
use super::segment::{Segment, State};
use super::share::Caller;
pub use super::share::{Hop, LeafKind, Share};
use super::suspect::Suspects;
use super::thread::Thread;
use super::timeline::{Release, Taking, Timelines};

/// Steps of one walk; a convoy of a thousand threads takes a thousand.
const STEPS_MAX: u32 = 4_096;
/// Chains of locks inside locks; a line of waiters that park each on a word of its own is such a chain.
const DEPTH_MAX: usize = 128;
/// A thread wakes its helper at most so long before it begins to wait for it.
const CALL_NS: u64 = 1_000_000;
/// Stretches of a helper's time since it was called; a reply comes in a few.
const CALL_STEPS_MAX: u32 = 256;
/// Holders are read from the locks' own words at samples, each thread's at another time: a circle that lasts for less
/// may be one of holders that never were at the same time.
const DEADLOCK_LEAST_NS: u64 = 1_000_000_000;

/// The shares of `segment`, in which `waiter` was in `wait`, newest first; none when nobody is known to ask.
pub fn walk(
    lines: &Timelines,
    suspects: &Suspects,
    waiter: Tid,
    (wait, by, release): (&Wait, Option<Waker>, StackId),
    segment: &Segment,
) -> Vec<Share> {
    let mut walker = Walker {
        waiter,
        lines,
        suspects,
        shares: Vec::new(),
        hops: Vec::new(),
        steps: 0,
        inferred: false,
        caller: Caller::of(waiter, wait, segment.start_ns, 0),
        release,
        held: 0,
    };
    let (start_ns, mut end_ns) = (segment.start_ns, segment.end_ns);
    if walker.closes(waiter, wait, by, (start_ns, end_ns)) {
        walker.deadlock(waiter, wait, (start_ns, end_ns));
        return walker.shares;
    }
    let taken = walker.last_taken(waiter, wait, by, (start_ns, end_ns));
    let first = match taken {
        Some(taking) => Some((taking.by, true)),
        None => walker.answerer(waiter, wait, by, (start_ns, end_ns)),
    };
    let Some((first, inferred)) = first.filter(|(tid, _)| *tid != waiter) else {
        return Vec::new();
    };
    walker.inferred = inferred;
    if wait.kind == WaitKind::Lock && !matches!(by, Some(Waker::Thread(_))) {
        end_ns = walker.let_go(first, waiter, start_ns, end_ns);
    }
    match taken {
        Some(taking) => walker.takers(taking, wait, (start_ns, end_ns)),
        None => walker.holders(first, wait, start_ns, end_ns),
    }
    walker.shares
}

struct Walker<'a> {
    waiter: Tid,
    lines: &'a Timelines,
    suspects: &'a Suspects,
    shares: Vec<Share>,
    hops: Vec<Hop>,
    steps: u32,
    inferred: bool,
    /// Since the last lock on the way.
    caller: Option<Caller>,
    release: StackId,
    held: StackId,
}

impl Walker<'_> {
    /// Who ended the wait, or whom the lock's own word names, or who most likely did; and whether that is inferred.
    fn answerer(
        &self,
        waiter: Tid,
        wait: &Wait,
        by: Option<Waker>,
        span: (u64, u64),
    ) -> Option<(Tid, bool)> {
        let for_thread = matches!(
            wait.kind,
            WaitKind::Lock | WaitKind::Queue | WaitKind::Memory
        );
        if !for_thread {
            return None;
        }
        match (by, wait.holder) {
            (Some(Waker::Thread(tid)), _) => Some((tid, false)),
            (_, Some(holder)) => Some((holder, false)),
            (Some(Waker::Outside) | None, None) => {
                let suspect = self.suspects.pick(self.lines, waiter, wait, span);
                suspect.map(|tid| (tid, true))
            }
        }
    }

    /// Who came back last with the lock that is waited for, where nobody saw it let go.
    fn last_taken(
        &self,
        waiter: Tid,
        wait: &Wait,
        by: Option<Waker>,
        (start_ns, end_ns): (u64, u64),
    ) -> Option<Taking> {
        let seen = matches!(by, Some(Waker::Thread(_))) || wait.holder.is_some();
        if seen || wait.kind != WaitKind::Lock {
            return None;
        }
        let taken = self.lines.taken(wait.object, end_ns.saturating_sub(1));
        taken.filter(|taking| taking.by != waiter && taking.at_ns > start_ns)
    }

    /// Hands out `[start_ns, t_ns]` of a wait for a lock or condition. Whoever let a lock go to
    /// another waiter in between held it until then, and the one that let it go last only since.
    fn holders(&mut self, mut tid: Tid, wait: &Wait, start_ns: u64, mut t_ns: u64) {
        let release = self.release;
        let let_go = |t_ns| match wait.kind {
            WaitKind::Lock if wait.object != 0 => self.lines.released(wait.object, t_ns),
            _ => None,
        };
        let mut earlier = let_go(t_ns);
        while let Some(last) = earlier
            && last.at_ns > start_ns
            && self.steps < STEPS_MAX
        {
            self.held_since(&last, tid, wait.object, (last.at_ns, t_ns));
            (tid, t_ns, self.release) = (last.by, last.at_ns, last.stack);
            earlier = self.lines.released(wait.object, t_ns);
        }
        match earlier {
            // More holders than are asked: the newest tell, and who had it before them is not said.
            Some(last) if last.at_ns > start_ns => {
                self.leaf(tid, LeafKind::Unseen, None, start_ns, t_ns);
            }
            Some(last) => self.held_since(&last, tid, wait.object, (start_ns, t_ns)),
            None => self.blame(tid, wait.object, start_ns, t_ns),
        }
        self.release = release;
    }

    /// Where nobody sees a lock let go: whoever came back from waiting for it had it since, and before that the one
    /// that came back before. The way from being woken to coming back is the CPU's.
    fn takers(&mut self, mut taking: Taking, wait: &Wait, (start_ns, mut t_ns): (u64, u64)) {
        let waited = loop {
            self.blame(taking.by, wait.object, taking.at_ns, t_ns);
            let waited = self.waited_until(taking, wait);
            t_ns = waited.map_or(taking.at_ns, |(_, end_ns)| end_ns.max(start_ns));
            if t_ns < taking.at_ns {
                self.leaf(taking.by, LeafKind::Runnable, None, t_ns, taking.at_ns);
            }
            let before = self.lines.taken(wait.object, t_ns);
            match before.filter(|before| before.at_ns > start_ns && self.steps < STEPS_MAX) {
                Some(before) => taking = before,
                None => break waited,
            }
        };
        let from = waited.and_then(|span| self.suspects.pick(self.lines, taking.by, wait, span));
        match from {
            Some(from) => self.blame(from, wait.object, start_ns, t_ns),
            None => self.leaf(0, LeafKind::Unseen, None, start_ns, t_ns),
        }
    }

    /// The wait that ended with the taking.
    fn waited_until(&self, taking: Taking, wait: &Wait) -> Option<(u64, u64)> {
        let mut last = self.lines.before(taking.by, taking.at_ns)?;
        if let State::Runnable { .. } = last.state {
            last = self.lines.before(taking.by, last.start_ns)?;
        }
        let waited =
            matches!(last.state, State::Blocked { wait: own, .. } if own.object == wait.object);
        waited.then_some((last.start_ns, last.end_ns))
    }

    /// Hands out `[start_ns, t_ns]`, at whose end `tid` let the lock go that `last` had let go before.
    fn held_since(&mut self, last: &Release, tid: Tid, object: u64, (start_ns, t_ns): (u64, u64)) {
        let from = self.on_its_way(last, tid).clamp(start_ns, t_ns);
        self.blame(tid, object, from, t_ns);
        if from > start_ns {
            self.leaf(last.to, LeafKind::Runnable, None, start_ns, from);
        }
    }

    /// Until when the one that the lock was let go to only wanted a CPU. It would have gone next: whoever had the
    /// lock meanwhile took it in passing, and let nobody wait by that.
    fn on_its_way(&self, release: &Release, next: Tid) -> u64 {
        let segment = self.lines.before(release.to, release.at_ns + 1);
        match segment.filter(|_| release.to != next) {
            Some(Segment {
                end_ns,
                state: State::Runnable { .. },
                ..
            }) => end_ns,
            _ => release.at_ns,
        }
    }

    /// Hands out `[start_ns, t_ns]` from the end, asking `tid`, which had or answers `object`.
    fn blame(&mut self, mut tid: Tid, object: u64, start_ns: u64, mut t_ns: u64) {
        let depth = self.hops.len();
        let mut waiters = Vec::new();
        let mut found: Option<(Tid, usize)> = None;
        while t_ns > start_ns {
            self.steps += 1;
            let near = found.filter(|(of, _)| *of == tid).map(|(_, at)| at);
            let before = self.lines.before_at(tid, t_ns, near);
            found = before.map(|(_, at)| (tid, at));
            let Some((segment, _)) = before else {
                t_ns = self.hole(tid, start_ns, t_ns);
                waiters.clear();
                continue;
            };
            let from = segment.start_ns.max(start_ns);
            match segment.state {
                State::Running => {
                    let kind = match self.lines.was_stolen(tid, from, t_ns) {
                        true => LeafKind::Runnable,
                        false => LeafKind::OnCpu,
                    };
                    self.leaf(tid, kind, None, from, t_ns);
                }
                State::Runnable { after } => self.wants_cpu(tid, after, from, t_ns),
                State::Blocked { wait, by, .. } if self.closes(tid, &wait, by, (from, t_ns)) => {
                    self.deadlock(tid, &wait, (from, t_ns));
                }
                State::Blocked { wait, by, release } => {
                    let span = (segment.start_ns, segment.end_ns);
                    let next = self.answerer(tid, &wait, by, span);
                    let next = next.filter(|_| self.steps < STEPS_MAX);
                    match next {
                        Some((next, inferred)) if same(&wait, object) => {
                            if next == tid || waiters.contains(&next) {
                                self.leaf(tid, LeafKind::Unseen, None, start_ns, t_ns);
                                break;
                            }
                            waiters.push(tid);
                            self.inferred |= inferred;
                            self.release = release;
                            tid = next;
                            continue;
                        }
                        Some((next, inferred)) if depth < DEPTH_MAX && !self.passed(next, tid) => {
                            self.inferred |= inferred;
                            self.hops.push(Hop {
                                tid,
                                kind: wait.kind,
                                object: wait.object,
                            });
                            if depth == 0 {
                                self.held = self.release;
                            }
                            let outer = std::mem::replace(&mut self.release, release);
                            let called = self.caller;
                            let calls = Caller::of(tid, &wait, segment.start_ns, outer);
                            self.caller = called.filter(|_| calls.is_some()).or(calls);
                            self.holders(next, &wait, from, t_ns);
                            self.caller = called;
                            self.release = outer;
                            self.hops.truncate(depth);
                        }
                        _ => self.own_wait(tid, &segment, (from, t_ns)),
                    }
                }
            }
            t_ns = from;
            waiters.clear();
        }
    }

    fn wants_cpu(&mut self, tid: Tid, after: TextId, start_ns: u64, end_ns: u64) {
        self.leaf(tid, LeafKind::Runnable, None, start_ns, end_ns);
        if let Some(share) = self.shares.last_mut() {
            share.after = after;
        }
    }

    /// Of what `tid` was in then nothing was told; gives the time until which it is known.
    fn hole(&mut self, tid: Tid, start_ns: u64, t_ns: u64) -> u64 {
        let known_ns = self.lines.known_until(tid, t_ns).max(start_ns);
        self.leaf(tid, LeafKind::Unseen, None, known_ns, t_ns);
        known_ns
    }

    /// On the way to `tid` the walk came by `next`: a guess that leads in a circle.
    fn passed(&self, next: Tid, tid: Tid) -> bool {
        next == tid || self.hops.iter().any(|hop| hop.tid == next)
    }

    /// `tid` waits still, for a lock that one on the way to it holds, or it itself.
    fn closes(
        &self,
        tid: Tid,
        wait: &Wait,
        by: Option<Waker>,
        (start_ns, t_ns): (u64, u64),
    ) -> bool {
        let lasts = by.is_none() && t_ns.saturating_sub(start_ns) >= DEADLOCK_LEAST_NS;
        let on_the_way = |holder| holder == self.waiter || self.passed(holder, tid);
        lasts
            && !self.inferred
            && wait.kind == WaitKind::Lock
            && wait.holder.is_some_and(on_the_way)
    }

    fn deadlock(&mut self, tid: Tid, wait: &Wait, (start_ns, end_ns): (u64, u64)) {
        let holder = wait.holder;
        let from = self.hops.iter().position(|hop| Some(hop.tid) == holder);
        let mut circle: Vec<Tid> = self.hops[from.unwrap_or(0)..]
            .iter()
            .map(|hop| hop.tid)
            .collect();
        circle.extend(holder);
        // One of them stands for all, whoever's wait is asked for: it is one cause.
        let first = circle.into_iter().chain([tid]).min().unwrap_or(tid);
        let now = self.lines.thread(first).and_then(Thread::now);
        let wait = match now.filter(|_| first != tid) {
            Some((_, State::Blocked { wait, .. })) => wait,
            _ => *wait,
        };
        // What it does is to wait for the lock; that it does so for ever is the news.
        let wait = Wait {
            activity: 0,
            ..wait
        };
        self.leaf(first, LeafKind::Deadlock, Some(&wait), start_ns, end_ns);
    }

    /// A wait that no other thread of the program answers.
    fn own_wait(&mut self, tid: Tid, segment: &Segment, (start_ns, end_ns): (u64, u64)) {
        let State::Blocked { wait, by, .. } = segment.state else {
            return;
        };
        let wait = &wait;
        let is_reply = segment.is_reply();
        let caller = self.caller.filter(|_| is_reply);
        match caller.filter(|caller| self.was_called(tid, caller, segment.start_ns)) {
            Some(caller) => self.reply(&caller, tid, wait, (start_ns, end_ns)),
            None => self.leaf(tid, LeafKind::Wait(wait.kind), Some(wait), start_ns, end_ns),
        }
        if let Some(share) = self.shares.last_mut() {
            share.outside = match by {
                Some(by) => by == Waker::Outside,
                None => self.lines.wakers_unseen && self.suspects.is_ended_outside(wait),
            };
        }
    }

    /// Somebody woke the helper, or it ran, when the caller began to wait, and since then it waited for peers alone
    /// until
    /// `t_ns`: what it waits for then is what it was called for, and nothing that comes unasked.
    fn was_called(&self, helper: Tid, caller: &Caller, mut t_ns: u64) -> bool {
        let from_ns = caller.since_ns.saturating_sub(CALL_NS);
        for _ in 0..CALL_STEPS_MAX {
            let Some(segment) = self.lines.before(helper, t_ns) else {
                return false;
            };
            let there = segment.start_ns <= caller.since_ns && segment.end_ns >= from_ns;
            let called = match segment.state {
                State::Running | State::Runnable { .. } => there,
                State::Blocked { by, .. } => {
                    segment.end_ns >= from_ns && matches!(by, Some(Waker::Thread(_)))
                }
            };
            if called || segment.start_ns <= from_ns {
                return called;
            }
            t_ns = segment.start_ns;
        }
        false
    }

    /// A helper of the program's own (the thread of an HTTP client) waits for what its caller asked a peer.
    fn reply(&mut self, caller: &Caller, helper: Tid, wait: &Wait, (start_ns, end_ns): (u64, u64)) {
        let child = wait.kind == WaitKind::Process;
        let kind = LeafKind::Wait(if child { wait.kind } else { WaitKind::Network });
        let wait = Wait {
            activity: wait.activity,
            ..caller.wait
        };
        self.leaf(caller.tid, kind, Some(&wait), start_ns, end_ns);
        if let Some(share) = self.shares.last_mut() {
            share.helper = helper;
            share.release = caller.release;
        }
    }

    fn leaf(&mut self, tid: Tid, kind: LeafKind, wait: Option<&Wait>, start_ns: u64, end_ns: u64) {
        // A guess at a thread that waits for a child or a signal is none.
        let kind = match (self.inferred, kind) {
            (true, LeafKind::Wait(WaitKind::Other)) => LeafKind::Unseen,
            (_, kind) => kind,
        };
        self.shares.push(Share {
            start_ns,
            end_ns,
            tid,
            kind,
            activity: wait.map_or(0, |w| w.activity),
            stack: wait.map_or(0, |w| w.stack),
            place: wait.map_or(0, |w| w.place),
            allocator: wait.is_some_and(|w| w.allocator),
            after: 0,
            release: self.release,
            held: match self.hops.is_empty() {
                true => self.release,
                false => self.held,
            },
            hops: self.hops.clone(),
            inferred: self.inferred,
            outside: false,
            helper: 0,
        });
    }

    /// Whoever lets a lock go is on a CPU then. Where nobody saw that moment, a holder that waits for something
    /// at the end of the wait let go before: since then the waiter only wanted a CPU. Gives the time of letting go.
    fn let_go(&mut self, holder: Tid, waiter: Tid, start_ns: u64, end_ns: u64) -> u64 {
        let Some(last) = self.lines.before(holder, end_ns) else {
            return end_ns;
        };
        let waits = matches!(last.state, State::Blocked { .. });
        let lasts = self.lines.thread(waiter).and_then(Thread::now);
        let lasts = lasts.is_some_and(|(since, _)| since == start_ns);
        if !waits || lasts || last.start_ns <= start_ns {
            return end_ns;
        }
        self.leaf(waiter, LeafKind::Runnable, None, last.start_ns, end_ns);
        last.start_ns
    }
}

/// Waiting for the very lock that the walk came for.
fn same(wait: &Wait, object: u64) -> bool {
    object != 0 && wait.object == object && wait.kind == WaitKind::Lock
}
