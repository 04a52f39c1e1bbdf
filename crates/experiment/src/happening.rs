//! What a subject reports: which process, what happened to it, in values and in words.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What a process is for. (highwater's own processes and the machine are the observer's business.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A replica of the subject.
    Subject,
    /// A load program.
    Load,
    /// The service that every replica needs.
    Backing,
}

/// One incarnation of one replica, or of a load program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Who {
    /// Name of the arm; [`Who::EVERY_ARM`] for a load program of the whole run.
    pub arm: String,
    pub replica: u32,
    /// 0 for the first start; a restarted process counts up.
    pub incarnation: u32,
    pub role: Role,
}

impl Who {
    /// The arm of a load program that drives all arms (`per = "run"`). No arm can have this name.
    pub const EVERY_ARM: &'static str = "*";

    /// `jemalloc 2`, `load of jemalloc 2`, `load of the run`.
    pub fn words(&self) -> String {
        match self.role {
            Role::Subject => format!("{} {}", self.arm, self.replica),
            Role::Load if self.arm == Self::EVERY_ARM => "load of the run".into(),
            Role::Load => format!("load of {} {}", self.arm, self.replica),
            Role::Backing => "the backing service".into(),
        }
    }
}

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// Since the run began: the `now` of the poll that noticed it.
    pub at: Duration,
    pub who: Who,
    pub what: What,
    /// For people: what happened, what it means, what to do. May end with the last lines of a log (lossy UTF-8
    /// without control characters, secrets out, but still foreign text).
    pub words: String,
}

impl Happening {
    /// The words with whom they are about before them, unless they begin with that.
    pub fn told(&self) -> String {
        let who = self.who.words();
        match self.words.starts_with(&who) {
            true => self.words.clone(),
            false => format!("{who}: {}", self.words),
        }
    }
}

/// Every incarnation has one `Started` and one `Ended`, unless the supervisor itself is killed, or the process was only
/// watched and outlives the run.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Started(Box<Started>),
    /// It could not even be started (no such program, no memory, a full disk). There is no process.
    StartFailed,
    Ready,
    /// The time for getting ready is over; the process is being stopped.
    NeverReady,
    Ended {
        ending: Ending,
        /// Exit code or signal in words; `None` when nobody can know (not our child).
        exit: Option<String>,
    },
    /// A watched process is in its arm no more, but goes on: in the arm `to`, or in none.
    Left {
        to: Option<String>,
        /// It never was what the arm says: its samples count for nothing.
        discard: bool,
    },
    /// The grace was over: SIGKILL to the whole group.
    StopForced,
    /// The next incarnation is about to be started.
    Restarted,
    /// It failed too often; it is not started again.
    GaveUp,
    /// A log passed its limit: its beginning was cut off.
    LogTruncated,
    /// Found again by pid and start time after the supervisor was replaced; carries what `Started` carried.
    Resumed(Box<Started>),
    /// Something could not be done or kept; the words say what is lost.
    Degraded,
    Note,
}

/// Why a process is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// highwater ended it, within its grace or not.
    Stopped,
    /// It ended by itself with code 0.
    Exited,
    /// A code other than 0, or a signal that the program brought on itself.
    Crashed,
    /// The kernel, or highwater in the place of a cgroup, ended it for its memory.
    OomKilled,
    /// SIGKILL by somebody else.
    Killed,
    /// It is gone and was not our child: how it ended is unknown.
    Vanished,
}

/// What is known of a process that was just started, ready to be recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Started {
    /// Negative for the fake subject, which has no process.
    pub pid: i32,
    /// Field 22 of /proc/PID/stat: clock ticks after boot.
    pub start_ticks: u64,
    /// As started, placeholders filled in, secrets redacted.
    pub command: Vec<String>,
    /// What highwater set on top of its own environment, secrets redacted.
    pub environment: BTreeMap<String, String>,
    /// Where stdout and stderr go; `None` for processes that highwater did not start.
    pub out: Option<PathBuf>,
    pub err: Option<PathBuf>,
    /// Folder of the memory controller of the process's own cgroup.
    pub cgroup: Option<PathBuf>,
    /// Metrics endpoint with the placeholders filled in.
    pub metrics_url: Option<String>,
    /// The library that must be mapped; `None` is the system's allocator.
    pub library: Option<PathBuf>,
    /// What a process that was only found is called, over its restarts and moves.
    pub name: Option<String>,
    /// The systemd unit that it was found by.
    pub unit: Option<String>,
    /// How long it ran already when it was found.
    pub age: Option<Duration>,
}
