//! Stalls as series of an experiment: what `stalls = true` adds to each snapshot. A thread for each process of the
//! subject watches it all the time; a snapshot writes down what was counted until then.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};

use super::start;
use bpf::allowed::{Allowed, Mode};
use observe::metric;
use observe::metric::Metric;
use observe::snapshot::{EventKind, ProcessId, Role, Snapshot, Target};
use observe::snapshot_writer::SnapshotWriter;
use record::SampleRow;
use sched::recording::Facts;
use sched::room::Room;
use sched::time::now_ns;
use sched::watch::Watch;
use stalls::analyser::Analyser;
use stalls::arm::metric_of;
use stalls::cause::Cause;
use stalls::event::Tid;
use stalls::felt::Felt;
use stalls::finding::summarise;

/// Processes watched at a time. A thread and some 10 MiB each; the first replicas of every arm come first.
const WATCHED_MAX: usize = 32;
/// From this wait on a busy period counts: pauses over 1 ms.
const PAUSE_NS: u64 = 1_000_000;
/// Stalls are told by cause among those of this long: a lock's nature shows in its company.
const WINDOW_NS: u64 = 5_000_000_000;

/// Watches an experiment's processes.
pub struct StallSeries {
    mode: Mode,
    watched: HashMap<ProcessId, Watched>,
    left_out: HashSet<ProcessId>,
    /// What an earlier collector of this run had counted.
    carried: HashMap<(ProcessId, String), f64>,
}

struct Watched {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    said: bool,
}

/// Counted by the thread, read by the snapshot.
struct Shared {
    counts: [AtomicU64; Cause::ALL.len()],
    watched_ns: AtomicU64,
    lost: AtomicU64,
    cost_ns: AtomicU64,
    stop: AtomicBool,
    /// Why it is not watched, or not all of it.
    missing: Mutex<Option<String>>,
}

impl StallSeries {
    /// `carried`: the last value of each of these metrics in the record; see [`names`].
    pub fn new(carried: Vec<SampleRow>) -> StallSeries {
        let of = |row: SampleRow| ((row.process, row.metric), row.value);
        StallSeries {
            mode: Allowed::try_all().mode(),
            watched: HashMap::new(),
            left_out: HashSet::new(),
            carried: carried.into_iter().map(of).collect(),
        }
    }

    /// Adds to a snapshot what was counted of each process of the subject; new ones are watched from now on.
    pub fn add(&mut self, snapshot: &mut Snapshot, targets: &[Target]) {
        let mut subjects: Vec<&Target> = targets
            .iter()
            .filter(|target| target.role == Role::Subject)
            .collect();
        subjects.sort_by_key(|target| target.replica);
        for target in subjects {
            self.add_one(snapshot, target);
        }
        let alive = |process: &ProcessId| targets.iter().any(|target| target.process == *process);
        for (process, watched) in &mut self.watched {
            if !alive(process) {
                watched.end();
            }
        }
        self.watched.retain(|process, _| alive(process));
    }

    /// The watch is over: what was not counted yet is, and the next [`StallSeries::add`] writes it.
    pub fn finish(&mut self) {
        let all = || self.watched.values();
        all().for_each(|watched| watched.shared.stop.store(true, Ordering::Relaxed));
        self.watched.values_mut().for_each(Watched::end);
    }

    fn add_one(&mut self, snapshot: &mut Snapshot, target: &Target) {
        if !self.watched.contains_key(&target.process) {
            self.begin(snapshot, target);
        }
        let Some(watched) = self.watched.get_mut(&target.process) else {
            return;
        };
        let mut writer = SnapshotWriter::new(snapshot, target.process);
        if !watched.said
            && let Ok(Some(words)) = watched.shared.missing.lock().map(|words| words.clone())
        {
            watched.said = true;
            writer.event(EventKind::Degraded, words);
        }
        let watched_ns = watched.shared.watched_ns.load(Ordering::Relaxed);
        if watched_ns == 0 {
            // Not watched: absent is not zero.
            return;
        }
        let carried = &self.carried;
        let mut put = |metric: Metric, value: u64| {
            let before = carried.get(&(target.process, metric.name.to_owned()));
            writer.float(metric, value as f64 + before.unwrap_or(&0.0));
        };
        for (cause, count) in Cause::ALL.iter().zip(&watched.shared.counts) {
            put(metric_of(*cause), count.load(Ordering::Relaxed));
        }
        put(metric::STALLS_WATCHED, watched_ns);
        put(
            metric::STALLS_LOST,
            watched.shared.lost.load(Ordering::Relaxed),
        );
        put(
            metric::STALLS_COST,
            watched.shared.cost_ns.load(Ordering::Relaxed),
        );
    }

    fn begin(&mut self, snapshot: &mut Snapshot, target: &Target) {
        let full = self.watched.len() >= WATCHED_MAX;
        if full || self.mode == Mode::None {
            if self.left_out.insert(target.process) {
                let words = match full {
                    true => format!("not watched for stalls: {WATCHED_MAX} processes are already"),
                    false => "not watched for stalls: this user may not watch switches here; \
                              `highwater doctor` says what would allow it"
                        .to_owned(),
                };
                SnapshotWriter::new(snapshot, target.process).event(EventKind::Degraded, words);
            }
            return;
        }
        let shared = Arc::new(Shared {
            counts: Default::default(),
            watched_ns: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            cost_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            missing: Mutex::new(None),
        });
        let (own, pid, mode) = (Arc::clone(&shared), target.pid as u32, self.mode);
        let name = format!("stalls of {pid}");
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || follow(pid, mode, &own));
        let watched = Watched {
            shared,
            thread: thread.ok(),
            said: false,
        };
        self.watched.insert(target.process, watched);
    }
}

/// The metrics that a later collector carries on.
pub fn names() -> Vec<&'static str> {
    let causes = Cause::ALL.into_iter().map(|cause| metric_of(cause).name);
    let own = [
        metric::STALLS_WATCHED,
        metric::STALLS_LOST,
        metric::STALLS_COST,
    ];
    causes.chain(own.map(|metric| metric.name)).collect()
}

impl Watched {
    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

/// Watches one process until it is gone or somebody says stop.
fn follow(pid: u32, mode: Mode, shared: &Shared) {
    let say = |words: String| {
        if let Ok(mut missing) = shared.missing.lock() {
            *missing = Some(words);
        }
    };
    // Before the thread that looks up names is started, which goes as this one does.
    start::go_first();
    let mut watch = match Watch::open(pid, mode, Room::Many) {
        Ok(watch) => watch,
        Err(error) => return say(format!("not watched for stalls: {error}")),
    };
    if !watch.missing.is_empty() {
        say(format!(
            "watched for stalls without {}",
            watch.missing.join("; ")
        ));
    }
    let started_ns = now_ns();
    // Its start is over, or is part of what the arm costs: threads are known from now on.
    let living: Vec<Tid> = watch.known().map(|(tid, _)| Tid::from(*tid)).collect();
    let facts = Facts::of(&watch, started_ns, living, env!("CARGO_PKG_VERSION"));
    let mut analyser = Analyser::of(&facts);
    analyser.groups.fixed_ns = Some(PAUSE_NS);
    let mut window_ns = started_ns;
    loop {
        sleep(watch.rest());
        let now = now_ns();
        let turn = watch.turn();
        let over = turn.ended || shared.stop.load(Ordering::Relaxed);
        analyser.follow(turn, now);
        if over {
            watch.finish().iter().for_each(|event| analyser.push(event));
            analyser.told_until(now_ns());
            analyser.finish();
        }
        if over || now - window_ns >= WINDOW_NS {
            window_ns = now;
            count(&mut analyser, &watch, shared);
        }
        shared.watched_ns.store(now - started_ns, Ordering::Relaxed);
        shared.cost_ns.store(
            start::thread_cpu_ns() + watch.named_cpu_ns(),
            Ordering::Relaxed,
        );
        if over {
            return;
        }
    }
}

/// Adds the stalls since the last time, by cause.
fn count(analyser: &mut Analyser, watch: &Watch, shared: &Shared) {
    let stalls = std::mem::take(&mut analyser.stalls);
    let findings = summarise(
        &stalls,
        &analyser.groups,
        &Felt::default(),
        &watch.requesters(),
    );
    for finding in findings {
        let at = Cause::ALL.iter().position(|cause| *cause == finding.cause);
        if let Some(count) = at.map(|at| &shared.counts[at]) {
            count.fetch_add(finding.count as u64, Ordering::Relaxed);
        }
    }
    let losses = watch.losses();
    let lost = losses.lost_records + losses.lost_samples;
    shared.lost.store(lost, Ordering::Relaxed);
}
