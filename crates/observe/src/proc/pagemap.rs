//! Which pages of a process are in RAM: `/proc/PID/pagemap`.
//!
//! A read of a page through `/proc/PID/mem` brings a swapped page back into RAM, and maps an untouched one. A reader
//! that must not change the process asks here first. Frame numbers need rights; the bits that are used here do not.

use std::fs::File;
use std::os::unix::fs::FileExt;

pub const PAGE_BYTES: u64 = 4_096;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    Present,
    Swapped,
    /// Never touched, dropped to its file, or not mapped.
    Absent,
}

/// Entries read at once: 512 KiB of pagemap, 256 MiB of addresses.
const ENTRIES_AT_ONCE: u64 = 1 << 16;

#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// `None`: the right to read it is missing, or the process is gone.
    pub fn open(pid: u32) -> Option<Pagemap> {
        let pagemap = Pagemap(File::open(format!("/proc/{pid}/pagemap")).ok()?);
        // Some kernels allow the opening, and deny the reading.
        pagemap.each(0, 1, |_, _| ())?;
        Some(pagemap)
    }

    /// Of a `/proc/PID/pagemap` that is open.
    pub fn of(file: File) -> Pagemap {
        Pagemap(file)
    }

    /// Gives the number and the state of each page from the one at `address` on. `None`: they cannot be read.
    pub fn each(
        &self,
        address: u64,
        count: u64,
        mut give: impl FnMut(u64, PageState),
    ) -> Option<()> {
        // No more than is needed: 20,000 threads are 20,000 areas.
        let mut entries = vec![0; count.min(ENTRIES_AT_ONCE) as usize * 8];
        let mut writer = 0;
        while writer < count {
            let part = (count - writer).min(ENTRIES_AT_ONCE);
            let bytes = &mut entries[..part as usize * 8];
            let at = (address / PAGE_BYTES).checked_add(writer)?.checked_mul(8)?;
            self.0.read_exact_at(bytes, at).ok()?;
            for (entry, number) in bytes.as_chunks::<8>().0.iter().zip(writer..) {
                give(number, parse_entry(u64::from_le_bytes(*entry)));
            }
            writer += part;
        }
        Some(())
    }

    /// [`Pagemap::each`] of as many pages as there are `states`.
    pub fn states(&self, address: u64, states: &mut [PageState]) -> Option<()> {
        let count = states.len() as u64;
        self.each(address, count, |number, state| {
            states[number as usize] = state
        })
    }
}

fn parse_entry(entry: u64) -> PageState {
    match entry {
        _ if entry & PRESENT != 0 => PageState::Present,
        _ if entry & SWAPPED != 0 => PageState::Swapped,
        _ => PageState::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_own_pages() {
        let block = vec![1_u8; 16 * PAGE_BYTES as usize];
        let start = (block.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let pagemap = Pagemap::open(std::process::id()).unwrap();
        let mut states = [PageState::Absent; 15];
        pagemap.states(start, &mut states).unwrap();
        assert_eq!(states, [PageState::Present; 15]);
        pagemap.states(0, &mut states).unwrap();
        assert_eq!(states, [PageState::Absent; 15]);
        assert_eq!(pagemap.states(u64::MAX, &mut states), None);
    }

    #[test]
    fn bits_of_an_entry() {
        assert_eq!(parse_entry(PRESENT | 7), PageState::Present);
        assert_eq!(parse_entry(SWAPPED | 7), PageState::Swapped);
        assert_eq!(parse_entry(1 << 55), PageState::Absent);
    }
}
