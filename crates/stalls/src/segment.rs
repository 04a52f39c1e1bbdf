//! What a thread was in from when to when, and what was seen of it on a CPU.

use super::event::{StackId, TextId, Wait, WaitKind, Waker};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    pub start_ns: u64,
    pub end_ns: u64,
    pub state: State,
}

impl Segment {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Somebody outside of the program ended a wait for its peers, or for another process, before its time was over.
    pub fn is_reply(&self) -> bool {
        let State::Blocked { wait, by, .. } = self.state else {
            return false;
        };
        let is_over = wait.limit_ns != 0 && self.ns() >= wait.limit_ns;
        matches!(wait.kind, WaitKind::Outbound | WaitKind::Process)
            && by == Some(Waker::Outside)
            && !is_over
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Running,
    /// Wanted a CPU; `after` is who had the one that it got.
    Runnable {
        after: TextId,
    },
    Blocked {
        wait: Wait,
        by: Option<Waker>,
        /// The waker's stack as it ended the wait.
        release: StackId,
    },
}

/// A stack seen on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub at_ns: u64,
    pub stack: StackId,
    pub activity: TextId,
    pub allocator: bool,
}
