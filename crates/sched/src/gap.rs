//! A time in which records were lost: what threads did then is not known.

/// From the last record that is whole to when there was room again. Within it nothing is believed, of no CPU: who was
/// woken on one with room may have run on the other since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Gap {
    pub fn covers(self, at_ns: u64) -> bool {
        self.from_ns < at_ns && at_ns <= self.until_ns
    }

    /// Both, and what lies between them.
    pub fn joined(self, other: Option<Gap>) -> Gap {
        let other = other.unwrap_or(self);
        Gap {
            from_ns: self.from_ns.min(other.from_ns),
            until_ns: self.until_ns.max(other.until_ns),
        }
    }
}

/// What one reading of a ring brought, as far as it tells of losses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// It had no room when the reading began.
    pub full: bool,
    /// The ring says so itself, with the first record that fits again.
    pub lost: u64,
    pub newest_ns: Option<u64>,
}

/// One ring's losses: the kernel tells of them with the next record, which may be seconds later. That a ring is full is
/// seen at once.
#[derive(Debug, Default)]
pub struct Losses {
    was_full: bool,
    read_ns: u64,
}

impl Losses {
    /// The time of which records are missing, after a reading that ended at `now_ns`.
    pub fn of(&mut self, reading: Reading, now_ns: u64) -> Option<Gap> {
        let before_ns = std::mem::replace(&mut self.read_ns, now_ns);
        let was_full = std::mem::replace(&mut self.was_full, reading.full);
        let from_ns = match reading.full {
            true => reading.newest_ns.unwrap_or(before_ns),
            // Told of already.
            false if reading.lost == 0 || was_full => return None,
            false => before_ns,
        };
        Some(Gap {
            from_ns,
            until_ns: now_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(full: bool, lost: u64, newest_ns: Option<u64>) -> Reading {
        Reading {
            full,
            lost,
            newest_ns,
        }
    }

    #[test]
    fn a_full_ring_is_a_gap_since_its_newest_record_and_is_told_once() {
        let mut losses = Losses::default();
        assert_eq!(losses.of(reading(false, 0, Some(90)), 100), None);
        let gap = losses.of(reading(true, 0, Some(250)), 2_000);
        let (from_ns, until_ns) = (250, 2_000);
        assert_eq!(gap, Some(Gap { from_ns, until_ns }));
        assert_eq!(losses.of(reading(false, 7, Some(2_010)), 2_020), None);
        assert_eq!(losses.of(reading(false, 0, None), 2_040), None);
    }

    #[test]
    fn a_loss_without_a_full_ring_is_a_gap_since_the_last_reading() {
        let mut losses = Losses::default();
        losses.of(reading(false, 0, Some(90)), 100);
        let gap = losses.of(reading(false, 3, Some(190)), 200);
        let (from_ns, until_ns) = (100, 200);
        assert_eq!(gap, Some(Gap { from_ns, until_ns }));
        let gap = gap.unwrap();
        assert!(!gap.covers(100) && gap.covers(101) && gap.covers(200));
        let (from_ns, until_ns) = (150, 300);
        let both = gap.joined(Some(Gap { from_ns, until_ns }));
        assert_eq!((both.from_ns, both.until_ns), (100, 300));
    }
}
