//! Mappings that the program makes by itself: what mmap, munmap, mremap and the break add up to,
//! and the larger ones by stack.

use std::sync::atomic::{AtomicBool, Ordering};

use abi::{Header, Mappings, Region, SectionKind, region_flag};

use crate::guard::Signals;
use sampler::word::add;

/// Tries for the table; its holder needs a microsecond.
const TRIES: usize = 4_000;

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The program or a library.
    Program,
    /// The allocator behind the probe.
    Allocator,
}

/// A mapping that was just made.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// Whole pages, bytes.
    pub bytes: u64,
    /// Bits of [`region_flag`].
    pub flags: u32,
    /// Row of the stacks section, or none.
    pub stack: u32,
    /// When.
    pub time_ns: u64,
}

/// The table and the sums.
pub struct Regions {
    header: *mut Header,
    rows: *mut Region,
    capacity: usize,
    busy: AtomicBool,
}

impl Regions {
    /// # Safety
    /// The header and its zeroed section of `capacity` rows.
    pub unsafe fn new(header: *mut Header, rows: *mut Region, capacity: usize) -> Regions {
        Regions {
            header,
            rows,
            capacity,
            busy: AtomicBool::new(false),
        }
    }

    /// A mapping was made. Whatever it lies over (`MAP_FIXED`) is gone.
    pub fn mapped(&self, mapped: Mapped, by: Call) {
        let sums = self.sums();
        let anonymous = mapped.flags & region_flag::ANONYMOUS != 0;
        // SAFETY: counters of the header.
        unsafe {
            // The break has sums of its own.
            let counts = mapped.flags & region_flag::BREAK == 0;
            let (calls, bytes) = match (by, anonymous) {
                (Call::Allocator, _) => (
                    &raw mut (*sums).allocator_maps,
                    &raw mut (*sums).allocator_mapped_bytes,
                ),
                (_, true) => (
                    &raw mut (*sums).program_maps,
                    &raw mut (*sums).program_mapped_bytes,
                ),
                (_, false) => (
                    &raw mut (*sums).file_maps,
                    &raw mut (*sums).file_mapped_bytes,
                ),
            };
            add(calls, u64::from(counts));
            add(bytes, if counts { mapped.bytes } else { 0 });
        }
        let row = Region {
            start: mapped.start,
            bytes: mapped.bytes,
            time_ns: mapped.time_ns,
            stack: mapped.stack,
            flags: mapped.flags,
        };
        self.locked(|table| {
            table.cut(mapped.start, mapped.bytes);
            table.put(row)
        });
    }

    /// A range is about to be unmapped.
    pub fn unmapping(&self, start: u64, bytes: u64) {
        // SAFETY: counters of the header.
        unsafe {
            add(&raw mut (*self.sums()).unmaps, 1);
            add(&raw mut (*self.sums()).unmapped_bytes, bytes);
        }
        self.locked(|table| {
            table.cut(start, bytes);
            true
        });
    }

    /// A mapping was moved or resized; it keeps its stack.
    pub fn remapped(&self, old: (u64, u64), new: (u64, u64), now_ns: u64) {
        // SAFETY: counters of the header.
        unsafe {
            add(&raw mut (*self.sums()).remaps, 1);
            add(
                &raw mut (*self.sums()).remap_grown_bytes,
                new.1.saturating_sub(old.1),
            );
            add(
                &raw mut (*self.sums()).remap_shrunk_bytes,
                old.1.saturating_sub(new.1),
            );
        }
        self.locked(|table| {
            let before = table.covering(old.0);
            table.cut(old.0, old.1);
            let unknown = Region {
                time_ns: now_ns,
                stack: abi::STACK_NONE,
                flags: 0,
                start: 0,
                bytes: 0,
            };
            table.put(Region {
                start: new.0,
                bytes: new.1,
                ..before.unwrap_or(unknown)
            })
        });
    }

    /// The break moved by so many bytes, from `before`. What it gave goes with [`Self::mapped`].
    pub fn break_moved(&self, before: u64, bytes: i64) {
        if bytes < 0 {
            let from = before.saturating_sub(bytes.unsigned_abs());
            self.locked(|table| {
                table.cut(from, before - from);
                true
            });
        }
        // SAFETY: counters of the header.
        unsafe {
            let sums = self.sums();
            let sum = if bytes > 0 {
                &raw mut (*sums).break_grown_bytes
            } else {
                &raw mut (*sums).break_shrunk_bytes
            };
            add(sum, bytes.unsigned_abs());
        }
    }

    /// In a forked child: a table that another thread held at the fork would stay held.
    pub fn after_fork(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    fn sums(&self) -> *mut Mappings {
        // SAFETY: a field of the header.
        unsafe { &raw mut (*self.header).mappings }
    }

    fn locked(&self, change: impl FnOnce(&mut Rows) -> bool) {
        let Some(_signals) = Signals::block() else {
            return self.dropped();
        };
        for _ in 0..TRIES {
            if !self.busy.swap(true, Ordering::Acquire) {
                // SAFETY: ours while busy; the section's rows.
                let done = unsafe {
                    let used = &raw mut (*self.header).sections[SectionKind::Regions as usize].used;
                    // The program may have written over it.
                    *used = (*used).min(self.capacity as u32);
                    let rows = std::slice::from_raw_parts_mut(self.rows, self.capacity);
                    change(&mut Rows {
                        rows,
                        used: &mut *used,
                    })
                };
                self.busy.store(false, Ordering::Release);
                if !done {
                    self.dropped();
                }
                return;
            }
            std::hint::spin_loop();
        }
        self.dropped();
    }

    fn dropped(&self) {
        // SAFETY: a counter of the header.
        unsafe { add(&raw mut (*self.header).counters.regions_dropped, 1) };
    }
}

/// The rows while they are ours.
struct Rows<'a> {
    rows: &'a mut [Region],
    used: &'a mut u32,
}

impl Rows<'_> {
    fn taken(&mut self) -> &mut [Region] {
        let used = (*self.used as usize).min(self.rows.len());
        &mut self.rows[..used]
    }

    fn covering(&mut self, address: u64) -> Option<Region> {
        let holds = |row: &&mut Region| {
            row.start != 0 && (row.start..row.start + row.bytes).contains(&address)
        };
        self.taken().iter_mut().find(holds).map(|row| *row)
    }

    /// Takes a range out of every row: whole, at an end, or out of the middle.
    fn cut(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let mut behind = None;
        for row in self.taken() {
            let (first, last) = (row.start, row.start.saturating_add(row.bytes));
            if first == 0 || last <= start || end <= first {
                continue;
            }
            match (first < start, end < last) {
                (false, false) => *row = Region::default(),
                (true, false) => row.bytes = start - first,
                (false, true) => (row.start, row.bytes) = (end, last - end),
                (true, true) => {
                    row.bytes = start - first;
                    behind = Some(Region {
                        start: end,
                        bytes: last - end,
                        ..*row
                    });
                }
            }
        }
        if let Some(behind) = behind {
            self.put(behind);
        }
    }

    /// Puts a mapping in, joined with a neighbour of the same stack and kind: a program that maps
    /// page after page takes one row. False: no room.
    fn put(&mut self, region: Region) -> bool {
        let end = region.start.saturating_add(region.bytes);
        let alike = |row: &&mut Region| {
            let touches = row.start + row.bytes == region.start || row.start == end;
            row.start != 0 && touches && row.stack == region.stack && row.flags == region.flags
        };
        if let Some(row) = self.taken().iter_mut().find(alike) {
            row.start = row.start.min(region.start);
            row.bytes += region.bytes;
            return true;
        }
        if let Some(free) = self.taken().iter_mut().find(|row| row.start == 0) {
            *free = region;
            return true;
        }
        let at = *self.used as usize;
        let Some(row) = self.rows.get_mut(at) else {
            return false;
        };
        *row = region;
        *self.used += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(test: impl FnOnce(&Regions, &dyn Fn() -> Vec<(u64, u64)>)) {
        // SAFETY: integers alone: all zero is a header.
        let header: *mut Header = Box::into_raw(Box::new(unsafe { std::mem::zeroed() }));
        let rows = Box::leak(vec![Region::default(); 16].into_boxed_slice());
        let start = rows.as_mut_ptr();
        // SAFETY: header and rows live for ever, and hold as many rows.
        let regions = unsafe { Regions::new(header, start, 16) };
        let list = || {
            // SAFETY: the rows live for ever, and no other thread writes them.
            let rows = unsafe { std::slice::from_raw_parts(start, 16) };
            let mut list: Vec<_> = rows
                .iter()
                .filter(|r| r.start != 0)
                .map(|r| (r.start, r.bytes))
                .collect();
            list.sort_unstable();
            list
        };
        test(&regions, &list);
    }

    fn mapped(start: u64, bytes: u64) -> Mapped {
        Mapped {
            start,
            bytes,
            flags: region_flag::ANONYMOUS,
            stack: start as u32 >> 12,
            time_ns: 1,
        }
    }

    #[test]
    fn neighbours_of_one_stack_are_one_row() {
        with(|regions, list| {
            let of = |stack, start| Mapped {
                stack,
                ..mapped(start, 0x1000)
            };
            regions.mapped(of(1, 0x20000), Call::Program);
            (1..=16).for_each(|page| regions.mapped(of(1, 0x20000 - page * 0x1000), Call::Program));
            regions.mapped(of(1, 0x21000), Call::Program);
            regions.mapped(of(2, 0x22000), Call::Program);
            assert_eq!(list(), [(0x10000, 0x12000), (0x22000, 0x1000)]);
        });
    }

    #[test]
    fn whole_part_and_middle_unmaps() {
        with(|regions, list| {
            regions.mapped(mapped(0x10000, 0x8000), Call::Program);
            regions.unmapping(0x12000, 0x1000);
            assert_eq!(list(), [(0x10000, 0x2000), (0x13000, 0x5000)]);
            regions.unmapping(0x17000, 0x9000);
            assert_eq!(list(), [(0x10000, 0x2000), (0x13000, 0x4000)]);
            regions.unmapping(0, u64::MAX);
            assert_eq!(list(), []);
        });
    }

    #[test]
    fn fixed_mappings_replace_and_remaps_move() {
        with(|regions, list| {
            regions.mapped(mapped(0x10000, 0x4000), Call::Program);
            regions.mapped(mapped(0x11000, 0x1000), Call::Program);
            assert_eq!(
                list(),
                [(0x10000, 0x1000), (0x11000, 0x1000), (0x12000, 0x2000)]
            );
            regions.remapped((0x11000, 0x1000), (0x90000, 0x6000), 9);
            assert_eq!(
                list(),
                [(0x10000, 0x1000), (0x12000, 0x2000), (0x90000, 0x6000)]
            );
            // SAFETY: one thread.
            assert_eq!(unsafe { (*regions.sums()).remap_grown_bytes }, 0x5000);
        });
    }

    #[test]
    fn a_full_table_counts_what_it_drops() {
        with(|regions, list| {
            (1..=20).for_each(|page| regions.mapped(mapped(page << 20, 4096), Call::Allocator));
            assert_eq!(list().len(), 16);
            // SAFETY: one thread.
            assert_eq!(unsafe { (*regions.header).counters.regions_dropped }, 4);
            assert_eq!(
                // SAFETY: one thread.
                unsafe { (*regions.sums()).allocator_mapped_bytes },
                20 * 4096
            );
        });
    }
}
