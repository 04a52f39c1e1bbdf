//! The threads of the subject: their names, what each is in now, whom they belong to.

use std::collections::{HashMap, HashSet};
use std::io;

use super::super::ring::Registers;
use super::super::waits::Call;
use crate::observe::switches::event::{Tid, Wait};

#[derive(Debug, Clone, Default)]
pub struct Known {
    pub name: String,
    pub lives: bool,
    /// Blocked since when, in what, with which registers (not known: from /proc).
    pub blocked: Option<Blocked>,
    /// By the last switch record; not known at first.
    pub on_cpu: Option<bool>,
    pub running_since_ns: Option<u64>,
    /// When it last came back to a CPU, and since when it had waited then.
    pub came_ns: u64,
    pub waited_since_ns: u64,
    pub off_since_ns: u64,
    pub grouped: bool,
    /// Time runnable without a CPU by the kernel's count, at the last reading.
    pub run_delay_ns: Option<u64>,
    pub switched: bool,
    pub last_look_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    pub since_ns: u64,
    pub wait: Wait,
    /// The system call, where the switch told it.
    pub call: Option<Call>,
    pub registers: Option<Registers>,
    pub looked: bool,
}

pub struct Threads {
    pid: u32,
    known: HashMap<u32, Known>,
    refused: HashSet<u32>,
}

/// Threads remembered after their end; a process that starts one per request has many.
const REMEMBERED_MAX: usize = 20_000;

impl Threads {
    pub fn new(pid: u32) -> Threads {
        Threads {
            pid,
            known: HashMap::new(),
            refused: HashSet::new(),
        }
    }

    pub fn admit(&mut self, tid: u32) {
        if self.known.len() >= REMEMBERED_MAX && !self.known.contains_key(&tid) {
            self.refused.insert(tid);
            return;
        }
        let path = format!("/proc/{}/task/{tid}/comm", self.pid);
        let name = std::fs::read_to_string(path).unwrap_or_default();
        let known = self.known.entry(tid).or_default();
        known.name = name.trim().to_string();
        known.lives = true;
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
        if !self.known.contains_key(&tid) {
            self.admit(tid);
        }
        self.known.entry(tid).or_default()
    }

    pub fn is_known(&self, tid: u64) -> bool {
        u32::try_from(tid).is_ok_and(|tid| self.lives(tid))
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

/// The threads of a process now.
pub fn list(pid: u32) -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}
