//! Waits in which a request lay: in its socket, though the thread that took it up later was free; or with its thread,
//! for something that no other thread was at work on.

use super::cause::Cause;
use super::event::{GOROUTINES, Tid};
use super::pieces::Piece;

/// A wait of the receiver's that cannot have been for requests, for one was there: a loop within a loop, which waits
/// for another descriptor, a wait for another client alone, or a goroutine that the runtime did not run. Or one of a
/// thread that has one client, between that one's request and its answer: a lock whose holder waits itself, for its
/// own client or a clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Untaken {
    pub tid: Tid,
    pub start_ns: u64,
    pub end_ns: u64,
    pub wait: Piece,
    /// The request had been taken up.
    pub is_taken: bool,
    /// The goroutine that was on a CPU for most of it.
    pub runner: Option<Tid>,
    /// Its control group's quota was used up for half of it or more: then nothing ran.
    pub is_throttled: bool,
}

impl Untaken {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    pub fn cause(&self) -> Cause {
        match self.tid >= GOROUTINES {
            _ if self.is_throttled => Cause::CpuQuota,
            _ if self.is_taken => Cause::Lock,
            true => Cause::Runtime,
            false => Cause::Network,
        }
    }
}
