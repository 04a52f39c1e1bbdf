//! One sample for all who ask: reads when a scrape comes, at most once an interval, and keeps the page.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::chosen::Source;
use super::page::{OWN, Own, Seen, families};
use crate::cli::out::say;
use experiment::chosen::Chosen;
use observe::clock::{Clock, RealClock};
use observe::collector::{Observer, Options};
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, Expected, ProcessId, Role, Snapshot, Target};
use report::openmetrics::Family;

/// From one search for processes to the next, at least: it reads a little of every process of the machine.
const SEARCH_EVERY: Duration = Duration::from_secs(10);
/// Losses that are said; of many processes of another user each would be the same.
const LOSSES_SAID_MAX: u32 = 6;
/// The machine as a whole.
const HOST: ProcessId = ProcessId(1);

/// Looks at processes, and remembers of each what is not read at every snapshot.
pub struct Sampler {
    source: Source,
    observer: Observer,
    clock: RealClock,
    boot_s: f64,
    host: String,
    slots: Slots,
    searched: Option<Instant>,
    next_id: i64,
    /// By pid, start and name.
    watched: HashMap<(i32, u64, String), ProcessId>,
    targets: Vec<Target>,
    seen: BTreeMap<ProcessId, Seen>,
    pub own: Own,
    losses: u32,
}

/// Time in stretches of one interval, the first around the first scrape: a scraper whose period is the interval
/// finds a fresh snapshot each time though its scrapes come a little early or late.
#[derive(Debug)]
struct Slots {
    interval: Duration,
    first: Option<Instant>,
    last: i128,
}

impl Slots {
    fn is_due(&mut self, now: Instant) -> bool {
        let Some(first) = self.first else {
            self.first = Some(now);
            return true;
        };
        let interval = self.interval.as_nanos().max(1) as i128;
        let passed = now.saturating_duration_since(first).as_nanos() as i128;
        let slot = (passed + interval / 2) / interval;
        let due = slot > self.last;
        if due {
            self.last = slot;
        }
        due
    }
}

impl Sampler {
    pub fn new(source: Source, host: String, interval: Duration) -> Sampler {
        let clock = RealClock::start();
        let boot_s = (clock.anchor().wall_ns - clock.anchor().boottime_ns) as f64 / 1e9;
        Sampler {
            source,
            observer: Observer::new(ProcRoot::default(), Options::default()),
            clock,
            boot_s,
            host,
            slots: Slots {
                interval,
                first: None,
                last: 0,
            },
            searched: None,
            next_id: OWN.0 + 1,
            watched: HashMap::new(),
            targets: Vec::new(),
            seen: BTreeMap::new(),
            own: Own::default(),
            losses: 0,
        }
    }

    /// How many processes are watched.
    pub fn count(&self) -> usize {
        self.seen.values().filter(|s| s.is_process()).count()
    }

    /// How many processes might match but cannot be seen by this user.
    pub fn hidden(&self) -> usize {
        self.source.hidden()
    }

    /// A fresh page, when the interval allows a snapshot; `None` when the last one still holds.
    pub fn sample(&mut self) -> Option<Vec<Family>> {
        let now = Instant::now();
        self.slots.is_due(now).then(|| self.sample_now(now))
    }

    /// The snapshot before anybody scrapes, which says what there is.
    pub fn sample_first(&mut self) -> Vec<Family> {
        self.sample_now(Instant::now())
    }

    fn sample_now(&mut self, now: Instant) -> Vec<Family> {
        if self
            .searched
            .is_none_or(|at| now.duration_since(at) >= SEARCH_EVERY)
        {
            self.searched = Some(now);
            self.search();
        }
        let snapshot = self.observer.snapshot(self.clock.now(), &self.targets);
        self.take(snapshot);
        self.own.snapshots += 1;
        self.own.snapshot_s = now.elapsed().as_secs_f64();
        families(&self.seen, &self.own, &self.host)
    }

    fn search(&mut self) {
        let chosen = match self.source.search() {
            Ok(chosen) => chosen,
            Err(error) => {
                say!("highwater: which processes run is not known: {error:#}");
                return;
            }
        };
        self.own.left_out = self.source.left_out();
        let keys: HashSet<(i32, u64, String)> = chosen.iter().map(key).collect();
        self.watched.retain(|known, _| keys.contains(known));
        let mut targets = vec![target(HOST, Role::Host, 0, 0), self.own_target()];
        for one in &chosen {
            let id = self.id_of(one);
            let mut target = target(id, Role::Subject, one.pid, one.start_ticks);
            target.arm = one.arm.clone();
            target.cgroup = one.cgroup.clone();
            targets.push(target);
            let start_s = self.boot_s + one.start_ticks as f64 / ticks_per_second();
            let fresh = || Seen::of(one, start_s, &self.host);
            self.seen.entry(id).or_insert_with(fresh);
        }
        self.seen
            .retain(|id, _| targets.iter().any(|target| target.process == *id));
        for id in [HOST, OWN] {
            self.seen
                .entry(id)
                .or_insert_with(|| Seen::machine(&self.host));
        }
        self.targets = targets;
    }

    fn own_target(&self) -> Target {
        let pid = std::process::id() as i32;
        let start = experiment::service::start_ticks(pid);
        target(OWN, Role::Highwater, pid, start)
    }

    fn id_of(&mut self, one: &Chosen) -> ProcessId {
        let next = &mut self.next_id;
        let fresh = || {
            *next += 1;
            ProcessId(*next)
        };
        *self.watched.entry(key(one)).or_insert_with(fresh)
    }

    fn say_loss(&mut self, words: &str) {
        self.losses += 1;
        match self.losses.cmp(&LOSSES_SAID_MAX) {
            Ordering::Less => say!("highwater: {words}"),
            Ordering::Equal => {
                say!("highwater: {words}; further losses are not said")
            }
            Ordering::Greater => {}
        }
    }

    fn take(&mut self, snapshot: Snapshot) {
        for sample in snapshot.samples {
            if let Some(seen) = self.seen.get_mut(&sample.process) {
                seen.values.insert(sample.metric, sample.value);
            }
        }
        for fact in snapshot.facts {
            if let Some(seen) = self.seen.get_mut(&fact.process) {
                seen.facts.insert(fact.key, fact.value);
            }
        }
        for event in snapshot.events {
            match (event.kind, event.process) {
                // What has ended is no sample any more: its series end here.
                (EventKind::Vanished, Some(process)) => drop(self.seen.remove(&process)),
                (EventKind::Degraded, _) => self.say_loss(&event.words),
                _ => {}
            }
        }
    }
}

fn key(one: &Chosen) -> (i32, u64, String) {
    (one.pid, one.start_ticks, one.name.clone())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn target(process: ProcessId, role: Role, pid: i32, start_ticks: u64) -> Target {
    Target {
        process,
        pid,
        start_ticks,
        arm: String::new(),
        replica: 0,
        role,
        metrics_url: None,
        load_lines: None,
        cgroup: None,
        expected_allocator: Expected::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_snapshot_an_interval_however_often_it_is_scraped() {
        let interval = Duration::from_secs(5);
        let mut slots = Slots {
            interval,
            first: None,
            last: 0,
        };
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let due: Vec<bool> = [0, 1, 2000, 4990, 5000, 9990, 15_020, 15_021]
            .map(|ms| slots.is_due(at(ms)))
            .into();
        assert_eq!(due, [true, false, false, true, false, true, true, false]);
        let often = (0..60_000)
            .step_by(100)
            .filter(|ms| slots.is_due(at(20_000 + ms)));
        assert!(often.count() <= 13);
    }
}
