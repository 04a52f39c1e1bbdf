//! What is mapped by whom: ranges of addresses, of which the newest mapping counts.

use std::collections::BTreeMap;

use crate::smaps::Area;

/// A range that a call of mmap or mremap made, from where it is kept to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    pub end: u64,
    pub time_ns: u64,
    /// Key of the stack.
    pub stack: u64,
}

/// Ranges that do not overlap, by their first address.
#[derive(Debug, Default)]
pub struct Regions {
    made: BTreeMap<u64, Made>,
}

/// Ranges that are kept; of further ones it is not known who made them.
const REGIONS_MAX: usize = 65_536;

impl Regions {
    /// Puts a range in place of what was there. `false`: there is no room.
    pub fn add(&mut self, start: u64, made: Made) -> bool {
        // One may become two around the new one.
        if self.made.len() + 2 > REGIONS_MAX {
            return false;
        }
        self.remove(start, made.end);
        if start < made.end {
            self.made.insert(start, made);
        }
        true
    }

    fn remove(&mut self, start: u64, end: u64) {
        let first = self.made.range(..start).next_back();
        let first = first
            .filter(|(_, made)| made.end > start)
            .map(|(&at, _)| at);
        let touched: Vec<u64> = first
            .into_iter()
            .chain(self.made.range(start..end).map(|(&at, _)| at))
            .collect();
        for at in touched {
            let Some(made) = self.made.remove(&at) else {
                continue;
            };
            if at < start {
                self.made.insert(at, Made { end: start, ..made });
            }
            if made.end > end {
                self.made.insert(end, made);
            }
        }
    }

    /// Forgets what is no longer mapped. `since_ns`: what was made from then on may be newer than `areas`.
    pub fn keep_mapped(&mut self, areas: &[Area], since_ns: u64) {
        let is_mapped = |start: u64, end: u64| {
            let first = areas.partition_point(|area| area.end <= start);
            areas.get(first).is_some_and(|area| area.start < end)
        };
        self.made
            .retain(|&start, made| made.time_ns >= since_ns || is_mapped(start, made.end));
    }

    /// All of them, by address.
    pub fn all(&self) -> impl Iterator<Item = (u64, Made)> + '_ {
        self.made.iter().map(|(&start, made)| (start, *made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(end: u64, stack: u64) -> Made {
        Made {
            end,
            time_ns: 1,
            stack,
        }
    }

    fn ranges(regions: &Regions) -> Vec<(u64, u64, u64)> {
        let all = regions.all();
        all.map(|(start, made)| (start, made.end, made.stack))
            .collect()
    }

    #[test]
    fn the_newest_of_two_counts() {
        let mut regions = Regions::default();
        regions.add(0x1000, made(0x9000, 1));
        regions.add(0x3000, made(0x4000, 2));
        let expected = [
            (0x1000, 0x3000, 1),
            (0x3000, 0x4000, 2),
            (0x4000, 0x9000, 1),
        ];
        assert_eq!(ranges(&regions), expected);
        regions.add(0x2000, made(0x8000, 3));
        let expected = [
            (0x1000, 0x2000, 1),
            (0x2000, 0x8000, 3),
            (0x8000, 0x9000, 1),
        ];
        assert_eq!(ranges(&regions), expected);
    }

    #[test]
    fn what_is_no_longer_mapped_is_forgotten_unless_it_is_newer() {
        let mut regions = Regions::default();
        for at in 1..=3u64 {
            let time_ns = at;
            let stack = at;
            regions.add(
                at << 16,
                Made {
                    time_ns,
                    stack,
                    ..made((at << 16) + 0x1000, 0)
                },
            );
        }
        let area = Area {
            start: 1 << 16,
            end: (1 << 16) + 0x1000,
            ..Area::default()
        };
        regions.keep_mapped(&[area], 3);
        let stacks: Vec<u64> = regions.all().map(|(_, made)| made.stack).collect();
        assert_eq!(stacks, [1, 3]);
    }

    #[test]
    fn hostile_ranges_are_bounded() {
        let mut regions = Regions::default();
        assert!(regions.add(u64::MAX - 1, made(1, 1)));
        regions.add(7, made(u64::MAX, 3));
        let all = (0..2 * REGIONS_MAX as u64)
            .map(|at| regions.add(at << 13, made((at << 13) + 0x1000, 4)));
        assert!(all.filter(|has_room| !has_room).count() >= REGIONS_MAX);
        assert!(ranges(&regions).len() <= REGIONS_MAX);
    }
}
