//! Who got a CPU, who left it and why, who woke whom: the raw material of `highwater stalls`.
//!
//! [`allowed`] tries what this machine and user permit; [`watch`] is the door to the rest and gives
//! [`event`]s. As root they come from [`ebpf`], without from switch records ([`events`], [`ring`]).

pub mod allowed;
pub mod calls;
pub mod clocks;
pub mod descriptors;
pub mod ebpf;
pub mod event;
pub mod events;
pub mod gap;
pub mod golang;
pub mod kernel;
pub mod memory;
pub mod names;
pub mod pace;
pub mod places;
pub mod quota;
pub mod recorded;
pub mod registers;
pub mod requests;
pub mod ring;
pub mod sockets;
pub mod spans;
pub mod stack;
pub mod symbol_table;
pub mod tables;
pub mod unwind;
pub mod waits;
pub mod watch;

/// By threads, places and the like, which nobody chooses to harm us: hashed cheaply, and always in the same order.
pub type Table<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
