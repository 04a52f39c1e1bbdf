//! What the eBPF programs on an allocator and highwater share: maps, records, and where the kernel keeps registers.

use bpf::map::{Addresses, ByThread, Counter, PerCpu, Ring};

/// Bytes of stack that come with a sample, as many as there are.
pub const STACK_BYTES: [i32; 3] = [2048, 512, 128];
/// Draws from which the distance to the next sample is taken.
pub const DRAWS: u32 = 4096;
/// Bits behind the point of a draw, in units of the mean.
pub const DRAW_BITS: i32 = 16;

/// Offsets within a record.
pub mod at {
    pub const TIME: i16 = 0;
    pub const KIND: i16 = 8;
    pub const TID: i16 = 12;
    pub const BLOCK: i16 = 16;
    /// A block's end goes no further.
    pub const BYTES: i16 = 24;
    pub const MEAN: i16 = 32;
    pub const PC: i16 = 40;
    pub const SP: i16 = 48;
    pub const FP: i16 = 56;
    pub const COPIED: i16 = 64;
    pub const FUNCTION: i16 = 72;
    pub const STACK: i16 = 80;
    pub const WHOLE: i32 = STACK as i32 + super::STACK_BYTES[0];
}

pub const GIVEN: i32 = 1;
pub const TAKEN: i32 = 2;

/// Numbers of each CPU.
pub mod cpu {
    /// Bytes to the next sample, below zero at one.
    pub const LEFT: i16 = 0;
    pub const HITS: usize = 1;
    pub const SAMPLES: usize = 2;
    /// Of the hits, those for which the kernel made a step.
    pub const STEPPED: usize = 3;
    /// Of the samples, those whose exit was seen.
    pub const RETURNED: usize = 4;
    pub const COUNT: usize = 5;
}

/// What is kept of a sampled call while it lasts.
pub mod open {
    pub const RETURN: i16 = 0;
    pub const SP: i16 = 8;
    pub const BYTES: i16 = 16;
    pub const MEAN: i16 = 24;
    pub const PLACE: i16 = 32;
    pub const FUNCTION: i16 = 40;
    pub const BYTES_ALL: u32 = 48;
}

#[cfg(target_arch = "x86_64")]
pub mod regs {
    pub const RESULT: i16 = 80;
    pub const PC: i16 = 128;
    pub const SP: i16 = 152;
    pub const FP: i16 = 32;
    /// Bytes of the return address on the stack, which the caller does not see.
    pub const RETURN_BYTES: i32 = 8;
}
#[cfg(target_arch = "aarch64")]
pub mod regs {
    pub const RESULT: i16 = 0;
    pub const PC: i16 = 256;
    pub const SP: i16 = 248;
    pub const FP: i16 = 232;
    pub const LINK: i16 = 240;
    pub const RETURN_BYTES: i32 = 0;
}

pub struct Maps {
    pub cpus: PerCpu<{ cpu::COUNT }>,
    /// `-ln(u)` of evenly spread `u`.
    pub draws: Counter,
    /// The mean distance of samples, bytes.
    pub mean: Counter,
    /// 1 while the exits are probed; without them no call is sampled.
    pub sampling: Counter,
    /// By thread.
    pub open: ByThread,
    pub live: Addresses,
    pub ring: Ring,
    pub lost: Counter,
    /// The allocator's functions, in the process.
    pub family: Vec<std::ops::Range<u64>>,
}
