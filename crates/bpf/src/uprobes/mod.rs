//! Uprobes: breakpoints of the kernel in the code of one process, with eBPF programs that run at each hit.
//!
//! They hang on descriptors, so that a highwater that is killed leaves nothing behind, unless SIGKILL meets a call that
//! sets or clears breakpoints: the kernel writes no memory for a task that is about to die (`get_user_pages_remote`),
//! warns of a "leaking uprobe", and the breakpoints stay until they are put on once more and taken off. No other
//! process of the same file has them; a child that the process forks inherits the breakpoints, and loses them when the
//! probes come off.

mod attach;
pub mod changes;
pub mod entry;
pub mod hits;
pub mod own;
pub mod record;

pub use self::attach::{PROG_TYPE_KPROBE, Put, Target, Way, put};
