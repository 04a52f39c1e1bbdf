//! One stretch of a wait, and what filled it.

use super::event::{StackId, TextId, Tid, Wait, WaitKind};

/// What a thread was in that filled somebody's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeafKind {
    OnCpu,
    Runnable,
    Wait(WaitKind),
    /// It waits for a lock whose holder waits, over others or at once, for a lock of its own.
    Deadlock,
    /// Nothing is known of the thread at that time, or nobody is known to have woken it.
    Unseen,
}

/// One stretch of a wait and what filled it.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    pub start_ns: u64,
    pub end_ns: u64,
    pub tid: Tid,
    pub kind: LeafKind,
    pub doing: TextId,
    pub stack: StackId,
    /// Where a leaf that waits does so.
    pub place: u32,
    pub allocator: bool,
    /// Who had the CPU, for a runnable leaf.
    pub after: TextId,
    /// The leaf's stack when it let the waiter go: the function that held what was waited for.
    pub release: StackId,
    /// The same of the thread that ended the waiter's own wait, when the leaf lies further down.
    pub held: StackId,
    /// From the waiter's waker to the leaf: each thread that itself waited, and for what.
    pub hops: Vec<Hop>,
    pub inferred: bool,
    /// A wait that another process ended, or, where nobody saw it, most likely did.
    pub outside: bool,
    /// `tid` waited for this thread, which waited for the reply in its stead; 0: for itself.
    pub helper: Tid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub tid: Tid,
    pub kind: WaitKind,
    pub object: u64,
}

impl Share {
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// A thread that waits until another one has done something: it calls it, as it were.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub tid: Tid,
    pub wait: Wait,
    /// When it began to wait.
    pub since_ns: u64,
    /// Its stack when it let the one go that waited for it.
    pub release: StackId,
}

impl Caller {
    /// `None`: it does not wait for a thread.
    pub fn of(tid: Tid, wait: &Wait, since_ns: u64, release: StackId) -> Option<Caller> {
        let calls = wait.kind == WaitKind::Queue;
        calls.then_some(Caller {
            tid,
            wait: *wait,
            since_ns,
            release,
        })
    }
}
