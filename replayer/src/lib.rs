//! The two files of a replay: the plan that the replayer reads, and the outcome that it writes. Both are mapped; they
//! belong to one run of one highwater, and are no format to keep.
//!
//! In: a plan and an empty outcome. Out: the outcome, filled. Called by: `crates/replay`, which makes the one and reads
//! the other; the program `highwater-replayer`, which does the work.

/// Raised with every change: both programs come from one build.
pub const VERSION: u32 = 1;

pub const PLAN_MAGIC: [u8; 8] = *b"HWPLAN\0\0";
pub const OUTCOME_MAGIC: [u8; 8] = *b"HWOUTC\0\0";

/// Where what follows the header starts.
pub const HEADER_BYTES: usize = 4096;

/// Stack of each replayed thread.
pub const STACK_BYTES: usize = 256 << 10;

/// A place in the plan: bytes from its start, and a number of entries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Section {
    pub at: u64,
    pub count: u64,
}

/// The first page of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Plan {
    pub magic: [u8; 8],
    pub version: u32,
    /// Slots of blocks.
    pub slots: u32,
    /// Threads at once, at most.
    pub lanes: u32,
    pub reserved: u32,
    /// [`Record`], of all threads.
    pub records: Section,
    /// [`Segment`], in the order of epochs.
    pub segments: Section,
    /// [`Epoch`], in the order of time.
    pub epochs: Section,
    /// [`Thread`]; the first is the main thread.
    pub threads: Section,
    /// Times (u64, ns) at which memory is sampled, in order.
    pub samples: Section,
    /// Length of the trace, ns.
    pub length_ns: u64,
}

/// What is done with a slot.
pub mod op {
    pub const MALLOC: u8 = 0;
    pub const CALLOC: u8 = 1;
    pub const ALIGNED: u8 = 2;
    pub const FREE: u8 = 3;
    pub const RESIZE: u8 = 4;
    /// The thread has ended; no slot.
    pub const END: u8 = 5;
}

/// All pages of the block are written to.
pub const TOUCH_ALL: u8 = 255;

/// One operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Record {
    pub slot: u32,
    /// How many operations of this slot come before it.
    pub turn: u32,
    pub bytes_low: u32,
    pub bytes_high: u8,
    /// One of [`op`].
    pub op: u8,
    pub align_log2: u8,
    /// Share of the block's pages that are written to, of [`TOUCH_ALL`].
    pub touch: u8,
}

/// A block of more is asked for as one of so much: no machine has it.
pub const BYTES_MAX: u64 = (1 << 40) - 1;

impl Record {
    /// Bytes of the block.
    pub fn bytes(&self) -> usize {
        (u64::from(self.bytes_high) << 32 | u64::from(self.bytes_low)) as usize
    }

    /// With so many bytes.
    pub fn with_bytes(mut self, bytes: u64) -> Record {
        let bytes = bytes.min(BYTES_MAX);
        (self.bytes_low, self.bytes_high) = (bytes as u32, (bytes >> 32) as u8);
        self
    }
}

/// What one thread does in one epoch.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Segment {
    pub thread: u32,
    pub count: u32,
    /// Index of its first record.
    pub first: u64,
}

/// A stretch of the trace: its threads run at once, and the next begins when all have finished.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Epoch {
    /// The clock while it lasts, ns since the start of the trace.
    pub time_ns: u64,
    pub first_segment: u32,
    pub segments: u32,
}

/// A thread of the recorded program.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Thread {
    /// Which stack it runs on. A thread with the same one has ended two epochs before or more.
    pub lane: u32,
    /// The epoch after which it ends; [`NO_END`]: it does not.
    pub last_epoch: u32,
}

/// [`Thread::last_epoch`] of a thread that was alive at the end of the trace.
pub const NO_END: u32 = u32::MAX;

/// A block while it is replayed.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    pub block: std::sync::atomic::AtomicPtr<u8>,
    /// Operations done.
    pub turn: std::sync::atomic::AtomicU32,
    pub reserved: u32,
}

/// How far a replay has come.
pub mod stage {
    pub const EMPTY: u32 = 0;
    /// The plan is mapped, nothing is replayed yet.
    pub const STARTED: u32 = 1;
    pub const FINISHED: u32 = 2;
    /// The plan or the machine does not allow it; [`super::Outcome::error`] says why.
    pub const REFUSED: u32 = 3;
}

/// Why the replayer gave up.
pub mod refused {
    pub const NONE: u32 = 0;
    pub const PLAN: u32 = 1;
    pub const MEMORY: u32 = 2;
    pub const THREAD: u32 = 3;
    /// Its own anonymous memory at the start is more than a replay may begin with.
    pub const BASE: u32 = 4;
}

/// Length of a path in an outcome.
pub const PATH_BYTES: usize = 1024;

/// The first page of an outcome; behind it a u64 for each sample: resident anonymous bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Outcome {
    pub magic: [u8; 8],
    pub version: u32,
    /// One of [`stage`].
    pub stage: u32,
    /// One of [`refused`].
    pub error: u32,
    pub reserved: u32,
    /// Epochs done.
    pub epochs: u64,
    /// Samples taken.
    pub samples: u64,
    /// Resident anonymous bytes before the first operation.
    pub base_bytes: u64,
    /// Calls of the virtual clock.
    pub clock_reads: u64,
    /// Allocations that returned null.
    pub failed: u64,
    /// Of the whole process, from the first operation to the last.
    pub minor_faults: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub wall_ns: u64,
    /// The object that answers `malloc`, ended by a zero byte.
    pub malloc_path: [u8; PATH_BYTES],
}

const _: () = assert!(size_of::<Plan>() <= HEADER_BYTES && size_of::<Outcome>() <= HEADER_BYTES);
const _: () = assert!(size_of::<Record>() == 16 && size_of::<Slot>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_back() {
        let record = Record {
            slot: 0,
            turn: 0,
            bytes_low: 0,
            bytes_high: 0,
            op: op::MALLOC,
            align_log2: 0,
            touch: TOUCH_ALL,
        };
        for bytes in [0, 1, u64::from(u32::MAX), 1 << 32, BYTES_MAX] {
            assert_eq!(record.with_bytes(bytes).bytes() as u64, bytes);
        }
        assert_eq!(record.with_bytes(u64::MAX).bytes() as u64, BYTES_MAX);
    }
}
