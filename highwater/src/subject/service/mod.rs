//! A service that highwater starts and stops: replicas of every arm, and their load programs.
//!
//! Each process has a session and process group of its own, a cgroup where possible, its logs in files, and dies with
//! the supervisor unless the plan says `keep`. The load of a process starts when it is ready and is stopped before it.

mod census;
pub mod cgroup;
mod command;
mod exit;
mod logs;
mod memory;
pub mod processes;
mod ready;
mod running;
mod slot;
mod spawn;
mod start;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

pub use census::MARK;
pub use command::{Launch, texts_with_ports};
pub use exit::Exit;
pub use logs::{LOAD_LIMIT_BYTES, LOG_LIMIT_BYTES};
pub use processes::{Processes, end_left_behind};
pub use ready::Question;

use self::cgroup::{Cgroup, Hierarchy};
use self::slot::Slot;
use self::spawn::Spawner;
use self::start::Order;
use super::Subject;
use super::experiment::{Experiment, LoadPer, Restart, Stop};
use super::happening::{Happening, Role, What, Who};
use super::order::{interleaved, replica_seed};
use super::placeholder::{Values, mentions, ports_wanted};
use super::ports::Ports;

/// Started at most in one poll, so that a poll stays short; about 1 ms each.
const STARTS_PER_POLL: usize = 64;
/// A load program holds no state worth a long farewell.
const LOAD_GRACE: Duration = Duration::from_secs(5);

/// What an arm's allocator means for its processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preload {
    /// Absolute path for LD_PRELOAD; `None` is the system's allocator.
    pub library: Option<PathBuf>,
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

/// What all slots use.
#[derive(Debug)]
struct Shared {
    setup: Setup,
    ports: Ports,
    spawner: Spawner,
    /// It was said that there are no cgroups, or that they failed.
    told_of_cgroups: bool,
}

/// The processes of a run. Dropped before it is over, it kills them all, except those with `keep`.
#[derive(Debug)]
pub struct Service {
    plan: Experiment,
    shared: Shared,
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
        for folder in ["logs", "data"] {
            let path = setup.folder.join(folder);
            let at = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(at)?;
        }
        let start = u64::from(std::process::id()).wrapping_mul(7919);
        let mut shared = Shared {
            setup,
            ports: Ports::new(start),
            spawner: Spawner::new()?,
            told_of_cgroups: false,
        };
        let subjects = subject_slots(&plan, &mut shared)?;
        let loads = load_slots(&plan, &subjects);
        Ok(Self {
            plan,
            shared,
            subjects,
            loads,
            told_of_list: false,
            found: Vec::new(),
        })
    }

    /// Goes on with what an earlier supervisor of this run left running: processes are found again by pid and start
    /// time and reported as `Resumed`; one that is gone is reported as `Resumed` and then `Ended` (vanished), and
    /// started again only if the plan restarts on failure. Load programs die with their supervisor and are
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
        let mut service = Self::new(plan, setup)?;
        for record in &list.processes {
            service.take_over(record, now);
        }
        Ok(service)
    }

    fn take_over(&mut self, record: &processes::Record, now: Duration) {
        let slots = match record.role() {
            Role::Subject => &mut self.subjects,
            Role::Load => &mut self.loads,
        };
        let same = |slot: &&mut Slot| slot.arm == record.arm && slot.replica == record.replica;
        let Some(slot) = slots.iter_mut().find(same) else {
            return;
        };
        for port in &record.ports {
            self.shared.ports.mark(*port);
        }
        if record.role() == Role::Load {
            slot.incarnation = record.incarnation + 1;
            return;
        }
        slot.ports.clone_from(&record.ports);
        let values = Values {
            pid: record.pid,
            ..slot.values(&self.shared.setup.run)
        };
        match subject_order(&self.plan, &self.shared.setup, slot, &values) {
            Ok(order) => slot.take_over(record, order, now, &self.shared, &mut self.found),
            Err(_) => slot.dismiss(),
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
        for at in 0..self.subjects.len() {
            let may_stop = self.load_has_ended(at);
            let slot = &mut self.subjects[at];
            if slot.is_due(now) && started < STARTS_PER_POLL {
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
                slot.dismiss();
            }
            if slot.is_dismissed() {
                slot.begin_stop(now);
            }
            if may_start && slot.is_due(now) {
                let subject_values = self
                    .subjects
                    .get(at)
                    .map(|subject| subject.values(&self.shared.setup.run));
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

    fn write_list(&mut self, now: Duration, out: &mut Vec<Happening>) {
        let records = self
            .subjects
            .iter()
            .chain(&self.loads)
            .map(Slot::record)
            .collect();
        let list =
            Processes::of_this_supervisor(&self.shared.setup.run, self.plan.subject.keep, records);
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

    fn stop_arm(&mut self, arm: &str, _why: &str) {
        for slot in self
            .subjects
            .iter_mut()
            .chain(&mut self.loads)
            .filter(|slot| slot.arm == arm)
        {
            slot.dismiss();
        }
    }

    fn stop_all(&mut self, _why: &str) {
        self.subjects
            .iter_mut()
            .chain(&mut self.loads)
            .for_each(Slot::dismiss);
    }

    fn is_over(&self) -> bool {
        self.found.is_empty() && self.subjects.iter().chain(&self.loads).all(Slot::is_over)
    }

    fn values(&self, arm: &str, replica: u32) -> Option<Values> {
        let slot = self
            .subjects
            .iter()
            .find(|slot| slot.arm == arm && slot.replica == replica)?;
        let processes = Some(self.shared.setup.folder.join(processes::FILE));
        Some(Values {
            processes,
            ..slot.values(&self.shared.setup.run)
        })
    }
}

impl Drop for Service {
    /// The way out after an error or a panic; a run that ended in order has nothing left here.
    fn drop(&mut self) {
        let keep = self.plan.subject.keep;
        let subjects = self.subjects.iter_mut().filter(|_| !keep);
        self.loads
            .iter_mut()
            .chain(subjects)
            .for_each(Slot::kill_now);
    }
}

impl Shared {
    /// A cgroup for a process about to start; without one the process starts all the same.
    fn make_cgroup(
        &mut self,
        name: &str,
        memory_limit: Option<u64>,
        who: Who,
        now: Duration,
        out: &mut Vec<Happening>,
    ) -> Option<Cgroup> {
        let made = self.setup.hierarchy.create(name).and_then(|cgroup| {
            let limited = memory_limit.map_or(Ok(()), |bytes| cgroup.limit_memory(bytes));
            limited
                .inspect_err(|_| drop(cgroup.remove()))
                .map(|()| cgroup)
        });
        made.inspect_err(|error| self.tell_of_cgroups(error.to_string(), who, now, out))
            .ok()
    }

    /// Whether the process really is inside. One that has ended already is in no cgroup any more.
    fn check_cgroup(
        &mut self,
        cgroup: Option<Cgroup>,
        pid: i32,
        who: Who,
        now: Duration,
        out: &mut Vec<Happening>,
    ) -> Option<Cgroup> {
        let cgroup = cgroup?;
        let ended = census::read_stat(pid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'));
        if ended || cgroup.pids().contains(&pid) {
            return Some(cgroup);
        }
        let _ = cgroup.remove();
        let words = format!(
            "{}: the process could not enter it",
            cgroup.folder().display()
        );
        self.tell_of_cgroups(words, who, now, out);
        None
    }

    fn tell_of_cgroups(&mut self, words: String, who: Who, at: Duration, out: &mut Vec<Happening>) {
        if !self.told_of_cgroups {
            self.told_of_cgroups = true;
            out.push(Happening {
                at,
                who,
                what: What::Degraded,
                words,
            });
        }
    }
}

fn subject_slots(plan: &Experiment, shared: &mut Shared) -> io::Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for (index, replica) in interleaved(plan.arms.len(), plan.replicas, plan.seed) {
        let arm = &plan.arms[index];
        let mut slot = Slot::new(
            &arm.name,
            Some(index),
            replica,
            Role::Subject,
            plan.subject.restart,
        );
        slot.seed = replica_seed(plan.seed, replica);
        let name = format!("{}-{replica}", logs::file_name(&arm.name));
        slot.data = Some(shared.setup.folder.join("data").join(name));
        for _ in 0..ports_wanted(texts_with_ports(plan, arm)) {
            slot.ports.push(shared.ports.take()?);
        }
        slots.push(slot);
    }
    Ok(slots)
}

fn load_slots(plan: &Experiment, subjects: &[Slot]) -> Vec<Slot> {
    match plan.load.as_ref().map(|load| load.per) {
        None => Vec::new(),
        Some(LoadPer::Run) => {
            let mut slot = Slot::new(Who::EVERY_ARM, None, 0, Role::Load, Restart::OnFailure);
            slot.seed = plan.seed;
            vec![slot]
        }
        Some(LoadPer::Process) => {
            let load_of = |subject: &Slot| Slot {
                seed: subject.seed,
                ..Slot::new(
                    &subject.arm,
                    subject.arm_index,
                    subject.replica,
                    Role::Load,
                    Restart::OnFailure,
                )
            };
            subjects.iter().map(load_of).collect()
        }
    }
}

fn subject_order<'a>(
    plan: &'a Experiment,
    setup: &Setup,
    slot: &Slot,
    values: &Values,
) -> Result<Order<'a>, super::placeholder::PlaceholderError> {
    let arm = &plan.arms[slot.arm_index.expect("a replica belongs to an arm")];
    let preload = setup.preloads.get(&arm.name).cloned().unwrap_or_default();
    Ok(Order {
        launch: Launch::of_subject(plan, arm, &preload, values)?,
        ready: plan.subject.ready.as_ref(),
        ready_timeout: plan.subject.ready_timeout,
        stop: plan.subject.stop.clone(),
        memory_limit: plan.subject.memory_limit,
        metrics: plan.subject.metrics.as_deref(),
        library: preload.library,
        dies_with_us: !plan.subject.keep,
    })
}

fn start_subject(
    slot: &mut Slot,
    plan: &Experiment,
    now: Duration,
    shared: &mut Shared,
    out: &mut Vec<Happening>,
) {
    let values = slot.values(&shared.setup.run);
    let order = subject_order(plan, &shared.setup, slot, &values);
    slot.start(order, &values, now, shared, out);
}

fn start_load(
    slot: &mut Slot,
    plan: &Experiment,
    subject: Option<Values>,
    now: Duration,
    shared: &mut Shared,
    out: &mut Vec<Happening>,
) {
    let load = plan
        .load
        .as_ref()
        .expect("a load slot comes from a load plan");
    let own = slot.values(&shared.setup.run);
    let values = Values {
        processes: Some(shared.setup.folder.join(processes::FILE)),
        ..subject
            .filter(|_| load.per == LoadPer::Process)
            .unwrap_or(own)
    };
    let order = Launch::of_load(plan, load, &values).map(|launch| Order {
        launch,
        ready: None,
        ready_timeout: Duration::ZERO,
        stop: Stop {
            signal: libc::SIGTERM,
            grace: LOAD_GRACE,
        },
        memory_limit: None,
        metrics: None,
        library: None,
        dies_with_us: true,
    });
    slot.start(order, &values, now, shared, out);
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
