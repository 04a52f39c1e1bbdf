//! Who got a CPU, who left it and why, who woke whom: the raw material of `highwater stalls`.
//!
//! [`allowed`] tries what this machine and user permit.

pub mod allowed;
pub mod descriptors;
pub mod ebpf;
pub mod events;
pub mod kernel;
pub mod memory;
pub mod places;
pub mod quota;
pub mod ring;
pub mod unwind;
pub mod waits;
pub mod watch;
