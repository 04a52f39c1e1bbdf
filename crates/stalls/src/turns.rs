//! Locks that a pool takes turns at: one of it has the lock and waits for work, the others wait for the lock.
//!
//! Of one wait that cannot always be told: whoever is in front may be without a CPU, or on one, all the time. Of
//! most of them it can.

use std::collections::HashMap;

/// Locks remembered; past it they are learnt anew.
const LOCKS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Turns {
    /// Of each lock, nanoseconds of waits behind one that waited for work, and of all.
    of: HashMap<u64, (u64, u64)>,
}

impl Turns {
    pub fn waited(&mut self, lock: u64, ns: u64, for_work: bool) {
        if self.of.len() == LOCKS_MAX && !self.of.contains_key(&lock) {
            self.of.clear();
        }
        let (work, all) = self.of.entry(lock).or_default();
        *work += u64::from(for_work) * ns;
        *all += ns;
    }

    pub fn are_taken_at(&self, lock: u64) -> bool {
        self.of
            .get(&lock)
            .is_some_and(|(work, all)| work * 2 > *all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_of_the_time_was_says_what_the_lock_is() {
        let mut turns = Turns::default();
        assert!(!turns.are_taken_at(7));
        turns.waited(7, 900, true);
        turns.waited(7, 800, false);
        assert!(turns.are_taken_at(7));
        turns.waited(7, 200, false);
        assert!(!turns.are_taken_at(7) && !turns.are_taken_at(8));
    }
}
