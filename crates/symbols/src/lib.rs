//! From addresses to functions, for the heap and for the scheduler alike.
//!
//! In: a process's mapped files, a stack's bytes and registers, `/tmp/perf-PID.map`. Out: return addresses and
//! functions of Java and JavaScript ([`unwind::Stacks`], [`hotspot`], [`v8`]), call sites, names as people write them
//! ([`demangle`]). Called by: `heap`, `sched` and `bpf`.

pub mod call_site;
pub mod debug_files;
pub mod demangle;
pub mod frame;
pub mod golang;
pub mod hotspot;
pub mod managed;
pub mod memory;
pub mod package;
pub mod perf_map;
pub mod python;
pub mod registers;
pub mod separate;
mod signed;
pub mod standard_library;
pub mod tables;
pub mod unwind;
mod unwind_tables;
pub mod v8;
pub mod xz;
