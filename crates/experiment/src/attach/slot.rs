//! One replica of an attached arm: the process that stands for it now, or stood for it last.

use std::time::Duration;

use super::process::age;
use super::search::Found;
use crate::file::redact::redact_command;
use crate::happening::{Ending, Happening, Role, Started, What, Who};
use crate::order::replica_seed;
use crate::placeholder::Values;
use crate::service::{is_alive, read_stat};

#[derive(Debug)]
pub struct Slot {
    pub arm: String,
    pub replica: u32,
    pub incarnation: u32,
    pub found: Found,
    pub state: State,
    /// Its arm was stopped: it is watched no more.
    pub dismissed: bool,
    /// Why the process came: "moved from arm a".
    pub why: String,
    /// `NRestarts` of its unit when this process was taken, and restarts that were seen since.
    pub unit_restarts: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Found, and not yet said.
    New,
    /// Known from a record; not yet said.
    Known,
    Alive,
    /// The process is no more.
    Gone,
    /// The process lives, but is in another arm or in none.
    Away,
}

impl Slot {
    pub fn new(found: Found, replica: u32, why: String) -> Slot {
        Slot {
            arm: found.arm.clone(),
            replica,
            incarnation: 0,
            found,
            state: State::New,
            dismissed: false,
            why,
            unit_restarts: None,
        }
    }

    pub fn who(&self) -> Who {
        Who {
            arm: self.arm.clone(),
            replica: self.replica,
            incarnation: self.incarnation,
            role: Role::Subject,
        }
    }

    /// What it is called, else what it stands for.
    pub fn words(&self) -> String {
        let name = self.found.name.clone();
        name.unwrap_or_else(|| self.who().words())
    }

    pub fn say(&self, at: Duration, what: What, words: String) -> Happening {
        Happening {
            at,
            who: self.who(),
            what,
            words,
        }
    }

    pub fn is_watched(&self) -> bool {
        matches!(self.state, State::New | State::Known | State::Alive) && !self.dismissed
    }

    pub fn values(&self, run: &str, seed: u64) -> Values {
        let runs = !matches!(self.state, State::Gone | State::Away);
        Values {
            run: run.into(),
            arm: Some(self.arm.clone()),
            replica: Some(self.replica),
            seed: replica_seed(seed, self.replica),
            pid: runs.then_some(self.found.pid),
            unit: self.found.unit.clone(),
            ..Values::default()
        }
    }

    /// Another process stands for it from now on.
    pub fn take(&mut self, found: Found, why: String) {
        self.incarnation += 1;
        self.found = found;
        self.state = State::New;
        self.why = why;
    }

    /// It is watched no more; the process goes on.
    pub fn leave(
        &mut self,
        at: Duration,
        to: Option<String>,
        discard: bool,
        why: &str,
    ) -> Happening {
        self.state = State::Away;
        let words = format!("{} {why}", self.words());
        self.say(at, What::Left { to, discard }, words)
    }

    pub fn poll(&mut self, now: Duration, metrics_url: Option<String>, out: &mut Vec<Happening>) {
        if self.dismissed {
            return;
        }
        let words = self.words();
        let pid = self.found.pid;
        if matches!(self.state, State::New | State::Known) {
            out.extend(self.begin(now, metrics_url));
            self.state = State::Alive;
        }
        if self.state == State::Alive && !is_alive(pid, self.found.start_ticks) {
            let why = match read_stat(pid).map(|stat| stat.starttime) {
                Some(start) if start != self.found.start_ticks => {
                    "the pid belongs to another process now"
                }
                _ => "how it ended is unknown: highwater did not start it",
            };
            let what = What::Ended {
                ending: Ending::Vanished,
                exit: None,
            };
            out.push(self.say(now, what, format!("{words} (pid {pid}) is gone; {why}")));
            self.state = State::Gone;
        }
    }

    fn begin(&self, now: Duration, metrics_url: Option<String>) -> [Happening; 2] {
        let (words, pid) = (self.words(), self.found.pid);
        let started = Box::new(Started {
            pid,
            start_ticks: self.found.start_ticks,
            command: redact_command(&self.found.command),
            metrics_url,
            name: self.found.name.clone(),
            unit: self.found.unit.clone(),
            age: Some(age(self.found.start_ticks)),
            ..Started::default()
        });
        let (what, how) = match self.state {
            State::Known => (What::Resumed(started), "is watched again"),
            _ => (What::Started(started), "is watched"),
        };
        let why = match self.why.as_str() {
            "" => "which ran already",
            why => why,
        };
        let begun = self.say(now, what, format!("{words} {how}: pid {pid}, {why}"));
        let ready = self.say(
            now,
            What::Ready,
            format!("{words} is ready: it ran already"),
        );
        [begun, ready]
    }
}
