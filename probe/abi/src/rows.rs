//! The rows of the sections, field by field. Structural, like [`crate::layout`].

use crate::buckets::LIFETIMES;
use crate::layout::{Counters, Header, Mappings};
use crate::layout::{MODULE_PATH_BYTES, Section};
use crate::pod::Pod;

/// Exact counters of one thread, or of all threads that used the row one after another. Sums over
/// all rows are the process's. Written by its thread alone with relaxed loads and stores, the overflow row by
/// atomic additions: a reader may see one of two counters a call ahead.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Requested bytes left until the next sample. Requested bytes so far = `drawn_bytes -
    /// countdown_bytes`.
    pub countdown_bytes: u64,
    /// Blocks allocated (a realloc that moves or resizes is one allocated and one freed).
    pub allocs: u64,
    /// Blocks freed. Live blocks of the process = sum of `allocs` less sum of `frees`.
    pub frees: u64,
    /// Usable bytes of blocks allocated; only while bytes are exact.
    pub usable_allocated_bytes: u64,
    /// Usable bytes of blocks freed; only while bytes are exact.
    pub usable_freed_bytes: u64,
    /// Sum of all distances drawn, see `countdown_bytes`.
    pub drawn_bytes: u64,
    /// Mean with which the present distance was drawn.
    pub mean_bytes: u64,
    /// State of the sampler's random numbers.
    pub random: u64,
    /// Samples taken in this row.
    pub samples: u64,
    /// Thread id as the process sees it; 0 when nobody has the row. It may have exited: look in
    /// /proc/PID/task.
    pub tid: u32,
    /// Threads that have had this row.
    pub generation: u32,
    /// [`Role`] of the present thread, or [`crate::ROLE_NONE`].
    pub role: u16,
    /// One of [`thread_state`].
    pub state: u16,
    /// Forks when the row was taken ([`Header::forks`]): a smaller number is a thread of the
    /// parent.
    pub forks: u32,
    /// 1: the present distance was cut short, and another is drawn at its end without a sample.
    pub cut: u64,
    /// Always 0.
    pub reserved: [u64; 4],
}

impl Thread {
    /// A row that nobody has used.
    pub const EMPTY: Thread = Thread {
        countdown_bytes: 0,
        allocs: 0,
        frees: 0,
        usable_allocated_bytes: 0,
        usable_freed_bytes: 0,
        drawn_bytes: 0,
        mean_bytes: 0,
        random: 0,
        samples: 0,
        tid: 0,
        generation: 0,
        role: 0,
        state: thread_state::FREE,
        forks: 0,
        cut: 0,
        reserved: [0; 4],
    };
}

/// States of a row of the threads section.
pub mod thread_state {
    /// Never used.
    pub const FREE: u16 = 0;
    /// Has, or had, a thread.
    pub const TAKEN: u16 = 1;
}

/// One live sampled block. Its address is the row of the same index in `SampleKeys`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes usable, by the allocator; equal to `requested_bytes` when it cannot be asked.
    pub usable_bytes: u64,
    /// Mean distance under which it was sampled, or to which it was thinned since.
    pub mean_bytes: u64,
    /// When it was allocated.
    pub time_ns: u64,
    /// Row of the stacks section, or [`crate::STACK_NONE`].
    pub stack: u32,
    /// Role of the allocating thread, or [`crate::ROLE_NONE`].
    pub role: u16,
    /// Always 0.
    pub reserved: u16,
    /// Row of the allocating thread in the threads section.
    pub thread: u32,
    /// [`sample_check`] of the address and the fields above: a row that fails it is torn.
    pub check: u32,
}

/// The check of a sample: a mix of all its fields and its address.
pub const fn sample_check(address: u64, sample: &Sample) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mix = address ^ 0x5851_f42d_4c95_7f2d;
    let words = [
        sample.requested_bytes,
        sample.usable_bytes,
        sample.mean_bytes,
        sample.time_ns,
        (sample.stack as u64) << 32 | (sample.role as u64) << 16,
        sample.thread as u64,
    ];
    let mut at = 0;
    while at < words.len() {
        mix = (mix ^ words[at]).wrapping_mul(ODD).rotate_left(29);
        at += 1;
    }
    (mix ^ (mix >> 32)) as u32
}

/// One distinct stack and what was allocated at it. Sums are weighted, so they estimate all
/// allocations.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    /// Hash of the frames; 0 for a free row, 1 while one is being written.
    pub hash: u64,
    /// First row in the frames section.
    pub frames_at: u32,
    /// Number of frames, 1 to [`crate::DEPTH_MAX`].
    pub depth: u16,
    /// Bits of [`stack_flag`].
    pub flags: u16,
    /// Samples taken here.
    pub samples: u64,
    /// Estimate of bytes requested here since the start.
    pub allocated_bytes: u64,
    /// Estimate of blocks allocated here.
    pub allocated_blocks: u64,
    /// Samples from here that were freed again.
    pub freed_samples: u64,
    /// Estimate of requested bytes from here that were freed again.
    pub freed_bytes: u64,
    /// Time of the first sample.
    pub first_ns: u64,
    /// Time of the latest sample.
    pub last_ns: u64,
    /// Longest lifetime of a sample that was freed, ns.
    pub lifetime_ns_max: u64,
    /// Freed samples by lifetime, bucket by [`crate::lifetime_of`].
    pub lifetimes: [u32; LIFETIMES],
}

/// Set in a frame that is no address of code but that of a code object of CPython, 3.11 (`PyCodeObject`): the functions
/// of Python that the thread was in, innermost first, behind the native frames.
pub const PYTHON_CODE: u64 = 1 << 63;

/// Bits of [`Stack::flags`].
pub mod stack_flag {
    /// More frames than [`crate::DEPTH_MAX`]; the outermost are missing.
    pub const DEEPER: u16 = 1;
    /// The unwinder lost its way; the outermost frames are missing.
    pub const BROKEN: u16 = 2;
    /// The one frame is not an address but one of [`super::stack_why`].
    pub const NOT_A_STACK: u16 = 4;
}

/// Frames of stacks that are none: one row each, so that their bytes are not lost.
pub mod stack_why {
    /// Another thread was unwinding at that moment.
    pub const CONTENDED: u64 = 1;
    /// The stacks or frames section is full.
    pub const TABLE_FULL: u64 = 2;
    /// Not one frame outside the probe was found.
    pub const UNREADABLE: u64 = 3;
}

/// Threads that do the same work: the same name (without digits at its end) and the same outermost
/// caller.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Role {
    /// 0 free, 1 being written, 2 in use.
    pub state: u32,
    /// Threads that were given this role.
    pub threads: u32,
    /// Outermost return address that is not in the C library, or 0 when unknown.
    pub root: u64,
    /// Thread name, zero-padded; `main` for the first thread, `other` in the last row.
    pub name: [u8; 16],
    /// Estimate of requested bytes allocated by these threads.
    pub allocated_bytes: u64,
    /// Estimate of requested bytes freed by these threads.
    pub freed_bytes: u64,
}

/// What one role allocated and another freed, estimated from samples at their free.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Blocks.
    pub blocks: u64,
    /// Requested bytes.
    pub bytes: u64,
}

/// One size class by usable bytes, estimated from samples.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// Requested bytes allocated.
    pub allocated_bytes: u64,
    /// Blocks allocated.
    pub allocated_blocks: u64,
    /// Requested bytes freed.
    pub freed_bytes: u64,
    /// Blocks freed.
    pub freed_blocks: u64,
}

/// One bucket of the duration of sampled calls into the allocator, see [`crate::latency_of`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// Allocating calls.
    pub allocs: u64,
    /// Freeing calls.
    pub frees: u64,
}

/// A loaded object that a frame was seen in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// Last address + 1; 0 while the row is being written.
    pub end: u64,
    /// What to subtract from an address to get the one in the file.
    pub bias: u64,
    /// When a frame was first seen in it.
    pub first_ns: u64,
    /// When it was found to be replaced or gone; 0 while it is there.
    pub gone_ns: u64,
    /// Bytes of `path`; 0 for the program itself.
    pub path_bytes: u32,
    /// Always 0.
    pub reserved: u32,
    /// Path as the loader knows it, cut at the front when longer.
    pub path: [u8; MODULE_PATH_BYTES],
}

/// A mapping that a direct call of mmap or mremap made and that still stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Region {
    /// First address; 0 for a free row.
    pub start: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// When it was made.
    pub time_ns: u64,
    /// Row of the stacks section, or [`crate::STACK_NONE`].
    pub stack: u32,
    /// Bits of [`region_flag`].
    pub flags: u32,
}

/// Bits of [`Region::flags`].
pub mod region_flag {
    /// Not backed by a file.
    pub const ANONYMOUS: u32 = 1;
    /// `MAP_SHARED`.
    pub const SHARED: u32 = 2;
    /// Called by the allocator that the probe forwards to.
    pub const BY_ALLOCATOR: u32 = 4;
    /// Made without access (`PROT_NONE`): address space, not memory.
    pub const NO_ACCESS: u32 = 8;
    /// Given by the break, not by mmap.
    pub const BREAK: u32 = 16;
}

macro_rules! rows {
    ($($row:ty = $bytes:expr),* $(,)?) => { $(
        // SAFETY: integers and arrays of them only; the size below is the sum of the fields, so
        // there is no padding.
        unsafe impl Pod for $row {}
        const _: () = assert!(size_of::<$row>() == $bytes);
    )* };
}

rows! {
    Section = 24,
    Thread = 128,
    Sample = 48,
    Stack = 128,
    Role = 48,
    Flow = 16,
    Class = 32,
    Latency = 16,
    Module = 256,
    Region = 32,
    Counters = 26 * 8,
    Mappings = 14 * 8,
    Header = 16 + 8 + 16 + 16 + 15 * 8 + 16 * 24 + 26 * 8 + 14 * 8,
}
