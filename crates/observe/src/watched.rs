//! What is remembered of one target between two snapshots.

use std::collections::HashSet;

use super::cgroup::CgroupReader;
use super::fact::library::Libraries;
use super::fact::liveness::Liveness;
use super::fact::prover::{Means, Prover};
use super::load_lines::{Bridge, LoadTail};
use super::metric;
use super::openmetrics::fetch::Fetched;
use super::openmetrics::series::Metrics;
use super::proc::ProcRoot;
use super::proc::process::{Ended, Loss, ProcessReader, Shares, Vital};
use super::proc::tasks::Counts;
use super::snapshot::{EventKind, Role, Target, TimeNs};
use super::snapshot_writer::SnapshotWriter;

/// One process under observation.
#[derive(Debug)]
pub struct Watched {
    pid: i32,
    start_ticks: u64,
    pub reader: ProcessReader,
    liveness: Liveness,
    prover: Prover,
    cgroup: Option<CgroupReader>,
    load: Option<LoadTail>,
    metrics: Metrics,
    metrics_late: u64,
    /// It ended: nothing more is read but what it left behind.
    ended: bool,
    /// What was already said to be lost.
    said: HashSet<&'static str>,
}

/// What an earlier collector recorded of a process that still runs, so that its counters go on and
/// nothing is recorded twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    /// The last recorded switches_voluntary, switches_involuntary and run_delay_ns.
    pub counts: Counts,
    /// End of the last recorded interval of its load lines.
    pub load_until: Option<TimeNs>,
}

/// What one process may use of the observer at one snapshot.
pub struct Allowance<'a> {
    pub shares: Shares,
    /// Part of one core for rereading its maps.
    pub share_maps: f64,
    /// Part of one core for reading its cgroup.
    pub share_cgroup: f64,
    pub hung_after_ns: i64,
    pub bridge: &'a Bridge,
    pub libraries: &'a mut Libraries,
    pub buffer: &'a mut Vec<u8>,
}

impl Watched {
    /// `keep`: descriptors may stay open between snapshots.
    pub fn new(root: &ProcRoot, target: &Target, keep: bool) -> Watched {
        let seed = target.process.0;
        Watched {
            pid: target.pid,
            start_ticks: target.start_ticks,
            reader: ProcessReader::new(root, target.pid, target.start_ticks, keep, seed),
            liveness: Liveness::default(),
            prover: Prover::new(seed),
            cgroup: target
                .cgroup
                .as_deref()
                .map(|folder| CgroupReader::new(folder, seed)),
            load: target.load_lines.as_deref().map(LoadTail::new),
            metrics: Metrics::default(),
            metrics_late: 0,
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

    /// Goes on from what an earlier collector recorded.
    pub fn carry(&mut self, carried: &Carried) {
        self.reader.carry(carried.counts);
        if let (Some(load), Some(until)) = (&mut self.load, carried.load_until) {
            load.carry(until);
        }
    }

    pub fn sample(
        &mut self,
        target: &Target,
        mut allowed: Allowance<'_>,
        writer: &mut SnapshotWriter<'_>,
    ) {
        let mut losses = Vec::new();
        if !self.ended {
            self.sample_process(target, &mut allowed, writer, &mut losses);
        }
        // A load program prints its last line and ends: the file outlives it.
        if let Some(load) = &mut self.load {
            load.sample(allowed.bridge, writer, &mut losses);
        }
        self.say(losses, writer);
        self.reader.rest();
    }

    fn sample_process(
        &mut self,
        target: &Target,
        allowed: &mut Allowance<'_>,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) {
        let (shares, now) = (allowed.shares, writer.time());
        match self
            .reader
            .sample(now, shares, allowed.buffer, writer, losses)
        {
            Ok(Some(vital)) => self.follow(target, &vital, allowed, writer, losses),
            Ok(None) => {}
            Err(ended) => {
                self.ended = true;
                writer.event(EventKind::Vanished, ended_words(target, &ended));
            }
        }
        match &mut self.cgroup {
            // Its cgroup may be gone with it: that is no loss to speak of.
            Some(cgroup) if self.ended => cgroup.sample_now(writer, &mut Vec::new()),
            Some(cgroup) => cgroup.sample(allowed.share_cgroup, writer, losses),
            None => {}
        }
    }

    /// What its metrics endpoint answered.
    pub fn read_metrics(&mut self, fetched: &Fetched, writer: &mut SnapshotWriter<'_>) {
        let mut losses = Vec::new();
        writer.value(metric::METRICS_FETCH, fetched.took.as_nanos() as u64);
        match &fetched.page {
            Ok(text) => self.metrics.sample(text, writer, &mut losses),
            Err(why) => losses.push(Loss {
                what: "the metrics endpoint",
                why: why.clone(),
            }),
        }
        self.say(losses, writer);
    }

    /// Its metrics endpoint did not answer in time, or is left alone after it failed.
    pub fn miss_metrics(&mut self, writer: &mut SnapshotWriter<'_>) {
        self.metrics_late += 1;
        writer.value(metric::METRICS_LATE, self.metrics_late);
        let why =
            "it did not answer within the snapshot; such snapshots are counted in metrics_late";
        self.say(
            vec![Loss {
                what: "an answer of the metrics endpoint",
                why: why.to_owned(),
            }],
            writer,
        );
    }

    /// What needs a living process: is it the arm, does it make progress.
    fn follow(
        &mut self,
        target: &Target,
        vital: &Vital,
        allowed: &mut Allowance<'_>,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) {
        if target.role != Role::Subject {
            return;
        }
        self.liveness.sample(vital, allowed.hung_after_ns, writer);
        let path = self.reader.path().to_path_buf();
        if let Some(folder) = self.reader.folder() {
            let libraries = &mut *allowed.libraries;
            let means = Means {
                folder,
                path: &path,
                libraries,
                share: allowed.share_maps,
            };
            self.prover.sample(target, vital, means, writer, losses);
        }
    }

    /// Says what is lost, each thing once.
    pub fn say(&mut self, losses: Vec<Loss>, writer: &mut SnapshotWriter<'_>) {
        for Loss { what, why } in losses {
            if self.said.insert(what) {
                let pid = self.pid;
                let words = format!(
                    "pid {pid}: {what} cannot be read: {why}; it is missing from the record. \
                     `highwater doctor` says what this machine allows"
                );
                writer.event(EventKind::Degraded, words);
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
             the one to sample {} ticks",
            target.start_ticks
        ),
    }
}
