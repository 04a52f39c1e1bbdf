//! Runs to write: an experiment, processes, snapshots.

use std::path::Path;

use experiment::file::{Experiment, parse_experiment};
use observe::clock::Anchor;
use observe::snapshot::{
    Event, EventKind, Expected, Fact, HistogramRow, ProcessId, Role, Sample, Snapshot, TimeNs,
};
use record::run::Machine;
use record::{Folder, NewProcess, Recorder};

pub const BEGUN: i64 = 1_795_281_243_250_000_000;
const SECOND: i64 = 1_000_000_000;

pub fn experiment() -> Experiment {
    let text = r#"
        name = "relay"
        hypothesis = "it is fragmentation"
        control = "glibc"
        [subject]
        command = "./relay --port {port}"
        environment = { RELAY_TOKEN = "hunter2" }
        [[arms]]
        name = "glibc"
        [[arms]]
        name = "jemalloc"
        allocator = "jemalloc@5.3.0"
        [[verify]]
        rss_max = "1GiB"
    "#;
    parse_experiment(text, "relay.toml", Path::new("/srv"), &[], &|_| Ok(())).expect("it parses")
}

pub fn machine() -> Machine {
    Machine {
        kernel: "6.18.0".into(),
        cpu: "a <b>cpu</b>".into(),
        cpus: 4,
        memory_bytes: 1 << 34,
        distribution: "Debian 12".into(),
        transparent_huge_pages: "madvise".into(),
    }
}

pub fn clock() -> Anchor {
    Anchor {
        wall_ns: BEGUN,
        boottime_ns: 77,
        boot_id: "boot".into(),
    }
}

/// A fresh run below `runs`.
pub fn begin(runs: &Path) -> (Folder, Recorder) {
    let folder = Folder::create(runs, "2026-11-21", &experiment()).expect("a folder");
    let recorder =
        Recorder::create(&folder, &experiment(), &machine(), &clock()).expect("a record");
    (folder, recorder)
}

pub fn process(arm: &str, replica: u32) -> NewProcess {
    NewProcess {
        arm: arm.into(),
        replica,
        incarnation: 0,
        role: Role::Subject,
        pid: 1000 + replica as i32,
        start_ticks: u64::MAX - 7,
        started: TimeNs(BEGUN),
        command: vec!["./relay".into(), "--token=hunter2".into(), "a b".into()],
        metrics_url: Some("http://127.0.0.1:4100/metrics".into()),
        load_lines: Some("/tmp/lines".into()),
        cgroup: None,
        expected_allocator: Expected::Library("/lib/libjemalloc.so".into()),
    }
}

/// A process of [`process`] in the record.
pub fn started(recorder: &mut Recorder, arm: &str, replica: u32) -> ProcessId {
    let process = process(arm, replica);
    recorder.process_started(&process).expect("a process")
}

/// Time of snapshot number `n`.
pub fn time(n: i64) -> TimeNs {
    TimeNs(BEGUN + n * SECOND)
}

pub fn sample(process: ProcessId, metric: &str, value: f64) -> Sample {
    Sample {
        process,
        metric: metric.into(),
        value,
    }
}

/// A snapshot without facts, histograms and events: `rss_bytes` and `cpu_user_ns` of each process.
pub fn snapshot(n: i64, processes: &[ProcessId]) -> Snapshot {
    let samples = processes
        .iter()
        .flat_map(|p| {
            let rss = 4096.0 * (n * 100 + p.0) as f64;
            [
                sample(*p, "rss_bytes", rss),
                sample(*p, "cpu_user_ns", n as f64 * 1e7),
            ]
        })
        .collect();
    Snapshot {
        time: time(n),
        samples,
        facts: vec![],
        histograms: vec![],
        events: vec![],
    }
}

pub fn fact(process: ProcessId, key: &str, value: &str) -> Fact {
    Fact {
        process,
        key: key.into(),
        value: value.into(),
    }
}

pub fn histogram(process: ProcessId, n: i64) -> HistogramRow {
    HistogramRow {
        process,
        start: time(n - 1),
        end: time(n),
        metric: "latency".into(),
        requests: 100,
        errors: 2,
        dropped: 1,
        histogram: vec![0, 1, 255, n as u8],
    }
}

pub fn event(n: i64, process: Option<ProcessId>, kind: EventKind, words: &str) -> Event {
    Event {
        time: time(n),
        process,
        kind,
        words: words.into(),
    }
}
