//! `processes.json` in the run folder: which processes of the run live now. Three readers: a load program of the
//! whole run (`{processes}`), the collector when its supervisor has died, and `run --resume`.
//!
//! Written anew (and renamed into place, so that no reader sees half of it) whenever a process starts, gets ready or
//! ends, and once before the first start: it names the mark of each process that is about to start, by which
//! one is found that started while the supervisor was killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::census::{Census, Identity, is_alive, read_stat};
use super::cgroup::Cgroup;
use super::sweep::signal_members;
use crate::happening::Role;

/// Name of the file in the run folder.
pub const FILE: &str = "processes.json";
pub const SCHEMA: &str = "highwater.processes/1";

/// Passes over what a dead supervisor left, and the pause between two.
const PASSES_MAX: u32 = 100;
const PASS_PAUSE: Duration = Duration::from_millis(50);

/// Everything in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    pub schema: String,
    pub run: String,
    /// Subjects, and what backs them, outlive the supervisor.
    pub keep: bool,
    pub supervisor_pid: i32,
    pub supervisor_start_ticks: u64,
    pub processes: Vec<Record>,
}

/// One process; `pid` is absent when its last incarnation has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `*` for a load program of the whole run, and for the backing service.
    pub arm: String,
    pub replica: u32,
    pub role: RecordRole,
    pub incarnation: u32,
    pub pid: Option<i32>,
    pub start_ticks: u64,
    pub ready: bool,
    /// `{port}`, `{port2}` ...
    pub ports: Vec<u16>,
    pub data: Option<PathBuf>,
    /// Value of `HIGHWATER_PROCESS` in its environment; without a pid, of the process that comes next.
    pub mark: String,
    pub cgroup: Option<PathBuf>,
    /// Name of its logs, without `.out` and `.err`.
    pub log: String,
}

/// [`Role`], as the file spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordRole {
    Subject,
    Load,
    Backing,
}

impl From<Role> for RecordRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Subject => Self::Subject,
            Role::Load => Self::Load,
            Role::Backing => Self::Backing,
        }
    }
}

impl Record {
    /// What it can be recognised by. Without a pid that is its mark, and the process that carries it and leads a
    /// session is the one that was meant.
    pub fn identity(&self, census: &Census) -> Identity {
        let (pid, start_ticks) = match self.pid {
            Some(pid) => (pid, self.start_ticks),
            None => census.marked_leader(&self.mark).unwrap_or((0, 0)),
        };
        Identity {
            pid,
            start_ticks,
            mark: self.mark.clone(),
            cgroup: self.cgroup.as_deref().and_then(Cgroup::existing),
        }
    }
}

impl Processes {
    /// A list that names this process as its supervisor.
    pub fn of_this_supervisor(run: &str, keep: bool, processes: Vec<Record>) -> Self {
        let pid = i32::try_from(std::process::id()).expect("pids fit i32");
        Self {
            schema: SCHEMA.into(),
            run: run.into(),
            keep,
            supervisor_pid: pid,
            supervisor_start_ticks: read_stat(pid).map_or(0, |stat| stat.starttime),
            processes,
        }
    }

    /// # Errors
    /// Those of the file system: the old file is then still there.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let aside = folder.join(format!("{FILE}.new"));
        fs::write(&aside, serde_json::to_vec_pretty(self)?)?;
        fs::rename(aside, folder.join(FILE))
    }

    /// # Errors
    /// No such file, or not one of ours: with its path.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let file = folder.join(FILE);
        let wrong =
            |kind, words: String| io::Error::new(kind, format!("{}: {words}", file.display()));
        let text =
            fs::read_to_string(&file).map_err(|error| wrong(error.kind(), error.to_string()))?;
        let list: Self = serde_json::from_str(&text)
            .map_err(|error| wrong(io::ErrorKind::InvalidData, error.to_string()))?;
        if list.schema != SCHEMA {
            let words = format!(
                "schema {:?}, this version of highwater reads {SCHEMA:?}",
                list.schema
            );
            return Err(wrong(io::ErrorKind::InvalidData, words));
        }
        Ok(list)
    }

    /// The supervisor that wrote this list still lives.
    pub fn supervisor_lives(&self) -> bool {
        is_alive(self.supervisor_pid, self.supervisor_start_ticks)
    }
}

/// Ends what a killed supervisor left in `folder`: descendants that its parent-death signal does not reach, and load
/// programs. Subjects with `keep` live on, and what backs them. For the collector, once it sees that its parent has
/// died; takes at most some seconds. Returns in words what was ended or could not be.
///
/// # Errors
/// When the list cannot be read, or the supervisor still lives: it will end its processes itself.
pub fn end_left_behind(folder: &Path) -> io::Result<Vec<String>> {
    let list = match Processes::read(folder) {
        // Written before the first start: without it nothing was started (or all was only attached to).
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    if list.supervisor_lives() {
        let words = format!(
            "the supervisor (pid {}) still lives and owns its processes",
            list.supervisor_pid
        );
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, words));
    }
    let ours = list
        .processes
        .iter()
        .filter(|record| !(list.keep && record.role != RecordRole::Load));
    let census = Census::take();
    let identities: Vec<Identity> = ours.map(|record| record.identity(&census)).collect();
    Ok(end_all(&identities))
}

/// SIGKILL to all of these and their descendants until nothing is left, then their cgroups are removed.
pub fn end_all(identities: &[Identity]) -> Vec<String> {
    let mut words = Vec::new();
    for pass in 0..PASSES_MAX {
        let census = Census::take();
        let left = identities
            .iter()
            .filter(|identity| signal_members(&census, identity, Signal::KILL));
        let pids: Vec<String> = left.map(Identity::words).collect();
        if pids.is_empty() {
            break;
        }
        if pass == 0 {
            words.push(format!("ended what was left of {}", pids.join(", ")));
        } else if pass + 1 == PASSES_MAX {
            words.push(format!(
                "SIGKILL does not end what is left of {}",
                pids.join(", ")
            ));
        }
        thread::sleep(PASS_PAUSE);
    }
    for cgroup in identities
        .iter()
        .filter_map(|identity| identity.cgroup.as_ref())
    {
        if let Err(error) = cgroup.remove() {
            words.push(format!(
                "cgroup {} is left: {error}",
                cgroup.folder().display()
            ));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Processes {
        let record = Record {
            arm: "glibc".into(),
            replica: 0,
            role: RecordRole::Subject,
            incarnation: 1,
            pid: None,
            start_ticks: 5,
            ready: true,
            ports: vec![20000],
            data: None,
            mark: "00ff".into(),
            cgroup: None,
            log: "glibc-0-1".into(),
        };
        Processes::of_this_supervisor("r", false, vec![record])
    }

    #[test]
    fn written_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        list().write(folder.path()).unwrap();
        assert_eq!(Processes::read(folder.path()).unwrap(), list());
        assert!(!folder.path().join("processes.json.new").exists());
    }

    #[test]
    fn a_living_supervisors_processes_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        list().write(folder.path()).unwrap();
        let error = end_left_behind(folder.path()).unwrap_err();
        assert!(error.to_string().contains("still lives"), "{error}");
        let dead = Processes {
            supervisor_start_ticks: 1,
            ..list()
        };
        dead.write(folder.path()).unwrap();
        assert_eq!(
            end_left_behind(folder.path()).unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_foreign_file_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            end_left_behind(folder.path()).unwrap(),
            Vec::<String>::new()
        );
        assert!(
            Processes::read(folder.path())
                .unwrap_err()
                .to_string()
                .contains(FILE)
        );
        fs::write(folder.path().join(FILE), "[]").unwrap();
        assert!(Processes::read(folder.path()).is_err());
        let newer = Processes {
            schema: "highwater.processes/2".into(),
            ..list()
        };
        newer.write(folder.path()).unwrap();
        assert!(
            Processes::read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("processes/2")
        );
    }
}
