//! The areas of a process: what is anonymous, what the program may write, and where an object can end.

use observe::proc::area::{AreaLine, parse_area};

/// Arenas are mapped whole.
const POOLS_BYTES_MIN: u64 = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    is_anonymous: bool,
    is_writable: bool,
    may_have_pools: bool,
}

/// As `/proc/PID/maps` was when it was read, in the order of the addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Areas(Vec<Area>);

impl Areas {
    pub fn parse(maps: &[u8]) -> Areas {
        let text = String::from_utf8_lossy(maps);
        let mut areas: Vec<Area> = text
            .lines()
            .filter_map(parse_area)
            .map(|line| area(&line))
            .collect();
        areas.sort_unstable_by_key(|area| area.start);
        Areas(areas)
    }

    fn at(&self, address: u64) -> Option<(usize, &Area)> {
        let index = self
            .0
            .partition_point(|area| area.start <= address)
            .checked_sub(1)?;
        let area = self.0.get(index)?;
        (address < area.end).then_some((index, area))
    }

    /// Memory that no file stands behind: an untouched page of it is zero.
    pub fn is_anonymous(&self, address: u64) -> bool {
        self.at(address).is_some_and(|(_, area)| area.is_anonymous)
    }

    /// The same, where the program may write.
    pub fn is_writable_anonymous(&self, address: u64) -> bool {
        let area = self.at(address);
        area.is_some_and(|(_, area)| area.is_anonymous && area.is_writable)
    }

    /// Whether a range lies in areas next to each other that the program may write.
    pub fn holds(&self, start: u64, bytes: u64) -> bool {
        let (Some(end), Some((first, _))) = (start.checked_add(bytes), self.at(start)) else {
            return false;
        };
        let mut at = start;
        for area in &self.0[first..] {
            if area.start > at || !area.is_writable {
                return false;
            }
            at = area.end;
            if at >= end {
                return true;
            }
        }
        false
    }

    /// Bytes that the program may write, all of them: no object has more.
    pub fn writable_bytes(&self) -> u64 {
        let writable = self.0.iter().filter(|area| area.is_writable);
        writable.map(|area| area.end - area.start).sum()
    }

    /// Start and end of the areas that may have pools of small objects.
    pub fn with_pools(&self) -> impl Iterator<Item = (u64, u64)> {
        let areas = self.0.iter().filter(|area| area.may_have_pools);
        areas.map(|area| (area.start, area.end))
    }
}

fn area(line: &AreaLine) -> Area {
    let is_writable = line.rights.starts_with(b"rw");
    let is_named = !(line.name.is_empty() || line.name.starts_with("[anon"));
    Area {
        start: line.start,
        end: line.end,
        is_anonymous: line.inode == 0 && line.rights[3] == b'p' && !line.name.starts_with("[v"),
        is_writable,
        may_have_pools: line.inode == 0
            && line.rights == *b"rw-p"
            && !is_named
            && line.end - line.start >= POOLS_BYTES_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"10000000-10100000 rw-p 00000000 00:00 0 \n\
        20000000-20001000 rw-p 00000000 00:00 0 \n\
        20001000-20003000 rw-p 00000000 fe:00 7 /x\n\
        20003000-20004000 r--p 00000000 fe:00 7 /x\n\
        30000000-30100000 r--p 00000000 00:00 0 \n\
        40000000-40100000 rw-p 00000000 fe:00 7 /x\n\
        50000000-50100000 rw-p 00000000 00:00 0 [heap]\n";

    #[test]
    fn areas_that_may_have_pools() {
        let areas = Areas::parse(MAPS);
        let found: Vec<_> = areas.with_pools().collect();
        assert_eq!(found, [(0x1000_0000, 0x1010_0000)]);
        assert!(areas.is_anonymous(0x5000_0000) && !areas.is_anonymous(0x4000_0000));
        assert!(
            areas.is_writable_anonymous(0x5000_0000) && !areas.is_writable_anonymous(0x3000_0000)
        );
        assert_eq!(areas.writable_bytes(), 0x30_3000);
    }

    #[test]
    fn an_object_ends_in_memory_that_can_be_written() {
        let areas = Areas::parse(MAPS);
        assert!(areas.holds(0x2000_0ff0, 0x2010), "over a border");
        assert!(!areas.holds(0x2000_0ff0, 0x2011), "into read-only memory");
        assert!(!areas.holds(0x1000_0000, 1 << 40) && !areas.holds(0x1000_0000, u64::MAX));
        assert!(!areas.holds(0x1, 1) && !areas.holds(0x3000_0000, 1));
    }
}
