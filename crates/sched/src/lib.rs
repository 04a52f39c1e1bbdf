//! Who got a CPU, who left it and why, who woke whom: the raw material of `highwater stalls`.
//!
//! In: a pid. Out: [`event`]s in the order of time: a thread runs, waits for something, was woken by somebody. Called
//! by: `highwater stalls`; `stalls` finds out why threads made no progress.
//!
//! A watch can be written to a file and read back ([`recording`]).
//!
//! [`bpf::allowed`] tries what this machine and user permit; [`watch`] is the door to the rest. As root events come
//! from eBPF programs ([`ebpf`]), without from perf's switch records ([`events`], [`bpf::ring`]).
//!
//! ```text
//! Ebpf (records of programs)  --+
//! Events (records of perf)      +--> Watch --> Event { at, thread, what } --> stalls::Analyser
//! Goroutines (hits of uprobes) -+
//! Answers (records of programs on sockets) --> requests of the watch
//! ```

pub mod answers;
pub mod calls;
pub mod clocks;
pub mod descriptors;
pub mod ebpf;
mod epolls;
pub mod event;
pub mod events;
mod file_locks;
mod function_names;
pub mod gap;
pub mod golang;
pub mod listen;
pub mod names;
pub mod open_files;
mod otlp;
pub mod pace;
mod pipes;
pub mod places;
pub mod quota;
pub mod recorded;
pub mod recording;
pub mod requests;
pub mod room;
pub mod sockets;
pub mod spans;
pub mod stack;
pub mod symbol_table;
mod symbolless;
mod syscall;
pub mod time;
mod unsent;
pub mod waits;
pub mod watch;
