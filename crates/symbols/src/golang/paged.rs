//! Memory read in whole pages, each of them once.

use std::cell::RefCell;
use std::collections::HashMap;

use observe::fact::memory::Memory;

const PAGE: u64 = 4096;
/// 16 MiB: the tables for the functions of a large program that are on its stacks.
const PAGES_MAX: usize = 4096;

/// A copy of the pages that were read. What it gives is as old as the first read of each page.
pub struct Paged<'a> {
    inner: &'a dyn Memory,
    pages: RefCell<HashMap<u64, Box<[u8]>>>,
}

impl Paged<'_> {
    pub fn new(inner: &dyn Memory) -> Paged<'_> {
        Paged {
            inner,
            pages: RefCell::default(),
        }
    }

    /// Within one page.
    fn read_part(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let (page, within) = (address & !(PAGE - 1), (address % PAGE) as usize);
        let part = within..within + out.len();
        let mut pages = self.pages.borrow_mut();
        if let Some(bytes) = pages.get(&page) {
            out.copy_from_slice(&bytes[part]);
            return Some(());
        }
        let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
        if self.inner.read(page, &mut bytes).is_none() {
            // The last page of a file's segment is not whole.
            return self.inner.read(address, out);
        }
        out.copy_from_slice(&bytes[part]);
        if pages.len() == PAGES_MAX {
            pages.clear();
        }
        pages.insert(page, bytes);
        Some(())
    }
}

impl Memory for Paged<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        address.checked_add(out.len() as u64)?;
        let (mut address, mut rest) = (address, out);
        while !rest.is_empty() {
            let here = ((PAGE - address % PAGE) as usize).min(rest.len());
            let (part, others) = rest.split_at_mut(here);
            self.read_part(address, part)?;
            (address, rest) = (address + here as u64, others);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use observe::fact::memory::Made;

    use super::*;

    #[test]
    fn reads_over_pages_and_to_the_last_byte() {
        let bytes: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        let at = 0x1000;
        let made = Made {
            at,
            bytes: bytes.clone(),
        };
        let paged = Paged::new(&made);
        for (from, length) in [(0, 10_000), (4_090, 12), (9_990, 10), (0, 0)] {
            let mut out = vec![0; length];
            assert_eq!(paged.read(at + from as u64, &mut out), Some(()));
            assert_eq!(out, bytes[from..from + length]);
        }
        assert_eq!(paged.read(at + 9_990, &mut [0; 11]), None);
        assert_eq!(paged.read(u64::MAX - 2, &mut [0; 8]), None);
    }
}
