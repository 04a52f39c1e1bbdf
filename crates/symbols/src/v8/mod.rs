//! JavaScript functions on a thread's stack, read from outside while the thread goes on.
//!
//! All code that V8 makes keeps a frame pointer, and its program publishes the layout of its objects as variables
//! (`v8dbg_*`, written by `tools/gen-postmortem-metadata.py`, for debuggers of crashed processes):
//!
//! ```text
//! frame pointer -> -8   a small number: kind of a frame of V8's own; a pointer: a frame of JavaScript
//!               -> -16  JSFunction -> SharedFunctionInfo -> name, Script (file, source)
//!                                  -> Code -> positions, deoptimisation data: the functions that were inlined
//! ```
//!
//! Objects move, so a function is named when its frame is read, and stands in a stack by its number ([`named`]).
//! Read on x86-64, of Node 18 to 24. What is not exported is where the sources of these versions have it.

mod code;
mod dispatch;
mod elf;
mod functions;
mod heap;
mod layout;
mod shared;
mod walk;

pub use functions::{Function, named};
pub use layout::Numbers;
pub use shared::{Functions, Text};
pub use walk::{Mapped, V8};

/// Set in an address of a stack that is a function of JavaScript and not code.
const JAVASCRIPT: u64 = 3 << 61;

/// Whether an address of a stack is a function of JavaScript.
pub fn is_javascript(address: u64) -> bool {
    address >> 61 == JAVASCRIPT >> 61
}

/// Whether a file is one of Node's own modules, which come with it (`node:internal/streams/readable`).
pub fn is_nodes_own(file: &str) -> bool {
    file.starts_with("node:")
}

/// A program or library that V8 is in, by its file: its functions run for a function of JavaScript further out.
pub fn is_runtime(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file == "node" || file == "nodejs" || file.starts_with("libnode.so")
}
