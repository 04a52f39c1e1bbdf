//! What the kernel runs and records for highwater: eBPF programs and their maps, perf events and their rings, uprobes.
//!
//! In: a process, an instruction of its file, a compiled program ([`object::Object`]; their sources are in `programs`,
//! in C). Out: records of what happened, and what the kernel spent on it ([`timed`], [`fdinfo`], [`uprobes::changes`]).
//! Called by: `heap` and `sched`; [`allowed`] says what this user and machine permit. Everything hangs on descriptors:
//! a highwater that is killed leaves nothing behind.
//!
//! ```text
//! programs/*.bpf.c --make bpf--> objects/*.o --Object::parse--> its maps (Hash, Array, Ring: heap and sched read them)
//!                                                 |
//!                                                 +-- set, view, load --> a program --uprobes::put--> breakpoints
//! ```

pub mod allowed;
pub mod btf;
pub mod fdinfo;
pub mod kernel;
mod load;
pub mod map;
pub mod object;
pub mod python;
pub mod registers;
pub mod ring;
pub mod timed;
pub mod uprobes;
