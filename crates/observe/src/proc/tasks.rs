//! Sums over the threads of a process. /proc/PID/status and /proc/PID/schedstat speak of the main
//! thread alone.

use std::collections::HashMap;

use super::fields::{Malformed, number};
use super::open::{Folder, Lost};
use super::status::parse_status;

/// Counters of one thread, or a sum of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub switches_voluntary: u64,
    pub switches_involuntary: u64,
    /// Waiting for a CPU while runnable.
    pub run_delay_ns: u64,
}

impl Counts {
    fn plus(self, other: Counts) -> Counts {
        Counts {
            switches_voluntary: self
                .switches_voluntary
                .saturating_add(other.switches_voluntary),
            switches_involuntary: self
                .switches_involuntary
                .saturating_add(other.switches_involuntary),
            run_delay_ns: self.run_delay_ns.saturating_add(other.run_delay_ns),
        }
    }

    fn minus(self, other: Counts) -> Counts {
        Counts {
            switches_voluntary: self
                .switches_voluntary
                .saturating_sub(other.switches_voluntary),
            switches_involuntary: self
                .switches_involuntary
                .saturating_sub(other.switches_involuntary),
            run_delay_ns: self.run_delay_ns.saturating_sub(other.run_delay_ns),
        }
    }

    pub fn switches(&self) -> u64 {
        self.switches_voluntary
            .saturating_add(self.switches_involuntary)
    }
}

/// Sums that never fall, although threads come and go: what an ended thread had at the last walk
/// stays in the sum. A thread that lived wholly between two walks is not seen, and what a thread
/// did after its last walk is lost: the sums are lower bounds.
#[derive(Debug, Default)]
pub struct TaskSums {
    seen: HashMap<i32, Counts>,
    ended: Counts,
    /// Sums recorded by an earlier collector, until the first walk turns them into `ended`.
    carried: Option<Counts>,
}

impl TaskSums {
    /// Goes on from sums that an earlier collector recorded for the same process.
    pub fn carry(&mut self, recorded: Counts) {
        self.carried = Some(recorded);
    }

    /// Books one walk: all threads alive now. Returns the sums.
    pub fn book(&mut self, alive: HashMap<i32, Counts>) -> Counts {
        for (tid, before) in &self.seen {
            let ended = alive
                .get(tid)
                .is_none_or(|now| now.switches() < before.switches());
            if ended {
                // Gone, or the same number is another thread now.
                self.ended = self.ended.plus(*before);
            }
        }
        let live = alive
            .values()
            .fold(Counts::default(), |sum, counts| sum.plus(*counts));
        if let Some(recorded) = self.carried.take() {
            self.ended = recorded.minus(live);
        }
        self.seen = alive;
        self.ended.plus(live)
    }
}

/// Reads the counters of all threads. Threads that end meanwhile are left out; an error only when
/// the process itself is gone or not to be read.
pub fn read_tasks(folder: &Folder, buffer: &mut Vec<u8>) -> Result<HashMap<i32, Counts>, Lost> {
    let mut alive = HashMap::new();
    let mut denied = None;
    for tid in folder.threads()? {
        match read_task(folder, tid, buffer) {
            Ok(counts) => drop(alive.insert(tid, counts)),
            Err(Lost::Gone) => {}
            Err(lost) => denied = Some(lost),
        }
    }
    match denied {
        Some(lost) if alive.is_empty() => Err(lost),
        _ => Ok(alive),
    }
}

fn read_task(folder: &Folder, tid: i32, buffer: &mut Vec<u8>) -> Result<Counts, Lost> {
    // In this order: a thread that can be read afterwards was alive at the first reading, so a
    // missing schedstat means a kernel without it (CONFIG_SCHED_INFO) and not a thread that ended
    // in between, whose wait would fall to 0.
    let run_delay_ns = match folder.read(&format!("task/{tid}/schedstat"), buffer) {
        Ok(()) => parse_schedstat(buffer).unwrap_or(0),
        Err(Lost::Gone) => 0,
        Err(lost) => return Err(lost),
    };
    folder.read(&format!("task/{tid}/status"), buffer)?;
    let status = parse_status(buffer);
    Ok(Counts {
        switches_voluntary: status.switches_voluntary.unwrap_or(0),
        switches_involuntary: status.switches_involuntary.unwrap_or(0),
        run_delay_ns,
    })
}

/// Run-queue wait of one thread in nanoseconds: the second of the three numbers.
pub fn parse_schedstat(text: &[u8]) -> Result<u64, Malformed> {
    text.split(u8::is_ascii_whitespace)
        .nth(1)
        .and_then(number)
        .ok_or_else(|| Malformed::new("/proc/PID/schedstat", "no second number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(switches_voluntary: u64, run_delay_ns: u64) -> Counts {
        Counts {
            switches_voluntary,
            switches_involuntary: 0,
            run_delay_ns,
        }
    }

    #[test]
    fn sums_never_fall_when_threads_end() {
        let mut sums = TaskSums::default();
        assert_eq!(
            sums.book([(1, counts(5, 50)), (2, counts(7, 70))].into()),
            counts(12, 120)
        );
        assert_eq!(sums.book([(1, counts(6, 60))].into()), counts(13, 130));
        assert_eq!(sums.book([(1, counts(6, 60))].into()), counts(13, 130));
    }

    #[test]
    fn a_thread_number_used_again_is_another_thread() {
        let mut sums = TaskSums::default();
        sums.book([(1, counts(5, 50)), (2, counts(700, 70))].into());
        assert_eq!(
            sums.book([(1, counts(5, 50)), (2, counts(1, 1))].into()),
            counts(706, 121)
        );
    }

    #[test]
    fn sums_of_an_earlier_collector_go_on() {
        let mut sums = TaskSums::default();
        sums.carry(counts(100, 1_000));
        assert_eq!(sums.book([(1, counts(40, 400))].into()), counts(100, 1_000));
        assert_eq!(sums.book([(1, counts(45, 450))].into()), counts(105, 1_050));
        // What was recorded may be older than what is read now.
        let mut sums = TaskSums::default();
        sums.carry(counts(10, 10));
        assert_eq!(sums.book([(1, counts(40, 400))].into()), counts(40, 400));
    }

    #[test]
    fn schedstat() {
        assert_eq!(parse_schedstat(b"674000 116229 1\n"), Ok(116_229));
        assert!(parse_schedstat(b"674000\n").is_err());
    }
}
