//! What tests of several crates share: a skip that is counted, a port that nobody listens on.

mod free_port;
mod skipped;

pub use free_port::free_port;
pub use skipped::skipped;
