//! Waits in which a request lay ([`Untaken`]): before its thread took it up, and while it had it.

use super::{ASKED_MAX, SOON_NS, STEPS_MAX, UNTAKEN_LEAST_NS, WITH_IT, Way};
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
        let others_wait = match tid < GOROUTINES || runner.is_some() {
            true => None,
            false => self.others_wait_for(tid, start_ns, end_ns),
        };
        if let Some(cause) = others_wait {
            return self.step(
                Some(tid),
                Went::Thread(Label::Held(cause)),
                start_ns,
                end_ns,
            );
        }
        let untaken = Untaken {
            tid,
            start_ns,
            end_ns,
            wait: *wait,
            is_taken: false,
            runner,
            is_throttled: self.pieces.quota.fills(start_ns, end_ns),
        };
        let went = Went::Thread(Label::Held(untaken.cause()));
        self.step(Some(tid), went, start_ns, end_ns);
        self.untaken.push(untaken);
    }

    /// What kept the program from polling for most of the span: other goroutines had no CPU, or threads that are to poll
    /// the sockets and to take up goroutines; or a page that a goroutine waited for, which keeps its processor meanwhile.
    /// (A thread that carries no goroutine is told of only while it has no CPU.)
    fn others_wait_for(&self, tid: Tid, start_ns: u64, end_ns: u64) -> Option<Cause> {
        if self.pieces.of.len() > ASKED_MAX {
            return None;
        }
        let least_ns = WITH_IT * end_ns.saturating_sub(start_ns) as f64;
        let causes = [Cause::CpuStarvation, Cause::PageFault].into_iter();
        let ns = |cause| self.others_in(Label::Held(cause), tid, (start_ns, end_ns));
        let mut most = causes.filter(|cause| ns(*cause) as f64 >= least_ns);
        most.next()
    }

    /// For how long of the span any other was in it.
    fn others_in(&self, label: Label, tid: Tid, (start_ns, end_ns): (u64, u64)) -> u64 {
        let threads = self.pieces.of.keys().filter(|of| **of != tid);
        let pieces = threads.flat_map(|of| {
            let before = self.before(*of, end_ns).iter().rev();
            before.take_while(|piece| piece.end_ns > start_ns)
        });
        let mut spans: Vec<(u64, u64)> = pieces
            .filter(|piece| piece.label == label)
            .map(|piece| (piece.start_ns.max(start_ns), piece.end_ns.min(end_ns)))
            .collect();
        spans.sort_unstable();
        let (mut all_ns, mut until_ns) = (0, start_ns);
        for (from_ns, to_ns) in spans {
            all_ns += to_ns.saturating_sub(from_ns.max(until_ns));
            until_ns = until_ns.max(to_ns);
        }
        all_ns
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
