//! An arm is a fact, not a setting: what a process really runs, read from the process itself.
//!
//! A preload that fails is silent: the loader prints a line and the program runs on glibc. So the
//! allocator of each process is proved from its memory: the dynamic linker's list of loaded
//! objects gives the lookup order of `malloc`; the slots through which the program and its
//! libraries call `malloc` show which one they were really bound to.
//!
//! Keys of the facts; a fact holds until the next one of its key, an empty value means "not known":
//!
//! | key | value |
//! |---|---|
//! | `exe` | the program, as the kernel names it (` (deleted)` included) |
//! | `maps.digest` | changes when a code file is mapped, replaced or gone |
//! | `malloc.library` | the file that answers malloc; or the program itself, and what is inside |
//! | `malloc.address` | of malloc in this process, hexadecimal |
//! | `malloc.proof` | how it was found; `inferred ...` when memory could not be read |
//! | `malloc.bound` | how many callers were seen to be bound to it, and who is bound elsewhere |
//! | `malloc.others` | further mapped files that export malloc |
//! | `allocator.path`, `.build_id`, `.sha256`, `.family`, `.version` | that file |
//! | `alive` | `yes`, `no` ([`liveness`]) |

pub mod arm;
pub mod image;
pub mod inside;
pub mod library;
pub mod linker;
pub mod liveness;
pub mod maps;
pub mod memory;
pub mod program;
pub mod proof;
pub mod prover;
pub mod sanitizer;
pub mod sections;

pub use super::foreign::open_file;
