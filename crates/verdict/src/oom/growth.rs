//! How fast it grew, as far as several kills tell.

use std::collections::BTreeSet;

use oom::kill::Kill;

/// A process beside the victim counts as growing from this share of what it had on.
const GROWN: f64 = 0.1;
const GROWN_BYTES: u64 = 1 << 20;

/// A command that is killed again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Median time from one kill to the next.
    pub interval_s: f64,
    pub shortest_s: f64,
    pub longest_s: f64,
    /// Of memory of its own when it was killed, median; `None` where several processes of the command ran at once, so
    /// that the next one to be killed need not have started after the kill.
    pub bytes: Option<f64>,
}

impl Growth {
    /// A lower bound of the mean growth: the process started after the kill before, and some of the time between went
    /// into its restart.
    pub fn bytes_per_hour(&self) -> Option<f64> {
        Some(self.bytes? / self.interval_s * 3600.0).filter(|rate| rate.is_finite())
    }
}

pub fn growth(kills: &[Kill]) -> Option<Growth> {
    let between = |pair: &[Kill]| {
        pair[1]
            .at
            .since(pair[0].at)
            .filter(|seconds| *seconds > 0.0)
    };
    let mut intervals: Vec<f64> = kills.windows(2).filter_map(between).collect();
    intervals.sort_by(f64::total_cmp);
    let (shortest_s, longest_s) = (*intervals.first()?, *intervals.last()?);
    let own = |kill: &Kill| {
        let victim = kill.victim()?;
        Some(
            victim
                .anon_bytes?
                .saturating_add(victim.swap_bytes.unwrap_or(0)) as f64,
        )
    };
    let mut sizes: Vec<f64> = kills.iter().skip(1).filter_map(own).collect();
    sizes.sort_by(f64::total_cmp);
    Some(Growth {
        interval_s: median(&intervals),
        shortest_s,
        longest_s,
        bytes: (!sizes.is_empty() && ran_alone(kills)).then(|| median(&sizes)),
    })
}

/// One process of the command at each kill, by tables that are there, and another one each time.
fn ran_alone(kills: &[Kill]) -> bool {
    let pids: BTreeSet<u32> = kills
        .iter()
        .filter_map(|kill| Some(kill.victim()?.pid))
        .collect();
    let is_alone = |kill: &Kill| {
        let Some(victim) = kill.victim() else {
            return false;
        };
        let own = kill
            .tasks
            .commands
            .iter()
            .find(|command| command.command == victim.command);
        own.is_some_and(|own| own.count == 1)
    };
    pids.len() == kills.len() && kills.iter().all(is_alone)
}

/// Of an even number the lower of the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    sorted[(sorted.len() - 1) / 2]
}

/// A process that stood in the tables of the first kill and of the last, and had grown most.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    pub pid: u32,
    pub command: String,
    pub from_bytes: u64,
    pub to_bytes: u64,
    pub over_s: Option<f64>,
}

pub fn beside(kills: &[Kill]) -> Option<Beside> {
    let (first, last) = (kills.first()?, kills.last()?);
    let grown = last.tasks.largest.iter().filter_map(|task| {
        let before = first.tasks.largest.iter();
        let before = before
            .clone()
            .find(|row| row.pid == task.pid && row.command == task.command)?;
        let by = task.resident_bytes.checked_sub(before.resident_bytes)?;
        let is_grown = by >= GROWN_BYTES && by as f64 >= GROWN * before.resident_bytes as f64;
        is_grown.then_some((by, before, task))
    });
    let (_, before, task) = grown.max_by_key(|(by, ..)| *by)?;
    Some(Beside {
        pid: task.pid,
        command: task.command.clone(),
        from_bytes: before.resident_bytes,
        to_bytes: task.resident_bytes,
        over_s: last.at.since(first.at),
    })
}
