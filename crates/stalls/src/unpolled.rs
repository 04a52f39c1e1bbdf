//! When a Go program's threads that carry no goroutine waited for a CPU: they poll the sockets and take up goroutines.

use std::collections::VecDeque;

/// Of some minutes at worst; the oldest go first.
const STRETCHES_MAX: usize = 40_000;

/// Stretches in which at least one of them did, apart from each other and sorted by time.
#[derive(Debug, Default)]
pub struct Unpolled {
    stretches: VecDeque<(u64, u64)>,
}

impl Unpolled {
    /// They come sorted by their ends.
    pub fn waited(&mut self, start_ns: u64, end_ns: u64) {
        let mut all = (start_ns, end_ns);
        while let Some(&(start, end)) = self.stretches.back()
            && end >= start_ns
        {
            self.stretches.pop_back();
            all = (all.0.min(start), all.1.max(end));
        }
        if self.stretches.len() == STRETCHES_MAX {
            self.stretches.pop_front();
        }
        self.stretches.push_back(all);
    }

    /// Their parts within `[start_ns, end_ns]`.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let from = self.stretches.partition_point(|(_, end)| *end <= start_ns);
        let inside = self.stretches.range(from..);
        inside
            .take_while(move |(start, _)| *start < end_ns)
            .map(move |(start, end)| (*start.max(&start_ns), *end.min(&end_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_overlap_are_one() {
        let mut unpolled = Unpolled::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (35, 62), (100, 110)] {
            unpolled.waited(start, end);
        }
        assert_eq!(unpolled.stretches, [(10, 20), (30, 62), (100, 110)]);
        let inside: Vec<_> = unpolled.within(15, 105).collect();
        assert_eq!(inside, [(15, 20), (30, 62), (100, 105)]);
        assert_eq!(unpolled.within(62, 100).next(), None);
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let mut unpolled = Unpolled::default();
        for at in 0..STRETCHES_MAX as u64 + 5 {
            unpolled.waited(10 * at, 10 * at + 3);
        }
        assert_eq!(unpolled.stretches.len(), STRETCHES_MAX);
        assert_eq!(unpolled.stretches[0], (50, 53));
    }
}
