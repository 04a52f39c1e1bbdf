//! One switch for a Rust program's allocator, and a meter of its heap.
//!
//! ```toml
//! [dependencies]
//! highwater-alloc = { version = "0.1", features = ["snmalloc"] }
//! ```
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();
//!
//! println!("{} {}", highwater_alloc::NAME, highwater_alloc::VERSION);
//! ```
//!
//! One cargo feature chooses: `system`, `jemalloc`, `mimalloc2`, `mimalloc3`, `snmalloc`, `rpmalloc` or `tcmalloc`;
//! with none of them it is the system's. Two of them do not compile. Without the feature `meter` the type is a
//! name for the allocator's own: every call is that allocator's, instruction for instruction.
//!
//! With `meter`, every call is counted exactly and one in many is looked at closely, in memory that the `highwater`
//! tool reads from outside: `highwater explain` sees an allocator that is linked into the program, which a preloaded
//! probe cannot. See the module `meter`.
//!
//! [`purge`] gives free memory back and [`statistics`] asks the allocator about itself, each as far as the allocator
//! can; [`openmetrics`] writes both, and the meter's figures, as text.

#![cfg_attr(not(any(feature = "meter", test)), no_std)]
#![deny(missing_docs)]

// `chosen` is set by build.rs, which refuses two.
#[cfg_attr(chosen = "system", path = "chosen/system.rs")]
#[cfg_attr(chosen = "jemalloc", path = "chosen/jemalloc.rs")]
#[cfg_attr(chosen = "mimalloc", path = "chosen/mimalloc.rs")]
#[cfg_attr(chosen = "snmalloc", path = "chosen/snmalloc.rs")]
#[cfg_attr(chosen = "rpmalloc", path = "chosen/rpmalloc.rs")]
#[cfg_attr(chosen = "tcmalloc", path = "chosen/tcmalloc.rs")]
mod chosen;
#[cfg(feature = "meter")]
pub mod meter;
#[cfg(feature = "meter")]
mod metered;
mod openmetrics;
mod plain;
mod statistics;

/// Name of the allocator that the features chose, as in highwater's catalogue.
pub const NAME: &str = chosen::NAME;
/// Its version; of the system's allocator the C library's kind.
pub const VERSION: &str = chosen::VERSION;

pub use openmetrics::openmetrics;
pub use plain::Allocator;
pub use statistics::{Purged, Statistics, purge, statistics};
