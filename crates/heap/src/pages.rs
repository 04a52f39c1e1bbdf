//! Which pages of an area are in RAM.
//!
//! Nothing here touches a page of the subject; memory is only ever read where this says that a page is present, because
//! reading an absent one would map it.

pub use observe::proc::pagemap::PAGE_BYTES;
use observe::proc::pagemap::{PageState, Pagemap};

/// Pages of one area that are looked at: 64 GiB. A larger area is one that a runtime reserved.
const PAGES_MAX: u64 = 1 << 24;

/// One bit per page of a range of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageBits {
    start: u64,
    pages: u64,
    words: Vec<u64>,
}

impl PageBits {
    /// No page set. The range is cut to what [`PAGES_MAX`] allows.
    pub fn new(start: u64, end: u64) -> PageBits {
        let pages = (end.saturating_sub(start) / PAGE_BYTES).min(PAGES_MAX);
        PageBits {
            start,
            pages,
            words: vec![0; pages.div_ceil(64) as usize],
        }
    }

    /// Every page set, within the same bounds.
    pub fn all(start: u64, end: u64) -> PageBits {
        let mut all = PageBits::new(start, end);
        all.set(start, end);
        all
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn end(&self) -> u64 {
        self.start + self.pages * PAGE_BYTES
    }

    /// Sets every page that the addresses touch.
    pub fn set(&mut self, from: u64, to: u64) {
        let first = from.max(self.start).saturating_sub(self.start) / PAGE_BYTES;
        let last = to
            .min(self.end())
            .saturating_sub(self.start)
            .div_ceil(PAGE_BYTES);
        for page in first..last {
            self.words[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    pub fn has(&self, address: u64) -> bool {
        let page = address.wrapping_sub(self.start) / PAGE_BYTES;
        address >= self.start
            && page < self.pages
            && self.words[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Bytes of the set pages.
    pub fn bytes(&self) -> u64 {
        let pages: u64 = self
            .words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        pages * PAGE_BYTES
    }

    /// Bytes between two addresses that lie on set pages.
    pub fn bytes_in(&self, from: u64, to: u64) -> u64 {
        let (from, to) = (from.max(self.start), to.min(self.end()));
        let mut sum = 0;
        let mut at = from;
        while at < to {
            let next = ((at / PAGE_BYTES + 1) * PAGE_BYTES).min(to);
            if self.has(at) {
                sum += next - at;
            }
            at = next;
        }
        sum
    }

    /// These pages and those of another range within this one.
    pub fn with(&self, other: &PageBits) -> PageBits {
        let mut both = self.clone();
        other
            .runs()
            .into_iter()
            .for_each(|(from, to)| both.set(from, to));
        both
    }

    /// Bytes of pages that are set in both. Both must begin at the same address.
    pub fn bytes_in_both(&self, other: &PageBits) -> u64 {
        debug_assert_eq!(self.start, other.start);
        let both = self.words.iter().zip(&other.words);
        let pages: u64 = both.map(|(a, b)| u64::from((a & b).count_ones())).sum();
        pages * PAGE_BYTES
    }

    /// (from, to) of each run of set pages, ordered.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in
            (0..self.pages).filter(|page| self.words[(page / 64) as usize] >> (page % 64) & 1 == 1)
        {
            let from = self.start + page * PAGE_BYTES;
            match runs.last_mut() {
                Some(run) if run.1 == from => run.1 += PAGE_BYTES,
                _ => runs.push((from, from + PAGE_BYTES)),
            }
        }
        runs
    }
}

/// The pages of an area that are in RAM. `None` when the file cannot be read.
pub fn read_present(pagemap: &Pagemap, start: u64, end: u64) -> Option<PageBits> {
    let mut bits = PageBits::new(start, end);
    let (pages, words) = (bits.pages, &mut bits.words);
    pagemap.each(start, pages, |page, state| {
        let is_present = u64::from(state == PageState::Present);
        words[(page / 64) as usize] |= is_present << (page % 64);
    })?;
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_bytes_and_runs() {
        let mut bits = PageBits::new(0x1000, 0x1000 + 100 * PAGE_BYTES);
        bits.set(0x1800, 0x2001);
        bits.set(0x5000, 0x5001);
        assert_eq!(bits.runs(), [(0x1000, 0x3000), (0x5000, 0x6000)]);
        assert_eq!(bits.bytes(), 3 * PAGE_BYTES);
        assert_eq!(bits.bytes_in(0x1ff0, 0x5010), 0x10 + 0x1000 + 0x10);
        assert!(bits.has(0x2fff) && !bits.has(0x3000) && !bits.has(0));
    }

    #[test]
    fn own_pages_are_found_present() {
        let block = vec![1u8; 64 * PAGE_BYTES as usize];
        let start = (block.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let end = start + 32 * PAGE_BYTES;
        let pagemap = Pagemap::open(std::process::id()).unwrap();
        let bits = read_present(&pagemap, start, end).unwrap();
        assert_eq!(bits.bytes(), 32 * PAGE_BYTES);
        drop(block);
    }
}
