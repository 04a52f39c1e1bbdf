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

#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// `None`: the right to read it is missing, or the process is gone.
    pub fn open(pid: u32) -> Option<Pagemap> {
        let pagemap = Pagemap(File::open(format!("/proc/{pid}/pagemap")).ok()?);
        // Some kernels allow the opening, and deny the reading.
        pagemap.states(0, &mut [PageState::Absent])?;
        Some(pagemap)
    }

    /// The states of the pages from the one at `address` on. `None`: they cannot be read.
    pub fn states(&self, address: u64, states: &mut [PageState]) -> Option<()> {
        const ENTRIES_AT_ONCE: usize = 512;
        let mut entries = [0_u8; ENTRIES_AT_ONCE * 8];
        let mut page = address / PAGE_BYTES;
        for part in states.chunks_mut(ENTRIES_AT_ONCE) {
            let bytes = &mut entries[..part.len() * 8];
            self.0.read_exact_at(bytes, page.checked_mul(8)?).ok()?;
            for (entry, state) in bytes.as_chunks::<8>().0.iter().zip(part.iter_mut()) {
                *state = parse_entry(u64::from_le_bytes(*entry));
            }
            page += part.len() as u64;
        }
        Some(())
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
