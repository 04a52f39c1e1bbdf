//! Uprobes: breakpoints of the kernel in the code of one process, with eBPF programs that run at each hit.
//!
//! They hang on descriptors, so that a highwater that is killed leaves nothing behind. No other process of the same
//! file has them; a child that the process forks inherits the breakpoints, and loses them when the probes come off.

mod attach;
pub mod changes;
pub mod entry;
pub mod hits;
pub mod own;
pub mod record;

pub use self::attach::{PROG_TYPE_KPROBE, Put, Target, Way, put};
