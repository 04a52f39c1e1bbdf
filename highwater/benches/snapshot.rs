//! What a snapshot of 200 real processes costs, against the bare cost of the kernel's reads.
//!
//! CPU time of this thread is measured, not wall time: the bar is a part of one core, and the
//! machine may be busy with other work.
//!
//! `HIGHWATER_BENCH_PIDS` (numbers with commas) names processes to sample, as bench/overhead/observe/run.py
//! does to compare with peers; without it, 200 that sleep are started.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use observe::clock::read_ns;
use observe::collector::{Observer, Options};
use observe::proc::open::Folder;
use observe::proc::stat::parse_stat;
use observe::proc::status::parse_status;
use observe::proc::tasks::read_tasks;
use observe::proc::{ProcRoot, read_start_ticks};
use observe::snapshot::{ProcessId, Role, Target, TimeNs};
use procfs::FromRead;
use rustix::time::ClockId;

/// CLOCK_THREAD_CPUTIME_ID in nanoseconds, shown as criterion shows wall time.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = i64;
    type Value = i64;

    fn start(&self) -> i64 {
        read_ns(ClockId::ThreadCPUTime)
    }

    fn end(&self, start: i64) -> i64 {
        read_ns(ClockId::ThreadCPUTime) - start
    }

    fn add(&self, one: &i64, other: &i64) -> i64 {
        one + other
    }

    fn zero(&self) -> i64 {
        0
    }

    fn to_f64(&self, value: &i64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

const PROCESSES: usize = 200;
const SECOND: i64 = 1_000_000_000;

/// Processes to look at; those started here end with it.
struct Processes {
    pids: Vec<i32>,
    started: Vec<Child>,
}

impl Processes {
    fn new() -> Processes {
        if let Ok(pids) = std::env::var("HIGHWATER_BENCH_PIDS") {
            let pids = pids
                .split(',')
                .filter_map(|pid| pid.trim().parse().ok())
                .collect();
            return Processes {
                pids,
                started: Vec::new(),
            };
        }
        let start = |_| {
            Command::new("sleep")
                .arg("600")
                .spawn()
                .expect("sleep starts")
        };
        let started: Vec<Child> = (0..PROCESSES).map(start).collect();
        Processes {
            pids: started.iter().map(|child| child.id() as i32).collect(),
            started,
        }
    }

    fn targets(&self) -> Vec<Target> {
        (1..)
            .zip(&self.pids)
            .map(|(id, &pid)| target(id, pid))
            .collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn target(id: i64, pid: i32) -> Target {
    Target {
        process: ProcessId(id),
        pid,
        start_ticks: read_start_ticks(&ProcRoot::default(), pid).expect("the process runs"),
        arm: "bench".to_owned(),
        replica: 0,
        role: Role::Subject,
        metrics_url: None,
        load_lines: None,
        cgroup: None,
        expected_allocator: observe::snapshot::Expected::System,
    }
}

/// The files that are read at each snapshot, without understanding them.
fn raw_reads(criterion: &mut Criterion<CpuTime>) {
    let processes = Processes::new();
    let mut group = criterion.benchmark_group("raw");
    for name in ["stat", "status", "schedstat", "smaps_rollup", "maps"] {
        group.bench_function(format!("open+read+close {name}"), |bencher| {
            bencher.iter(|| {
                for pid in &processes.pids {
                    black_box(std::fs::read(format!("/proc/{pid}/{name}")).expect("it is there"));
                }
            })
        });
    }
    for name in ["stat", "status", "schedstat"] {
        let open = |pid: &i32| File::open(format!("/proc/{pid}/{name}")).expect("it is there");
        let files: Vec<File> = processes.pids.iter().map(open).collect();
        let mut buffer = vec![0; 4096];
        group.bench_function(format!("pread {name}"), |bencher| {
            bencher.iter(|| {
                for file in &files {
                    black_box(file.read_at(&mut buffer, 0).expect("it is readable"));
                }
            })
        });
    }
    group.finish();
}

/// Our parsers and those of the procfs crate, on the text of this process.
fn parsers(criterion: &mut Criterion<CpuTime>) {
    let read = |name: &str| std::fs::read(format!("/proc/self/{name}")).expect("it is there");
    let (stat, status) = (read("stat"), read("status"));
    let mut group = criterion.benchmark_group("parse");
    group.bench_function("stat, ours", |bencher| {
        bencher.iter(|| parse_stat(black_box(&stat), 1))
    });
    group.bench_function("stat, procfs", |bencher| {
        bencher.iter(|| procfs::process::Stat::from_read(black_box(stat.as_slice())))
    });
    group.bench_function("status, ours", |bencher| {
        bencher.iter(|| parse_status(black_box(&status)))
    });
    group.bench_function("status, procfs", |bencher| {
        bencher.iter(|| procfs::process::Status::from_read(black_box(status.as_slice())))
    });
    group.finish();
}

/// Whole snapshots, one simulated second apart, so that the slower readings come at their real rate.
fn snapshots(criterion: &mut Criterion<CpuTime>) {
    let processes = Processes::new();
    let targets = processes.targets();
    let mut group = criterion.benchmark_group("snapshot");
    let mut observer = Observer::new(ProcRoot::default(), Options::default());
    let mut now = 0;
    group.bench_function("steady, once a second", |bencher| {
        bencher.iter(|| {
            now += SECOND;
            black_box(observer.snapshot(TimeNs(now), &targets))
        })
    });
    let cheap = Options {
        share_tasks: 0.0,
        share_rollup: 0.0,
        share_maps: 0.0,
        ..Options::default()
    };
    let mut observer = Observer::new(ProcRoot::default(), cheap);
    group.bench_function("without tasks, smaps_rollup, maps", |bencher| {
        bencher.iter(|| {
            now += SECOND;
            black_box(observer.snapshot(TimeNs(now), &targets))
        })
    });
    group.sample_size(10);
    group.bench_function("first (proves every allocator)", |bencher| {
        bencher.iter(|| {
            let mut observer = Observer::new(ProcRoot::default(), Options::default());
            black_box(observer.snapshot(TimeNs(0), &targets))
        })
    });
    group.finish();
}

/// The walk over the threads of a relay: 2,750 subscribers and 16 workers. They stay until the end
/// of the benchmark, which is why this comes last.
fn walk_of_many_threads(criterion: &mut Criterion<CpuTime>) {
    for _ in 0..2_766 {
        let thread = std::thread::Builder::new().stack_size(32 << 10);
        thread
            .spawn(|| {
                loop {
                    std::thread::park()
                }
            })
            .expect("threads start");
    }
    let folder = Folder::open(&ProcRoot::default().process(std::process::id() as i32))
        .expect("our own folder is there");
    let mut buffer = Vec::new();
    let mut group = criterion.benchmark_group("tasks");
    group.sample_size(10);
    group.bench_function("walk of 2,766 threads", |bencher| {
        bencher.iter(|| read_tasks(&folder, &mut buffer).expect("we may read ourselves"))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = raw_reads, parsers, snapshots, walk_of_many_threads
}
criterion_main!(benches);
