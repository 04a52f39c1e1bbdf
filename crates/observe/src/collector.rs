//! The observer: one call, one snapshot at everything.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::clock::read_ns;
use super::fact::library::Libraries;
use super::host::{SystemRoot, read_machine, sample_host};
use super::load_lines::Bridge;
use super::metric;
use super::openmetrics::fetch::Fetcher;
use super::proc::ProcRoot;
use super::proc::open::DESCRIPTORS;
use super::proc::process::Shares;
use super::snapshot::{Event, EventKind, ProcessId, Role, Snapshot, Target, TimeNs};
use super::snapshot_writer::SnapshotWriter;
use super::watched::{Allowance, Carried, Watched};

/// What a snapshot may cost, and when a process counts as hung.
#[derive(Debug, Clone)]
pub struct Options {
    /// Part of one core that walking the threads of all processes may take together.
    pub share_tasks: f64,
    /// The same for smaps_rollup (PSS, LazyFree ...), which walks page tables.
    pub share_rollup: f64,
    /// The same for rereading maps, to see that a process loaded another library.
    pub share_maps: f64,
    /// The same for the files of cgroups.
    pub share_cgroup: f64,
    /// Without CPU time and context switches for this long, a process counts as hung.
    pub hung_after_ns: i64,
    /// Longest that a snapshot waits for metrics endpoints, counted from its beginning. Keep it below
    /// the interval of the snapshots.
    pub metrics_wait: Duration,
    /// Where /etc and /sys are.
    pub system: SystemRoot,
    /// CLOCK_MONOTONIC in nanoseconds, the clock of load lines.
    pub monotonic_ns: fn() -> i64,
}

impl Default for Options {
    fn default() -> Self {
        // The bar is 2 % of one core for 200 processes once a second; stat and status of 200
        // processes take 0.3 to 0.4 %. bench/results/2026-11-22-observe.md has the figures.
        Options {
            share_tasks: 0.004,
            share_rollup: 0.004,
            share_maps: 0.002,
            share_cgroup: 0.002,
            hung_after_ns: 60_000_000_000,
            metrics_wait: Duration::from_millis(400),
            system: SystemRoot::default(),
            monotonic_ns: || read_ns(ClockId::Monotonic),
        }
    }
}

/// A single fetch may outlive its snapshot, but not by more than this.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks at processes and keeps what it must remember of each between two snapshots.
#[derive(Debug)]
pub struct Observer {
    root: ProcRoot,
    options: Options,
    watched: HashMap<ProcessId, Watched>,
    carried: HashMap<ProcessId, Carried>,
    /// Descriptors that may stay open between snapshots, all processes together.
    descriptors: usize,
    libraries: Libraries,
    fetcher: Option<Fetcher>,
    bridge: Bridge,
    machine_told: bool,
    host_lost: bool,
    buffer: Vec<u8>,
}

impl Observer {
    pub fn new(root: ProcRoot, options: Options) -> Observer {
        Observer {
            root,
            options,
            watched: HashMap::new(),
            carried: HashMap::new(),
            descriptors: descriptors_to_keep(),
            libraries: Libraries::default(),
            fetcher: None,
            bridge: Bridge::default(),
            machine_told: false,
            host_lost: false,
            buffer: Vec::new(),
        }
    }

    /// For a process that an earlier collector recorded; before the first snapshot of it.
    pub fn carry(&mut self, process: ProcessId, carried: Carried) {
        self.carried.insert(process, carried);
    }

    /// Reads everything once. Never fails as a whole: what cannot be read is an event.
    pub fn snapshot(&mut self, now: TimeNs, targets: &[Target]) -> Snapshot {
        let begin = Instant::now();
        self.bridge.update(now, (self.options.monotonic_ns)());
        let mut snapshot = Snapshot::at(now);
        snapshot.samples.reserve(targets.len() * 24);
        self.forget(targets);
        let missed = self.ask_for_metrics(targets, &mut snapshot);
        for target in targets {
            match target.role {
                Role::Host => self.sample_host(target, &mut snapshot),
                _ => self.sample_process(target, targets.len(), &mut snapshot),
            }
        }
        self.collect_metrics(begin + self.options.metrics_wait, missed, &mut snapshot);
        if let Some(own) = targets.iter().find(|target| target.role == Role::Highwater) {
            let cost = begin.elapsed().as_nanos() as u64;
            SnapshotWriter::new(&mut snapshot, own.process).value(metric::SNAPSHOT_COST, cost);
        }
        snapshot
    }

    /// Lets go of processes that are no targets any more.
    fn forget(&mut self, targets: &[Target]) {
        let wanted: HashSet<ProcessId> = targets.iter().map(|target| target.process).collect();
        self.watched.retain(|process, _| wanted.contains(process));
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.forget(|process| wanted.contains(&process));
        }
    }

    fn sample_process(&mut self, target: &Target, among: usize, snapshot: &mut Snapshot) {
        self.watch(target);
        let Some(watched) = self.watched.get_mut(&target.process) else {
            return;
        };
        let among = among.max(1) as f64;
        let allowed = Allowance {
            shares: Shares {
                tasks: self.options.share_tasks / among,
                rollup: self.options.share_rollup / among,
            },
            share_maps: self.options.share_maps / among,
            share_cgroup: self.options.share_cgroup / among,
            hung_after_ns: self.options.hung_after_ns,
            bridge: &self.bridge,
            libraries: &mut self.libraries,
            buffer: &mut self.buffer,
        };
        watched.sample(
            target,
            allowed,
            &mut SnapshotWriter::new(snapshot, target.process),
        );
    }

    /// Starts to watch a target, or starts anew when its process is another one.
    fn watch(&mut self, target: &Target) {
        if self
            .watched
            .get(&target.process)
            .is_some_and(|known| known.is_for(target))
        {
            return;
        }
        let keeps = |known: &&Watched| known.reader.keeps() && !known.has_ended();
        let kept = self.watched.values().filter(keeps).count();
        let keep = (kept + 1) * DESCRIPTORS <= self.descriptors;
        let mut watched = Watched::new(&self.root, target, keep);
        if let Some(carried) = self.carried.remove(&target.process) {
            watched.carry(&carried);
        }
        self.watched.insert(target.process, watched);
    }

    fn sample_host(&mut self, target: &Target, snapshot: &mut Snapshot) {
        let mut writer = SnapshotWriter::new(snapshot, target.process);
        if !self.machine_told {
            self.machine_told = true;
            for (key, value) in read_machine(&self.root, &self.options.system).facts() {
                writer.fact(key, value);
            }
        }
        match sample_host(&self.root, &mut writer) {
            Err(why) if !self.host_lost => {
                self.host_lost = true;
                let words = format!("the state of the machine cannot be read: {why}");
                writer.event(EventKind::Degraded, words);
            }
            _ => {}
        }
    }

    /// Sends the fetches on their way. Returns the endpoints that are not even asked: the last
    /// answer is still outstanding, or the endpoint is left alone after it failed.
    fn ask_for_metrics(&mut self, targets: &[Target], snapshot: &mut Snapshot) -> Vec<ProcessId> {
        let mut missed = Vec::new();
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.begin();
        }
        for target in targets {
            let Some(url) = &target.metrics_url else {
                continue;
            };
            let ended = self
                .watched
                .get(&target.process)
                .is_some_and(Watched::has_ended);
            let Some(fetcher) = self.fetcher(snapshot).filter(|_| !ended) else {
                continue;
            };
            if !fetcher.ask(target.process, url, snapshot.time) {
                missed.push(target.process);
            }
        }
        missed
    }

    fn fetcher(&mut self, snapshot: &mut Snapshot) -> Option<&mut Fetcher> {
        if self.fetcher.is_none() {
            match Fetcher::new(FETCH_TIMEOUT) {
                Ok(fetcher) => self.fetcher = Some(fetcher),
                Err(error) => {
                    let words = format!(
                        "no thread could be started to fetch metrics endpoints: {error}; their \
                         metrics are missing from this snapshot"
                    );
                    let time = snapshot.time;
                    snapshot.events.push(Event {
                        time,
                        process: None,
                        kind: EventKind::Degraded,
                        words,
                    });
                }
            }
        }
        self.fetcher.as_mut()
    }

    fn collect_metrics(
        &mut self,
        deadline: Instant,
        missed: Vec<ProcessId>,
        snapshot: &mut Snapshot,
    ) {
        let Some(fetcher) = &mut self.fetcher else {
            return;
        };
        let (fetched, late) = fetcher.collect(deadline, snapshot.time);
        for one in fetched {
            if let Some(watched) = self.watched.get_mut(&one.process) {
                watched.read_metrics(&one, &mut SnapshotWriter::new(snapshot, one.process));
            }
        }
        for process in missed.into_iter().chain(late) {
            if let Some(watched) = self.watched.get_mut(&process) {
                watched.miss_metrics(&mut SnapshotWriter::new(snapshot, process));
            }
        }
    }
}

/// Half of the descriptors that this process may open; the rest is for pipes, logs and fetches.
fn descriptors_to_keep() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |soft| soft as usize) / 2
}
