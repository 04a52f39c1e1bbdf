//! The kernel's own counts of a thread's time, held against its timeline: what no switch tells.

use std::cmp::Reverse;

use super::super::event::TextId;
use super::super::segment::{Segment, State};
use super::Thread;

/// How much the thread had run at a time: by the kernel's count, and by its timeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    at_ns: u64,
    total_ns: u64,
    on_cpu_ns: u64,
}

/// Below this a difference is that of two clocks, and of waits that were left out.
const STOLEN_LEAST_NS: u64 = 5_000_000;
/// A count older than this is no beginning for one that lasts: what was left out in between adds up.
const BEGINNING_NS: u64 = 1_000_000_000;
/// A stretch that ended longer ago is judged already.
const RECENT_NS: u64 = 100_000_000;

/// Less without a CPU is the ordinary latency of a wake.
const DELAY_FLOOR_NS: u64 = 200_000;

/// How much of each wait, given by length and position, `rest_ns` without a CPU is: as many of the longest as can have
/// the floor each, and what a short one has not for the longer ones. By position, the last first.
fn parts(mut waits: Vec<(u64, usize)>, mut rest_ns: u64) -> Vec<(usize, u64)> {
    waits.sort_unstable_by_key(|(ns, at)| (Reverse(*ns), *at));
    waits.truncate((rest_ns / DELAY_FLOOR_NS) as usize);
    let mut parts = Vec::new();
    while let Some((ns, at)) = waits.pop() {
        let part = ns.min(rest_ns / (waits.len() as u64 + 1));
        rest_ns -= part;
        parts.push((at, part));
    }
    parts.sort_unstable_by_key(|(at, _)| Reverse(*at));
    parts
}

impl Thread {
    /// Splits `ns` of waiting for a CPU off the waits that ended since the last such count, in equal parts: a wake
    /// that nobody saw leaves the way from waking to running inside the wait, and the sum says nothing of any one.
    pub(super) fn run_delay(&mut self, at_ns: u64, ns: u64) -> usize {
        let from = self.counted.saturating_sub(self.cut) as usize;
        let fresh = || self.done.iter().enumerate().skip(from);
        let known: u64 = fresh()
            .filter(|(_, s)| matches!(s.state, State::Runnable { .. }))
            .map(|(_, s)| s.ns())
            .sum();
        let unseen = |state| matches!(state, State::Blocked { by: None, .. });
        let waits = fresh().filter(|(_, s)| unseen(s.state));
        let waits = waits.map(|(at, s)| (s.ns(), at)).collect();
        let mut parts = parts(waits, ns.saturating_sub(known));
        parts.retain(|(at, _)| self.done[*at].end_ns + RECENT_NS >= at_ns);
        // From the last to the first: positions before it stay.
        for (at, ns) in &parts {
            self.wanted_at_its_end(*at, *ns);
        }
        // With what was split off: as fresh it would be taken off the next count once more.
        self.counted = self.cut + self.done.len() as u64;
        parts.len()
    }

    fn wanted_at_its_end(&mut self, at: usize, ns: u64) {
        let end_ns = self.done[at].end_ns;
        let start_ns = end_ns.saturating_sub(ns);
        self.runnable_ns += ns;
        self.done[at].end_ns = start_ns;
        let state = State::Runnable { after: 0 };
        let runnable = Segment {
            start_ns,
            end_ns,
            state,
        };
        self.done.insert(at + 1, runnable);
    }

    /// Turns what the host took of the longest stretch on a CPU since the last count into a wait for one. Only what
    /// is most of the time counts, and only once the thread is off its CPU: until then the kernel's count is behind.
    pub(super) fn ran(&mut self, at_ns: u64, total_ns: u64, host: TextId) -> usize {
        let open_ns = match self.now {
            Some((since_ns, State::Running)) => Some(at_ns.saturating_sub(since_ns)),
            _ => None,
        };
        let count = Count {
            at_ns,
            total_ns,
            on_cpu_ns: self.on_cpu_ns + open_ns.unwrap_or(0),
        };
        let before = self.count.filter(|before| match open_ns {
            Some(_) => before.at_ns + BEGINNING_NS >= at_ns,
            None => true,
        });
        if before.is_some() && open_ns.is_some() {
            return 0;
        }
        self.count = Some(count);
        let Some(before) = before else {
            return 0;
        };
        // A stretch that was open then may have been dropped since: a record was lost.
        let seen_ns = count.on_cpu_ns.saturating_sub(before.on_cpu_ns);
        let stolen_ns = seen_ns.saturating_sub(total_ns.saturating_sub(before.total_ns));
        match stolen_ns >= STOLEN_LEAST_NS.max(seen_ns / 2) {
            true => self.stolen(before.at_ns, at_ns, stolen_ns, host),
            false => 0,
        }
    }

    /// The segments added.
    fn stolen(&mut self, from_ns: u64, at_ns: u64, stolen_ns: u64, host: TextId) -> usize {
        let within = |s: &Segment| s.end_ns.saturating_sub(s.start_ns.max(from_ns));
        let recent = |s: &Segment| s.end_ns > from_ns && s.end_ns + RECENT_NS >= at_ns;
        let fresh = self.done.iter().enumerate().rev();
        let fresh = fresh.take_while(|(_, s)| recent(s));
        let running = fresh.filter(|(_, s)| matches!(s.state, State::Running));
        let longest = running.map(|(at, s)| (within(s), at)).max();
        let Some((most_ns, at)) = longest.filter(|(ns, _)| *ns >= STOLEN_LEAST_NS) else {
            return 0;
        };
        let whole = self.done[at];
        let start_ns = whole.start_ns.max(from_ns);
        let end_ns = start_ns + stolen_ns.min(most_ns);
        let pieces = [
            (whole.start_ns, start_ns, State::Running),
            (start_ns, end_ns, State::Runnable { after: host }),
            (end_ns, whole.end_ns, State::Running),
        ];
        let before = self.done.len();
        self.done.remove(at);
        let some = pieces.into_iter().filter(|(start, end, _)| end > start);
        for (more, (start_ns, end_ns, state)) in some.enumerate() {
            let piece = Segment {
                start_ns,
                end_ns,
                state,
            };
            self.done.insert(at + more, piece);
        }
        let added = self.done.len() - before;
        if self.cut + (at as u64) < self.counted {
            self.counted += added as u64;
        }
        added
    }
}
