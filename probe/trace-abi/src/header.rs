//! The first page of a trace.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The first eight bytes of the file.
pub const MAGIC: [u8; 8] = *b"HWTRACE\0";

/// Raised whenever a reader of the version before would misread the file.
pub const VERSION: u32 = 1;

/// Where the first chunk starts.
pub const HEADER_BYTES: u64 = 4096;

/// [`Header::next`] once no chunk may be taken any more.
pub const CLOSED: u64 = u64::MAX;

/// Whether a process records.
pub mod state {
    /// highwater has made the file; no process has taken it.
    pub const WAITING: u32 = 0;
    /// The process [`super::Header::pid`] records.
    pub const TAKEN: u32 = 1;
    /// It has stopped; [`super::Header::off_reason`] says why.
    pub const OFF: u32 = 2;
}

/// Why recording stopped before the program ended.
pub mod off_reason {
    /// It did not.
    pub const NONE: u32 = 0;
    /// The file reached its largest size.
    pub const MAX_SIZE: u32 = 1;
    /// The disk is full, or nearly.
    pub const DISK_FULL: u32 = 2;
    /// highwater ended it: `--for` was over.
    pub const REQUESTED: u32 = 3;
    /// highwater itself was gone, or too slow to allocate disk blocks.
    pub const NO_ROOM: u32 = 4;
    /// The recorder could not map the file.
    pub const NO_MEMORY: u32 = 5;
    /// The program confined itself (seccomp) so that the recorder could not go on.
    pub const CONFINED: u32 = 6;
}

/// Ticks of the events' time stamps.
pub mod clock {
    /// `rdtsc` of x86_64, in units of 16.
    pub const TSC: u32 = 1;
    /// `CLOCK_MONOTONIC`, ns.
    pub const MONOTONIC: u32 = 2;
}

/// The first page. Who writes a field stands beside it.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of a page of the recording machine.
    pub page_bytes: u32,
    /// One of [`clock`]: highwater chooses.
    pub clock: u32,
    /// 1 once highwater has finished the file: chunks have checksums, and nothing is written any more.
    pub sealed: u32,
    /// First byte that no chunk has; [`CLOSED`] at the end. Both move it.
    pub next: AtomicU64,
    /// Bytes of the file that have disk blocks; no chunk may end after this. highwater moves it;
    /// at the end it is the length of the file.
    pub limit: AtomicU64,
    /// Largest size of the file: bytes that the recorder maps.
    pub max_bytes: u64,
    /// One of [`state`].
    pub state: AtomicU32,
    /// The process that records, as it sees itself.
    pub pid: AtomicU32,
    /// How often that process took the file: 1, and one more for each exec.
    pub images: AtomicU32,
    /// Thread numbers that were given out.
    pub threads: AtomicU32,
    /// highwater sets it: no event is recorded any more.
    pub stop: AtomicU32,
    /// One of [`off_reason`].
    pub off_reason: AtomicU32,
    /// Events of signal handlers that interrupted the recorder: not recorded.
    pub lost_nested: AtomicU64,
    /// Other processes that were started with the trace's name and did not record.
    pub others: AtomicU32,
    /// Zero.
    pub reserved: u32,
    /// Ticks of [`Header::clock`] at the start, and the clocks of the kernel at that instant, ns.
    pub start_ticks: u64,
    pub start_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    /// The same at the end, or at the last sample; 0: highwater was killed before the first.
    pub end_ticks: AtomicU64,
    pub end_monotonic_ns: AtomicU64,
    /// Ticks when recording stopped early, if it did.
    pub off_ticks: AtomicU64,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES as usize);
