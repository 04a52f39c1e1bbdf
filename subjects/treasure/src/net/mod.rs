//! Bytes in, bytes out: what both ways of waiting for the network share.

pub mod committer;
pub mod epoll;
pub mod exchange;
pub mod http;
pub mod listen;
pub mod uring;

use std::time::Duration;

/// Limits on a connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Without a byte for so long it is dropped.
    pub idle: Duration,
    /// An answer must have been read after so long.
    pub slow: Duration,
    /// Connections of the whole process.
    pub connections: usize,
}
