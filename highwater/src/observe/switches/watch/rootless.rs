//! Switch records of the subject's own threads to events. Nobody tells who woke whom: whoever of
//! the process ran at that moment is taken for it, and the event says that this is inferred.

use super::super::ring::Record;
use super::Watch;
use super::threads::Blocked;
use crate::analyse::stall::event::{Tid, Wait, WaitKind, Waker, What};

/// A thread that ran no longer ago than this may have done the waking.
const WAKE_NS: u64 = 150_000;
/// Waits below this are not worth a guess.
const WORTH_NS: u64 = 200_000;

impl Watch {
    pub(super) fn drain_threads(&mut self) {
        let Some(mut events) = self.samples.take() else {
            return;
        };
        let mut switches = Vec::new();
        events.drain(|record| match record {
            Record::In { at_ns, tid } => switches.push((at_ns, tid, None)),
            Record::Out {
                at_ns,
                tid,
                preempted,
            } => switches.push((at_ns, tid, Some(preempted))),
            Record::Sample(sample) => self.sampled(&sample),
            Record::Lost(_) => {}
        });
        self.samples = Some(events);
        switches.sort_by_key(|(at_ns, ..)| *at_ns);
        for (at_ns, tid, out) in switches {
            match out {
                None => self.came(at_ns, tid),
                Some(preempted) => self.left(at_ns, tid, preempted),
            }
        }
    }

    fn came(&mut self, at_ns: u64, tid: u32) {
        let waker = self.guess_waker(at_ns, tid);
        if let Some(waker) = waker {
            let by = Waker::Inferred(Tid::from(waker));
            self.tell(at_ns - 1, tid, What::Woken { by, release: 0 });
        }
        let known = self.threads.at(tid);
        known.blocked = None;
        known.running_since_ns = Some(at_ns);
        known.switched = true;
        self.tell(at_ns, tid, What::In { after: 0 });
    }

    fn left(&mut self, at_ns: u64, tid: u32, preempted: bool) {
        let known = self.threads.at(tid);
        known.running_since_ns = None;
        known.off_since_ns = at_ns;
        known.switched = true;
        if preempted {
            self.tell(at_ns, tid, What::Preempted);
            return;
        }
        let wait = Wait::of(WaitKind::Unknown, 0);
        known.blocked = Some(Blocked {
            since_ns: at_ns,
            wait,
            registers: None,
            looked: false,
        });
        self.tell(at_ns, tid, What::Blocked(wait));
    }

    /// Of the threads on a CPU when this one came back, the one that itself came back last: a
    /// holder returns from what it waited for, and lets go.
    fn guess_waker(&mut self, at_ns: u64, tid: u32) -> Option<u32> {
        let waited = self.threads.get(tid)?.blocked?;
        if at_ns.saturating_sub(waited.since_ns) < WORTH_NS {
            return None;
        }
        let ran = |known: &super::Known| match known.running_since_ns {
            Some(since) => Some(since),
            None => (known.off_since_ns + WAKE_NS >= at_ns).then_some(known.off_since_ns),
        };
        let others = self.threads.iter().filter(|(other, _)| **other != tid);
        let running = others.filter_map(|(other, known)| Some((ran(known)?, *other)));
        running.max().map(|(_, other)| other)
    }
}
