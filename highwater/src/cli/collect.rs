//! `highwater collect` (hidden): the collector of a run. Looks at every process once per interval and writes one
//! transaction per snapshot. It owns nothing: killed at any time, it loses at most the snapshot it was in.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;

use super::exit;
use super::explain::series::HeapSeries;
use super::out::say;
use super::signals;
use super::stalls::series::{self, StallSeries};
use experiment::service::end_left_behind;
use observe::clock::{Clock, RealClock};
use observe::collector::{Observer, Options};
use observe::metric;
use observe::proc::ProcRoot;
use observe::snapshot::{Event, EventKind, ProcessId, Snapshot, TimeNs};
use observe::watched::Carried;
use record::{Folder, Reader, RecordError, Recorder};

/// How soon a dead supervisor or a request to stop is noticed between two snapshots.
const NOTICE: Duration = Duration::from_millis(100);

/// Look at the processes of a run (used by `run` itself)
#[derive(Debug, clap::Args)]
pub struct CollectArgs {
    /// The run folder
    #[arg(long = "run", value_name = "FOLDER")]
    pub folder: PathBuf,

    /// Its parent; told and not asked for, since it may be gone before the first question
    #[arg(long, value_name = "PID")]
    pub supervisor: i32,
}

pub fn run(args: &CollectArgs) -> anyhow::Result<u8> {
    let stop = signals::flag(&[signal_hook::consts::SIGTERM])?;
    let folder = Folder::open(&args.folder)?;
    if Reader::open(&folder)?
        .experiment()?
        .subject
        .remote
        .is_some()
    {
        return super::gather::run(&folder, args.supervisor, &stop);
    }
    let mut collector = Collector::open(&folder)?;
    loop {
        collector.snapshot()?;
        let next = collector.next_snapshot();
        while collector.clock.now() < next {
            if stop.load(Ordering::Relaxed) {
                collector.finish()?;
                return Ok(exit::DONE);
            }
            if !signals::is_supervised(args.supervisor) {
                return collector.supervisor_died(&folder);
            }
            let soon = TimeNs(collector.clock.now().0 + NOTICE.as_nanos() as i64);
            collector.clock.sleep_until(soon.min(next));
        }
    }
}

struct Collector {
    recorder: Recorder,
    reader: Reader,
    observer: Observer,
    clock: RealClock,
    begun: TimeNs,
    interval_ns: i64,
    /// A full disk was said.
    full: bool,
    /// The probe's account, when the experiment wants it.
    heap: Option<HeapSeries>,
    /// The same of its stalls.
    stalls: Option<StallSeries>,
}

impl Collector {
    fn open(folder: &Folder) -> anyhow::Result<Collector> {
        let recorder = Recorder::open(folder)?;
        let reader = Reader::open(folder)?;
        let experiment = reader.experiment()?;
        let interval = experiment.interval;
        let (clock, begun) = super::run::clock_of(&reader)?;
        let mut observer = Observer::new(ProcRoot::default(), Options::default());
        for (process, carried) in carried(&reader)? {
            observer.carry(process, carried);
        }
        let stalls = match experiment.stalls {
            true => Some(StallSeries::new(reader.latest(&series::names())?)),
            false => None,
        };
        Ok(Collector {
            recorder,
            reader,
            observer,
            clock,
            begun,
            interval_ns: interval.as_nanos() as i64,
            full: false,
            heap: experiment
                .probe
                .then(|| HeapSeries::new(ProcRoot::default(), experiment.warmup)),
            stalls,
        })
    }

    fn snapshot(&mut self) -> anyhow::Result<()> {
        let targets = self
            .reader
            .targets()
            .context("reading which processes to sample")?;
        let mut snapshot = self.observer.snapshot(self.clock.now(), &targets);
        if let Some(heap) = &mut self.heap {
            heap.add(&mut snapshot, &targets);
        }
        if let Some(stalls) = &mut self.stalls {
            stalls.add(&mut snapshot, &targets);
        }
        let written = self.recorder.snapshot(&snapshot);
        self.pass(written)
    }

    /// The last snapshot; then, while the processes still run, what their heaps' growth comes to.
    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(stalls) = &mut self.stalls {
            stalls.finish();
        }
        self.snapshot()?;
        let Some(heap) = &mut self.heap else {
            return Ok(());
        };
        let mut last = Snapshot::at(self.clock.now());
        heap.finish(&mut last);
        let facts = self.recorder.facts(last.time, &last.facts);
        self.pass(facts)?;
        for event in &last.events {
            let written = self.recorder.event(event);
            self.pass(written)?;
        }
        Ok(())
    }

    /// A full disk, or one that stands still, costs snapshots and not the run: said once, tried again at the next
    /// snapshot.
    fn pass(&mut self, written: Result<(), RecordError>) -> anyhow::Result<()> {
        match written {
            Ok(()) => self.full = false,
            Err(error) if error.may_pass() => {
                if !std::mem::replace(&mut self.full, true) {
                    say!("highwater: {error}");
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Snapshots stand on a grid from the beginning of the run; one that took too long is not made up for.
    fn next_snapshot(&self) -> TimeNs {
        let passed = self.clock.now().0 - self.begun.0;
        TimeNs(self.begun.0 + (passed / self.interval_ns + 1) * self.interval_ns)
    }

    fn supervisor_died(&mut self, folder: &Folder) -> anyhow::Result<u8> {
        self.snapshot()?;
        let ended = end_left_behind(folder.path())?;
        let words = if ended.is_empty() {
            "the supervisor was killed; none of its processes was left".to_owned()
        } else {
            format!(
                "the supervisor was killed; ended what was left: {}",
                ended.join("; ")
            )
        };
        let (time, kind) = (self.clock.now(), EventKind::Note);
        self.recorder.event(&Event {
            time,
            process: None,
            kind,
            words,
        })?;
        Ok(exit::DONE)
    }
}

/// What a collector before this one has recorded, so that counters go on and no interval of a load program is
/// recorded twice. Nothing at the first start.
fn carried(reader: &Reader) -> anyhow::Result<HashMap<ProcessId, Carried>> {
    let mut carried: HashMap<ProcessId, Carried> = HashMap::new();
    for (process, until) in reader.latencies_until()? {
        carried.entry(process).or_default().load_until = Some(until);
    }
    let names = [
        metric::SWITCHES_VOLUNTARY.name,
        metric::SWITCHES_INVOLUNTARY.name,
        metric::RUN_DELAY.name,
    ];
    for row in reader.latest(&names)? {
        let counts = &mut carried.entry(row.process).or_default().counts;
        let value = row.value as u64;
        match row.metric.as_str() {
            name if name == names[0] => counts.switches_voluntary = value,
            name if name == names[1] => counts.switches_involuntary = value,
            _ => counts.run_delay_ns = value,
        }
    }
    Ok(carried)
}
