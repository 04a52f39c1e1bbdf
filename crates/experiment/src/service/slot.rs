//! The place of one replica (or load program) in a run, through all its incarnations.

use std::path::PathBuf;
use std::time::Duration;

use super::Setup;
use super::census::{Census, Identity};
use super::logs::{LOAD_LIMIT_BYTES, LOG_LIMIT_BYTES, file_name};
use super::processes::{self, Record};
use super::running::Running;
use super::shared::Shared;
use crate::file::Restart;
use crate::happening::{Happening, Role, What, Who};
use crate::placeholder::Values;
use crate::restart::{Next, Restarts};

/// Of the folder of a backing service in `data/` and of its logs; no arm's files begin with `_` and end
/// without a number of their own.
pub(super) const BACKING: &str = "_backing";

/// What a slot is doing.
#[derive(Debug)]
pub(super) enum State {
    /// Not started yet, or to be started again as soon as it may.
    Waiting,
    Backoff {
        until: Duration,
    },
    Running(Box<Running>),
    Over,
}

/// One replica, or one load program.
#[derive(Debug)]
pub struct Slot {
    /// Name of the arm, or [`Who::EVERY_ARM`].
    pub arm: String,
    /// In the plan; `None` for a load program of the whole run.
    pub arm_index: Option<usize>,
    pub replica: u32,
    pub role: Role,
    pub ports: Vec<u16>,
    pub data: Option<PathBuf>,
    pub seed: u64,
    /// Folder and first port of the backing service, when there is one.
    pub backing: Option<(PathBuf, Option<u16>)>,
    /// Of the running process, or of the next to be started.
    pub(super) incarnation: u32,
    restarts: Restarts,
    pub(super) state: State,
    /// Must end, and is not started again: why.
    dismissed: Option<String>,
    /// Must end, and is then started anew: its command named a pid that is no more.
    recycled: bool,
}

impl Slot {
    pub fn new(
        arm: &str,
        arm_index: Option<usize>,
        replica: u32,
        role: Role,
        restart: Restart,
    ) -> Self {
        Self {
            arm: arm.into(),
            arm_index,
            replica,
            role,
            ports: Vec::new(),
            data: None,
            seed: 0,
            backing: None,
            incarnation: 0,
            restarts: Restarts::new(restart),
            state: State::Waiting,
            dismissed: None,
            recycled: false,
        }
    }

    pub fn who(&self) -> Who {
        Who {
            arm: self.arm.clone(),
            replica: self.replica,
            incarnation: self.incarnation,
            role: self.role,
        }
    }

    pub fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            _ => None,
        }
    }

    pub fn pid(&self) -> Option<i32> {
        self.running()
            .filter(|running| running.has_pid())
            .map(|running| running.identity.pid)
    }

    pub fn is_up(&self) -> bool {
        self.running().is_some_and(Running::is_up)
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// It may be started now.
    pub fn is_due(&self, now: Duration) -> bool {
        match self.state {
            State::Waiting => !self.is_dismissed(),
            State::Backoff { until } => !self.is_dismissed() && now >= until,
            _ => false,
        }
    }

    /// No restart any more. The stop itself is begun by [`Slot::begin_stop`], when its load has ended.
    pub fn dismiss(&mut self, why: &str) {
        self.dismissed.get_or_insert_with(|| why.into());
        if !matches!(self.state, State::Running(_)) {
            self.state = State::Over;
        }
    }

    pub fn is_dismissed(&self) -> bool {
        self.dismissed.is_some()
    }

    /// Carries a dismissal out.
    pub fn begin_stop(&mut self, now: Duration) {
        if let (State::Running(running), Some(why)) = (&mut self.state, &self.dismissed) {
            running.begin_stop(now, why);
        }
    }

    /// Ends it in order to start it anew.
    pub fn recycle(&mut self, now: Duration) {
        if let State::Running(running) = &mut self.state {
            self.recycled = true;
            running.begin_stop(now, "its subject has another pid now");
        }
    }

    /// SIGKILL to its group; what it can be recognised by, so that the rest can be found.
    pub fn kill_group(&self) -> Option<Identity> {
        let running = self.running()?;
        running.kill_group();
        Some(running.identity.clone())
    }

    /// After [`Slot::kill_group`]: waits for the child, for a bounded time.
    pub fn reap(&mut self) {
        if let State::Running(running) = &mut self.state {
            running.reap();
        }
        self.state = State::Over;
    }

    /// Carries the running process on; decides what comes after its end.
    pub fn poll(&mut self, now: Duration, census: &mut Option<Census>, out: &mut Vec<Happening>) {
        let State::Running(running) = &mut self.state else {
            return;
        };
        running.poll(now, census, out);
        if running.is_gone() {
            let (ending, lived) = running.outcome(now);
            let next = match (self.is_dismissed(), self.recycled, self.role) {
                (true, ..) => Next::Rest,
                (_, true, _) => Next::StartAfter(Duration::ZERO),
                (.., Role::Load) => self.restarts.again(lived),
                (.., Role::Subject | Role::Backing) => self.restarts.after(ending, lived),
            };
            self.recycled = false;
            self.go_on(next, now, out);
        }
    }

    fn go_on(&mut self, next: Next, now: Duration, out: &mut Vec<Happening>) {
        let who = self.who();
        let mut say = |what, words| {
            out.push(Happening {
                at: now,
                who: who.clone(),
                what,
                words,
            })
        };
        self.state = match next {
            Next::Rest => State::Over,
            Next::GiveUp(why) => {
                say(
                    What::GaveUp,
                    format!("{} is not started again: {why}", who.words()),
                );
                State::Over
            }
            Next::StartAfter(wait) => {
                say(
                    What::Restarted,
                    format!("{} is started again in {wait:?}", who.words()),
                );
                self.incarnation += 1;
                State::Backoff { until: now + wait }
            }
        };
    }

    /// What its placeholders stand for.
    pub fn values(&self, setup: &Setup) -> Values {
        let of_process = self.arm_index.is_some();
        Values {
            run: setup.run.clone(),
            arm: of_process.then(|| self.arm.clone()),
            replica: of_process.then_some(self.replica),
            data: self.data.clone(),
            seed: self.seed,
            pid: self.pid(),
            unit: None,
            ports: self.ports.clone(),
            processes: Some(setup.folder.join(processes::FILE)),
            backing: self.backing.clone(),
        }
    }

    pub(super) fn log_name(&self) -> String {
        if self.role == Role::Backing {
            // No arm's file can begin like this: see `file_name`.
            return format!("{}-{}", BACKING, self.incarnation);
        }
        let arm = if self.arm_index.is_some() {
            file_name(&self.arm)
        } else {
            "run".into()
        };
        let prefix = if self.role == Role::Load { "load-" } else { "" };
        format!("{prefix}{arm}-{}-{}", self.replica, self.incarnation)
    }

    pub(super) fn log_limit(&self) -> u64 {
        if self.role == Role::Load {
            LOAD_LIMIT_BYTES
        } else {
            LOG_LIMIT_BYTES
        }
    }

    /// Its line in `processes.json`.
    pub(super) fn record(&self, shared: &Shared) -> Record {
        // Also while what it left behind is being ended: whoever comes after us goes on with that.
        let running = self.running();
        Record {
            arm: self.arm.clone(),
            replica: self.replica,
            role: self.role.into(),
            incarnation: self.incarnation,
            pid: running.map(|running| running.identity.pid),
            start_ticks: running.map_or(0, |running| running.identity.start_ticks),
            ready: self.is_up(),
            ports: self.ports.clone(),
            data: self.data.clone(),
            mark: running.map_or_else(
                || shared.mark(&self.log_name()),
                |running| running.identity.mark.clone(),
            ),
            cgroup: running.and_then(|running| running.started.cgroup.clone()),
            log: self.log_name(),
        }
    }
}
