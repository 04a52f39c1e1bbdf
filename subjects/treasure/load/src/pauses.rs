//! Stretches in which players waited: slow answers that overlap are one pause.

/// Most pauses kept; a server that is slow all the time has them all in the first ones.
const KEPT_MAX: usize = 100_000;

/// From when a tap was due to when it was answered, joined where they overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pauses {
    over_ns: u64,
    /// In order of their ends.
    found: Vec<(u64, u64)>,
}

/// What the pauses of a load have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub count: usize,
    /// Median length, ns.
    pub length_ns: u64,
    /// Median from start to start, ns; `None` for fewer than three. A period only where no other pause falls between
    /// (`highwater report` looks for periods among pauses of like length).
    pub gap_ns: Option<u64>,
}

impl Pauses {
    pub fn new(over_ns: u64) -> Pauses {
        Pauses {
            over_ns,
            found: Vec::new(),
        }
    }

    /// A tap that was due then was answered then.
    pub fn answered(&mut self, due_ns: u64, end_ns: u64) {
        if end_ns.saturating_sub(due_ns) >= self.over_ns {
            self.join(due_ns, end_ns);
        }
    }

    fn join(&mut self, mut start_ns: u64, mut end_ns: u64) {
        while let Some((start, end)) = self.found.pop_if(|(_, end)| *end >= start_ns) {
            (start_ns, end_ns) = (start_ns.min(start), end_ns.max(end));
        }
        if self.found.len() < KEPT_MAX {
            self.found.push((start_ns, end_ns));
        }
    }

    /// The pauses of several threads: what one thread's players waited for, the others' did, too.
    pub fn add(&mut self, other: Pauses) {
        let mut all = std::mem::take(&mut self.found);
        all.extend(other.found);
        all.sort_unstable();
        all.into_iter()
            .for_each(|(start, end)| self.join(start, end));
    }

    /// `None` when there was none.
    pub fn summary(&self) -> Option<Summary> {
        let lengths = self.found.iter().map(|(start, end)| end - start);
        let gaps = self.found.windows(2).map(|pair| pair[1].0 - pair[0].0);
        Some(Summary {
            count: self.found.len(),
            length_ns: median(lengths.collect())?,
            gap_ns: median(gaps.collect()).filter(|_| self.found.len() > 2),
        })
    }
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_waits_are_one_pause_and_its_period_is_found() {
        let mut pauses = Pauses::new(3);
        for round in 1..=4 {
            for due in 0..6 {
                // A pause of six: who was due first waits longest.
                pauses.answered(100 * round + due, 100 * round + 6);
            }
            pauses.answered(100 * round + 50, 100 * round + 51);
        }
        let found = pauses.summary();
        assert_eq!(
            found,
            Some(Summary {
                count: 4,
                length_ns: 6,
                gap_ns: Some(100)
            })
        );
    }

    #[test]
    fn two_threads_see_the_same_pauses() {
        let (mut one, mut two) = (Pauses::new(1), Pauses::new(1));
        one.answered(10, 20);
        two.answered(12, 22);
        two.answered(30, 31);
        one.add(two);
        assert_eq!(one.summary().map(|found| found.count), Some(2));
        assert_eq!(Pauses::new(1).summary(), None);
    }
}
