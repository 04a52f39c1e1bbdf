//! The events of all threads in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trace_abi::Event;

use crate::chunks::Trace;
use crate::damage::Damage;
use crate::events::Events;
use crate::ticks::Scale;

/// An event, when it happened and on which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// Since the start of the trace.
    pub time_ns: u64,
    /// Index in [`Trace::threads`].
    pub thread: u32,
    pub event: Event,
}

/// Merges the threads' events; one chunk of each thread that has not ended is in memory.
pub struct Merged {
    threads: Vec<Events>,
    /// Ticks of the next event of each thread but the present one.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    next: Vec<Option<Event>>,
    scale: Scale,
    /// The thread that goes on, with its next event: it has the smallest ticks.
    present: Option<(u64, u32)>,
}

impl Merged {
    /// Of a trace.
    pub fn new(trace: &Trace) -> Merged {
        let is_sealed = trace.facts.is_sealed;
        let of = |thread| Events::new(trace.file.clone(), is_sealed, thread);
        let mut merged = Merged {
            threads: trace.threads.iter().map(of).collect(),
            queue: BinaryHeap::new(),
            next: vec![None; trace.threads.len()],
            scale: trace.facts.scale,
            present: None,
        };
        // A thread is opened when the time of its first chunk comes: not all are in memory at once.
        for (index, thread) in trace.threads.iter().enumerate() {
            if let Some(first) = thread.chunks.first() {
                merged
                    .queue
                    .push(Reverse((first.first_ticks, index as u32)));
            }
        }
        merged
    }

    /// What was missing, as far as was read.
    pub fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        self.threads
            .iter()
            .for_each(|thread| damage.add(&thread.damage));
        damage
    }

    fn advance(&mut self, thread: u32) -> Option<u64> {
        let (ticks, event) = self.threads[thread as usize].next()?;
        self.next[thread as usize] = Some(event);
        Some(ticks)
    }
}

impl Iterator for Merged {
    type Item = TimedEvent;

    fn next(&mut self) -> Option<TimedEvent> {
        loop {
            let (ticks, thread) = match self.present.take() {
                Some(present) => present,
                None => self.queue.pop()?.0,
            };
            let event = self.next[thread as usize].take();
            if let Some(next) = self.advance(thread) {
                let is_first = self
                    .queue
                    .peek()
                    .is_none_or(|other| (next, thread) <= other.0);
                if is_first {
                    self.present = Some((next, thread));
                } else {
                    self.queue.push(Reverse((next, thread)));
                }
            }
            // Without an event the thread was only opened.
            if let Some(event) = event {
                return Some(TimedEvent {
                    time_ns: self.scale.ns(ticks),
                    thread,
                    event,
                });
            }
        }
    }
}
