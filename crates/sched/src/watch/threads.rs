//! The threads of the subject: their names, what each is in now, whom they belong to.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::io;

use super::super::waits::Call;
use super::seen::{AtWork, Counts, Placed};
use crate::event::{StackId, Tid, Wait, WaitKind};
use observe::proc::identity::parse_identity;
use observe::table::Table;
use symbols::registers::Registers;

#[derive(Debug, Clone, Default)]
pub struct Known {
    pub name: String,
    pub lives: bool,
    /// Blocked since when, in what, with which registers (not known: from /proc).
    pub blocked: Option<Blocked>,
    /// By the last switch record; not known at first.
    pub on_cpu: Option<bool>,
    pub running_since_ns: Option<u64>,
    /// When it last came back to a CPU.
    pub came_ns: u64,
    pub off_since_ns: u64,
    /// The last time that it was seen in its own code, on a CPU.
    pub sampled_ns: u64,
    /// The last time that it left its CPU, as root.
    pub left_ns: u64,
    pub grouped: bool,
    /// Where its stack ended when it was last looked at, and that stack; without privileges only.
    pub seen: Option<(u64, StackId)>,
    /// The last wait for a device whose stack was told; as root only.
    pub placed: Option<Placed>,
    /// The kernel's counts at the last reading.
    pub counts: Option<Counts>,
    pub switched: bool,
    /// It was on a CPU when its counts were last read.
    pub followed: bool,
    pub last_sample_ns: u64,
    /// The time of the newest record of it, and when what it said was last held against /proc.
    pub told_ns: u64,
    pub checked_ns: u64,
    /// Its newest record's time, when /proc said that it waits although that record did not.
    pub found_waiting: Option<u64>,
    /// A runtime put it to sleep: nobody's wait.
    pub parked: bool,
    /// Since when it is to run on a CPU and has none, of a Go program's thread that carries no goroutine.
    pub wanted_cpu_ns: Option<u64>,
    /// By every record, those left out too; without eBPF only.
    pub at_work: AtWork,
    /// What its last sample found it waiting for.
    pub waits_for: Option<WaitKind>,
    /// How long it was away since it came, in absences that were left out; without eBPF only.
    pub away_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    pub since_ns: u64,
    pub wait: Wait,
    /// The system call, where the switch told it.
    pub call: Option<Call>,
    pub registers: Option<Registers>,
    pub sampled: bool,
}

pub struct Threads {
    pid: u32,
    known: Table<u32, Known>,
    refused: HashSet<u32>,
    /// In a process that lives in a namespace of pids of its own: by the number that a thread has
    /// there, and that its locks name, the number it has here.
    inside: Option<Table<u64, u32>>,
}

/// Threads remembered after their end; a process that starts one per request has many.
const REMEMBERED_MAX: usize = 20_000;

impl Threads {
    pub fn new(pid: u32) -> Threads {
        Threads {
            pid,
            known: Table::default(),
            refused: HashSet::new(),
            inside: inner_number(pid, pid)
                .filter(|inner| *inner != u64::from(pid))
                .map(|_| Table::default()),
        }
    }

    pub fn admit(&mut self, tid: u32) {
        if self.known.len() >= REMEMBERED_MAX && !self.known.contains_key(&tid) {
            self.refused.insert(tid);
            return;
        }
        let known = self.known.entry(tid).or_default();
        introduce(known, (self.pid, tid), &mut self.inside);
    }

    /// It cannot be watched.
    pub fn refuse(&mut self, tid: u32) {
        self.refused.insert(tid);
    }

    pub fn is_refused(&self, tid: u32) -> bool {
        self.refused.contains(&tid)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&u32, &Known)> {
        self.known.iter()
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn unwatched(&self) -> u64 {
        self.refused.len() as u64
    }

    pub fn get(&mut self, tid: u32) -> Option<&mut Known> {
        self.known.get_mut(&tid)
    }

    /// The thread, taken up now if a record came before the rescan saw it.
    pub fn at(&mut self, tid: u32) -> &mut Known {
        let full = self.known.len() >= REMEMBERED_MAX;
        // For every record: searched once.
        match self.known.entry(tid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let known = place.insert(Known::default());
                match full {
                    true => drop(self.refused.insert(tid)),
                    false => introduce(known, (self.pid, tid), &mut self.inside),
                }
                known
            }
        }
    }

    /// The living thread that the subject itself calls `tid`.
    pub fn outer(&self, tid: u64) -> Option<Tid> {
        let here = match &self.inside {
            Some(inside) => *inside.get(&tid)?,
            None => u32::try_from(tid).ok()?,
        };
        self.lives(here).then_some(Tid::from(here))
    }

    /// What the subject itself calls a thread.
    pub fn inner(&self, tid: u32) -> Option<u64> {
        let Some(inside) = &self.inside else {
            return Some(u64::from(tid));
        };
        let found = inside.iter().find(|(_, here)| **here == tid);
        found.map(|(inner, _)| *inner)
    }

    pub fn lives(&self, tid: u32) -> bool {
        self.known.get(&tid).is_some_and(|known| known.lives)
    }

    pub fn name(&self, tid: Tid) -> String {
        let known = u32::try_from(tid).ok().and_then(|tid| self.known.get(&tid));
        known.map_or(String::new(), |known| known.name.clone())
    }

    pub fn tids(&self) -> Vec<u32> {
        let living = self.known.iter().filter(|(_, known)| known.lives);
        living.map(|(tid, _)| *tid).collect()
    }

    /// Those that lived and are not among `tids` any more.
    pub fn ended(&mut self, tids: &[u32]) -> Vec<u32> {
        let now: HashSet<u32> = tids.iter().copied().collect();
        let mut ended = Vec::new();
        for (tid, known) in &mut self.known {
            if known.lives && !now.contains(tid) {
                known.lives = false;
                known.blocked = None;
                ended.push(*tid);
            }
        }
        ended
    }
}

fn introduce(known: &mut Known, (pid, tid): (u32, u32), inside: &mut Option<Table<u64, u32>>) {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
    known.name = name.unwrap_or_default().trim().to_string();
    known.lives = true;
    if let Some(inside) = inside
        && let Some(inner) = inner_number(pid, tid)
    {
        inside.insert(inner, tid);
    }
}

/// The number of a thread in the innermost namespace that it lives in.
fn inner_number(pid: u32, tid: u32) -> Option<u64> {
    let status = std::fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    parse_identity(&status).own_pid.map(u64::from)
}

/// The threads of a process now.
pub fn list(pid: u32) -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

/// Those that ran most often first: where not all can be watched, who only ever waited is left out.
pub fn busiest_first(pid: u32, mut tids: Vec<u32>) -> Vec<u32> {
    let runs = |tid: &u32| {
        let counts = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
        counts.map_or(0, |counts| parse_runs(&counts).unwrap_or(0))
    };
    tids.sort_by_cached_key(|tid| (Reverse(runs(tid)), *tid));
    tids
}

/// How often a thread got a CPU: the third number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
fn parse_runs(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_runs;

    #[test]
    fn runs_are_the_third_number() {
        // Linux 6.18, a shell.
        assert_eq!(parse_runs("20338927 1171532 87\n"), Some(87));
        assert_eq!(parse_runs("0 0\n"), None);
    }
}
