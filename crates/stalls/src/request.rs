//! The time of requests known from outside, handed out whole: what the thread that served each one
//! was in, and the rest, in which no thread of the subject had it.

use std::collections::{BTreeMap, HashSet};

pub use sched::requests::Request;

use super::event::Tid;
use super::pieces::{Label, Piece, Pieces};

/// Slow requests that are looked into; the longest.
pub const EXAMINED_MAX: usize = 2_000;
/// A request is slow from this many times the median on.
pub const TIMES_MEDIAN: u64 = 3;
/// Stretches of at least this share of a request tell whose it is by where they begin and end; and a thread that fits
/// worse by less may as well have served it.
const TELLING: u64 = 20;

/// A thread that was busy answers within this part of the request's time: others may have come before.
const SHORTLY: u64 = 5;

/// What a request's time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Went {
    Thread(Label),
    /// Not taken up yet, or answered already: queues, sockets, the client.
    Outside,
    /// No thread was found that served it.
    Unseen,
}

impl Went {
    pub fn word(self) -> &'static str {
        match self {
            Went::Thread(label) => label.word(),
            Went::Outside => "outside",
            Went::Unseen => "not seen",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Attributed {
    pub request: Request,
    pub tid: Option<Tid>,
    /// Adds up to the request.
    pub ns: BTreeMap<Went, u64>,
}

/// The least time of a slow request: asked for, or three times the median.
pub fn slow_from_ns(requests: &[Request], asked_ns: Option<u64>) -> u64 {
    let mut took: Vec<u64> = requests.iter().map(|r| r.end_ns - r.start_ns).collect();
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied().unwrap_or(0);
    asked_ns.unwrap_or(median * TIMES_MEDIAN)
}

/// The slow ones among `requests`, longest first, that lie within the watch.
pub fn attribute(
    pieces: &Pieces,
    requests: &[Request],
    least_ns: u64,
    (from_ns, to_ns): (u64, u64),
) -> Vec<Attributed> {
    let slow = |r: &&Request| r.end_ns - r.start_ns >= least_ns;
    let inside = |r: &&Request| r.start_ns >= from_ns && r.end_ns <= to_ns;
    let mut slow: Vec<&Request> = requests.iter().filter(slow).filter(inside).collect();
    slow.sort_by_key(|r| (std::cmp::Reverse(r.end_ns - r.start_ns), r.start_ns));
    slow.truncate(EXAMINED_MAX);
    let mut servers = Servers::of(pieces);
    slow.into_iter()
        .map(|request| one(&mut servers, request))
        .collect()
}

fn one(servers: &mut Servers, request: &Request) -> Attributed {
    let (start_ns, end_ns) = (request.start_ns, request.end_ns);
    let (tid, pieces) = servers.serve(request);
    let mut ns = BTreeMap::new();
    for piece in pieces {
        // What an idle thread waits for is no part of the request, but of a call it is.
        let went = match (piece.label, request.tid) {
            (Label::Idle, None) => Went::Outside,
            (label, _) => Went::Thread(label),
        };
        *ns.entry(went).or_default() += piece.within(start_ns, end_ns);
    }
    let known: u64 = ns.values().sum();
    let rest = (end_ns - start_ns).saturating_sub(known);
    let went = match tid {
        Some(_) => Went::Outside,
        None => Went::Unseen,
    };
    *ns.entry(went).or_default() += rest;
    Attributed {
        request: request.clone(),
        tid,
        ns,
    }
}

/// The threads that may have served requests, and which of their stretches did.
pub(crate) struct Servers<'a> {
    pieces: &'a Pieces,
    /// By when they were seen first: of a server that starts a thread for each connection there are many, and each is
    /// asked about the requests of its own time alone.
    threads: Vec<Seen<'a>>,
    taken: HashSet<(Tid, u64)>,
}

/// A thread, from its first piece to its last.
struct Seen<'a> {
    from_ns: u64,
    to_ns: u64,
    tid: Tid,
    pieces: &'a [Piece],
}

impl<'a> Servers<'a> {
    pub(crate) fn of(pieces: &'a Pieces) -> Servers<'a> {
        let seen = pieces.of.iter().filter_map(|(tid, pieces)| {
            let (first, last) = (pieces.first()?, pieces.last()?);
            Some(Seen {
                from_ns: first.start_ns,
                to_ns: last.end_ns,
                tid: *tid,
                pieces,
            })
        });
        let mut threads: Vec<Seen> = seen.collect();
        threads.sort_unstable_by_key(|seen| (seen.from_ns, seen.tid));
        Servers {
            pieces,
            threads,
            taken: HashSet::new(),
        }
    }

    /// The thread that served the request, where one is known or fits, and what it was in meanwhile.
    pub(crate) fn serve(&mut self, request: &Request) -> (Option<Tid>, &'a [Piece]) {
        let tid = request.tid.or_else(|| self.fitting(request));
        let of = tid.and_then(|tid| self.pieces.of.get(&tid));
        (tid, overlapping(of.map_or(&[], Vec::as_slice), request))
    }

    /// The thread whose busy time fits the request best: it served it, or the request came while it was busy (an event
    /// loop lets all its clients wait at a time), and was answered at the end of that.
    fn fitting(&mut self, request: &Request) -> Option<Tid> {
        let until = self
            .threads
            .partition_point(|seen| seen.from_ns < request.end_ns);
        let there = self.threads[..until]
            .iter()
            .filter(|seen| seen.to_ns > request.start_ns);
        let fits = there.filter_map(|seen| {
            let fit = Fit::of(overlapping(seen.pieces, request), request)?;
            let is_free = !self.taken.contains(&(seen.tid, fit.longest_ns));
            let serves_ns = is_free.then_some(fit.misfit_ns + fit.before_ns);
            let queued_ns = fit.misfit_ns + (request.end_ns - request.start_ns) / TELLING;
            let queued_ns = fit.answers_after.then_some(queued_ns);
            let is_server = serves_ns.is_some_and(|ns| queued_ns.is_none_or(|queued| ns <= queued));
            let misfit_ns = if is_server { serves_ns } else { queued_ns }?;
            Some((misfit_ns, seen.tid, is_server.then_some(fit.longest_ns)))
        });
        let (_, tid, served) = fits.min_by_key(|(misfit_ns, tid, _)| (*misfit_ns, *tid))?;
        self.taken
            .extend(served.map(|longest_ns| (tid, longest_ns)));
        Some(tid)
    }
}

/// Those of one thread that overlap with the request.
fn overlapping<'a>(of: &'a [Piece], request: &Request) -> &'a [Piece] {
    let first = of.partition_point(|piece| piece.end_ns <= request.start_ns);
    let last = of.partition_point(|piece| piece.start_ns < request.end_ns);
    of.get(first..last).unwrap_or(&[])
}

/// How a thread's busy time fits into a request.
struct Fit {
    /// When its longest busy stretch began.
    longest_ns: u64,
    /// Of the request, in which the thread was idle, and of long stretches what lasted beyond the answer.
    misfit_ns: u64,
    /// Of long stretches, what was before the request: the thread was at something else.
    before_ns: u64,
    /// It was busy when the request came, and a long stretch of that ended shortly before the answer.
    answers_after: bool,
}

impl Fit {
    /// `None`: it was idle all the time.
    fn of(pieces: &[Piece], request: &Request) -> Option<Fit> {
        let (start_ns, end_ns) = (request.start_ns, request.end_ns);
        let busy = pieces.iter().filter(|piece| piece.label != Label::Idle);
        let longest = busy.clone().max_by_key(|p| p.within(start_ns, end_ns))?;
        let covered: u64 = busy.clone().map(|p| p.within(start_ns, end_ns)).sum();
        let mut before_it = busy.clone();
        let was_busy = before_it.any(|p| p.start_ns <= start_ns && p.end_ns > start_ns);
        let telling = busy.filter(|p| p.ns() * TELLING >= end_ns - start_ns);
        let shortly_ns = end_ns - (end_ns - start_ns) / SHORTLY;
        let ended = |p: &Piece| (shortly_ns..=end_ns).contains(&p.end_ns);
        let answers_after = was_busy && telling.clone().any(ended);
        let beyond = telling.clone().map(|p| p.end_ns.saturating_sub(end_ns));
        let before = telling.map(|p| start_ns.saturating_sub(p.start_ns));
        Some(Fit {
            longest_ns: longest.start_ns,
            misfit_ns: end_ns - start_ns - covered + beyond.sum::<u64>(),
            before_ns: before.sum(),
            answers_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::event::WaitKind;

    fn piece(start_ms: u64, end_ms: u64, label: Label) -> Piece {
        Piece {
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
            label,
            waited_for: WaitKind::Other,
            activity: 0,
            stack: 0,
            by: None,
            culprit: 0,
            is_rare: false,
            is_in_request: true,
            is_for_one: false,
        }
    }

    fn request(start_ms: u64, end_ms: u64) -> Request {
        Request {
            name: String::new(),
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
            tid: None,
        }
    }

    #[test]
    fn a_requests_time_is_handed_out_whole_and_no_stretch_twice() {
        let lock = Label::Held(Cause::Lock);
        let mut pieces = Pieces::default();
        let first = vec![
            piece(0, 10, Label::Idle),
            piece(10, 12, Label::OnCpu),
            piece(12, 100, lock),
            piece(100, 101, Label::OnCpu),
            piece(101, 200, Label::Idle),
        ];
        let second = vec![
            piece(0, 20, Label::Idle),
            piece(20, 95, lock),
            piece(95, 96, Label::OnCpu),
            piece(96, 200, Label::Idle),
        ];
        pieces.of.insert(1, first);
        pieces.of.insert(2, second);
        let requests = [request(5, 102), request(15, 97), request(150, 249)];
        let found = attribute(&pieces, &requests, 0, (0, 300_000_000));
        let ms = |at: usize, went: Went| found[at].ns.get(&went).map_or(0, |ns| ns / 1_000_000);
        for attributed in &found {
            let request = &attributed.request;
            let sum: u64 = attributed.ns.values().sum();
            assert_eq!(sum, request.end_ns - request.start_ns);
        }
        assert_eq!(found[0].tid, None, "nobody worked from 150 to 249");
        assert_eq!((found[1].tid, found[2].tid), (Some(1), Some(2)));
        assert_eq!(ms(1, Went::Thread(lock)), 88);
        assert_eq!(ms(1, Went::Outside), 6);
        assert_eq!(ms(2, Went::Thread(lock)), 75);
    }

    #[test]
    fn all_that_come_while_a_loop_is_busy_wait_for_it() {
        let mut pieces = Pieces::default();
        let lap = |t: u64| {
            [
                piece(t, t + 10, Label::Idle),
                piece(t + 10, t + 70, Label::OnCpu),
                piece(t + 70, t + 100, Label::Idle),
            ]
        };
        pieces.of.insert(1, [lap(0), lap(100)].concat());
        // Another thread is at something long, and answers nothing then.
        pieces
            .of
            .insert(2, vec![piece(0, 200, Label::Held(Cause::Disk))]);
        let came = [10, 20, 30, 110, 130, 140];
        let requests = came.map(|t| request(t, if t < 100 { 71 } else { 171 }));
        let found = attribute(&pieces, &requests, 0, (0, 300_000_000));
        for attributed in &found {
            assert_eq!(attributed.tid, Some(1), "{attributed:?}");
            let waited = attributed.ns[&Went::Thread(Label::OnCpu)];
            let whole = attributed.request.end_ns - attributed.request.start_ns;
            assert_eq!(waited, whole - 1_000_000, "{attributed:?}");
        }
    }
}
