//! What a record costs: CPU per snapshot, bytes per sample, time to read back.
//!
//! `cargo bench --bench record -- [SNAPSHOTS] [PROCESSES]` (2,000 and 200 unless given). Times are of this process's
//! CPU clock, so a busy machine disturbs them little; the numbers in docs/reference/record.md come from here.

use std::path::Path;
use std::time::{Duration, Instant};

use experiment::file::{Experiment, parse_experiment};
use observe::clock::{Clock, RealClock};
use observe::metric;
use observe::snapshot::{ProcessId, Role, Sample, Snapshot, TimeNs};
use record::run::Machine;
use record::{Folder, NewProcess, ReadOptions, Reader, Recorder, SnapshotId, export};
use rustix::time::{ClockId, clock_gettime};

/// Metrics of one snapshot of one process: all of /proc at the full rate, smaps at every tenth.
const SLOW_EVERY: i64 = 10;
const SLOW: &[&str] = &[
    metric::PSS.name,
    metric::LAZY_FREE.name,
    metric::HUGE_PAGES.name,
    metric::PRIVATE_DIRTY.name,
];

fn main() {
    let numbers: Vec<i64> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let snapshots = numbers.first().copied().unwrap_or(2_000);
    let processes = numbers.get(1).copied().unwrap_or(200);
    let runs = tempfile::tempdir().expect("a folder");
    let experiment = experiment();
    let folder = Folder::create(runs.path(), "2026-11-21", &experiment).expect("a folder");
    let samples = write(&folder, &experiment, snapshots, processes);
    let bytes = std::fs::metadata(folder.database()).expect("a file").len();
    println!("{snapshots} snapshots of {processes} processes: {samples} samples");
    println!(
        "size      {:.1} MiB, {:.2} bytes a sample",
        bytes as f64 / 1048576.0,
        bytes as f64 / samples as f64
    );
    read(&folder);
}

fn write(folder: &Folder, experiment: &Experiment, snapshots: i64, processes: i64) -> u64 {
    let clock = RealClock::start();
    let mut recorder = Recorder::create(folder, experiment, &Machine::default(), clock.anchor())
        .expect("a record");
    let ids: Vec<ProcessId> = (1..=processes)
        .map(|n| recorder.process_started(&process(n)).expect("a process"))
        .collect();
    let (mut samples, mut cpu, mut wall) = (0, Vec::new(), Vec::new());
    for n in 0..snapshots {
        let snapshot = snapshot(n, &ids, TimeNs(clock.anchor().wall_ns));
        samples += snapshot.samples.len() as u64;
        let (at, used) = (Instant::now(), cpu_time());
        recorder.snapshot(&snapshot).expect("a snapshot");
        cpu.push((cpu_time() - used).as_secs_f64() * 1e3);
        wall.push(at.elapsed().as_secs_f64() * 1e3);
    }
    recorder
        .ended(&record::run::RunEnd {
            time: clock.now(),
            words: "done".into(),
        })
        .expect("the end");
    for (name, mut times) in [("snapshot, CPU", cpu), ("snapshot, wall", wall)] {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{name:<11} p10 {:.2} ms, median {:.2} ms, p90 {:.2} ms, max {:.1} ms",
            at(0.1),
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
    samples
}

fn read(folder: &Folder) {
    let timed = |what: &str, work: &dyn Fn() -> usize| {
        let used = cpu_time();
        let count = work();
        println!(
            "{what:<34} {count:>9} samples {:>9.1} ms",
            (cpu_time() - used).as_secs_f64() * 1e3
        );
    };
    let whole = |options: &ReadOptions| {
        let run = Reader::read(folder, options).expect("a run");
        run.processes
            .iter()
            .flat_map(|p| p.samples.values())
            .map(Vec::len)
            .sum()
    };
    timed("rss_bytes", &|| {
        whole(&ReadOptions::metrics([metric::RSS.name]))
    });
    timed("rss_bytes, one snapshot a minute", &|| {
        whole(&ReadOptions::metrics([metric::RSS.name]).every(Duration::from_secs(60)))
    });
    timed("every metric, one snapshot a minute", &|| {
        whole(&ReadOptions::default().every(Duration::from_secs(60)))
    });
    timed("every metric", &|| whole(&ReadOptions::default()));
    let reader = Reader::open(folder).expect("a reader");
    let (last, _) = reader
        .last_snapshot()
        .expect("snapshots")
        .expect("a snapshot");
    let wanted = [
        metric::RSS.name,
        metric::CPU_USER.name,
        metric::CPU_SYSTEM.name,
    ];
    timed("three metrics of the last snapshot", &|| {
        reader
            .samples_since(SnapshotId(last.0 - 1), &wanted)
            .expect("rows")
            .0
            .len()
    });
    timed("three metrics, latest", &|| {
        reader.latest(&wanted).expect("rows").len()
    });
    timed("samples.csv of rss_bytes", &|| {
        let options = ReadOptions::metrics([metric::RSS.name]);
        export::samples_csv(&reader, &options)
            .expect("lines")
            .count()
    });
}

fn experiment() -> Experiment {
    let text = "name = \"bench\"\ncontrol = \"a\"\nsubject.kind = \"fake\"\n[[arms]]\nname = \"a\"\ncurve = \"x\"\n";
    parse_experiment(text, "bench", Path::new("/"), &[], &|_| Ok(())).expect("it parses")
}

fn process(n: i64) -> NewProcess {
    NewProcess {
        arm: format!("arm{}", n % 5),
        replica: n as u32,
        incarnation: 0,
        role: Role::Subject,
        pid: 1000 + n as i32,
        start_ticks: 1,
        started: TimeNs(0),
        command: vec!["x".into()],
        metrics_url: None,
        load_lines: None,
        cgroup: None,
        expected_allocator: observe::snapshot::Expected::Any,
    }
}

/// Values as services have them: pages that wander, counters that rise, much that is zero or stays.
fn snapshot(n: i64, ids: &[ProcessId], begun: TimeNs) -> Snapshot {
    let per_process = metric::ALL
        .iter()
        .filter(|m| !m.name.starts_with("host_") && m.name != metric::SNAPSHOT_COST.name);
    let mut samples = Vec::new();
    for m in per_process.filter(|m| n % SLOW_EVERY == 0 || !SLOW.contains(&m.name)) {
        for id in ids {
            let noise = ((n * 7919 + id.0 * 104_729 + m.name.len() as i64 * 31) % 1009) as f64;
            let value = match m.name {
                name if name.starts_with("rss") || name.starts_with("virtual") => {
                    4096.0 * (50_000.0 + id.0 as f64 * 300.0 + n as f64 + noise)
                }
                name if name.ends_with("_ns") => n as f64 * 5e7 + noise * 1e4,
                name if name.starts_with("swap") || name.starts_with("cgroup_oom") => 0.0,
                "threads" | "file_descriptors" => 20.0 + (id.0 % 40) as f64,
                name if name.ends_with("_bytes") => 4096.0 * (1000.0 + noise),
                _ => n as f64 * 300.0 + noise,
            };
            samples.push(Sample {
                process: *id,
                metric: m.name.into(),
                value,
            });
        }
    }
    let time = TimeNs(begun.0 + n * 1_000_000_000);
    Snapshot {
        samples,
        ..Snapshot::at(time)
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
