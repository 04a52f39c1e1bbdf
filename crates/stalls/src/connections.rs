//! The requests of a watch as its process's connections have them: what is usual for the service, which are slow, and
//! what that says of turns on a CPU that are usual for their thread.

use std::collections::{BTreeMap, HashMap};

use super::answered::{Answered, Reply, Slow};
use super::busy::Busy;
use super::cause::{Cause, Leaf};
use super::event::{Tid, WaitKind};
use super::felt::Felt;
use super::group::{Groups, ON_CPU_LEAST_NS, ON_CPU_TIMES};
use super::ordinary::Ordinary;
use super::pieces::{Label, Pieces};
use super::request::{EXAMINED_MAX, TIMES_MEDIAN, Went};
use super::stalled::{Stall, long_turn};
use super::timeline::Timelines;
use super::untaken::Untaken;
use super::walk::LeafKind;

/// Requests kept, 40 bytes each.
const KEPT_MAX: usize = 200_000;
/// Replies kept, 32 bytes each; when there are more, the older half goes.
const REPLIES_MAX: usize = 50_000;
/// Below this many requests nothing is said of what is usual.
const REQUESTS_MIN: usize = 20;
/// Slow requests that are looked into at a time, the longest.
const AT_A_TIME: usize = 500;
/// Long turns kept, some 300 bytes each.
const TURNS_MAX: usize = 10_000;
/// The median is sought again when there are more by this part.
const MEDIAN_AGAIN: usize = 8;
/// A stretch in which a request was answered may last on, and is known when it is over.
const LASTS_NS: u64 = 1_000_000_000;
/// Of the slow requests' time: what a thread did for less is not what makes them slow.
const FELT_SHARE: f64 = 0.2;

#[derive(Debug, Default)]
pub struct Connections {
    pub all: Vec<Answered>,
    /// Those that did not fit into memory.
    pub left_out: u64,
    /// What the user asked for: a request is slow from here on.
    pub asked_ns: Option<u64>,
    /// Their median, from when some were left out on.
    usual_ns: Option<u64>,
    /// The median of the first so many.
    median_of: (usize, u64),
    /// In the order in which they came.
    replies: Vec<Reply>,
    /// Not looked into yet.
    waiting: Vec<Answered>,
    slow: Vec<Slow>,
    pub ordinary: Ordinary,
    /// Turns on a CPU that are long for a request, and usual for their thread.
    turns: HashMap<Tid, Vec<Stall>>,
    turns_count: usize,
    /// Waits that were for no requests, for one was there, by thread and by when they began; with the time of the
    /// slowest request that lay there.
    untaken: BTreeMap<(Tid, u64), (u64, Stall)>,
}

impl Connections {
    /// When there are too many, those that are not slow are counted alone.
    pub fn take(&mut self, more: &[Answered], replies: &[Reply]) {
        self.keep_replies(replies);
        self.all.extend(more);
        self.waiting.extend(more);
        self.waiting.truncate(KEPT_MAX);
        if self.all.len() <= KEPT_MAX {
            return;
        }
        let before = self.all.len();
        self.usual_ns.get_or_insert_with(|| median_ns(&self.all));
        let least_ns = self.slow_from_ns().unwrap_or(0);
        self.all.retain(|request| request.ns() >= least_ns);
        self.all.truncate(KEPT_MAX / 2);
        self.left_out += (before - self.all.len()) as u64;
    }

    fn keep_replies(&mut self, more: &[Reply]) {
        self.replies.extend(more);
        self.replies.sort_by_key(|reply| reply.end_ns);
        let too_many = self.replies.len().saturating_sub(REPLIES_MAX);
        if too_many > 0 {
            self.replies.drain(..too_many.max(REPLIES_MAX / 2));
        }
    }

    /// The median, nanoseconds, of as many as tell one.
    pub fn usual_ns(&self) -> Option<u64> {
        let enough = self.all.len() >= REQUESTS_MIN;
        self.usual_ns
            .or_else(|| enough.then(|| median_ns(&self.all)))
    }

    /// A request is slow from here on.
    pub fn slow_from_ns(&self) -> Option<u64> {
        let times = |usual_ns: u64| usual_ns.saturating_mul(TIMES_MEDIAN);
        self.asked_ns.or_else(|| self.usual_ns().map(times))
    }

    /// How many took so long within the watch; of more than are looked into the longest are.
    pub fn count_slow(&self, least_ns: u64, (from_ns, to_ns): (u64, u64)) -> usize {
        let inside = |of: &&Answered| of.start_ns >= from_ns && of.end_ns <= to_ns;
        let all = self.all.iter().filter(inside);
        all.filter(|of| of.ns() >= least_ns).count()
    }

    /// What threads were in is known until `settled_ns`: the slow requests that were answered by then are looked into.
    pub fn follow(&mut self, pieces: &Pieces, lines: &Timelines, settled_ns: u64) {
        let Some(least_ns) = self.roughly_slow_from_ns() else {
            return;
        };
        let settled = |of: &mut Answered| of.end_ns.saturating_add(LASTS_NS) <= settled_ns;
        let all: Vec<Answered> = self.waiting.extract_if(.., settled).collect();
        let is_slow = |request: &Answered| request.ns() >= least_ns;
        let (mut slow, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_slow);
        self.ordinary.take(pieces, &self.replies, &rest);
        if slow.len() > AT_A_TIME {
            slow.select_nth_unstable_by_key(AT_A_TIME, |of| std::cmp::Reverse(of.ns()));
            slow.truncate(AT_A_TIME);
        }
        for request in slow {
            let slow = Slow::of(pieces, &self.replies, request);
            self.keep_untaken(&slow, lines);
            self.slow.push(slow);
        }
        if self.slow.len() > 2 * EXAMINED_MAX {
            self.keep_the_longest();
        }
    }

    /// While the history is there that says who ran meanwhile.
    fn keep_untaken(&mut self, slow: &Slow, lines: &Timelines) {
        let request_ns = slow.request.ns();
        let much = |ns: u64| ns >= ON_CPU_LEAST_NS && 2 * ns >= request_ns;
        let (taken, lying): (Vec<&Untaken>, Vec<&Untaken>) =
            slow.untaken.iter().partition(|of| of.is_taken);
        for untaken in lying.into_iter().filter(|of| much(of.ns())) {
            let key = (untaken.tid, untaken.wait.start_ns);
            let Some((slowest_ns, stall)) = self.untaken_at(key, || untaken_stall(untaken, lines))
            else {
                return;
            };
            *slowest_ns = request_ns.max(*slowest_ns);
            stall.start_ns = stall.start_ns.min(untaken.start_ns);
            stall.ns = stall.end_ns.saturating_sub(stall.start_ns);
        }
        // What it waits for may change hands meanwhile, and each time the thread waits anew: one stall of the request.
        let all_ns: u64 = taken.iter().map(|of| of.ns()).sum();
        let longest = taken.iter().max_by_key(|of| (of.wait.stack != 0, of.ns()));
        let first_ns = taken.iter().map(|of| of.start_ns).min();
        let last_ns = taken.iter().map(|of| of.end_ns).max();
        if let (Some(longest), Some(start_ns), Some(end_ns)) = (longest, first_ns, last_ns)
            && much(all_ns)
        {
            let stall = Stall {
                start_ns,
                end_ns,
                ns: all_ns,
                waits: taken.len() as u32,
                ..untaken_stall(longest, lines)
            };
            if let Some((slowest_ns, _)) = self.untaken_at((longest.tid, start_ns), || stall) {
                *slowest_ns = request_ns;
            }
        }
    }

    /// `None`: there are too many.
    fn untaken_at(
        &mut self,
        key: (Tid, u64),
        make: impl FnOnce() -> Stall,
    ) -> Option<&mut (u64, Stall)> {
        let is_full = self.untaken.len() >= TURNS_MAX && !self.untaken.contains_key(&key);
        (!is_full).then(|| self.untaken.entry(key).or_insert_with(|| (0, make())))
    }

    /// Waits in which slow requests lay, though they had arrived.
    pub fn waits_past_requests(&mut self) -> Vec<Stall> {
        // Where most requests lie in their sockets first, that is no part of what is usual.
        let taken_up = self.ordinary.taken_up_ns(REQUESTS_MIN);
        let usual = self.usual_ns().into_iter().chain(taken_up).min();
        let Some(least_ns) = usual.map(far_from) else {
            return Vec::new();
        };
        let all = std::mem::take(&mut self.untaken).into_values();
        let slow = all.filter(|(slowest_ns, _)| *slowest_ns >= least_ns);
        slow.map(|(_, stall)| stall).collect()
    }

    /// As [`Connections::slow_from_ns`]; the median of so many is not sought each time.
    fn roughly_slow_from_ns(&mut self) -> Option<u64> {
        if self.asked_ns.is_some() {
            return self.asked_ns;
        }
        let (of, _) = self.median_of;
        if self.usual_ns.is_none() && self.all.len() > of + of / MEDIAN_AGAIN {
            self.median_of = (self.all.len(), self.usual_ns()?);
        }
        let (of, median_ns) = self.median_of;
        let usual_ns = self.usual_ns.or((of > 0).then_some(median_ns))?;
        Some(usual_ns.saturating_mul(TIMES_MEDIAN))
    }

    fn keep_the_longest(&mut self) {
        let by = |of: &Slow| (std::cmp::Reverse(of.request.ns()), of.request.start_ns);
        self.slow.sort_by_key(by);
        self.slow.truncate(EXAMINED_MAX);
    }

    /// Those that took `least_ns` and began after `from_ns`, longest first.
    pub fn slow(&mut self, least_ns: u64, from_ns: u64) -> &[Slow] {
        let inside = |of: &Slow| of.request.start_ns >= from_ns && of.request.ns() >= least_ns;
        self.slow.retain(inside);
        self.keep_the_longest();
        &self.slow
    }

    /// A turn that ended: whether a request was slow by it shows when that has been answered.
    pub fn learn(&mut self, busy: &Busy, groups: &Groups, lines: &Timelines) {
        if self.all.is_empty() || self.turns_count == TURNS_MAX {
            return;
        }
        if let Some(turn) = long_turn(ON_CPU_LEAST_NS, busy, groups, lines) {
            self.turns_count += 1;
            self.turns.entry(turn.tid).or_default().push(turn);
        }
    }

    /// What a good part of all the slow requests' time went to, by thread.
    pub fn felt(&self) -> Felt {
        let mut with: BTreeMap<(Tid, Label), f64> = BTreeMap::new();
        let mut all_ns = 0.0;
        for slow in &self.slow {
            for ((tid, went), ns) in &slow.ns {
                // A long poll is with no thread.
                if let (Some(tid), Went::Thread(label)) = (tid, went) {
                    *with.entry((*tid, *label)).or_default() += *ns as f64;
                    all_ns += *ns as f64;
                }
            }
        }
        with.retain(|_, ns| *ns >= FELT_SHARE * all_ns);
        Felt::of(with.into_keys())
    }

    /// A slow request was with this thread while it ran.
    pub fn ran_for_one(&self, tid: Tid) -> bool {
        let running = (Some(tid), Went::Thread(Label::OnCpu));
        self.slow.iter().any(|slow| slow.ns.contains_key(&running))
    }

    /// From here on a request is far slower than is usual.
    fn far_from_usual_ns(&self) -> Option<u64> {
        self.usual_ns().map(far_from)
    }

    /// The replies that slow requests waited for while no thread was at them, each once: an event loop's own waits are
    /// no thread's.
    pub fn waits_for_replies(&self) -> Vec<Stall> {
        let Some(least_ns) = self.far_from_usual_ns() else {
            return Vec::new();
        };
        let slow = self.slow.iter().filter(|of| of.request.ns() >= least_ns);
        let waits = slow.flat_map(|of| {
            let replies = of.replies.iter();
            replies.filter(|(_, reply)| 2 * reply.ns() >= of.request.ns())
        });
        let by_time: BTreeMap<(u64, u64, Tid), Stall> = waits
            .map(|(tid, reply)| ((reply.start_ns, reply.end_ns, *tid), wait_for(*tid, reply)))
            .collect();
        by_time.into_values().collect()
    }

    /// The turns that slow requests were with for half of their time and more, of threads whose others are alike: what
    /// is slow is measured by the service's requests, and not by what the thread does otherwise.
    pub fn turns_of_slow_requests(&mut self) -> Vec<Stall> {
        let Some(least_ns) = self.far_from_usual_ns() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for slow in self.slow.iter().filter(|of| of.request.ns() >= least_ns) {
            let (start_ns, end_ns) = (slow.request.start_ns, slow.request.end_ns);
            let running = |(_, went): &(Option<Tid>, Went)| *went == Went::Thread(Label::OnCpu);
            let most = slow
                .ns
                .iter()
                .filter(|(of, ns)| running(of) && ns.saturating_mul(2) >= slow.request.ns());
            for tid in most.filter_map(|((tid, _), _)| *tid) {
                let turns = self.turns.entry(tid).or_default();
                let with = |turn: &mut Stall| {
                    turn.ns >= least_ns && turn.start_ns < end_ns && turn.end_ns > start_ns
                };
                found.extend(turns.extract_if(.., with));
            }
        }
        found.sort_by_key(|turn| (turn.start_ns, turn.tid));
        found
    }
}

fn wait_for(tid: Tid, reply: &Reply) -> Stall {
    let leaf = Leaf {
        activity: reply.activity,
        ..Leaf::of(tid, LeafKind::Wait(WaitKind::Network))
    };
    wait_of(tid, (reply.start_ns, reply.end_ns), Cause::Network, leaf)
}

/// So long is far from what is usual.
fn far_from(usual_ns: u64) -> u64 {
    usual_ns.saturating_mul(ON_CPU_TIMES).max(ON_CPU_LEAST_NS)
}

fn untaken_stall(untaken: &Untaken, lines: &Timelines) -> Stall {
    let (tid, wait) = (untaken.tid, &untaken.wait);
    let span = (untaken.start_ns, untaken.end_ns);
    let sample = untaken.runner.and_then(|runner| {
        let samples: Vec<_> = lines.thread(runner)?.samples(span.0, span.1).collect();
        samples
            .get(samples.len() / 2)
            .map(|sample| (sample.stack, sample.activity))
    });
    let leaf = match untaken.runner {
        Some(runner) => {
            let (stack, activity) = sample.unwrap_or_default();
            Leaf {
                stack,
                activity,
                ..Leaf::of(runner, LeafKind::OnCpu)
            }
        }
        None => Leaf {
            stack: wait.stack,
            activity: wait.activity,
            ..Leaf::of(tid, LeafKind::Wait(wait.waited_for))
        },
    };
    Stall {
        waiter_stack: wait.stack,
        waited_for: wait.waited_for,
        ..wait_of(tid, span, untaken.cause(), leaf)
    }
}

fn wait_of(tid: Tid, (start_ns, end_ns): (u64, u64), cause: Cause, leaf: Leaf) -> Stall {
    Stall {
        tid,
        start_ns,
        end_ns,
        ns: end_ns.saturating_sub(start_ns),
        waits: 1,
        cause,
        waited_for: WaitKind::Network,
        object: 0,
        leaf,
        hops: Vec::new(),
        waiter_stack: 0,
        samples: Vec::new(),
        did_the_same: false,
        inferred: false,
        open: false,
    }
}

fn median_ns(requests: &[Answered]) -> u64 {
    let mut took: Vec<u64> = requests.iter().map(Answered::ns).collect();
    match took.len() {
        0 => 0,
        count => *took.select_nth_unstable(count / 2).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(start_ms: u64, took_ms: u64) -> Answered {
        Answered {
            start_ns: start_ms * MS,
            received_ns: start_ms * MS,
            end_ns: (start_ms + took_ms) * MS,
            receiver: 1,
            sender: 1,
        }
    }

    #[test]
    fn with_too_many_the_slow_ones_stay() {
        let mut connections = Connections::default();
        assert_eq!(connections.slow_from_ns(), None);
        let of = |at: u64| request(at, if at.is_multiple_of(1_000) { 50 } else { 1 });
        let all: Vec<Answered> = (0..=KEPT_MAX as u64).map(of).collect();
        connections.take(&all, &[]);
        assert_eq!(connections.all.len(), 201);
        assert_eq!(connections.left_out, 200_001 - 201);
        connections.take(&all[..100], &[]);
        assert_eq!(connections.all.len(), 301);
        // What is usual stays what it was of all.
        assert_eq!(connections.slow_from_ns(), Some(3 * MS));
        connections.follow(&Pieces::default(), &Timelines::default(), 2_000 * MS);
        let slow = connections.slow(3 * MS, 1);
        assert_eq!(
            slow.len(),
            0,
            "the first began before, the next was answered later"
        );
        connections.follow(&Pieces::default(), &Timelines::default(), u64::MAX);
        let slow = connections.slow(3 * MS, 1);
        assert_eq!(slow.len(), 199, "what did not fit was not looked into");
        connections.asked_ns = Some(50 * MS);
        assert_eq!(connections.slow_from_ns(), Some(50 * MS));
        assert_eq!(connections.count_slow(50 * MS, (1, u64::MAX)), 200);
    }
}
