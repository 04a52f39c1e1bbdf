//! Requests that were seen on the process's own connections, and whose time they were: walked from the answer back to
//! the arrival.
//!
//! ```text
//! arrival        taken up                      last wake of the sender    answer
//!    |  the receiver  |  its turn  |  handed over            |  the sender  |
//!    |  was busy      |            |  the wakers, backwards  |              |
//! ```
//!
//! Where one thread does all, its turn is everything from the taking up to the answer. Where the sender idled in
//! between, the time is attributed to the thread that woke it, from there to the one that woke that, and so on. An
//! event loop that was at something else when its helper was done was woken by no thread: there the time goes to the
//! thread that it had woken and that was busy for most of it. Where no thread was at it, it waited for the reply that
//! came just before the answer, and before that for the one that came just before that was asked for.

mod waits;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::cause::Cause;
use super::event::{Tid, WaitKind};
use super::pieces::{Label, Piece, Pieces};
use super::request::{Attributed, Request, Went};
use super::untaken::Untaken;
pub use sched::requests::{Answered, Reply};

/// Stretches of one request that are asked for.
const STEPS_MAX: usize = 4_096;
/// With more threads than this, or more pieces of them, none is sought that was busy meanwhile: for each of hundreds of
/// requests that would take longer than the watch.
const ASKED_MAX: usize = 2_000;
const PIECES_ASKED_MAX: usize = 20_000;
/// A wake is told a little before the waker's own stretch ends, or after it.
const SKEW_NS: u64 = 200_000;
/// An event loop asks for something, or answers, so soon after it got a reply.
const SOON_NS: u64 = 1_000_000;
/// A thread that waits for requests is awake so long after one came, whatever the scheduler does.
const UNTAKEN_LEAST_NS: u64 = 10_000_000;
/// Replies that one request waited for, one after the other.
const REPLIES_MAX: usize = 64;
/// Of the time that a request was with others, a thread was busy for this part at least when it was with that one.
const WITH_IT: f64 = 0.5;

/// A stretch of a request, and what it went to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Whose stretch it was; `None` outside.
    pub tid: Option<Tid>,
    pub went: Went,
}

impl Step {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A slow request with where its time went.
#[derive(Debug, Clone, PartialEq)]
pub struct Slow {
    pub request: Answered,
    /// Nanoseconds of each thread, or outside, by what they went to; they add up to the request.
    pub ns: BTreeMap<(Option<Tid>, Went), u64>,
    /// Replies that it waited for with no thread at it, by the thread that asked.
    pub replies: Vec<(Tid, Reply)>,
    /// When it had arrived, and the thread that took it up later was in an idle wait.
    pub untaken: Vec<Untaken>,
}

impl Slow {
    /// `replies`: in the order in which they came.
    pub fn of(pieces: &Pieces, replies: &[Reply], request: Answered) -> Slow {
        let way = way(pieces, replies, &request);
        let mut ns = BTreeMap::new();
        for step in way.steps {
            *ns.entry((step.tid, step.went)).or_default() += step.ns();
        }
        Slow {
            request,
            ns,
            replies: way.waited_for,
            untaken: way.untaken,
        }
    }

    /// For the table of requests: with the thread that most of it was with.
    pub fn attributed(&self) -> Attributed {
        let mut of: HashMap<Tid, u64> = HashMap::new();
        let mut ns: BTreeMap<Went, u64> = BTreeMap::new();
        for ((tid, went), stretch_ns) in &self.ns {
            *ns.entry(*went).or_default() += stretch_ns;
            if let Some(tid) = tid {
                *of.entry(*tid).or_default() += stretch_ns;
            }
        }
        let most = of.into_iter().max_by_key(|(tid, ns)| (*ns, *tid));
        let tid = most.map(|(tid, _)| tid);
        Attributed {
            request: Request {
                name: String::new(),
                start_ns: self.request.start_ns,
                end_ns: self.request.end_ns,
                tid,
            },
            tid,
            ns,
        }
    }
}

/// What a request's time went to, in no order; adds up to it. `replies`: in the order in which they came.
fn way<'a>(pieces: &'a Pieces, replies: &'a [Reply], request: &Answered) -> Way<'a> {
    let mut way = Way {
        pieces,
        replies,
        receiver: request.receiver,
        until_ns: request.end_ns,
        is_with_one: false,
        steps: Vec::new(),
        waited_for: Vec::new(),
        untaken: Vec::new(),
    };
    let (start_ns, received_ns, end_ns) = (request.start_ns, request.received_ns, request.end_ns);
    // The sender's last turn, and the receiver's first.
    let last_ns = way.turn_began(request.sender, received_ns, end_ns);
    way.own(request.sender, last_ns, end_ns);
    if last_ns > received_ns {
        way.is_with_one =
            request.receiver == request.sender && way.serves_one(request.receiver, received_ns);
        let first_ns = way.turn_ended(request.receiver, received_ns).min(last_ns);
        way.own(request.receiver, received_ns, first_ns);
        way.elsewhere(request, first_ns, last_ns);
    }
    way.before_taken(request.receiver, start_ns, received_ns);
    way
}

struct Way<'a> {
    pieces: &'a Pieces,
    replies: &'a [Reply],
    receiver: Tid,
    /// When the request was answered.
    until_ns: u64,
    /// Its thread has one client, and answers it itself: between the request and the answer it waits for nothing else.
    is_with_one: bool,
    steps: Vec<Step>,
    waited_for: Vec<(Tid, Reply)>,
    untaken: Vec<Untaken>,
}

impl<'a> Way<'a> {
    fn of(&self, tid: Tid) -> &'a [Piece] {
        self.pieces.of.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The pieces that begin before then, the last of them last.
    fn before(&self, tid: Tid, t_ns: u64) -> &'a [Piece] {
        let of = self.of(tid);
        &of[..of.partition_point(|piece| piece.start_ns < t_ns)]
    }

    /// The one that has the request and sleeps is at it; what others sleep has nothing to do with it.
    fn label_of(&self, tid: Tid, piece: &Piece) -> Label {
        match (piece.label, piece.waited_for) {
            (Label::Idle, WaitKind::Sleep) if tid == self.receiver => Label::Held(Cause::Sleep),
            // Of a thread that does nothing else but wait for a child, for the one that had it started.
            (Label::Idle, WaitKind::Process) => Label::Held(Cause::Process),
            (label, _) => label,
        }
    }

    /// The thread waited for what others bring, and was at no request.
    fn is_rest(&self, tid: Tid, piece: &Piece) -> bool {
        self.label_of(tid, piece) == Label::Idle
    }

    /// When the thread left the idle wait that came last before then, or `floor_ns`, where that was before.
    fn turn_began(&self, tid: Tid, floor_ns: u64, t_ns: u64) -> u64 {
        let later = self.before(tid, t_ns).iter().rev();
        let mut later = later.take_while(|piece| piece.end_ns > floor_ns);
        let idle = later.find(|piece| self.is_rest(tid, piece));
        idle.map_or(floor_ns, |piece| piece.end_ns.min(t_ns))
    }

    /// When it went to the next one.
    fn turn_ended(&self, tid: Tid, t_ns: u64) -> u64 {
        let of = self.of(tid);
        let after = of.partition_point(|piece| piece.end_ns <= t_ns);
        let mut next = of[after..].iter().take(STEPS_MAX);
        let idle = next.find(|piece| self.is_rest(tid, piece));
        idle.map_or(u64::MAX, |piece| piece.start_ns.max(t_ns))
    }

    fn step(&mut self, tid: Option<Tid>, went: Went, start_ns: u64, end_ns: u64) {
        if end_ns > start_ns {
            self.steps.push(Step {
                start_ns,
                end_ns,
                tid,
                went,
            });
        }
    }

    /// All of the span with what one thread was in; while it idled, the request was with no thread.
    fn own(&mut self, tid: Tid, start_ns: u64, end_ns: u64) {
        let outside = |way: &mut Way, _: &Piece, from_ns: u64, to_ns: u64| {
            way.step(None, Went::Outside, from_ns, to_ns);
        };
        self.with(tid, (start_ns, end_ns), outside);
    }

    fn with(
        &mut self,
        tid: Tid,
        (start_ns, end_ns): (u64, u64),
        idle: impl Fn(&mut Way<'a>, &Piece, u64, u64),
    ) {
        let mut t_ns = end_ns;
        for piece in self.before(tid, end_ns).iter().rev() {
            if t_ns <= start_ns || self.steps.len() > STEPS_MAX {
                break;
            }
            let upper = piece.end_ns.clamp(start_ns, t_ns);
            self.step(None, Went::Unseen, upper, t_ns);
            let from = piece.start_ns.clamp(start_ns, upper);
            match self.label_of(tid, piece) {
                Label::Idle => idle(self, piece, from, upper),
                label => self.step(Some(tid), Went::Thread(label), from, upper),
            }
            t_ns = from;
        }
        self.step(None, Went::Unseen, start_ns, t_ns.max(start_ns));
    }

    /// The span in which the request was neither in its receiver's first turn nor in its sender's last.
    fn elsewhere(&mut self, request: &Answered, start_ns: u64, end_ns: u64) {
        let idle = self.before(request.sender, end_ns).last();
        let idle =
            idle.filter(|piece| self.is_rest(request.sender, piece) && piece.end_ns >= end_ns);
        let woke = idle.and_then(|piece| piece.by);
        let busy = |tid: &Tid| self.is_busy_before(*tid, end_ns) && *tid != request.sender;
        let with = woke.filter(busy);
        let with = with.or_else(|| self.busiest(request, start_ns, end_ns));
        match with {
            Some(tid) => self.back(tid, start_ns, end_ns),
            None => self.outside(request.sender, idle, start_ns, end_ns),
        }
    }

    /// No other thread was at work on it: a peer, where `tid` idled for peers alone.
    fn outside(&mut self, tid: Tid, idle: Option<&Piece>, start_ns: u64, end_ns: u64) {
        let network = Went::Thread(Label::Held(Cause::Network));
        match idle.is_some_and(|piece| piece.waited_for == WaitKind::Outbound) {
            true => self.step(Some(tid), network, start_ns, end_ns),
            false => self.for_replies(tid, (start_ns, end_ns), self.until_ns),
        }
    }

    /// From one reply back to the one that came before it was asked for. What came while another thing was waited for
    /// is somebody else's.
    fn for_replies(&mut self, tid: Tid, (start_ns, end_ns): (u64, u64), mut latest_ns: u64) {
        let mut t_ns = end_ns;
        while t_ns > start_ns && self.waited_for.len() < REPLIES_MAX {
            let Some(reply) = self.reply_at(t_ns, latest_ns, start_ns) else {
                break;
            };
            let (from_ns, to_ns) = (reply.start_ns.clamp(start_ns, t_ns), reply.end_ns.min(t_ns));
            self.step(None, Went::Outside, to_ns, t_ns);
            let network = Went::Thread(Label::Held(Cause::Network));
            self.step(Some(tid), network, from_ns, to_ns);
            self.waited_for.push((tid, reply));
            (t_ns, latest_ns) = (from_ns, from_ns);
        }
        match self.is_with_one {
            true => self.held(start_ns, t_ns),
            false => self.step(None, Went::Outside, start_ns, t_ns),
        }
    }

    /// Of the replies that came about then, the one that was waited for longest since `start_ns`.
    fn reply_at(&self, t_ns: u64, latest_ns: u64, start_ns: u64) -> Option<Reply> {
        let soonest_ns = t_ns.saturating_sub(SOON_NS);
        let first = self
            .replies
            .partition_point(|reply| reply.end_ns < soonest_ns);
        let about = self.replies[first..].iter().take(STEPS_MAX);
        let about = about.take_while(|reply| reply.end_ns <= latest_ns.max(t_ns));
        let since_ns = |reply: &&Reply| reply.start_ns.max(start_ns);
        // One that was asked for since is its own; another one may be somebody else's.
        let order = |reply: &&Reply| {
            (
                reply.start_ns < start_ns,
                since_ns(reply),
                Reverse(reply.end_ns),
            )
        };
        let longest = about.min_by_key(order)?;
        (since_ns(&longest) < t_ns.min(longest.end_ns)).then_some(*longest)
    }

    fn is_busy_before(&self, tid: Tid, t_ns: u64) -> bool {
        let last = self.before(tid, t_ns).last();
        last.is_some_and(|piece| {
            !self.is_rest(tid, piece) && piece.end_ns.saturating_add(SKEW_NS) >= t_ns
        })
    }

    /// From `tid` at its end back to the thread that began its turn, and so on to where the request was handed over.
    fn back(&mut self, mut tid: Tid, start_ns: u64, end_ns: u64) {
        let mut t_ns = end_ns;
        while t_ns > start_ns && self.steps.len() < STEPS_MAX {
            let began_ns = self.turn_began(tid, start_ns, t_ns);
            self.own(tid, began_ns, t_ns);
            let idle = self.before(tid, began_ns).last();
            let idle = idle.filter(|piece| self.is_rest(tid, piece));
            let by = idle.and_then(|piece| piece.by);
            let next = by.filter(|by| *by != tid && self.is_busy_before(*by, began_ns));
            let Some(next) = next.filter(|_| began_ns < t_ns) else {
                // It has a client of its own, whose next request the time is waited for.
                self.is_with_one &= idle.is_some_and(|piece| piece.is_for_one);
                return self.outside(tid, idle, start_ns, began_ns);
            };
            (tid, t_ns) = (next, began_ns);
        }
        self.step(None, Went::Unseen, start_ns, t_ns.max(start_ns));
    }

    /// Of the threads that the receiver or the sender woke for it, the one that was busy for most of the span, if any.
    /// A thread that is busy by itself meanwhile has nothing to do with the request.
    fn busiest(&self, request: &Answered, start_ns: u64, end_ns: u64) -> Option<Tid> {
        if self.pieces.of.len() > ASKED_MAX {
            return None;
        }
        let (receiver, sender) = (request.receiver, request.sender);
        let since_ns = request.received_ns.saturating_sub(SKEW_NS);
        let mut asked = 0;
        let mut busiest = None;
        for tid in self
            .pieces
            .of
            .keys()
            .filter(|tid| ![receiver, sender].contains(tid))
        {
            let (mut busy_ns, mut was_handed) = (0_u64, false);
            let pieces = self.before(*tid, end_ns).iter().rev();
            for piece in pieces.take_while(|piece| piece.end_ns >= since_ns) {
                asked += 1;
                if asked > PIECES_ASKED_MAX {
                    return None;
                }
                match piece.label {
                    Label::Idle => was_handed |= [Some(receiver), Some(sender)].contains(&piece.by),
                    _ => busy_ns = busy_ns.saturating_add(piece.within(start_ns, end_ns)),
                }
            }
            if was_handed && busy_ns as f64 >= WITH_IT * (end_ns - start_ns) as f64 {
                busiest = busiest.max(Some((busy_ns, *tid)));
            }
        }
        busiest.map(|(_, tid)| tid)
    }
}

#[cfg(test)]
#[path = "answered_tests.rs"]
mod tests;
