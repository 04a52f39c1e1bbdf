//! What a watch tells: who got a CPU, who left it and why, who woke whom.
//!
//! Times are CLOCK_MONOTONIC nanoseconds. A thread is a [`Tid`]; a goroutine is one too, with a
//! number of its own above [`GOROUTINES`].

use serde::{Deserialize, Serialize};

/// A thread as the kernel numbers it, or a goroutine: the n-th that was seen is [`GOROUTINES`] + n.
pub type Tid = u64;

/// Kernel thread numbers end at 2^22; goroutines start here.
pub const GOROUTINES: Tid = 1 << 32;

/// Of threads and goroutines that ended, the newest of which more is remembered than their stalls: a server may start
/// one for each request.
pub const ENDED_KEPT: usize = 20_000;

/// An index into the texts that the observer keeps; 0 is none.
pub type TextId = u32;

/// An index into the stacks that the observer keeps; 0 is none.
pub type StackId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub at_ns: u64,
    pub tid: Tid,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Got a CPU; `after` names the program that had that CPU until now (0: idle, or not known).
    In {
        after: TextId,
    },
    /// Left its CPU although it wanted to run on.
    Preempted,
    /// Left its CPU to wait.
    Blocked(Wait),
    /// What the present wait is about, learnt while it lasts.
    Sample(Wait),
    /// Became runnable, made so by `by`; `release` is the waker's stack at that moment, when known.
    Woken {
        by: Waker,
        release: StackId,
    },
    /// The wait that ended just before was for a page (major fault).
    Faulted {
        activity: TextId,
        stack: StackId,
    },
    /// Was on a CPU with this stack.
    OnCpu {
        stack: StackId,
        activity: TextId,
        allocator: bool,
    },
    /// Between now and the last such event of this thread it was runnable and not running for
    /// `ns`, by the kernel's own count: known without privileges.
    RunDelay {
        ns: u64,
    },
    /// All its time on a CPU so far, by the kernel's own count, which leaves out what a virtual machine's host gave
    /// to other guests meanwhile; `host` names those.
    Ran {
        ns: u64,
        host: TextId,
    },
    /// It is not in what the last records said: some were lost. What it is in is not known until the next.
    Unsure,
    Exited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waker {
    Thread(Tid),
    /// Another process, an interrupt, a timer.
    Outside,
}

impl Waker {
    pub fn tid(self) -> Option<Tid> {
        match self {
            Waker::Thread(tid) => Some(tid),
            Waker::Outside => None,
        }
    }
}

/// Objects from here on are no addresses: files that are locked, which have no owner word.
pub const NO_ADDRESS: u64 = 1 << 63;

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub kind: WaitKind,
    /// Address of the lock or condition, number of the file descriptor; 0 when not known.
    pub object: u64,
    /// The holder that the lock's own word names.
    pub holder: Option<Tid>,
    /// In words: "fsync of /var/lib/x.wal".
    pub activity: TextId,
    pub stack: StackId,
    /// Where in its program the thread waits: calls and stack pointer as one number, 0 when not known.
    /// The same chain of calls of one thread has the same.
    pub place: u32,
    /// The thread waits inside the allocator (malloc, free, madvise ...).
    pub allocator: bool,
    /// The wait ends by itself after a time that the thread chose.
    pub timed: bool,
    /// A wait for several things at once ends after so long by itself, nanoseconds; 0: it does not, or not known.
    pub limit_ns: u64,
    /// For a lock that several may have at a time, until all of them let go.
    pub shared: bool,
    /// For the next request on one connection that a client opened: the thread works for that client.
    pub one_client: bool,
}

impl Wait {
    pub const fn of(kind: WaitKind, object: u64) -> Wait {
        Wait {
            kind,
            object,
            holder: None,
            activity: 0,
            stack: 0,
            place: 0,
            allocator: false,
            timed: false,
            limit_ns: 0,
            shared: false,
            one_client: false,
        }
    }

    /// For a lock of a file, which other processes may have.
    pub fn is_of_a_file(&self) -> bool {
        self.kind == WaitKind::Lock && self.object >= NO_ADDRESS
    }

    /// A signal or a debugger has stopped the thread, wherever it was.
    pub fn stop() -> Wait {
        Wait::of(WaitKind::Sleep, NO_ADDRESS)
    }

    pub fn is_stop(&self) -> bool {
        self.kind == WaitKind::Sleep && self.object == NO_ADDRESS
    }

    /// What is known after another sample: the newer word, except where it is silent.
    pub fn joined(self, sample: Wait) -> Wait {
        let or = |new, old| if new != 0 { new } else { old };
        // Whether clients are among what is waited for: the words were of what was known then.
        let pair = [self.kind, sample.kind];
        let anew = pair == [WaitKind::Outbound, WaitKind::Inbound];
        Wait {
            kind: match sample.kind {
                WaitKind::Unknown => self.kind,
                known => known,
            },
            object: match sample.object {
                0 => self.object,
                known => known,
            },
            holder: sample.holder.or(self.holder),
            activity: if anew {
                sample.activity
            } else {
                or(sample.activity, self.activity)
            },
            stack: or(sample.stack, self.stack),
            place: or(sample.place, self.place),
            allocator: self.allocator || sample.allocator,
            timed: self.timed || sample.timed,
            limit_ns: self.limit_ns.max(sample.limit_ns),
            shared: self.shared || sample.shared,
            one_client: self.one_client || sample.one_client,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitKind {
    /// A mutex or a read-write lock.
    Lock,
    /// A condition, a park, a semaphore, a pipe: something another thread may answer.
    Queue,
    /// The next request: accept, epoll, a connection that a client opened.
    Inbound,
    /// Any of several connections that the program opened itself, or a word of its own threads: a reply where somebody
    /// outside the program ends it, else idle.
    Outbound,
    /// A reply from somewhere else.
    Network,
    Disk,
    /// A page that is not in memory.
    Fault,
    /// The address space itself: madvise, munmap, mmap, or a fault while another thread does so.
    Memory,
    Sleep,
    /// A signal, or what the kernel does for itself: idle by nature.
    Other,
    /// Nobody looked.
    Unknown,
    /// A child process: that it ends, or what it writes. Idle in a thread that waits for nothing else. A recording has
    /// these by their numbers: another one comes last.
    Process,
}

impl WaitKind {
    /// For what somebody outside of the program was asked.
    pub fn is_for_an_answer(self) -> bool {
        matches!(self, WaitKind::Network | WaitKind::Process)
    }
}
