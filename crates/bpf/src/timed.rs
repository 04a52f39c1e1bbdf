//! What the programs on the scheduler's tracepoints take: the kernel times them in a part of the time, and counts the
//! machine's context switches, at each of which they run, always.

use std::os::fd::OwnedFd;

use crate::fdinfo::{Timed, read_fdinfo};

/// The kernel times the programs for so long, from time to time: timing a run takes some tens of nanoseconds itself.
const WINDOW_NS: u64 = 1_000_000_000;
const EVERY_NS: u64 = 10_000_000_000;
/// Of the context switches, windows see one in so many at least.
const ONE_IN: u64 = 10;
/// The count is read so often: the kernel sums `/proc/stat` up over all CPUs and interrupts.
const COUNTED_NS: u64 = 1_000_000_000;

/// The programs, and what they took while they were timed.
pub struct Programs {
    all: Vec<OwnedFd>,
    window: Option<Window>,
    next_ns: u64,
    timed: Taken,
    /// The kernel refused: nothing is known.
    is_refused: bool,
    /// Context switches of the machine: at the last reading that succeeded, and from the first one up to it.
    counted: Option<u64>,
    switches: u64,
    counted_ns: u64,
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
    /// Context switches of the machine meanwhile.
    pub switches: u64,
    /// For how long they were timed.
    pub over_ns: u64,
}

impl Programs {
    pub fn new(all: Vec<OwnedFd>) -> Programs {
        Programs {
            all,
            window: None,
            next_ns: 0,
            timed: Taken::default(),
            is_refused: false,
            counted: context_switches(),
            switches: 0,
            counted_ns: 0,
        }
    }

    /// Begins a window, or ends one.
    pub fn turn(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.counted_ns) >= COUNTED_NS {
            self.count(now_ns);
        }
        match &self.window {
            Some(window) if now_ns >= window.since_ns + WINDOW_NS => self.end(now_ns),
            None if self.is_due(now_ns) && !self.is_refused => self.begin(now_ns),
            _ => {}
        }
    }

    /// After a while, and when many more switches came than the windows have seen: a run in a busy time is shorter.
    fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns || self.timed.switches.saturating_mul(ONE_IN) < self.switches
    }

    fn begin(&mut self, now_ns: u64) {
        self.count(now_ns);
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

    fn count(&mut self, now_ns: u64) {
        self.counted_ns = now_ns;
        let Some(counted) = context_switches() else {
            return;
        };
        let before = self.counted.replace(counted).unwrap_or(counted);
        self.switches += counted.saturating_sub(before);
    }

    /// Ends a window that is open.
    pub fn end(&mut self, now_ns: u64) {
        self.count(now_ns);
        let Some(window) = self.window.take() else {
            return;
        };
        let now = self.read();
        let taken = Taken {
            run_ns: now.run_ns.saturating_sub(window.before.run_ns),
            runs: now.runs.saturating_sub(window.before.runs),
            switches: self.switches.saturating_sub(window.before.switches),
            over_ns: now_ns.saturating_sub(window.since_ns),
        };
        self.timed.run_ns += taken.run_ns;
        self.timed.runs += taken.runs;
        self.timed.switches += taken.switches;
        self.timed.over_ns += taken.over_ns;
    }

    /// From the start up to the last count: as many runs at each context switch, of the same length, as in the windows;
    /// `None` before one has ended, and where the kernel counts no switches.
    pub fn taken(&self) -> Option<Taken> {
        let timed = self.timed().filter(|timed| timed.switches > 0)?;
        let by = self.switches as f64 / timed.switches as f64;
        Some(Taken {
            run_ns: (timed.run_ns as f64 * by) as u64,
            runs: (timed.runs as f64 * by) as u64,
            switches: self.switches,
            ..timed
        })
    }

    /// In all windows that ended.
    pub fn timed(&self) -> Option<Taken> {
        (self.timed.over_ns > 0).then_some(self.timed)
    }

    fn read(&self) -> Taken {
        let infos = self.all.iter().map(read_fdinfo);
        let start = Taken {
            switches: self.switches,
            ..Taken::default()
        };
        infos.fold(start, |sum, info| Taken {
            run_ns: sum.run_ns + info.run_time_ns,
            runs: sum.runs + info.run_count,
            ..sum
        })
    }
}

/// Of all processes since the machine was started; `None` where it is not told.
fn context_switches() -> Option<u64> {
    parse_context_switches(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse_context_switches(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_count_is_read() {
        let text = "cpu  1 2 3\nintr 99 0 0\nctxt 4711\nbtime 1\n";
        assert_eq!(parse_context_switches(text), Some(4_711));
        assert_eq!(parse_context_switches("cpu 1\nctxt x\n"), None);
        assert!(context_switches() > Some(0));
    }

    /// A program that rests while it is timed and works afterwards was said to cost nothing.
    #[test]
    fn what_runs_between_the_windows_counts() {
        let mut programs = Programs::new(Vec::new());
        assert_eq!(programs.taken(), None);
        programs.timed = Taken {
            run_ns: 3_000,
            runs: 20,
            switches: 10,
            over_ns: WINDOW_NS,
        };
        programs.switches = 1_000;
        let taken = programs.taken().unwrap();
        assert_eq!((taken.run_ns, taken.runs), (300_000, 2_000));
        programs.timed.switches = 0;
        assert_eq!(programs.taken(), None, "what was not counted is not free");
    }
}
