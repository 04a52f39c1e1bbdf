//! Timelines: for each thread, what it was in from when to when. Bounded; what is dropped is counted.

use std::collections::VecDeque;

use super::event::{Event, StackId, Tid, WaitKind, Waker, What};
use super::segment::{Segment, State};
use super::thread::Thread;
use observe::table::Table;

/// All threads together; at 88 bytes each 13 MiB, and up to twice that in queues that have just grown.
pub const SEGMENTS_MAX: usize = 150_000;
/// Releases kept of one lock.
const RELEASES_MAX: usize = 16_384;

/// A thread let a lock go to one that waited for it.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    pub at_ns: u64,
    pub by: Tid,
    pub to: Tid,
    /// Its stack then; 0 when the wait was too short for one.
    pub stack: StackId,
}

/// A thread came back from waiting for a lock: it has it from then on.
#[derive(Debug, Clone, Copy)]
pub struct Taking {
    pub at_ns: u64,
    pub by: Tid,
}

#[derive(Debug, Default)]
pub struct Timelines {
    threads: Table<Tid, Thread>,
    segments: usize,
    /// Of each lock, who let it go and when, as far as somebody waited for it; sorted by time.
    releases: Table<u64, VecDeque<Release>>,
    /// Of each lock, who came back from waiting for it and when, where nobody saw it let go; sorted by time.
    takings: Table<u64, VecDeque<Taking>>,
    /// Segments forgotten because there were too many.
    pub dropped: u64,
    pub newest_ns: u64,
    /// Time runnable and not running, of all threads: to be held against the kernel's own count.
    pub runnable_ns: u64,
    /// Nobody tells who woke whom.
    pub wakers_unseen: bool,
    /// The clock samples threads on CPUs wherever they are, in the kernel too.
    pub sampled: bool,
}

/// Without a single sample in this time, of the five that are due, a thread was on no CPU: a virtual machine's host had
/// given it away.
const UNSAMPLED_NS: u64 = 25_000_000;

impl Timelines {
    /// Takes the next event; those of one thread come sorted by time.
    pub fn push(&mut self, event: &Event) {
        self.newest_ns = self.newest_ns.max(event.at_ns);
        let born = || Thread::born(event.at_ns);
        let thread = self.threads.entry(event.tid).or_insert_with(born);
        if let (What::Woken { by, release }, Some((_, State::Blocked { wait, .. }))) =
            (event.what, thread.now())
            && let (Waker::Thread(by), WaitKind::Lock) = (by, wait.kind)
        {
            let releases = self.releases.entry(wait.object).or_default();
            if releases.len() == RELEASES_MAX {
                releases.pop_front();
            }
            // A waking may be told with the coming, which is later.
            let later = releases.iter().rev().take_while(|r| r.at_ns > event.at_ns);
            let at = releases.len() - later.count();
            let (at_ns, to, stack) = (event.at_ns, event.tid, release);
            let release = Release {
                at_ns,
                by,
                to,
                stack,
            };
            releases.insert(at, release);
        }
        if let Some((lock, taking)) = taking(event, thread.now()) {
            let takings = self.takings.entry(lock).or_default();
            if takings.len() == RELEASES_MAX {
                takings.pop_front();
            }
            takings.push_back(taking);
        }
        let before_ns = thread.runnable_ns();
        let at_ns = thread.not_before(event.at_ns, event.what);
        self.segments += thread.push(at_ns, event.what);
        self.runnable_ns += thread.runnable_ns() - before_ns;
        if self.segments > SEGMENTS_MAX {
            self.drop_oldest();
        }
    }

    pub fn tids(&self) -> impl Iterator<Item = Tid> + '_ {
        self.threads.keys().copied()
    }

    pub fn thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// What `tid` was in just before `t_ns`; the segment may end later than that.
    pub fn before(&self, tid: Tid, t_ns: u64) -> Option<Segment> {
        Some(self.before_at(tid, t_ns, None)?.0)
    }

    /// As [`Timelines::before`], and where that segment stands; `at`: where the one after it was found.
    pub fn before_at(&self, tid: Tid, t_ns: u64, at: Option<usize>) -> Option<(Segment, usize)> {
        let thread = self.threads.get(&tid)?;
        let next = at.and_then(|at| Some((thread.segment_at(at.checked_sub(1)?)?, at - 1)));
        if let Some((segment, _)) = next
            && segment.start_ns < t_ns
            && segment.end_ns >= t_ns
        {
            return next;
        }
        thread.before(t_ns, self.newest_ns)
    }

    /// The end of the last that is known of `tid` before `t_ns`, when it is not known what it was in then; 0: nothing
    /// is.
    pub fn known_until(&self, tid: Tid, t_ns: u64) -> u64 {
        let thread = self.threads.get(&tid);
        thread.map_or(0, |thread| thread.known_until(t_ns))
    }

    /// The last time before `t_ns` that a thread let the lock go to one that waited for it.
    pub fn released(&self, lock: u64, t_ns: u64) -> Option<Release> {
        let releases = self.releases.get(&lock)?;
        let before = releases.partition_point(|r| r.at_ns < t_ns);
        releases.get(before.checked_sub(1)?).copied()
    }

    /// The last time before `t_ns` that a thread came back from waiting for the lock.
    pub fn taken(&self, lock: u64, t_ns: u64) -> Option<Taking> {
        let takings = self.takings.get(&lock)?;
        let before = takings.partition_point(|taking| taking.at_ns < t_ns);
        takings.get(before.checked_sub(1)?).copied()
    }

    /// The thread only seems to have run then.
    pub fn was_stolen(&self, tid: Tid, start_ns: u64, end_ns: u64) -> bool {
        let thread = self.threads.get(&tid);
        let seen = |thread: &Thread| thread.samples(start_ns, end_ns).next().is_some();
        self.sampled && end_ns.saturating_sub(start_ns) >= UNSAMPLED_NS && !thread.is_some_and(seen)
    }

    /// Forgets what ended before `t_ns`, and threads that ended before it.
    pub fn forget_before(&mut self, t_ns: u64) {
        for thread in self.threads.values_mut() {
            self.segments -= thread.forget_before(t_ns);
        }
        for releases in self.releases.values_mut() {
            let old = releases.partition_point(|r| r.at_ns < t_ns);
            releases.drain(..old);
        }
        self.releases.retain(|_, releases| !releases.is_empty());
        for takings in self.takings.values_mut() {
            let old = takings.partition_point(|taking| taking.at_ns < t_ns);
            takings.drain(..old);
        }
        self.takings.retain(|_, takings| !takings.is_empty());
        self.threads
            .retain(|_, thread| thread.ended_ns.is_none_or(|end| end >= t_ns));
    }

    fn drop_oldest(&mut self) {
        for thread in self.threads.values_mut() {
            let dropped = thread.drop_older_half();
            self.segments -= dropped;
            self.dropped += dropped as u64;
        }
    }
}

/// The lock that a thread has from now on, when it waited for one and nobody saw who let it go.
fn taking(event: &Event, now: Option<(u64, State)>) -> Option<(u64, Taking)> {
    let Some((_, State::Blocked { wait, .. })) = now else {
        return None;
    };
    let seen = !matches!(event.what, What::In { .. });
    let (at_ns, by) = (event.at_ns, event.tid);
    let lock = wait.kind == WaitKind::Lock && wait.object != 0;
    (lock && !seen).then_some((wait.object, Taking { at_ns, by }))
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
