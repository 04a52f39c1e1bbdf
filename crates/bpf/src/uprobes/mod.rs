//! Uprobes: breakpoints of the kernel in the code of one process, with eBPF programs that run at each hit.
//!
//! They hang on descriptors of small processes of highwater's own ([`holders`]), which end with highwater, however it
//! ends. No other process of the same file has the breakpoints; a child that the process forks inherits them, and loses
//! them when the probes come off.

mod attach;
pub mod changes;
pub mod entry;
pub mod hits;
mod holders;
pub mod own;
pub mod record;
mod set;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub use self::attach::{Coming, PROG_TYPE_KPROBE, Put, Target, Way};
pub use self::holders::prepare;
