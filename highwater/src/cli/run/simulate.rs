//! The collector of a fake subject: looks in this process, on the simulated clock, at scripted curves.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::watch::Watch;
use experiment::fake::{Fake, Reading};
use observe::metric;
use observe::metric::Metric;
use observe::snapshot::{HistogramRow, Role, Sample, Snapshot, Target, TimeNs};
use record::{Reader, Recorder};

/// Takes the place of the collector.
pub struct Simulated {
    pub fake: Fake,
    pub recorder: Recorder,
    pub reader: Reader,
    pub begun: TimeNs,
    pub interval: Duration,
    last: Option<TimeNs>,
}

impl Simulated {
    pub fn new(
        fake: Fake,
        recorder: Recorder,
        reader: Reader,
        begun: TimeNs,
        interval: Duration,
    ) -> Simulated {
        Simulated {
            fake,
            recorder,
            reader,
            begun,
            interval,
            last: None,
        }
    }

    fn snapshot(&mut self, now: TimeNs) -> anyhow::Result<()> {
        let from = self.last.unwrap_or(self.begun);
        let mut snapshot = Snapshot::at(now);
        let targets = self.reader.targets()?;
        for target in targets.iter().filter(|target| target.role == Role::Subject) {
            let (since, at) = (self.since(from), self.since(now));
            if let Some(reading) = self.fake.sample(&target.arm, target.replica, at) {
                samples(&mut snapshot, target, &reading);
            }
            let latencies = self
                .fake
                .latencies_ns(&target.arm, target.replica, since, at);
            snapshot
                .histograms
                .extend(histogram(target, from, now, &latencies)?);
        }
        self.recorder.snapshot(&snapshot)?;
        self.last = Some(now);
        Ok(())
    }

    fn since(&self, time: TimeNs) -> Duration {
        Duration::from_nanos((time.0 - self.begun.0).max(0) as u64)
    }
}

impl Watch for Simulated {
    fn tick(&mut self, now: TimeNs) -> anyhow::Result<Option<String>> {
        let due = self
            .last
            .is_none_or(|last| now.0 - last.0 >= self.interval.as_nanos() as i64);
        if due {
            self.snapshot(now)?;
        }
        Ok(None)
    }

    fn finish(&mut self, now: TimeNs) -> anyhow::Result<()> {
        if self.last != Some(now) {
            self.snapshot(now)
        } else {
            Ok(())
        }
    }
}

fn samples(snapshot: &mut Snapshot, target: &Target, reading: &Reading) {
    let mut push = |metric: Metric, value: u64| {
        let metric = metric.name.to_owned();
        snapshot.samples.push(Sample {
            process: target.process,
            metric,
            value: value as f64,
        });
    };
    push(metric::RSS, reading.rss_bytes);
    push(metric::RSS_ANON, reading.rss_bytes);
    push(metric::CPU_USER, reading.cpu_user_ns);
    push(metric::CPU_SYSTEM, reading.cpu_system_ns);
    push(metric::MINOR_FAULTS, reading.minor_faults);
    push(metric::MAJOR_FAULTS, reading.major_faults);
}

fn histogram(
    target: &Target,
    start: TimeNs,
    end: TimeNs,
    latencies_ns: &[u64],
) -> anyhow::Result<Option<HistogramRow>> {
    if latencies_ns.is_empty() {
        return Ok(None);
    }
    let mut histogram = Histogram::<u64>::new(3)?;
    for latency in latencies_ns {
        histogram.record((*latency).max(1))?;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes)?;
    Ok(Some(HistogramRow {
        process: target.process,
        start,
        end,
        metric: "latency".to_owned(),
        requests: latencies_ns.len() as u64,
        errors: 0,
        dropped: 0,
        histogram: bytes,
    }))
}
