//! The memory that highwater's heap probe keeps inside a process: its layout, and a reader of a
//! copy of it.
//!
//! The probe writes, `highwater` reads, and nothing but this crate is between them. The mapping is
//! private to the process (a forked child inherits a copy that then counts on for itself); the
//! reader copies it from outside with `process_vm_readv` while the process runs. The copy is
//! therefore never one instant: every entry that has more than one word carries a check, and a torn
//! one is left out and counted.
//!
//! How a reader finds it, with PID's `/proc/PID/maps` and `/proc/PID/mem` (or `process_vm_readv`):
//! 1. [`find_header`] names the address of the mapping that is called [`MAPPING_NAME`]. Its first page is the
//!    [`Header`]; `total_bytes` says how much to copy from that address. Only the first page has the name: the rest
//!    are anonymous mappings right behind it.
//! 2. Without such a name (the probe could not name it, or is off for good), [`anchor_candidates`]
//!    lists the writable mappings of the probe's library; [`Anchor::find`] finds the 64-byte anchor in their bytes,
//!    which holds the state and the address of the header (zero when there is none).
//!
//! All integers are little-endian and as wide as written. Times are `CLOCK_MONOTONIC` nanoseconds
//! unless a name says otherwise. Sizes are bytes. Nothing here allocates; no dependency, no `std`.
//!
//! Weights: an allocation of `size` requested bytes is sampled with probability `1 -
//! exp(-size/mean)`, `mean` being the entry's own. One sample therefore stands for `1/(1 -
//! exp(-size/mean))` allocations, and `size` times that many requested bytes. Sums that the probe
//! keeps itself (stacks, size classes, matrix) are already weighted.

#![no_std]
#![deny(missing_docs)]

mod anchor;
mod buckets;
mod layout;
mod maps;
mod pod;
mod read;
mod rows;

pub use anchor::{ANCHOR_MAGIC, Anchor};
pub use buckets::{
    CLASSES, LATENCIES, LIFETIMES, class_of, class_upper_bytes, latency_of, latency_upper_ns,
    lifetime_of, lifetime_upper_ns,
};
pub use layout::{
    Counters, DEPTH_MAX, HEADER_BYTES, Header, MAGIC, MODULE_PATH_BYTES, Mappings, OVERFLOW_THREAD,
    PAGE_BYTES, ROLE_NONE, ROLES, SAMPLES_NS_MIN, STACK_NONE, Section, SectionKind, State,
    TOTAL_BYTES_MAX, VERSION, bytes_mode, off_reason,
};
pub use maps::{
    LIBRARY_NAME, MAPPING_NAME, MapRange, anchor_candidates, find_header, find_headers,
};
pub use pod::Pod;
pub use read::{Error, Frames, Rows, Snapshot, read, read_header};
pub use rows::{
    Class, Flow, Latency, Module, PYTHON_CODE, Region, Role, Sample, Stack, Thread, region_flag,
    sample_check, stack_flag, stack_why, thread_state,
};
