//! What the programs on the scheduler's tracepoints take, as the kernel measures it, in a part of the time.

use std::os::fd::OwnedFd;

use crate::observe::overhead::fdinfo::{Timed, read_fdinfo};

/// The kernel times the programs for so long, from time to time: timing a run takes some tens of nanoseconds itself.
const WINDOW_NS: u64 = 1_000_000_000;
const EVERY_NS: u64 = 10_000_000_000;

/// The programs, and what they took while they were timed.
pub struct Programs {
    all: Vec<OwnedFd>,
    window: Option<Window>,
    next_ns: u64,
    timed: Taken,
    last: Option<Taken>,
    /// The kernel refused: nothing is known.
    is_refused: bool,
}

struct Window {
    since_ns: u64,
    before: Taken,
    _on: Timed,
}

/// Of all processes of the machine together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    pub run_ns: u64,
    pub runs: u64,
    /// For how long they were timed.
    pub over_ns: u64,
}

impl Taken {
    /// Of one core.
    pub fn core_share(&self) -> f64 {
        self.run_ns as f64 / self.over_ns.max(1) as f64
    }
}

impl Programs {
    pub fn new(all: Vec<OwnedFd>) -> Programs {
        Programs {
            all,
            window: None,
            next_ns: 0,
            timed: Taken::default(),
            last: None,
            is_refused: false,
        }
    }

    /// Begins a window, or ends one.
    pub fn turn(&mut self, now_ns: u64) {
        match &self.window {
            Some(window) if now_ns >= window.since_ns + WINDOW_NS => self.end(now_ns),
            None if now_ns >= self.next_ns && !self.is_refused => self.begin(now_ns),
            _ => {}
        }
    }

    fn begin(&mut self, now_ns: u64) {
        self.next_ns = now_ns + EVERY_NS;
        match Timed::begin() {
            Ok(on) => {
                self.window = Some(Window {
                    since_ns: now_ns,
                    before: self.read(),
                    _on: on,
                });
            }
            Err(_) => self.is_refused = true,
        }
    }

    /// Ends a window that is open.
    pub fn end(&mut self, now_ns: u64) {
        let Some(window) = self.window.take() else {
            return;
        };
        let now = self.read();
        let taken = Taken {
            run_ns: now.run_ns.saturating_sub(window.before.run_ns),
            runs: now.runs.saturating_sub(window.before.runs),
            over_ns: now_ns.saturating_sub(window.since_ns),
        };
        self.timed.run_ns += taken.run_ns;
        self.timed.runs += taken.runs;
        self.timed.over_ns += taken.over_ns;
        self.last = Some(taken);
    }

    /// In the last window that ended.
    pub fn last(&self) -> Option<Taken> {
        self.last
    }

    /// In all windows that ended.
    pub fn timed(&self) -> Option<Taken> {
        (self.timed.over_ns > 0).then_some(self.timed)
    }

    fn read(&self) -> Taken {
        let infos = self.all.iter().map(read_fdinfo);
        infos.fold(Taken::default(), |sum, info| Taken {
            run_ns: sum.run_ns + info.run_time_ns,
            runs: sum.runs + info.run_count,
            ..sum
        })
    }
}
