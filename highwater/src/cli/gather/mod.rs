//! The collector of a run with remote arms: reads what a store got from other hosts, and writes it down as snapshots.
//!
//! Snapshots stand on the run's grid like any others, only later: a snapshot is written when everything that belongs to
//! it can be expected to be in the store. A store that does not answer delays snapshots and loses none; one that was
//! down holds no samples of that time, and these snapshots are counted as missing.

pub mod book;
pub mod gap;
pub mod store;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use self::book::{Appeared, Book, say};
use self::gap::{Hole, Outage, Rhythm};
use self::store::Store;
use super::exit;
use super::out::say;
use super::signals::is_supervised;
use experiment::file::Experiment;
use import::prometheus::assemble::{Assembled, Grid, assemble};
use observe::clock::{Clock, RealClock};
use observe::collector::{Observer, Options};
use observe::proc::ProcRoot;
use observe::snapshot::{Event, EventKind, Fact, ProcessId, Role, Sample, Snapshot, TimeNs};
use record::{Folder, Reader, RecordError, Recorder};

/// A snapshot is written so long after its time: a scrape takes a while until it can be read.
const SETTLE_NS: i64 = 3_000_000_000;
/// What is not in the store by then is not waited for: a scrape may take its time, and a store its own to show it.
const LATE_NS: i64 = 60_000_000_000;
/// Of a longer stretch, as after an outage, so much is read at once.
const STRETCH_NS: i64 = 900_000_000_000;
/// A process without samples for so long, while others have some, is said to be gone.
const SILENT_S: f64 = 60.0;
/// The same in snapshots, where they are far apart.
const SILENT_SNAPSHOTS: f64 = 5.0;
/// Own readings that wait for a snapshot to go with; the oldest are dropped.
const OWN_MAX: usize = 10_000;
/// How soon a request to stop is noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// Collects until the supervisor says stop, or is gone.
///
/// # Errors
/// The record cannot be read or written.
pub fn run(folder: &Folder, supervisor: i32, stop: &AtomicBool) -> Result<u8> {
    let mut gather = Gather::open(folder)?;
    loop {
        let behind = gather.write_due(false)?;
        let next = match behind {
            true => gather.clock.now(),
            false => gather.next_snapshot(),
        };
        loop {
            let over = !is_supervised(supervisor);
            if over || stop.load(Ordering::Relaxed) {
                gather.finish()?;
                return Ok(exit::DONE);
            }
            if gather.clock.now() >= next {
                break;
            }
            let soon = TimeNs(gather.clock.now().0 + NOTICE.as_nanos() as i64);
            gather.clock.sleep_until(soon.min(next));
        }
    }
}

struct Gather {
    recorder: Recorder,
    reader: Reader,
    experiment: Experiment,
    store: Store,
    clock: RealClock,
    begun: TimeNs,
    grid: Grid,
    book: Book,
    rhythm: Rhythm,
    outage: Option<Outage>,
    /// The last slot that is written or will never be.
    written: i64,
    /// highwater's own cost, read here: slot and samples.
    observer: Observer,
    own: VecDeque<(i64, Vec<Sample>)>,
    full: bool,
}

/// What one snapshot is made of.
#[derive(Default)]
struct Slot {
    samples: Vec<Sample>,
    facts: Vec<Fact>,
    events: Vec<Event>,
}

impl Gather {
    fn open(folder: &Folder) -> Result<Gather> {
        let reader = Reader::open(folder)?;
        let experiment = reader.experiment()?;
        let remote = experiment.subject.remote.as_ref();
        let remote = remote.context("the experiment of this run has no remote arms")?;
        let (clock, begun) = super::run::clock_of(&reader)?;
        let grid = Grid {
            begun_ns: begun.0,
            interval_ns: experiment.interval.as_nanos() as i64,
        };
        let last = reader.last_snapshot()?.map_or(begun, |(_, time)| time);
        Ok(Gather {
            recorder: Recorder::open(folder)?,
            store: Store::open(remote, &experiment.base)?,
            book: Book::read(&reader)?,
            written: (last.0 - begun.0) / grid.interval_ns,
            reader,
            experiment,
            clock,
            begun,
            grid,
            rhythm: Rhythm::default(),
            outage: None,
            observer: Observer::new(ProcRoot::default(), Options::default()),
            own: VecDeque::new(),
            full: false,
        })
    }

    fn next_snapshot(&self) -> TimeNs {
        let passed = (self.clock.now().0 - self.begun.0) / self.grid.interval_ns;
        TimeNs(self.grid.time_ns(passed + 1))
    }

    /// Asks for what is new and writes the snapshots that are complete. True when there is more to read at once.
    fn write_due(&mut self, last: bool) -> Result<bool> {
        match self.try_write_due(last) {
            Err(error) => self.may_pass(error).map(|()| false),
            more => more,
        }
    }

    fn try_write_due(&mut self, last: bool) -> Result<bool> {
        let now = self.clock.now();
        self.sample_ourselves(now)?;
        let from_ns = self.grid.time_ns(self.written);
        let to_ns = now.0.min(from_ns + STRETCH_NS);
        // A sample at a snapshot's own time belongs to it: the window begins behind it.
        let answers = match self.store.ask(from_ns / 1_000_000, to_ns / 1_000_000) {
            Ok(answers) => answers,
            Err(error) => {
                self.missed(now, error.to_string())?;
                return Ok(false);
            }
        };
        let names = &self.store.names;
        let of_arm = |(arm, raw)| (arm, assemble(raw, names, self.grid));
        let found: Vec<(&String, Vec<Assembled>)> = answers
            .iter()
            .map(|(arm, raw)| of_arm((arm, raw)))
            .collect();
        let is_history = to_ns < now.0;
        let until = self.complete(&found, to_ns, is_history || last);
        let snapshots = self.write(&found, until)?;
        if let Some(outage) = self.outage.take() {
            say(
                &mut self.recorder,
                now,
                None,
                EventKind::Note,
                outage.ends(now.0, snapshots),
            )?;
        }
        Ok(is_history)
    }

    /// The last slot of which nothing more will come.
    fn complete(&self, found: &[(&String, Vec<Assembled>)], to_ns: i64, all: bool) -> i64 {
        let slot = |ns: i64| (ns - self.begun.0).div_euclid(self.grid.interval_ns);
        if all {
            return slot(to_ns);
        }
        let last = found.iter().flat_map(|(_, all)| all).map(|one| one.last_s);
        let newest_ns = (last.fold(0.0, f64::max) * 1e9) as i64;
        slot((to_ns - SETTLE_NS).min(newest_ns.max(to_ns - LATE_NS)))
    }

    /// The value is the number of snapshots written.
    fn write(&mut self, found: &[(&String, Vec<Assembled>)], until: i64) -> Result<usize> {
        let mut slots: BTreeMap<i64, Slot> = BTreeMap::new();
        for (arm, all) in found {
            for one in all {
                self.take(arm, one, until, &mut slots)?;
            }
        }
        let mut snapshots = 0;
        for (number, mut slot) in slots {
            self.add_own(number, &mut slot);
            if let Some(hole) = self.rhythm.note(number) {
                slot.events.push(self.hole(hole));
            }
            self.recorder.snapshot(&Snapshot {
                samples: slot.samples,
                facts: slot.facts,
                events: slot.events,
                ..Snapshot::at(TimeNs(self.grid.time_ns(number)))
            })?;
            self.written = number;
            self.full = false;
            snapshots += 1;
        }
        self.tell_silent()?;
        self.written = self.written.max(until);
        Ok(snapshots)
    }

    /// One process's part of the snapshots that are written now.
    fn take(
        &mut self,
        arm: &str,
        one: &Assembled,
        until: i64,
        slots: &mut BTreeMap<i64, Slot>,
    ) -> Result<()> {
        let due = (self.written + 1)..=until;
        if until <= self.written || one.slots.range(due.clone()).next().is_none() {
            return Ok(());
        }
        let appeared = Appeared {
            arm,
            identity: &one.who,
            first_s: one.first_s,
        };
        let place = self.book.place(&mut self.recorder, &appeared, self.begun)?;
        let Some(place) = place else { return Ok(()) };
        let replica = &mut self.book.replicas[place];
        replica.last_s = replica.last_s.max(one.last_s);
        let process = replica.id;
        for (number, values) in one.slots.range(due.clone()) {
            let slot = slots.entry(*number).or_default();
            slot.samples
                .extend(values.iter().map(|(name, value)| Sample {
                    process,
                    metric: (*name).to_owned(),
                    value: *value,
                }));
        }
        for (number, facts) in one.facts.range(due) {
            for (key, value) in facts {
                let told = replica.facts.insert(*key, value.clone());
                if told.as_ref() != Some(value) {
                    let slot = slots.entry(*number).or_default();
                    let (key, value) = ((*key).to_owned(), value.clone());
                    slot.facts.push(Fact {
                        process,
                        key,
                        value,
                    });
                }
            }
        }
        let last = slots.iter_mut().next_back();
        if let (Some(event), Some((number, slot))) = (self.not_the_arm(place), last) {
            let time = TimeNs(self.grid.time_ns(*number));
            slot.events.push(Event { time, ..event });
        }
        Ok(())
    }

    /// The arm names an allocator and the process runs another one: said once.
    fn not_the_arm(&mut self, place: usize) -> Option<Event> {
        let replica = &mut self.book.replicas[place];
        let arms = &self.experiment.arms;
        let arm = arms.iter().find(|arm| arm.name == replica.who.arm)?;
        let fact = |key: &str| replica.facts.get(key).map_or("", String::as_str);
        let wrong = mismatch(
            &arm.allocator,
            fact("allocator.family"),
            fact("allocator.version"),
        )?;
        if std::mem::replace(&mut replica.wrong, true) {
            return None;
        }
        Some(Event {
            time: TimeNs(0),
            process: Some(replica.id),
            kind: EventKind::NotTheArm,
            words: format!("{}: {wrong}", replica.who.words()),
        })
    }

    fn hole(&self, hole: Hole) -> Event {
        Event {
            time: TimeNs(self.grid.time_ns(hole.to)),
            process: None,
            kind: EventKind::Degraded,
            words: hole.words(self.experiment.interval.as_secs_f64()),
        }
    }

    /// Processes that give no samples any more while others do, and those that do again.
    fn tell_silent(&mut self) -> Result<()> {
        let newest = self
            .book
            .replicas
            .iter()
            .map(|r| r.last_s)
            .fold(0.0, f64::max);
        let usual_s = self.rhythm.usual().unwrap_or(1.0) * self.grid.interval_ns as f64 / 1e9;
        let after_s = SILENT_S.max(SILENT_SNAPSHOTS * usual_s);
        for replica in &mut self.book.replicas {
            let silent = newest - replica.last_s > after_s;
            if silent == replica.silent {
                continue;
            }
            replica.silent = silent;
            let name = replica.who.words();
            let (kind, words) = match silent {
                true => (
                    EventKind::Vanished,
                    format!("{name}: the store gets no samples of it any more"),
                ),
                false => (
                    EventKind::Note,
                    format!("{name}: the store gets its samples again"),
                ),
            };
            let time = TimeNs((newest * 1e9) as i64);
            say(&mut self.recorder, time, Some(replica.id), kind, words)?;
        }
        Ok(())
    }

    fn sample_ourselves(&mut self, now: TimeNs) -> Result<()> {
        let mut targets = self
            .reader
            .targets()
            .context("reading which processes to sample")?;
        targets.retain(|target| target.role == Role::Highwater);
        let snapshot = self.observer.snapshot(now, &targets);
        if self.own.len() == OWN_MAX {
            self.own.pop_front();
        }
        self.own
            .push_back((self.grid.slot(now.0 as f64 / 1e9), snapshot.samples));
        Ok(())
    }

    /// Own readings up to this snapshot; of several the newest counts.
    fn add_own(&mut self, number: i64, slot: &mut Slot) {
        let mut newest: BTreeMap<(ProcessId, String), f64> = BTreeMap::new();
        while self.own.front().is_some_and(|(at, _)| *at <= number) {
            let Some((_, samples)) = self.own.pop_front() else {
                break;
            };
            newest.extend(
                samples
                    .into_iter()
                    .map(|s| ((s.process, s.metric), s.value)),
            );
        }
        let sample = |((process, metric), value)| Sample {
            process,
            metric,
            value,
        };
        slot.samples.extend(newest.into_iter().map(sample));
    }

    fn missed(&mut self, now: TimeNs, why: String) -> Result<()> {
        if let Some(outage) = &mut self.outage {
            outage.why = why;
            return Ok(());
        }
        let since_ns = now.0;
        let outage = Outage { since_ns, why };
        say!("highwater: {}", outage.begins());
        say(
            &mut self.recorder,
            now,
            None,
            EventKind::Degraded,
            outage.begins(),
        )?;
        self.outage = Some(outage);
        Ok(())
    }

    /// A full disk, or one that stands still, is said once and delays snapshots: they are read again when it has room.
    fn may_pass(&mut self, error: anyhow::Error) -> Result<()> {
        let full = error
            .downcast_ref::<RecordError>()
            .is_some_and(RecordError::may_pass);
        if !full {
            return Err(error);
        }
        if !std::mem::replace(&mut self.full, true) {
            say!("highwater: {error}");
        }
        Ok(())
    }

    /// What the store holds by now; then the ends of processes that give no samples any more.
    fn finish(&mut self) -> Result<()> {
        while self.write_due(true)? {}
        let now = self.clock.now();
        if let Some(outage) = &self.outage {
            let words = outage.stays(now.0);
            say(&mut self.recorder, now, None, EventKind::Degraded, words)?;
        }
        for replica in self.book.replicas.iter().filter(|r| r.silent) {
            let end = TimeNs((replica.last_s * 1e9) as i64);
            self.recorder.process_ended(replica.id, end, None)?;
        }
        Ok(())
    }
}

/// Why a process is not what its arm says: `name@version` against what was proved on its host. Nothing is known of
/// a library given by its path.
fn mismatch(allocator: &str, family: &str, version: &str) -> Option<String> {
    if allocator.is_empty() || allocator.contains('/') || family.is_empty() {
        return None;
    }
    let (name, wanted) = allocator.split_once('@').unwrap_or((allocator, ""));
    let same_family = name.starts_with(family) || family.starts_with(name);
    let same_version = version.is_empty() || version.contains(wanted);
    (!(same_family && same_version))
        .then(|| format!("it should run {allocator}, but malloc is answered by {family} {version}"))
}

#[cfg(test)]
mod tests {
    use super::mismatch;

    #[test]
    fn an_arm_is_a_fact_on_other_hosts_too() {
        for (allocator, family, version) in [
            ("", "jemalloc", "5.3.0"),
            ("mimalloc@2.0.9", "mimalloc", "2.0.9"),
            ("mimalloc@2.0.9", "mimalloc", ""),
            ("mimalloc@2.0.9", "", ""),
            (
                "glibc",
                "glibc",
                "GNU C Library (Debian GLIBC 2.36-9) version 2.36",
            ),
            ("/opt/lib/x.so", "glibc", "2.36"),
        ] {
            assert_eq!(mismatch(allocator, family, version), None, "{allocator}");
        }
        assert!(mismatch("mimalloc@2.0.9", "mimalloc", "3.0.1").is_some());
        assert!(mismatch("mimalloc@2.0.9", "glibc", "2.36").is_some());
        assert!(mismatch("glibc", "jemalloc", "5.3.0").is_some());
    }
}
