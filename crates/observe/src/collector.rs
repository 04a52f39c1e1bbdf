//! The observer: one call, one look at everything.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::clock::read_ns;
use super::fact::library::Libraries;
use super::host::{SystemRoot, look_at_host, read_machine};
use super::load_lines::Bridge;
use super::look::{Event, EventKind, Look, ProcessId, Role, Target, TimeNs};
use super::metric;
use super::openmetrics::fetch::Fetcher;
use super::page::Page;
use super::proc::ProcRoot;
use super::proc::open::DESCRIPTORS;
use super::proc::process::Shares;
use super::watched::{Allowance, Carried, Watched};

/// What a look may cost, and when a process counts as hung.
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
    /// Longest that a look waits for metrics endpoints, counted from its beginning. Keep it below
    /// the interval of the looks.
    pub metrics_wait: Duration,
    /// Where /etc and /sys are.
    pub system: SystemRoot,
    /// CLOCK_MONOTONIC in nanoseconds, the clock of load lines.
    pub monotonic_ns: fn() -> i64,
}

impl Default for Options {
    fn default() -> Self {
        // The bar is 2 % of one core for 200 processes once a second; stat and status of 200
        // processes take 0.3 to 0.4 %. bench/observe/README.md has what came out.
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

/// A single fetch may outlive its look, but not by more than this.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks at processes and keeps what it must remember of each between two looks.
#[derive(Debug)]
pub struct Observer {
    root: ProcRoot,
    options: Options,
    watched: HashMap<ProcessId, Watched>,
    carried: HashMap<ProcessId, Carried>,
    /// Descriptors that may stay open between looks, all processes together.
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

    /// For a process that an earlier collector recorded; before the first look at it.
    pub fn carry(&mut self, process: ProcessId, carried: Carried) {
        self.carried.insert(process, carried);
    }

    /// Reads everything once. Never fails as a whole: what cannot be read is an event.
    pub fn look(&mut self, now: TimeNs, targets: &[Target]) -> Look {
        let begin = Instant::now();
        self.bridge.update(now, (self.options.monotonic_ns)());
        let mut look = Look::at(now);
        look.samples.reserve(targets.len() * 24);
        self.forget(targets);
        let missed = self.ask_for_metrics(targets, &mut look);
        for target in targets {
            match target.role {
                Role::Host => self.look_at_host(target, &mut look),
                _ => self.look_at(target, targets.len(), &mut look),
            }
        }
        self.collect_metrics(begin + self.options.metrics_wait, missed, &mut look);
        if let Some(own) = targets.iter().find(|target| target.role == Role::Highwater) {
            let cost = begin.elapsed().as_nanos() as u64;
            Page::new(&mut look, own.process).value(metric::LOOK_COST, cost);
        }
        look
    }

    /// Lets go of processes that are no targets any more.
    fn forget(&mut self, targets: &[Target]) {
        let wanted: HashSet<ProcessId> = targets.iter().map(|target| target.process).collect();
        self.watched.retain(|process, _| wanted.contains(process));
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.forget(|process| wanted.contains(&process));
        }
    }

    fn look_at(&mut self, target: &Target, among: usize, look: &mut Look) {
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
        watched.look(target, allowed, &mut Page::new(look, target.process));
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

    fn look_at_host(&mut self, target: &Target, look: &mut Look) {
        let mut page = Page::new(look, target.process);
        if !self.machine_told {
            self.machine_told = true;
            for (key, value) in read_machine(&self.root, &self.options.system).facts() {
                page.fact(key, value);
            }
        }
        match look_at_host(&self.root, &mut page) {
            Err(why) if !self.host_lost => {
                self.host_lost = true;
                let words = format!("the state of the machine cannot be read: {why}");
                page.event(EventKind::Degraded, words);
            }
            _ => {}
        }
    }

    /// Sends the fetches on their way. Returns the endpoints that are not even asked: the last
    /// answer is still outstanding, or the endpoint is left alone after it failed.
    fn ask_for_metrics(&mut self, targets: &[Target], look: &mut Look) -> Vec<ProcessId> {
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
            let Some(fetcher) = self.fetcher(look).filter(|_| !ended) else {
                continue;
            };
            if !fetcher.ask(target.process, url, look.time) {
                missed.push(target.process);
            }
        }
        missed
    }

    fn fetcher(&mut self, look: &mut Look) -> Option<&mut Fetcher> {
        if self.fetcher.is_none() {
            match Fetcher::new(FETCH_TIMEOUT) {
                Ok(fetcher) => self.fetcher = Some(fetcher),
                Err(error) => {
                    let words = format!(
                        "no thread could be started to fetch metrics endpoints: {error}; their \
                         metrics are missing from this snapshot"
                    );
                    let time = look.time;
                    look.events.push(Event {
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

    fn collect_metrics(&mut self, deadline: Instant, missed: Vec<ProcessId>, look: &mut Look) {
        let Some(fetcher) = &mut self.fetcher else {
            return;
        };
        let (fetched, late) = fetcher.collect(deadline, look.time);
        for one in fetched {
            if let Some(watched) = self.watched.get_mut(&one.process) {
                watched.read_metrics(&one, &mut Page::new(look, one.process));
            }
        }
        for process in missed.into_iter().chain(late) {
            if let Some(watched) = self.watched.get_mut(&process) {
                watched.miss_metrics(&mut Page::new(look, process));
            }
        }
    }
}

/// Half of the descriptors that this process may open; the rest is for pipes, logs and fetches.
fn descriptors_to_keep() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |soft| soft as usize) / 2
}
