//! Waits in which a request lay ([`Untaken`]): before its thread took it up, and while it had it.

use super::{ASKED_MAX, PIECES_ASKED_MAX, SOON_NS, STEPS_MAX, UNTAKEN_LEAST_NS, WITH_IT, Way};
use crate::cause::Cause;
use crate::event::{GOROUTINES, Tid, WaitKind};
use crate::pieces::{Label, Piece};
use crate::request::Went;
use crate::untaken::Untaken;

impl Way<'_> {
    /// From the arrival to where the thread took it up.
    pub(super) fn before_taken(&mut self, tid: Tid, start_ns: u64, end_ns: u64) {
        if let Some(wait) = self.with_another_client(tid, start_ns, end_ns) {
            return self.lies(tid, &wait, start_ns, end_ns);
        }
        let idle = |way: &mut Way, piece: &Piece, from_ns: u64, to_ns: u64| {
            let is_long = to_ns.saturating_sub(from_ns) >= UNTAKEN_LEAST_NS;
            // One that waits for another thread is to be handed it; one that waits where it always does has left the
            // connection unread on purpose.
            let is_elsewhere = piece.is_rare || tid >= GOROUTINES;
            let is_for_others = matches!(piece.waited_for, WaitKind::Inbound | WaitKind::Outbound);
            match is_long && is_elsewhere && is_for_others {
                true => way.not_taken(tid, piece, from_ns, to_ns),
                false => way.step(None, Went::Outside, from_ns, to_ns),
            }
        };
        self.with(tid, (start_ns, end_ns), idle);
    }

    /// For most of the span the thread waited for the next request of one client, and this one is another's: the
    /// longest such wait.
    fn with_another_client(&self, tid: Tid, start_ns: u64, end_ns: u64) -> Option<Piece> {
        // A goroutine has one connection, and the runtime the rest.
        let span_ns = match tid < GOROUTINES {
            true => end_ns.saturating_sub(start_ns),
            false => 0,
        };
        let pieces = self.before(tid, end_ns).iter().rev();
        let pieces = pieces
            .take(STEPS_MAX)
            .take_while(|piece| piece.end_ns > start_ns);
        let waits = pieces.filter(|piece| piece.is_for_one && piece.label == Label::Idle);
        let waits: Vec<(u64, &Piece)> = waits
            .map(|piece| (piece.within(start_ns, end_ns), piece))
            .collect();
        let all_ns: u64 = waits.iter().map(|(ns, _)| ns).sum();
        // Short ones are rarely sampled: one that has a stack says where the others are too.
        let longest = waits
            .iter()
            .max_by_key(|(ns, piece)| (piece.stack != 0, *ns));
        let is_most = span_ns >= UNTAKEN_LEAST_NS && all_ns as f64 >= WITH_IT * span_ns as f64;
        longest.filter(|_| is_most).map(|(_, piece)| **piece)
    }

    /// It was there, and the thread waited.
    fn not_taken(&mut self, tid: Tid, wait: &Piece, start_ns: u64, end_ns: u64) {
        let latest_ns = end_ns.saturating_add(SOON_NS);
        if self.reply_at(end_ns, latest_ns, start_ns).is_some() {
            return self.for_replies(tid, (start_ns, end_ns), latest_ns);
        }
        self.lies(tid, wait, start_ns, end_ns);
    }

    fn lies(&mut self, tid: Tid, wait: &Piece, start_ns: u64, end_ns: u64) {
        let runner = self.runner(tid, start_ns, end_ns);
        let is_throttled = self.pieces.quota.fills(start_ns, end_ns);
        let others_wait = match tid < GOROUTINES || is_throttled || runner.is_some() {
            true => None,
            false => self.others_wait_for(tid, start_ns, end_ns),
        };
        if let Some((with, cause)) = others_wait {
            let went = Went::Thread(Label::Held(cause));
            return self.step(Some(with), went, start_ns, end_ns);
        }
        let untaken = Untaken {
            tid,
            start_ns,
            end_ns,
            wait: *wait,
            is_taken: false,
            runner,
            is_throttled,
        };
        let went = Went::Thread(Label::Held(untaken.cause()));
        self.step(Some(tid), went, start_ns, end_ns);
        self.untaken.push(untaken);
    }

    /// What kept a Go program from polling for most of the span, and with whom a request was meanwhile. Goroutines that
    /// ran, and threads that carry none, had no CPU: it lay with its own. Or a goroutine waited for a page, which keeps
    /// its processor: with the one that did longest.
    fn others_wait_for(&self, tid: Tid, start_ns: u64, end_ns: u64) -> Option<(Tid, Cause)> {
        let mut no_cpu: Vec<(u64, u64)> = self.pieces.unpolled.within(start_ns, end_ns).collect();
        let (mut faults, mut longest, mut asked) = (Vec::new(), None, 0);
        for other in self.pieces.of.keys().filter(|of| **of != tid) {
            let pieces = self.before(*other, end_ns);
            let first = pieces.partition_point(|piece| piece.end_ns <= start_ns);
            let from = faults.len();
            for (at, piece) in pieces.iter().enumerate().skip(first) {
                let span = (piece.start_ns.max(start_ns), piece.end_ns.min(end_ns));
                match piece.label {
                    Label::Held(Cause::CpuStarvation) if ran_before(pieces, at) => {
                        no_cpu.push(span);
                    }
                    Label::Held(Cause::PageFault) => faults.push(span),
                    _ => {}
                }
            }
            asked += 1 + pieces.len() - first;
            if asked > PIECES_ASKED_MAX {
                return None;
            }
            let ns: u64 = faults[from..].iter().map(|(start, end)| end - start).sum();
            longest = longest.max((ns > 0).then_some((ns, *other)));
        }
        let (no_cpu_ns, faults_ns) = (covered(no_cpu), covered(faults));
        if (no_cpu_ns.max(faults_ns) as f64) < WITH_IT * end_ns.saturating_sub(start_ns) as f64 {
            return None;
        }
        match longest.filter(|_| faults_ns > no_cpu_ns) {
            Some((_, other)) => Some((other, Cause::PageFault)),
            None => Some((tid, Cause::CpuStarvation)),
        }
    }

    /// Of a goroutine, the other one that ran for most of the span.
    fn runner(&self, tid: Tid, start_ns: u64, end_ns: u64) -> Option<Tid> {
        if tid < GOROUTINES || self.pieces.of.len() > ASKED_MAX {
            return None;
        }
        let ran_ns = |of: &Tid| {
            let pieces = self.before(*of, end_ns).iter().rev();
            let inside = pieces.take_while(|piece| piece.end_ns > start_ns);
            let on_cpu = inside.filter(|piece| piece.label == Label::OnCpu);
            on_cpu
                .map(|piece| piece.within(start_ns, end_ns))
                .sum::<u64>()
        };
        let others = self.pieces.of.keys().filter(|of| **of != tid);
        let most = others.map(|of| (ran_ns(of), *of)).max()?;
        (most.0 as f64 >= WITH_IT * (end_ns - start_ns) as f64).then_some(most.1)
    }

    /// The thread came to this request from a wait for its one client.
    pub(super) fn serves_one(&self, tid: Tid, received_ns: u64) -> bool {
        let before = self.before(tid, received_ns).iter().rev().take(STEPS_MAX);
        let mut idle = before.filter(|piece| self.is_rest(tid, piece));
        idle.next().is_some_and(|piece| piece.is_for_one)
    }

    /// The thread has the request, and no thread is at work on it: what it waits for keeps the request.
    pub(super) fn held(&mut self, start_ns: u64, end_ns: u64) {
        let tid = self.receiver;
        let waits = |way: &mut Way, piece: &Piece, from_ns: u64, to_ns: u64| {
            // The rest of the request is still to come; or a peer is asked by a socket or pipe that has no address; or
            // it is a thread of a pool, and waits for its next work.
            if piece.is_for_one || piece.activity != 0 || !piece.is_in_request {
                return way.step(None, Went::Outside, from_ns, to_ns);
            }
            let untaken = Untaken {
                tid,
                start_ns: from_ns,
                end_ns: to_ns,
                wait: *piece,
                is_taken: true,
                runner: None,
                is_throttled: way.pieces.quota.fills(from_ns, to_ns),
            };
            let went = Went::Thread(Label::Held(untaken.cause()));
            way.step(Some(tid), went, from_ns, to_ns);
            way.untaken.push(untaken);
        };
        self.with(tid, (start_ns, end_ns), waits);
    }
}

/// A goroutine that was made runnable waits for one of the runtime's processors; one that ran just before for a CPU.
fn ran_before(pieces: &[Piece], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &pieces[before]);
    before.is_some_and(|of| of.label == Label::OnCpu && of.end_ns == pieces[at].start_ns)
}

/// Nanoseconds that are in one span at least.
fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut all_ns, mut until_ns) = (0, 0);
    for (from_ns, to_ns) in spans {
        all_ns += to_ns.saturating_sub(from_ns.max(until_ns));
        until_ns = until_ns.max(to_ns);
    }
    all_ns
}
