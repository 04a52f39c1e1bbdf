//! All processes of the machine at one instant, to find the descendants that a process leaves behind.
//!
//! A descendant belongs to a process when it is in its session or process group (the pid is the number of both), in
//! its cgroup, or carries its mark in the environment. What leaves the session, clears its environment and has no
//! cgroup cannot be found.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs;

use procfs::FromRead;
use procfs::process::Stat;

use super::cgroup::Cgroup;

/// Variable that marks a process that highwater started, and its descendants. Its value has the same length for all,
/// since the size of the environment shifts the stack and with it what is measured.
pub const MARK: &str = "HIGHWATER_PROCESS";

/// What a started process can be recognised by.
#[derive(Debug, Clone)]
pub struct Identity {
    /// 0 when it is not known: then the mark alone tells.
    pub pid: i32,
    pub start_ticks: u64,
    pub mark: String,
    pub cgroup: Option<Cgroup>,
}

impl Identity {
    /// `pid 4242`, or its mark when its pid is not known.
    pub fn words(&self) -> String {
        match self.pid {
            0 => format!("the process with {MARK}={}", self.mark),
            pid => format!("pid {pid}"),
        }
    }
}

/// One living process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub pid: i32,
    pub group: i32,
    pub session: i32,
    /// `R`, `S`, `D` ...; zombies are left out of a census.
    pub state: char,
    pub start_ticks: u64,
    /// Foreign text: a process may call itself anything.
    pub name: String,
}

/// The processes at one instant; marks are read only when somebody asks.
#[derive(Debug, Default)]
pub struct Census {
    rows: Vec<Row>,
    marks: OnceCell<HashMap<i32, String>>,
}

impl Census {
    pub fn take() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self {
            rows: pids.filter_map(read_row).collect(),
            marks: OnceCell::new(),
        }
    }

    /// The process itself, while it lives, and all its descendants that can be found.
    pub fn members(&self, of: &Identity) -> Vec<&Row> {
        let inside: HashSet<i32> = of.cgroup.iter().flat_map(Cgroup::pids).collect();
        // Another process with our pid: its session and group are not ours either.
        let reused = |row: &Row| row.pid == of.pid && row.start_ticks != of.start_ticks;
        let numbers_are_ours = !self.rows.iter().any(reused);
        let by_number = |row: &Row| {
            numbers_are_ours && of.pid > 1 && (row.session == of.pid || row.group == of.pid)
        };
        let ours = |row: &&Row| {
            row.start_ticks >= of.start_ticks
                && (by_number(row)
                    || inside.contains(&row.pid)
                    || self.mark(row.pid) == Some(&of.mark))
        };
        let me = i32::try_from(std::process::id()).expect("pids fit i32");
        self.rows
            .iter()
            .filter(|row| row.pid > 1 && row.pid != me)
            .filter(ours)
            .collect()
    }

    /// Pid and start of the process with this mark that leads its session.
    pub fn marked_leader(&self, mark: &str) -> Option<(i32, u64)> {
        let leads = |row: &&Row| {
            row.session == row.pid && self.mark(row.pid).is_some_and(|own| own == mark)
        };
        self.rows
            .iter()
            .find(leads)
            .map(|row| (row.pid, row.start_ticks))
    }

    fn mark(&self, pid: i32) -> Option<&String> {
        let marks = self.marks.get_or_init(|| {
            let marked = self
                .rows
                .iter()
                .filter_map(|row| Some((row.pid, read_mark(row.pid)?)));
            marked.collect()
        });
        marks.get(&pid)
    }
}

fn read_row(pid: i32) -> Option<Row> {
    let stat = read_stat(pid)?;
    let living = !matches!(stat.state, 'Z' | 'X');
    living.then_some(Row {
        pid,
        group: stat.pgrp,
        session: stat.session,
        state: stat.state,
        start_ticks: stat.starttime,
        name: stat.comm,
    })
}

/// /proc/PID/stat; `None` when there is no such process.
pub fn read_stat(pid: i32) -> Option<Stat> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::from_read(bytes.as_slice()).ok()
}

/// Field 22 of /proc/PID/stat, clock ticks after boot; 0 when there is no such process.
pub fn start_ticks(pid: i32) -> u64 {
    read_stat(pid).map_or(0, |stat| stat.starttime)
}

/// Whether the process with this pid and start time still lives; a zombie does not.
pub fn is_alive(pid: i32, start_ticks: u64) -> bool {
    read_row(pid).is_some_and(|row| row.start_ticks == start_ticks)
}

fn read_mark(pid: i32) -> Option<String> {
    parse_mark(&fs::read(format!("/proc/{pid}/environ")).ok()?)
}

fn parse_mark(environ: &[u8]) -> Option<String> {
    let mut variables = environ.split(|byte| *byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_among_the_variables() {
        let environ = b"A=1\0HIGHWATER_PROCESS=00ff\0B=HIGHWATER_PROCESS=x\0";
        assert_eq!(parse_mark(environ).as_deref(), Some("00ff"));
        assert_eq!(parse_mark(b"HIGHWATER_PROCESSX=1\0"), None);
        assert_eq!(parse_mark(b""), None);
    }

    fn row(pid: i32, session: i32, start_ticks: u64) -> Row {
        Row {
            pid,
            group: session,
            session,
            state: 'S',
            start_ticks,
            name: "x".into(),
        }
    }

    fn census(rows: Vec<Row>) -> Census {
        let marks = OnceCell::from(HashMap::from([(4_000_010, "mark".to_owned())]));
        Census { rows, marks }
    }

    fn pids(census: &Census) -> Vec<i32> {
        let identity = Identity {
            pid: 4_000_000,
            start_ticks: 100,
            mark: "mark".into(),
            cgroup: None,
        };
        census
            .members(&identity)
            .iter()
            .map(|row| row.pid)
            .collect()
    }

    #[test]
    fn members_by_session_group_and_mark() {
        let rows = vec![
            row(4_000_000, 4_000_000, 100),
            row(4_000_001, 4_000_000, 150),
            Row {
                group: 4_000_000,
                ..row(4_000_002, 9, 150)
            },
            row(4_000_003, 9, 150),
            row(4_000_010, 4_000_010, 160),
        ];
        assert_eq!(
            pids(&census(rows)),
            [4_000_000, 4_000_001, 4_000_002, 4_000_010]
        );
    }

    #[test]
    fn a_reused_pid_and_its_session_are_left_alone() {
        let rows = vec![
            row(4_000_000, 4_000_000, 900),
            row(4_000_001, 4_000_000, 950),
        ];
        assert!(pids(&census(rows)).is_empty());
    }

    #[test]
    fn what_is_older_than_the_process_is_not_its_descendant() {
        assert!(pids(&census(vec![row(4_000_001, 4_000_000, 99)])).is_empty());
    }

    #[test]
    fn we_see_ourselves_in_a_real_census_but_never_as_a_member() {
        let me = i32::try_from(std::process::id()).unwrap();
        let census = Census::take();
        assert!(census.rows.iter().any(|row| row.pid == me));
        let own_session = read_stat(me).unwrap().session;
        let identity = Identity {
            pid: own_session,
            start_ticks: 0,
            mark: String::new(),
            cgroup: None,
        };
        assert!(census.members(&identity).iter().all(|row| row.pid != me));
        assert!(is_alive(me, read_stat(me).unwrap().starttime));
        assert!(!is_alive(me, 1));
    }
}
