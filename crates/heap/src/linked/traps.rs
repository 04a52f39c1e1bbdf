//! What an account by uprobes rests on, and what they cost.

use super::pace::{Cost, Counted};
use super::place::On;
use observe::overhead::StopCause;

/// What the account rests on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traps {
    pub functions: usize,
    /// They were put on when the program began.
    pub at_start: bool,
    /// Whose functions they are on.
    pub on: On,
    pub hits: u64,
    /// Of them, those for which the kernel made a step of its own.
    pub stepped: u64,
    pub samples: u64,
    /// Of them, those whose result is not known: left by an exception or a `longjmp`, or by an exit without a probe.
    pub without_result: u64,
    /// Measured on functions of our own.
    pub cost: Cost,
    /// While the probes were on.
    pub hits_per_second: f64,
    /// Of one core, taken by the traps over all the time.
    pub core_share: f64,
    /// Of the time, for how much allocations were sampled; 1: all.
    pub watched_share: f64,
    /// Frees were probed all the time, so that every sampled block was followed to its end.
    pub sees_frees: bool,
    /// Of the blocks whose end is known, those that were given anew while nobody had seen them freed: their frees are
    /// inlined, or pass by the functions that have names.
    pub unseen_share: f64,
    /// Instructions that are breakpoints while the probes are on.
    pub places: usize,
    /// Kernel memory of maps and programs.
    pub kernel_bytes: u64,
    /// They came off for good after so many seconds.
    pub stopped: Option<(f64, StopCause)>,
}

/// What probes on mmap and mremap saw and took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Calls {
    /// Of mmap and mremap that gave memory.
    pub seen: u64,
    /// That were not taken in, for want of room.
    pub dropped: u64,
    /// The probes came off for good: over their budget, or their holder was ended from outside.
    pub came_off: bool,
    /// Of the process's CPU time, by what a hit took at the start on functions of highwater's own.
    pub cpu_s: f64,
}

/// Frees that may pass by unseen. An address may come back after an unmapping, or on a thread that was between two
/// probes.
const UNSEEN_MAX: f64 = 0.02;

impl Traps {
    /// glibc's own headers tell of its heap as a whole. To the uprobes what was allocated before they were put on is
    /// not known, nor what was freed while nobody watched.
    pub fn has_headers(&self) -> bool {
        self.on == On::Glibc
    }

    /// CPU time of a hit, nanoseconds: their mean.
    pub fn hit_ns(&self) -> f64 {
        let stepped = self.stepped as f64 / self.hits.max(1) as f64;
        self.cost.hit_ns + stepped * self.cost.step_ns
    }

    /// CPU time that they took of the subject, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cost.seconds(Counted {
            hits: self.hits,
            stepped: self.stepped,
            samples: self.samples,
            ..Counted::default()
        })
    }

    /// Whether blocks can be asked after: of each it is known that nobody freed it, from its end or from glibc's
    /// headers.
    pub fn tells_live(&self) -> bool {
        self.sees_all() || self.has_headers()
    }

    /// Whether the end of every sampled block is seen.
    pub fn sees_all(&self) -> bool {
        self.sees_frees && self.unseen_share <= UNSEEN_MAX
    }
}
