//! Where the Go runtime keeps what is read here, by its version.
//!
//! The offsets are those that the DWARF of programs built with go1.18.10, 1.19.13, 1.20.14, 1.21.13, 1.22.12,
//! 1.23.12, 1.24.13, 1.25.7, 1.26.8 and 1.27.0 gives for linux/amd64. They are the same on every 64-bit architecture:
//! all fields in front of them are words, or smaller and of the same alignment everywhere.

use symbols::golang::version::{MINOR_MAX, MINOR_MIN, Tables};

/// Offsets that differ between versions. Those that do not are constants beside their readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    // struct g
    pub syscall_sp: usize,
    pub status: usize,
    pub wait_reason: usize,
    pub created_at: usize,
    pub start: usize,
    // struct memRecordCycle: its size; it starts with the allocations and the frees
    pub cycle_bytes: usize,
    pub tables: Tables,
    // struct gcControllerState
    pub heap_live: u64,
    // what follows it is free; before 1.19 neither is counted outside of a collection
    pub heap_in_use: Option<u64>,
    // struct heapStatsDelta: its size. Three of them lead struct mstats, since 1.19.
    pub delta_bytes: u64,
    // struct mheap
    pub all_spans: u64,
    // struct p: the slice of its timers
    pub timers: u64,
    // one of them: a pointer, from 1.23 on with its time
    pub timer_bytes: u64,
    pub span: SpanLayout,
}

/// Offsets in `struct mspan` that differ. `startAddr`, `npages` and `freeindex` do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanLayout {
    /// `freeindex` and `nelems` are words; 16 bits each since 1.22.
    pub is_wide: bool,
    pub elements: usize,
    pub bits: usize,
    pub class: usize,
    pub state: usize,
    pub element_bytes: usize,
}

impl SpanLayout {
    fn of(minor: u32) -> SpanLayout {
        let is_wide = minor <= 21;
        // 1.21 had two words more in front of them.
        let class = if minor == 21 { 106 } else { 98 };
        SpanLayout {
            is_wide,
            elements: if is_wide { 56 } else { 50 },
            bits: if is_wide { 72 } else { 64 },
            class,
            state: class + 1,
            element_bytes: class + 6,
        }
    }
}

impl Layout {
    /// Of Go 1.`minor`; `None` when it is not known.
    pub fn of(minor: u32) -> Option<Layout> {
        if !(MINOR_MIN..=MINOR_MAX).contains(&minor) {
            return None;
        }
        // 1.23 put syscallbp in front of the status, 1.25 dropped gobuf.ret.
        let status = if matches!(minor, 23 | 24) { 152 } else { 144 };
        let created_at = match minor {
            ..=20 => 296,
            23 | 24 | 26.. => 288,
            _ => 280,
        };
        Some(Layout {
            syscall_sp: if minor >= 25 { 104 } else { 112 },
            status,
            wait_reason: status + 32,
            created_at,
            start: created_at + 16,
            cycle_bytes: if minor >= 27 { 16 } else { 32 },
            tables: Tables::of(minor)?,
            heap_live: match minor {
                18 => 120,
                19 => 136,
                20 => 80,
                _ => 104,
            },
            heap_in_use: match minor {
                18 => None,
                19 => Some(304),
                20 => Some(248),
                _ => Some(272),
            },
            delta_bytes: if minor >= 25 { 1168 } else { 1176 },
            all_spans: match minor {
                18 => 65_848,
                19 => 65_856,
                20 => 65_824,
                _ => 65_864,
            },
            timers: match minor {
                18 | 20 => 8832,
                19 | 21 => 8840,
                22 => 8872,
                23 | 24 => 8848,
                25 => 9400,
                _ => 13_680,
            },
            timer_bytes: if minor >= 23 { 16 } else { 8 },
            span: SpanLayout::of(minor),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!((Layout::of(17), Layout::of(28)), (None, None));
        let of = |minor| Layout::of(minor).unwrap();
        assert_eq!(
            (of(20).start, of(23).wait_reason, of(26).start),
            (312, 184, 304)
        );
    }
}
