//! The layout of allocation traces, `.hwt` version 1, and the encoder that runs inside the recorded program.
//!
//! In: what a malloc or free was called with. Out: bytes in a chunk of the trace. Called by: the recorder inside
//! `libhighwater_probe.so`, which writes, and `crates/trace`, which reads.
//!
//! ```text
//! 0      Header, one page of 4 KiB: written by the recorder (in the program) and by highwater
//! 4096   Chunk, 4 KiB to 256 KiB, each of one thread or of highwater itself; the next one follows at once
//! ```
//!
//! The file is mapped shared by both. The recorder takes chunks by moving [`Header::next`] and never past
//! [`Header::limit`], up to which highwater has allocated disk blocks: a write to the mapping cannot fail on a full
//! disk. A chunk's [`Chunk::used`] moves after each event, so a program that is killed loses nothing.
//! All integers are little-endian. Nothing here allocates, locks or makes a system call.
#![cfg_attr(not(test), no_std)]

pub mod chunk;
pub mod event;
pub mod header;
pub mod varint;

pub use chunk::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_MAGIC, Chunk, kind};
pub use event::{EVENT_BYTES_MAX, Event, TouchOf};
pub use header::{CLOSED, HEADER_BYTES, Header, MAGIC, VERSION, clock, off_reason, state};

/// The environment variable that names the trace's file to the recorder.
pub const RECORD_VARIABLE: &str = "HIGHWATER_PROBE_RECORD";

/// Blocks of this size and more have their resident pages counted.
pub const TOUCH_BYTES_MIN: u64 = 32 << 10;

/// Addresses are stored in units of 16 bytes: no allocator of 64-bit Linux aligns to less, but for blocks of 8 bytes.
/// Those are told apart by [`event::HALF`].
pub const ADDRESS_SHIFT: u32 = 4;
