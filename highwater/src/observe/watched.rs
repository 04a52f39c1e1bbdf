//! What is remembered of one target between two looks.

use std::collections::HashSet;

use super::fact::library::Libraries;
use super::fact::liveness::Liveness;
use super::fact::prover::{Means, Prover};
use super::look::{EventKind, Role, Target};
use super::page::Page;
use super::proc::ProcRoot;
use super::proc::process::{Ended, Loss, ProcessReader, Shares, Vital};

/// One process under observation.
#[derive(Debug)]
pub struct Watched {
    pid: i32,
    start_ticks: u64,
    pub reader: ProcessReader,
    liveness: Liveness,
    prover: Prover,
    /// It ended: nothing more is read, nothing more is said.
    ended: bool,
    /// What was already said to be lost.
    said: HashSet<&'static str>,
}

/// What one process may use of the observer at one look.
pub struct Allowance<'a> {
    pub shares: Shares,
    /// Part of one core for rereading its maps.
    pub share_maps: f64,
    pub hung_after_ns: i64,
    pub libraries: &'a mut Libraries,
    pub buffer: &'a mut Vec<u8>,
}

impl Watched {
    /// `keep`: descriptors may stay open between looks.
    pub fn new(root: &ProcRoot, target: &Target, keep: bool) -> Watched {
        let seed = target.process.0;
        Watched {
            pid: target.pid,
            start_ticks: target.start_ticks,
            reader: ProcessReader::new(root, target.pid, target.start_ticks, keep, seed),
            liveness: Liveness::default(),
            prover: Prover::new(seed),
            ended: false,
            said: HashSet::new(),
        }
    }

    pub fn is_for(&self, target: &Target) -> bool {
        self.pid == target.pid && self.start_ticks == target.start_ticks
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn look(&mut self, target: &Target, mut allowed: Allowance<'_>, page: &mut Page<'_>) {
        if self.ended {
            return;
        }
        let mut losses = Vec::new();
        let (shares, now) = (allowed.shares, page.time());
        match self
            .reader
            .look(now, shares, allowed.buffer, page, &mut losses)
        {
            Ok(Some(vital)) => self.follow(target, &vital, &mut allowed, page, &mut losses),
            Ok(None) => {}
            Err(ended) => {
                self.ended = true;
                page.event(EventKind::Vanished, ended_words(target, &ended));
            }
        }
        self.say(losses, page);
        self.reader.rest();
    }

    /// What needs a living process: is it the arm, does it make progress.
    fn follow(
        &mut self,
        target: &Target,
        vital: &Vital,
        allowed: &mut Allowance<'_>,
        page: &mut Page<'_>,
        losses: &mut Vec<Loss>,
    ) {
        if target.role != Role::Subject {
            return;
        }
        self.liveness.look(vital, allowed.hung_after_ns, page);
        let path = self.reader.path().to_path_buf();
        if let Some(folder) = self.reader.folder() {
            let libraries = &mut *allowed.libraries;
            let means = Means {
                folder,
                path: &path,
                libraries,
                share: allowed.share_maps,
            };
            self.prover.look(target, vital, means, page, losses);
        }
    }

    /// Says what is lost, each thing once.
    pub fn say(&mut self, losses: Vec<Loss>, page: &mut Page<'_>) {
        for Loss { what, why } in losses {
            if self.said.insert(what) {
                let pid = self.pid;
                let words = format!(
                    "pid {pid}: {what} cannot be read: {why}; it is missing from the record. \
                     `highwater doctor` says what this machine allows"
                );
                page.event(EventKind::Degraded, words);
            }
        }
    }
}

fn ended_words(target: &Target, ended: &Ended) -> String {
    let pid = target.pid;
    match ended {
        Ended::Gone => format!("pid {pid} is gone"),
        Ended::Zombie => format!("pid {pid} has ended; its parent has not asked for its exit code"),
        Ended::Reused { start_ticks } => format!(
            "pid {pid} belongs to another process now: it started {start_ticks} ticks after boot, \
             the one to look at {} ticks",
            target.start_ticks
        ),
    }
}
