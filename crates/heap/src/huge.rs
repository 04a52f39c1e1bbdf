//! How much of the huge pages was never written: what transparent huge pages add to RSS.

use super::smaps::Area;
use observe::fact::memory::Memory;

use super::pages::{PAGE_BYTES, PageBits};

/// Pages read at one snapshot, spread evenly over the areas with huge pages.
const PAGES_READ_MAX: u64 = 2048;

/// Bytes in huge pages that read as zero throughout, scaled up from the pages looked at. A page that
/// the program filled with zeros itself counts too, so this is an upper bound of what the kernel
/// added; 0 when there are no huge pages.
pub fn read_untouched_bytes(
    memory: &dyn Memory,
    areas: &[Area],
    present: &std::collections::HashMap<u64, PageBits>,
) -> u64 {
    let with: Vec<&Area> = areas
        .iter()
        .filter(|area| area.huge_pages_bytes > 0)
        .collect();
    let total: u64 = with.iter().map(|area| area.huge_pages_bytes).sum();
    let mut untouched = 0.0;
    for area in with {
        let Some(bits) = present.get(&area.start) else {
            continue;
        };
        let share = area.huge_pages_bytes as f64 / total as f64;
        let count = ((PAGES_READ_MAX as f64 * share) as u64).max(16);
        untouched += zero_share(memory, bits, count) * area.huge_pages_bytes as f64;
    }
    untouched as u64
}

fn zero_share(memory: &dyn Memory, present: &PageBits, count: u64) -> f64 {
    let mut page = [0; PAGE_BYTES as usize];
    let (mut read, mut zero) = (0u32, 0u32);
    let runs = present.runs();
    let pages: u64 = runs.iter().map(|(from, to)| (to - from) / PAGE_BYTES).sum();
    // An odd step, so that the pages looked at do not all lie at one place of their huge page.
    let step = (pages / count.max(1)).max(1) | 1;
    let mut skip = 0;
    for (from, to) in runs {
        let pages = (to - from) / PAGE_BYTES;
        while skip < pages {
            if memory.read(from + skip * PAGE_BYTES, &mut page).is_some() {
                read += 1;
                zero += u32::from(page.iter().all(|&byte| byte == 0));
            }
            skip += step;
        }
        skip -= pages;
    }
    if read == 0 {
        0.0
    } else {
        f64::from(zero) / f64::from(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Every(u64);

    impl Memory for Every {
        /// One page in `self.0` is written.
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            out.fill(u8::from((address / PAGE_BYTES).is_multiple_of(self.0)));
            Some(())
        }
    }

    #[test]
    fn one_page_in_512_leaves_nearly_all_untouched() {
        let area = Area {
            start: 0,
            end: 64 << 20,
            huge_pages_bytes: 64 << 20,
            ..Area::default()
        };
        let mut bits = PageBits::new(area.start, area.end);
        bits.set(area.start, area.end);
        let present = HashMap::from([(0, bits)]);
        let areas = [area];
        let sparse = read_untouched_bytes(&Every(512), &areas, &present);
        assert!(sparse > 63 << 20, "{sparse}");
        assert_eq!(read_untouched_bytes(&Every(1), &areas, &present), 0);
    }
}
