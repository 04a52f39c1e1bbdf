//! Which pages of a process are in RAM: `/proc/PID/pagemap`.
//!
//! A read of a page through `/proc/PID/mem` brings a swapped page back into RAM, and maps an untouched one. A reader
//! that must not change the process asks here first. Frame numbers need rights; the bits that are used here do not.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// What readers count in. Pages of the kernel are as large on x86_64; on aarch64 16 or 64 KiB, too: then a piece is
/// where its page is.
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

    /// Gives the number and the state of each piece from the one at `address` on. `None`: they cannot be read.
    pub fn each(&self, address: u64, count: u64, give: impl FnMut(u64, PageState)) -> Option<()> {
        let pieces = rustix::param::page_size() as u64 / PAGE_BYTES;
        self.each_of_pages(pieces.max(1), address, count, give)
    }

    /// With kernel pages of so many pieces.
    fn each_of_pages(
        &self,
        pieces: u64,
        address: u64,
        count: u64,
        mut give: impl FnMut(u64, PageState),
    ) -> Option<()> {
        let first = address / PAGE_BYTES;
        let end = first.checked_add(count)?;
        // No more than is needed: 20,000 threads are 20,000 areas.
        let most = (count / pieces + 2).min(ENTRIES_AT_ONCE);
        let mut entries = vec![0; most as usize * 8];
        let mut at = first;
        while at < end {
            let page = at / pieces;
            let part = (end.div_ceil(pieces) - page).min(most);
            let bytes = &mut entries[..part as usize * 8];
            self.0.read_exact_at(bytes, page.checked_mul(8)?).ok()?;
            for (entry, page) in bytes.as_chunks::<8>().0.iter().zip(page..) {
                let state = parse_entry(u64::from_le_bytes(*entry));
                let upto = ((page + 1) * pieces).min(end);
                (at..upto).for_each(|piece| give(piece - first, state));
                at = upto;
            }
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
    fn a_piece_is_where_its_page_is() {
        let mut file = tempfile::tempfile().unwrap();
        for entry in [0, PRESENT, SWAPPED, PRESENT] {
            std::io::Write::write_all(&mut file, &entry.to_le_bytes()).unwrap();
        }
        let pagemap = Pagemap::of(file);
        let mut states = Vec::new();
        let asked = pagemap.each_of_pages(4, 2 * PAGE_BYTES, 12, |number, state| {
            assert_eq!(number, states.len() as u64);
            states.push(state);
        });
        use PageState::{Absent, Present, Swapped};
        let [none, there, away] = [Absent, Present, Swapped].map(|state| [state; 4]);
        let expected = [&none[..2], &there, &away, &there[..2]].concat();
        assert_eq!((asked, states), (Some(()), expected));
        assert_eq!(
            pagemap.each_of_pages(4, 0, 17, |_, _| ()),
            None,
            "past its end"
        );
    }

    #[test]
    fn bits_of_an_entry() {
        assert_eq!(parse_entry(PRESENT | 7), PageState::Present);
        assert_eq!(parse_entry(SWAPPED | 7), PageState::Swapped);
        assert_eq!(parse_entry(1 << 55), PageState::Absent);
    }
}
