//! Queues that are used as locks: a channel of one, a pipe with a byte in it, a semaphore.
//!
//! Whoever waits for work at a queue is woken by those who bring it, and brings none there itself. Whoever waits for a
//! token gives it back, and so ends the wait of the next one: of a convoy, all but the first are woken by those who
//! waited for the same before.

use std::collections::HashMap;

use super::event::{TextId, Tid, Wait, WaitKind};

/// Queues remembered; past it they are learnt anew.
const QUEUES_MAX: usize = 4_096;
/// Threads remembered of one queue, the newest: a goroutine for each request is another each time.
const WAITERS_MAX: usize = 64;
/// At a token's queue at least this part of the waits was ended by one that waited there as well; whoever lets a lock
/// go to a single waiter may have had it without a wait.
const HANDED_ON: u64 = 4;

/// A queue and the way it is waited at: to send and to receive are two.
type Key = (u64, TextId);

#[derive(Debug, Default)]
pub struct Tokens {
    of: HashMap<Key, Handed>,
}

#[derive(Debug, Default)]
struct Handed {
    /// Each with how often it waited here.
    waiters: Vec<(Tid, u32)>,
    /// Waits that ended, and those that a waiter ended.
    all: u64,
    by_waiters: u64,
}

impl Tokens {
    /// Learns from a wait that `by` ended.
    pub fn waited(&mut self, tid: Tid, wait: &Wait, by: Tid) {
        if wait.kind != WaitKind::Queue || wait.object == 0 {
            return;
        }
        if self.of.len() == QUEUES_MAX && !self.of.contains_key(&key(wait)) {
            self.of.clear();
        }
        let handed = self.of.entry(key(wait)).or_default();
        handed.all += 1;
        handed.by_waiters += u64::from(handed.times(by) > 0);
        if let Some((_, times)) = handed.waiters.iter_mut().find(|(of, _)| *of == tid) {
            *times = times.saturating_add(1);
            return;
        }
        if handed.waiters.len() == WAITERS_MAX {
            handed.waiters.remove(0);
        }
        handed.waiters.push((tid, 1));
    }

    /// How often the thread waited like this for the same.
    pub fn times(&self, tid: Tid, wait: &Wait) -> u32 {
        let handed = self.of.get(&key(wait)).filter(|_| wait.object != 0);
        handed.map_or(0, |handed| handed.times(tid))
    }

    /// Whoever ends a wait like this one had a token until then.
    pub fn is_for_one(&self, wait: &Wait) -> bool {
        let handed = self.of.get(&key(wait)).filter(|_| wait.object != 0);
        handed.is_some_and(|handed| handed.by_waiters * HANDED_ON >= handed.all.max(HANDED_ON))
    }
}

impl Handed {
    fn times(&self, tid: Tid) -> u32 {
        let of = self.waiters.iter().find(|(waiter, _)| *waiter == tid);
        of.map_or(0, |(_, times)| *times)
    }
}

fn key(wait: &Wait) -> Key {
    (wait.object, wait.activity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(object: u64, activity: TextId) -> Wait {
        Wait {
            activity,
            ..Wait::of(WaitKind::Queue, object)
        }
    }

    #[test]
    fn what_its_waiters_hand_on_is_a_token() {
        let mut tokens = Tokens::default();
        let channel = at(7, 1);
        tokens.waited(1, &channel, 9);
        assert!(!tokens.is_for_one(&channel), "nobody has given it back yet");
        tokens.waited(2, &channel, 1);
        tokens.waited(3, &channel, 2);
        assert!(tokens.is_for_one(&channel));
        assert_eq!(
            (tokens.times(1, &channel), tokens.times(9, &channel)),
            (1, 0)
        );
        assert!(!tokens.is_for_one(&at(7, 2)), "who waits the other way");
    }

    #[test]
    fn a_queue_with_a_feeder_is_none_and_nor_is_one_whose_workers_seldom_put_something_back() {
        let mut tokens = Tokens::default();
        for turn in 0..40 {
            tokens.waited(turn % 8, &at(7, 1), 9);
            tokens.waited(turn % 8, &at(8, 1), if turn % 5 == 0 { 3 } else { 9 });
        }
        assert!(!tokens.is_for_one(&at(7, 1)) && !tokens.is_for_one(&at(8, 1)));
    }
}
