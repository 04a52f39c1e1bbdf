//! Runs that never happened, for tests of everything behind the record: realistic curves, seeded
//! noise, several arms and replicas, latencies, events. The same seed gives the same run.
#![allow(dead_code, unused_imports)] // each test binary uses a part

mod dice;
mod experiment;
pub mod judged;
mod pausing;
mod plans;

pub use dice::Dice;
pub use experiment::check;
pub use pausing::{PERIOD_S, pausing};
pub use plans::{HOSTILE, fleet, hostile, relay};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ::experiment::file::{
    Arm, Check, Condition, Experiment, LoadPer, LoadPlan, Restart, Revert, Stop, SubjectKind,
    SubjectPlan, Trend,
};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use observe::snapshot::{Event, EventKind, HistogramRow, ProcessId, Role, TimeNs};
use record::run::{Machine, Process, Run, RunEnd};

pub const MIB: f64 = 1024.0 * 1024.0;
const BEGUN_NS: i64 = 1_795_000_000_000_000_000; // 2026-11-18

/// How RSS moves, bytes over seconds of uptime.
#[derive(Debug, Clone, Copy)]
pub enum Curve {
    /// base, rise until filled, time constant of the fill, growth per hour after.
    Leak {
        base: f64,
        fill: f64,
        tau_s: f64,
        per_hour: f64,
    },
    /// base, amplitude, period.
    Saw {
        base: f64,
        height: f64,
        period_s: f64,
    },
}

/// One arm of a synthetic run.
#[derive(Debug, Clone)]
pub struct Synthetic {
    pub name: String,
    pub allocator: String,
    pub environment: Vec<(String, String)>,
    pub arguments: Vec<String>,
    pub curve: Curve,
    pub cpu_user: f64,
    pub cpu_system: f64,
    pub faults_per_s: f64,
    pub lazy_share: f64,
    pub huge_share: f64,
    pub latency_ms: f64,
    /// Seconds of uptime after which the process is OOM-killed and restarted.
    pub killed_at_s: Option<f64>,
}

impl Synthetic {
    pub fn new(name: &str, allocator: &str, curve: Curve) -> Synthetic {
        Synthetic {
            name: name.to_string(),
            allocator: allocator.to_string(),
            environment: Vec::new(),
            arguments: Vec::new(),
            curve,
            cpu_user: 0.42,
            cpu_system: 0.08,
            faults_per_s: 900.0,
            lazy_share: 0.0,
            huge_share: 0.0,
            latency_ms: 0.9,
            killed_at_s: None,
        }
    }
}

/// The whole of a synthetic run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    pub arms: Vec<Synthetic>,
    pub replicas: u32,
    pub duration_s: f64,
    pub interval_s: f64,
    pub seed: u64,
    pub with_latency: bool,
}

impl Plan {
    pub fn run(&self) -> Run {
        let mut dice = Dice(self.seed);
        let mut processes = Vec::new();
        let mut events = Vec::new();
        for replica in 0..self.replicas {
            for (index, arm) in self.arms.iter().enumerate() {
                let start_s = 0.4 * (replica as f64 * self.arms.len() as f64 + index as f64);
                self.replica(
                    arm,
                    replica,
                    start_s,
                    &mut dice,
                    &mut processes,
                    &mut events,
                );
            }
        }
        processes.push(self.own(processes.len() as i64, &mut dice));
        events.sort_by_key(|event: &Event| event.time);
        Run {
            id: format!("2026-11-18-{}-1", self.name),
            folder: PathBuf::from(format!("runs/2026-11-18-{}-1", self.name)),
            experiment: self.experiment(),
            begun: at(0.0),
            last: at(self.duration_s),
            end: Some(RunEnd {
                time: at(self.duration_s),
                words: "the duration was over".into(),
            }),
            machine: Machine {
                kernel: "6.1.0-28-amd64".into(),
                cpu: "AMD EPYC 7543 32-Core Processor".into(),
                cpus: 4,
                memory_bytes: 16 << 30,
                distribution: "Debian GNU/Linux 12 (bookworm)".into(),
                transparent_huge_pages: "madvise".into(),
            },
            processes,
            events,
        }
    }

    // Long because it tells a whole life: started, ready, killed or stopped, restarted.
    fn replica(
        &self,
        arm: &Synthetic,
        replica: u32,
        start_s: f64,
        dice: &mut Dice,
        processes: &mut Vec<Process>,
        events: &mut Vec<Event>,
    ) {
        let scale = 1.0 + 0.02 * dice.normal();
        let mut begins = start_s;
        let mut incarnation = 0;
        while begins < self.duration_s {
            let ends = arm
                .killed_at_s
                .map_or(self.duration_s, |age| (begins + age).min(self.duration_s));
            let id = ProcessId(processes.len() as i64 + 1);
            let killed = ends < self.duration_s;
            let event = |t_s: f64, kind, words: &str| Event {
                time: at(t_s),
                process: Some(id),
                kind,
                words: words.to_string(),
            };
            events.push(event(begins, EventKind::Started, "started"));
            events.push(event(
                (begins + 0.8).min(ends),
                EventKind::Ready,
                "GET /_health answered 200",
            ));
            if killed {
                let log =
                    "OOM-killed; last lines of its log:\nlistening on 127.0.0.1:4000\nframe 182734";
                events.push(event(ends, EventKind::OomKilled, log));
                events.push(event(
                    ends,
                    EventKind::Restarted,
                    "restarted after a failure",
                ));
            } else {
                events.push(event(
                    ends,
                    EventKind::Stopped,
                    "SIGTERM, ended within its grace",
                ));
            }
            let life = Life {
                id,
                replica,
                incarnation,
                begins,
                ends,
                killed,
                scale,
            };
            processes.push(self.incarnation(arm, &life, dice));
            if self.with_latency {
                let load_id = ProcessId(processes.len() as i64 + 1);
                processes.push(self.load(
                    arm,
                    &Life {
                        id: load_id,
                        ..life
                    },
                    dice,
                ));
            }
            begins = ends + 0.5;
            incarnation += 1;
            if !killed {
                break;
            }
        }
    }

    fn incarnation(&self, arm: &Synthetic, life: &Life, dice: &mut Dice) -> Process {
        let mut samples: BTreeMap<String, Vec<(TimeNs, f64)>> = BTreeMap::new();
        let mut push = |name: &str, t_s, value| {
            samples
                .entry(name.to_string())
                .or_default()
                .push((at(t_s), value));
        };
        let (mut wander, mut peak) = (0.0, 0.0_f64);
        let (mut user, mut system, mut faults) = (0.0, 0.0, 0.0);
        let mut t_s = (life.begins / self.interval_s).ceil() * self.interval_s;
        while t_s <= life.ends {
            wander = 0.9 * wander + 0.12 * MIB * dice.normal();
            let level = arm.curve.at(t_s - life.begins) * life.scale + wander;
            let rss = (level / 4096.0).round().max(1.0) * 4096.0;
            peak = peak.max(rss);
            push("rss_bytes", t_s, rss);
            push("rss_peak_bytes", t_s, peak);
            user += arm.cpu_user * self.interval_s * 1e9 * (1.0 + 0.08 * dice.normal());
            system += arm.cpu_system * self.interval_s * 1e9 * (1.0 + 0.12 * dice.normal());
            faults += arm.faults_per_s * self.interval_s * (1.0 + 0.15 * dice.normal()).max(0.0);
            push("cpu_user_ns", t_s, user);
            push("cpu_system_ns", t_s, system);
            push("minor_faults", t_s, faults.round());
            push("major_faults", t_s, 0.0);
            push("threads", t_s, 34.0);
            if ((t_s / self.interval_s).round() as u64).is_multiple_of(10) {
                push("lazy_free_bytes", t_s, rss * arm.lazy_share);
                push("huge_pages_bytes", t_s, rss * arm.huge_share);
            }
            t_s += self.interval_s;
        }
        let version = format!("{} (as mapped)", arm.allocator);
        let fact = |value: &str| vec![(at(life.begins), value.to_string())];
        let facts = BTreeMap::from([
            ("allocator.version".to_string(), fact(&version)),
            (
                "allocator.build_id".to_string(),
                fact("1f2e3d4c5b6a79880011223344556677"),
            ),
        ]);
        let command = [
            vec!["./relay".to_string(), "--port".into(), "4000".into()],
            arm.arguments.clone(),
        ];
        let exit = if life.killed {
            "signal 9 (SIGKILL)"
        } else {
            "exit code 0"
        };
        Process {
            command: command.concat(),
            facts,
            samples,
            exit: Some(exit.into()),
            ..life.process(arm)
        }
    }

    fn load(&self, arm: &Synthetic, life: &Life, dice: &mut Dice) -> Process {
        let mut histograms = Vec::new();
        let mut t_s = life.begins + 1.0;
        let step_s = 5.0 * self.interval_s;
        while t_s + step_s <= life.ends {
            let mut histogram = Histogram::<u64>::new(2).expect("2 digits");
            for _ in 0..300 {
                let tail = if dice.uniform() < 0.02 { 6.0 } else { 1.0 };
                let ms = arm.latency_ms * tail * (0.3 * dice.normal()).exp();
                histogram.record((ms * 1e6) as u64).expect("auto-resizing");
            }
            histograms.push(HistogramRow {
                process: life.id,
                start: at(t_s),
                end: at(t_s + step_s),
                metric: "latency".into(),
                requests: 300,
                errors: 0,
                dropped: 0,
                histogram: encode(&histogram),
            });
            t_s += step_s;
        }
        Process {
            role: Role::Load,
            histograms,
            command: vec!["load".into()],
            ..life.process(arm)
        }
    }

    fn own(&self, count: i64, dice: &mut Dice) -> Process {
        let mut samples: BTreeMap<String, Vec<(TimeNs, f64)>> = BTreeMap::new();
        let snapshots = (self.duration_s / self.interval_s) as u64;
        for snapshot in 0..=snapshots {
            let time = at(snapshot as f64 * self.interval_s);
            let mut push =
                |name: &str, value| samples.entry(name.into()).or_default().push((time, value));
            push("look_cost_ns", 1.8e6 * (1.0 + 0.2 * dice.normal()).abs());
            push("cpu_user_ns", snapshot as f64 * self.interval_s * 4e6);
            push("cpu_system_ns", snapshot as f64 * self.interval_s * 6e6);
            push("rss_bytes", 14.0 * MIB);
        }
        let life = Life {
            id: ProcessId(count + 1),
            replica: 0,
            incarnation: 0,
            begins: 0.0,
            ends: self.duration_s,
            killed: false,
            scale: 1.0,
        };
        let nobody = Synthetic::new(
            "",
            "",
            Curve::Saw {
                base: 0.0,
                height: 0.0,
                period_s: 1.0,
            },
        );
        Process {
            role: Role::Highwater,
            samples,
            ..life.process(&nobody)
        }
    }
}

pub fn at(t_s: f64) -> TimeNs {
    TimeNs(BEGUN_NS + (t_s * 1e9).round() as i64)
}

pub fn encode(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("into memory");
    bytes
}

/// From start to end of one incarnation.
#[derive(Clone, Copy)]
struct Life {
    id: ProcessId,
    replica: u32,
    incarnation: u32,
    begins: f64,
    ends: f64,
    killed: bool,
    scale: f64,
}

impl Life {
    fn process(&self, arm: &Synthetic) -> Process {
        Process {
            id: self.id,
            arm: arm.name.clone(),
            replica: self.replica,
            incarnation: self.incarnation,
            role: Role::Subject,
            pid: 4_000 + self.id.0 as i32,
            start_ticks: 100 + self.id.0 as u64,
            started: at(self.begins),
            ended: Some(at(self.ends)),
            exit: None,
            command: Vec::new(),
            samples: BTreeMap::new(),
            facts: BTreeMap::new(),
            histograms: Vec::new(),
        }
    }
}

impl Curve {
    pub fn at(self, age_s: f64) -> f64 {
        match self {
            Curve::Leak {
                base,
                fill,
                tau_s,
                per_hour,
            } => base + fill * (1.0 - (-age_s / tau_s).exp()) + per_hour * age_s / 3600.0,
            Curve::Saw {
                base,
                height,
                period_s,
            } => base + height * (age_s / period_s).fract(),
        }
    }
}
