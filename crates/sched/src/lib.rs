//! Who got a CPU, who left it and why, who woke whom: the raw material of `highwater stalls`.
//!
//! [`bpf::allowed`] tries what this machine and user permit; [`watch`] is the door to the rest and gives
//! [`event`]s. As root they come from [`ebpf`], without from switch records ([`events`], [`bpf::ring`]).

pub mod calls;
pub mod clocks;
pub mod descriptors;
pub mod ebpf;
pub mod event;
pub mod events;
pub mod gap;
pub mod golang;
pub mod names;
pub mod open_files;
pub mod pace;
pub mod places;
pub mod quota;
pub mod recorded;
pub mod requests;
pub mod room;
pub mod sockets;
pub mod spans;
pub mod stack;
pub mod symbol_table;
pub mod time;
pub mod waits;
pub mod watch;
