//! How the cap is shared out among the sections, and the header's first words.

use abi::{
    CLASSES, Class, Flow, HEADER_BYTES, Header, LATENCIES, Latency, MAGIC, Module, ROLES, Region,
    Role, Sample, Section, SectionKind, Stack, State, Thread, VERSION,
};

/// Smallest cap: the fixed sections and the least of the others.
pub const CAP_BYTES_MIN: usize = 2 << 20;
/// Modules kept, gone ones included.
const MODULES: usize = 512;
/// Mappings by direct calls kept.
const REGIONS: usize = 2048;
/// Memory for the unwinder's lists.
pub const ARENA_BYTES: usize = 512 << 10;
/// The unwinder's own stack: gimli moves tables of 6 KiB about, too much for a coroutine's or a
/// signal's stack. The lowest page of it is a guard.
pub const STACK_BYTES: usize = 256 << 10;
/// Capacities at scale 1; the largest power of two that fits the cap is taken. At 8 MiB it is 32:
/// 32,768 samples, 16,384 stacks of 16 frames on average, 8,192 threads at a time.
const SAMPLES_UNIT: usize = 1024;
const STACKS_UNIT: usize = 512;
const FRAMES_UNIT: usize = 8192;
const THREADS_UNIT: usize = 256;
const SCALES: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// Where everything is, as offsets from the header.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Sections by [`SectionKind`].
    pub sections: [Section; 16],
    /// First byte of the arena.
    pub arena_at: usize,
    /// First byte of the unwinder's stack, page-aligned.
    pub stack_at: usize,
    /// What a reader copies, whole pages: all but the unwinder's stack.
    pub total_bytes: usize,
    /// Length of the whole mapping.
    pub mapped_bytes: usize,
    /// The cap that it was made for.
    pub cap_bytes: usize,
}

impl Plan {
    /// The largest plan within a cap (at least [`CAP_BYTES_MIN`]).
    pub fn within(cap_bytes: usize) -> Plan {
        let cap_bytes = cap_bytes.max(CAP_BYTES_MIN);
        let fitting = SCALES.iter().map(|scale| Plan::scaled(*scale, cap_bytes));
        let mut smallest = Plan::scaled(1, cap_bytes);
        for plan in fitting {
            if plan.mapped_bytes <= cap_bytes {
                smallest = plan;
                break;
            }
        }
        smallest
    }

    fn scaled(scale: usize, cap_bytes: usize) -> Plan {
        let rows: [(SectionKind, usize, usize); 11] = [
            (
                SectionKind::Threads,
                THREADS_UNIT * scale,
                size_of::<Thread>(),
            ),
            (
                SectionKind::SampleKeys,
                SAMPLES_UNIT * scale,
                size_of::<u64>(),
            ),
            (
                SectionKind::Samples,
                SAMPLES_UNIT * scale,
                size_of::<Sample>(),
            ),
            (SectionKind::Stacks, STACKS_UNIT * scale, size_of::<Stack>()),
            (SectionKind::Frames, FRAMES_UNIT * scale, size_of::<u64>()),
            (SectionKind::Roles, ROLES, size_of::<Role>()),
            (SectionKind::Matrix, ROLES * ROLES, size_of::<Flow>()),
            (SectionKind::Classes, CLASSES, size_of::<Class>()),
            (SectionKind::Latencies, LATENCIES, size_of::<Latency>()),
            (SectionKind::Modules, MODULES, size_of::<Module>()),
            (SectionKind::Regions, REGIONS, size_of::<Region>()),
        ];
        let mut sections = [Section::default(); 16];
        let mut at = HEADER_BYTES;
        for (kind, capacity, stride) in rows {
            let (capacity32, used) = (
                capacity as u32,
                if grows(kind) { 0 } else { capacity as u32 },
            );
            sections[kind as usize] = Section {
                offset: at as u64,
                capacity: capacity32,
                stride: stride as u32,
                used,
                reserved: 0,
            };
            at = (at + capacity * stride).next_multiple_of(128);
        }
        let stack_at = (at + ARENA_BYTES).next_multiple_of(abi::PAGE_BYTES);
        let mapped_bytes = stack_at + STACK_BYTES;
        Plan {
            sections,
            arena_at: at,
            stack_at,
            total_bytes: stack_at,
            mapped_bytes,
            cap_bytes,
        }
    }

    /// Capacity of a section, rows.
    pub fn capacity(&self, kind: SectionKind) -> usize {
        self.sections[kind as usize].capacity as usize
    }

    /// Writes what never changes into the header. The magic comes last, by the caller of the whole
    /// start.
    ///
    /// # Safety
    /// `header` begins a zeroed, writable mapping of `mapped_bytes`.
    pub unsafe fn write(&self, header: *mut Header) {
        // SAFETY: by the caller a mapping as large as the plan, which nobody reads yet.
        unsafe {
            (*header).version = VERSION;
            (*header).header_bytes = HEADER_BYTES as u32;
            (*header).total_bytes = self.total_bytes as u64;
            (*header).mapped_bytes = self.mapped_bytes as u64;
            (*header).cap_bytes = self.cap_bytes as u64;
            (*header).sections = self.sections;
            (*header).state = State::Starting as u32;
            (*header).magic = MAGIC;
        }
    }
}

/// Sections whose rows are taken in order and whose `used` grows with them; of the others all rows
/// are used.
fn grows(kind: SectionKind) -> bool {
    use SectionKind::{Frames, Modules, Regions, Threads};
    matches!(kind, Threads | Frames | Modules | Regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_stays_within_its_cap() {
        for cap in [
            0,
            1 << 20,
            2 << 20,
            3 << 20,
            5_000_000,
            8 << 20,
            64 << 20,
            1 << 30,
        ] {
            let plan = Plan::within(cap);
            assert!(
                plan.mapped_bytes <= cap.max(CAP_BYTES_MIN),
                "{cap}: {}",
                plan.mapped_bytes
            );
        }
    }

    /// The reader refuses what no plan can be.
    #[test]
    fn the_largest_plan_is_what_the_reader_takes_for_the_largest() {
        let plan = Plan::within(1 << 30);
        assert!(plan.total_bytes as u64 <= abi::TOTAL_BYTES_MAX, "{plan:?}");
        assert!(plan.total_bytes as u64 > abi::TOTAL_BYTES_MAX / 2);
        for kind in [
            SectionKind::Threads,
            SectionKind::SampleKeys,
            SectionKind::Samples,
            SectionKind::Stacks,
            SectionKind::Frames,
            SectionKind::Roles,
            SectionKind::Matrix,
            SectionKind::Classes,
            SectionKind::Latencies,
            SectionKind::Modules,
            SectionKind::Regions,
        ] {
            let capacity = plan.capacity(kind) as u32;
            assert_eq!(capacity, kind.rows_max(), "{kind:?}");
        }
    }

    #[test]
    fn the_default_cap_holds_what_its_comment_says() {
        let plan = Plan::within(8 << 20);
        assert_eq!(plan.capacity(SectionKind::Samples), 32_768);
        assert_eq!(plan.capacity(SectionKind::Stacks), 16_384);
        assert_eq!(plan.capacity(SectionKind::Threads), 8_192);
    }

    #[test]
    fn sections_do_not_overlap() {
        let plan = Plan::within(8 << 20);
        for (before, after) in plan.sections[..10].iter().zip(&plan.sections[1..11]) {
            assert!(before.offset + u64::from(before.capacity * before.stride) <= after.offset);
            assert_eq!(after.offset % 128, 0);
        }
    }
}
