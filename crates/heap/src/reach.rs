//! Whether anything in the subject's memory still points to a block.
//!
//! A block that nothing points to was lost: no cache can find it again. This is what tells a leak
//! from a filling cache before the cache has turned over. Every present, writable page is read once
//! and each aligned word compared; what looks like a pointer counts as one, so that "lost" is a
//! lower bound. Lost blocks that point to each other are counted as referenced.

use std::time::{Duration, Instant};

use rustix::time::ClockId;

use observe::clock::read_ns;
use observe::fact::memory::Memory;

/// Bytes of the subject that are read, and for how long. Beyond it nothing is said.
const SCANNED_BYTES_MAX: u64 = 4 << 30;
/// CPU time for one search; on a busy machine that may take several times as long, up to so much.
const SCAN_CPU_NS_MAX: i64 = 4_000_000_000;
const SCAN_TIME_MAX: Duration = Duration::from_secs(20);

/// How long a search through memory may go on.
pub struct ScanTime {
    until: Instant,
    cpu_ns: i64,
    cpu_ns_max: i64,
    /// Bytes that may be read, where that is not for the search to say.
    bytes_max: Option<u64>,
}

/// Of a file nobody waits for the memory map.
const FILE_BYTES_MAX: u64 = 256 << 30;
const FILE_CPU_NS_MAX: i64 = 300_000_000_000;
const FILE_TIME_MAX: Duration = Duration::from_secs(600);

impl ScanTime {
    /// From now on; until a moment at most, where one is given.
    pub fn begin(until: Option<Instant>) -> ScanTime {
        let most = Instant::now() + SCAN_TIME_MAX;
        ScanTime {
            until: until.map_or(most, |until| until.min(most)),
            cpu_ns: read_ns(ClockId::ThreadCPUTime),
            cpu_ns_max: SCAN_CPU_NS_MAX,
            bytes_max: None,
        }
    }

    /// For the memory of a process that has ended.
    pub fn of_file() -> ScanTime {
        ScanTime {
            until: Instant::now() + FILE_TIME_MAX,
            cpu_ns: read_ns(ClockId::ThreadCPUTime),
            cpu_ns_max: FILE_CPU_NS_MAX,
            bytes_max: Some(FILE_BYTES_MAX),
        }
    }

    pub(super) fn bytes_max(&self, of_process: u64) -> u64 {
        self.bytes_max.unwrap_or(of_process)
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() > self.until
            || read_ns(ClockId::ThreadCPUTime) - self.cpu_ns > self.cpu_ns_max
    }
}

const CHUNK_BYTES: u64 = 1 << 20;

/// What of a word is an address: interpreters keep types in the upper 16 bits, where a program's addresses are 0.
const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// The address that a word of memory may stand for.
pub(super) fn address_of(word: [u8; 8]) -> u64 {
    untagged(u64::from_le_bytes(word))
}

/// Of a pointer as the program has it: aarch64 ignores the upper byte, in which allocators keep the tag of a block
/// (Arm's memory tagging).
pub(super) fn untagged(pointer: u64) -> u64 {
    pointer & ADDRESS_BITS
}

/// For each block, in the order given: whether something points into it. `None` when not all of
/// the memory could be read within the limits.
///
/// `blocks`: (address, bytes). `runs`: (from, to) of the present pages of writable areas.
pub fn find_referenced(
    memory: &dyn Memory,
    runs: &[(u64, u64)],
    blocks: &[(u64, u64)],
    time: &ScanTime,
) -> Option<Vec<bool>> {
    let total: u64 = runs.iter().map(|(from, to)| to - from).sum();
    if blocks.is_empty() || total > SCANNED_BYTES_MAX {
        return None;
    }
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&index| blocks[index].0);
    let sorted: Vec<(u64, u64)> = order.iter().map(|&index| blocks[index]).collect();
    let found = scan(memory, runs, &sorted, time)?;
    let mut referenced = vec![false; blocks.len()];
    for (place, &index) in order.iter().enumerate() {
        referenced[index] = found[place];
    }
    Some(referenced)
}

fn scan(
    memory: &dyn Memory,
    runs: &[(u64, u64)],
    sorted: &[(u64, u64)],
    time: &ScanTime,
) -> Option<Vec<bool>> {
    let (least, most) = (
        sorted.first()?.0,
        sorted.iter().map(|(at, bytes)| at + bytes).max()?,
    );
    let mut found = vec![false; sorted.len()];
    for_each_chunk(memory, runs, time, |at, words| {
        for (index, word) in words.iter().enumerate() {
            let word = address_of(*word);
            if word >= least && word < most {
                mark(sorted, word, at + index as u64 * 8, &mut found);
            }
        }
    })?;
    Some(found)
}

/// For each address, in ascending order: whether a word that is not aligned holds it, as rows that are packed without
/// gaps do. `None` as for [`find_referenced`]. (What lies across the end of a chunk is not seen.)
pub fn find_unaligned(
    memory: &dyn Memory,
    runs: &[(u64, u64)],
    addresses: &[u64],
    time: &ScanTime,
) -> Option<Vec<bool>> {
    let (least, most) = (*addresses.first()?, *addresses.last()?);
    let mut found = vec![false; addresses.len()];
    for_each_chunk(memory, runs, time, |_, words| {
        for pair in words.windows(2) {
            let [low, high] = [pair[0], pair[1]].map(u64::from_le_bytes);
            for shift in (8..64).step_by(8) {
                let word = (low >> shift | high << (64 - shift)) & ADDRESS_BITS;
                if (least..=most).contains(&word)
                    && let Ok(index) = addresses.binary_search(&word)
                {
                    found[index] = true;
                }
            }
        }
    })?;
    Some(found)
}

/// Address and words of each chunk that can be read: a page that went away in between holds no pointer any more.
/// `None` when the time for a scan is over.
fn for_each_chunk(
    memory: &dyn Memory,
    runs: &[(u64, u64)],
    time: &ScanTime,
    mut visit: impl FnMut(u64, &[[u8; 8]]),
) -> Option<()> {
    let mut bytes = vec![0; CHUNK_BYTES as usize];
    for &(from, to) in runs {
        for at in (from..to).step_by(CHUNK_BYTES as usize) {
            if time.is_over() {
                return None;
            }
            let chunk = &mut bytes[..(to - at).min(CHUNK_BYTES) as usize];
            if memory.read(at, chunk).is_some() {
                visit(at, chunk.as_chunks::<8>().0);
            }
        }
    }
    Some(())
}

fn mark(sorted: &[(u64, u64)], word: u64, at: u64, found: &mut [bool]) {
    let place = sorted.partition_point(|&(start, _)| start <= word);
    let Some(place) = place.checked_sub(1) else {
        return;
    };
    let (start, bytes) = sorted[place];
    // A block that points to itself (an empty list) is not referenced by that.
    let own = at >= start && at < start + bytes;
    if word < start + bytes.max(1) && !own {
        found[place] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    #[test]
    fn inner_pointers_count_and_own_ones_do_not() {
        let mut memory = vec![0u8; 0x4000];
        let mut put =
            |at: usize, word: u64| memory[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0x1000, 0x2010); // into the first block
        put(0x2100, 0x2100); // the second block, to itself
        put(0x1008, 0x2204); // into the third
        let blocks = [(0x2200, 8), (0x2000, 0x20), (0x2100, 0x20), (0x2300, 16)];
        let found = find_referenced(
            &Made {
                at: 0,
                bytes: memory,
            },
            &[(0x1000, 0x4000)],
            &blocks,
            &ScanTime::begin(None),
        );
        assert_eq!(found.unwrap(), [true, true, false, false]);
    }

    #[test]
    fn pointers_with_a_type_in_their_upper_bits_and_packed_ones_count() {
        let mut bytes = vec![0u8; 0x4000];
        bytes[0x1000..0x1008].copy_from_slice(&0xfffc_0000_0000_2010u64.to_le_bytes());
        bytes[0x1023..0x102b].copy_from_slice(&0x2200u64.to_le_bytes());
        let memory = Made { at: 0, bytes };
        let runs = [(0x1000, 0x2000)];
        let blocks = [(0x2000, 0x20), (0x2200, 0x20)];
        let time = ScanTime::begin(None);
        assert_eq!(
            find_referenced(&memory, &runs, &blocks, &time).unwrap(),
            [true, false]
        );
        assert_eq!(
            find_unaligned(&memory, &runs, &[0x2000, 0x2200, 0x2300], &time).unwrap(),
            [false, true, false]
        );
    }

    #[test]
    fn too_much_memory_is_no_answer() {
        let runs = [(0, SCANNED_BYTES_MAX + 4096)];
        let time = ScanTime::begin(None);
        assert_eq!(
            find_referenced(&Made::default(), &runs, &[(16, 16)], &time),
            None
        );
    }

    #[test]
    fn a_search_whose_time_is_over_is_no_answer() {
        let memory = Made {
            at: 0,
            bytes: vec![0; 0x2000],
        };
        let search = |until| {
            let time = ScanTime::begin(until);
            find_referenced(&memory, &[(0, 0x2000)], &[(16, 16)], &time)
        };
        assert_eq!(search(None), Some(vec![false]));
        let past = Instant::now().checked_sub(Duration::from_millis(1));
        assert_eq!(search(past), None);
    }
}
