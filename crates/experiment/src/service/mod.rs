//! A service that highwater starts and stops: replicas of every arm, and their load programs.
//!
//! A service that all of them need (`[backing]`) is there before the first and gone after the last.
//!
//! Each process has a session and process group of its own, a cgroup where possible, its logs in files, and dies with
//! the supervisor unless the plan says `keep`. The load of a process starts when it is ready and is stopped before it.

mod backing;
mod census;
pub mod cgroup;
mod command;
mod ending;
mod exit;
mod logs;
mod memory;
pub mod processes;
mod ready;
mod roster;
mod running;
mod secrets;
mod shared;
mod slot;
mod spawn;
mod start;
mod sweep;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use census::{MARK, is_alive, read_stat, start_ticks};
pub use command::{Launch, texts_of_backing, texts_with_ports};
pub use exit::Exit;
pub use logs::{LOAD_LIMIT_BYTES, LOG_LIMIT_BYTES};
pub use processes::{Processes, end_left_behind};
pub use ready::Question;
pub use spawn::end_with;

use self::backing::{backing_order, backing_slot};
use self::census::{Census, Identity};
use self::cgroup::Hierarchy;
use self::processes::{Record, RecordRole};
use self::roster::{load_slots, start_load, start_subject, subject_order, subject_slots};
use self::shared::Shared;
use self::slot::Slot;
use super::Subject;
use super::happening::{Happening, What};
use super::placeholder::{Values, mentions};
use crate::file::{Experiment, LoadPer};

/// Started at most in one poll, so that a poll stays short: 5 ms each were measured on a machine at load 12.
const STARTS_PER_POLL: usize = 64;

/// From fork to exec on a busy machine: a millisecond when it is quiet.
const EXEC_WAIT: Duration = Duration::from_millis(300);

/// What an arm's allocator means for its processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preload {
    /// Absolute path for LD_PRELOAD; `None` is the system's allocator.
    pub library: Option<PathBuf>,
    /// Libraries that must be preloaded before it.
    pub companions: Vec<PathBuf>,
    /// Words to start the program through: the loader of a C library of its own, and its options.
    pub loader: Vec<String>,
    /// Variables that the allocator wants; the arm's own come after and win.
    pub environment: BTreeMap<String, String>,
}

/// What a service needs besides the plan.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Name of the run: `{run}`.
    pub run: String,
    /// The run folder; `logs/`, `data/` and `processes.json` are made in it.
    pub folder: PathBuf,
    /// By name of the arm; an absent one is the system's allocator.
    pub preloads: BTreeMap<String, Preload>,
    pub hierarchy: Hierarchy,
}

/// The processes of a run. Dropped before it is over, it kills them all, except those with `keep`.
#[derive(Debug)]
pub struct Service {
    plan: Experiment,
    shared: Shared,
    /// What all of them need, when the plan has one.
    backing: Option<Slot>,
    /// In the order of starting.
    subjects: Vec<Slot>,
    /// With `per = "process"`: one for each of `subjects`, in the same order. With `per = "run"`: one.
    loads: Vec<Slot>,
    /// `processes.json` could not be written; said once.
    told_of_list: bool,
    /// What `resume` found, for the first poll.
    found: Vec<Happening>,
}

impl Service {
    /// Prepares all replicas; nothing is started before the first poll.
    ///
    /// # Errors
    /// When the run folder cannot be written or there are not enough free ports.
    pub fn new(plan: Experiment, setup: Setup) -> io::Result<Self> {
        let service = Self::prepare(plan, setup)?;
        service.list().write(&service.shared.setup.folder)?;
        Ok(service)
    }

    fn prepare(plan: Experiment, setup: Setup) -> io::Result<Self> {
        for folder in ["logs", "data"] {
            make_private_folder(&setup.folder.join(folder))?;
        }
        let mut shared = Shared::new(setup)?;
        let backing = backing_slot(&plan, &mut shared)?;
        let subjects = subject_slots(&plan, backing.as_ref(), &mut shared)?;
        let loads = load_slots(&plan, backing.as_ref(), &subjects);
        Ok(Self {
            plan,
            shared,
            backing,
            subjects,
            loads,
            told_of_list: false,
            found: Vec::new(),
        })
    }

    /// Goes on with what an earlier supervisor of this run left running: processes are found again by pid and start
    /// time and reported as `Resumed`; one that is gone is reported as `Resumed` and then `Ended` (vanished), and
    /// started again only if the plan restarts on failure. One that did not run any more (or not yet) is reported as
    /// `StartFailed` and stays so. Load programs die with their supervisor and are
    /// started anew, as the next incarnation.
    ///
    /// # Errors
    /// When `processes.json` cannot be read, or the earlier supervisor still lives.
    pub fn resume(plan: Experiment, setup: Setup, now: Duration) -> io::Result<Self> {
        let list = Processes::read(&setup.folder)?;
        if list.supervisor_lives() {
            let words = format!(
                "run {} still has a living supervisor, pid {}",
                list.run, list.supervisor_pid
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, words));
        }
        let mut service = Self::prepare(plan, setup)?;
        let mut census = Census::take();
        if list
            .processes
            .iter()
            .any(|record| record.identity(&census).pid == 0)
        {
            // It may be between fork and exec, where it does not carry its mark yet.
            thread::sleep(EXEC_WAIT);
            census = Census::take();
        }
        for record in &list.processes {
            service.take_over(record, &census, now);
        }
        service.tell_of_backing();
        // Only now: until here the old list is what a supervisor after us would need.
        service.list().write(&service.shared.setup.folder)?;
        Ok(service)
    }

    /// Whether anything of it runs, or will.
    pub fn lives(&self) -> bool {
        let mut slots = self.backing.iter().chain(&self.subjects).chain(&self.loads);
        slots.any(|slot| !slot.is_over())
    }

    fn take_over(&mut self, record: &Record, census: &Census, now: Duration) {
        let slots = match record.role {
            RecordRole::Subject => self.subjects.as_mut_slice(),
            RecordRole::Load => self.loads.as_mut_slice(),
            RecordRole::Backing => self.backing.as_mut_slice(),
        };
        let same = |slot: &&mut Slot| slot.arm == record.arm && slot.replica == record.replica;
        let Some(slot) = slots.iter_mut().find(same) else {
            return;
        };
        for port in &record.ports {
            self.shared.ports.mark(*port);
        }
        if record.role == RecordRole::Load {
            // It died with its supervisor; what it left behind may not have.
            processes::end_all(&[record.identity(census)]);
            slot.incarnation = record.incarnation + 1;
            return;
        }
        slot.ports.clone_from(&record.ports);
        let values = Values {
            pid: record.pid,
            ..slot.values(&self.shared.setup)
        };
        let order = match (record.role, &self.plan.backing) {
            (RecordRole::Backing, Some(backing)) => backing_order(&self.plan, backing, &values),
            _ => subject_order(&self.plan, &self.shared.setup, slot, &values),
        };
        match order {
            Ok(order) => slot.take_over(record, census, order, now, &self.shared, &mut self.found),
            Err(why) => slot.dismiss(&why.to_string()),
        }
    }

    /// Whether the subject with this place in `subjects` may be stopped: its load has ended.
    fn load_has_ended(&self, subject: usize) -> bool {
        match self.loads.as_slice() {
            [] => true,
            [whole_run] if whole_run.arm_index.is_none() => {
                // The load of the whole run ends with the last arm, not with the first.
                whole_run.is_over() || self.subjects.iter().any(|slot| !slot.is_dismissed())
            }
            per_process => per_process[subject].is_over(),
        }
    }

    fn poll_subjects(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let mut census = None;
        let mut started = 0;
        let is_backed = self.is_backed();
        for at in 0..self.subjects.len() {
            let may_stop = self.load_has_ended(at);
            let slot = &mut self.subjects[at];
            if is_backed && slot.is_due(now) && started < STARTS_PER_POLL {
                started += 1;
                start_subject(slot, &self.plan, now, &mut self.shared, out);
            }
            if slot.is_dismissed() && may_stop {
                slot.begin_stop(now);
            }
            slot.poll(now, &mut census, out);
        }
    }

    fn poll_loads(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let mut census = None;
        for at in 0..self.loads.len() {
            let (may_start, must_end) = self.load_wanted(at);
            let slot = &mut self.loads[at];
            if must_end && !slot.is_over() {
                slot.dismiss("its subject has ended");
            }
            if slot.is_dismissed() {
                slot.begin_stop(now);
            }
            if may_start && slot.is_due(now) {
                let subject_values = self
                    .subjects
                    .get(at)
                    .map(|subject| subject.values(&self.shared.setup));
                start_load(slot, &self.plan, subject_values, now, &mut self.shared, out);
            }
            slot.poll(now, &mut census, out);
        }
    }

    /// (its subject is ready, its subject will never be again).
    fn load_wanted(&self, load: usize) -> (bool, bool) {
        if self.loads[load].arm_index.is_some() {
            let subject = &self.subjects[load];
            return (subject.is_up(), subject.is_dismissed() || subject.is_over());
        }
        // All that will get ready are ready; those that failed are not waited for.
        let settled = |slot: &Slot| slot.is_up() || slot.is_over();
        let may_start = self.subjects.iter().all(settled) && self.subjects.iter().any(Slot::is_up);
        (
            may_start,
            self.subjects
                .iter()
                .all(|slot| slot.is_dismissed() || slot.is_over()),
        )
    }

    /// A load program whose command names the pid of a process that was started again must start again, too.
    fn recycle_loads(&mut self, happened: &[Happening], now: Duration) {
        let Some(load) = &self.plan.load else { return };
        let names_pid = load
            .command
            .iter()
            .chain(load.environment.values())
            .any(|text| mentions(text, "pid"));
        if load.per != LoadPer::Process || !names_pid {
            return;
        }
        for (subject, slot) in self.subjects.iter().zip(&mut self.loads) {
            let who = subject.who();
            let restarted = |h: &Happening| {
                h.who == who && matches!(h.what, What::Started(_)) && who.incarnation > 0
            };
            if happened.iter().any(restarted) && slot.pid().is_some() {
                slot.recycle(now);
            }
        }
    }

    fn list(&self) -> Processes {
        let slots = self.backing.iter().chain(&self.subjects).chain(&self.loads);
        let records = slots.map(|slot| slot.record(&self.shared)).collect();
        Processes::of_this_supervisor(&self.shared.setup.run, self.plan.subject.keep, records)
    }

    fn write_list(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let list = self.list();
        let Err(error) = list.write(&self.shared.setup.folder) else {
            return;
        };
        if !self.told_of_list
            && let Some(slot) = self.subjects.first()
        {
            self.told_of_list = true;
            let words = format!(
                "{}/{} cannot be written: {error}. Without it a killed supervisor's processes may be left behind, and \
                 the run cannot be resumed",
                self.shared.setup.folder.display(),
                processes::FILE
            );
            out.push(Happening {
                at: now,
                who: slot.who(),
                what: What::Degraded,
                words,
            });
        }
    }
}

impl Subject for Service {
    fn poll(&mut self, now: Duration) -> Vec<Happening> {
        let mut out = std::mem::take(&mut self.found);
        self.poll_backing(now, &mut out);
        self.poll_subjects(now, &mut out);
        self.recycle_loads(&out, now);
        // Before any load program starts: it may read the list.
        if !out.is_empty() {
            self.write_list(now, &mut out);
        }
        let subjects = out.len();
        self.poll_loads(now, &mut out);
        if out.len() > subjects {
            self.write_list(now, &mut out);
        }
        out
    }

    fn stop_arm(&mut self, arm: &str, why: &str) {
        for slot in self
            .subjects
            .iter_mut()
            .chain(&mut self.loads)
            .filter(|slot| slot.arm == arm)
        {
            slot.dismiss(why);
        }
    }

    fn stop_all(&mut self, why: &str) {
        self.subjects
            .iter_mut()
            .chain(&mut self.loads)
            .for_each(|slot| slot.dismiss(why));
    }

    fn is_over(&self) -> bool {
        self.found.is_empty() && !self.lives()
    }

    fn values(&self, arm: &str, replica: u32) -> Option<Values> {
        let slot = self
            .subjects
            .iter()
            .find(|slot| slot.arm == arm && slot.replica == replica)?;
        Some(slot.values(&self.shared.setup))
    }
}

impl Drop for Service {
    /// The way out after an error or a panic; a run that ended in order has nothing left here.
    fn drop(&mut self) {
        let keep = self.plan.subject.keep;
        let kept = self.subjects.iter_mut().chain(&mut self.backing);
        let ended = kept.filter(|_| !keep);
        let mut slots: Vec<&mut Slot> = self.loads.iter_mut().chain(ended).collect();
        let identities: Vec<Identity> = slots.iter().filter_map(|slot| slot.kill_group()).collect();
        if !identities.is_empty() {
            processes::end_all(&identities);
        }
        slots.iter_mut().for_each(|slot| slot.reap());
    }
}

/// # Errors
/// With the path.
fn make_private_folder(path: &Path) -> io::Result<()> {
    let at =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(at)
}

/// Stops a subject and waits until it is over: for the end of a run that has nothing else to do. `clock` is the
/// run's clock; `told` gets what happens.
pub fn stop_and_wait(
    subject: &mut dyn Subject,
    why: &str,
    mut clock: impl FnMut() -> Duration,
    mut told: impl FnMut(Vec<Happening>),
) {
    const PAUSE: Duration = Duration::from_millis(20);
    subject.stop_all(why);
    while !subject.is_over() {
        told(subject.poll(clock()));
        thread::sleep(PAUSE);
    }
}
