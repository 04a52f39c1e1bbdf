//! What tests of several crates share: a skip that is counted, a free port, a cgroup, interpreters, one source of
//! random numbers.
//!
//! In: what a test lacks. Out: a line that CI counts, a number. Called by: tests only.

mod cgroup;
mod fetched;
mod free_port;
pub mod java;
mod python;
mod random;
mod skipped;

pub use cgroup::Cgroup;
pub use fetched::fetched;
pub use free_port::free_port;
pub use python::{python, pythons};
pub use random::Random;
pub use skipped::skipped;
