//! What is known of each process, laid out as families of samples.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use experiment::chosen::Chosen;
use observe::metric;
use observe::metric::{Kind, Metric};
use observe::openmetrics::exposed::{ALIVE, ALLOCATOR, Exposed, START_TIME};
use observe::snapshot::ProcessId;
use report::openmetrics::{Family, Type, labels};

/// This process, beside the machine as a whole, which comes before it.
pub const OWN: ProcessId = ProcessId(2);
/// Metrics of ours that only a run has: its load and the endpoints of its subjects.
const NOT_HERE: &[Metric] = &[
    metric::METRICS_FETCH,
    metric::METRICS_LATE,
    metric::METRICS_LEFT_OUT,
    metric::LOAD_LINES_LEFT_OUT,
    metric::SNAPSHOT_COST,
    metric::LIVE_HEAP,
    metric::ALLOCATOR_HELD,
    metric::FRAGMENTATION,
    metric::PROBE_MEMORY,
];

/// Facts that say what answers malloc, and the labels that they become.
const ALLOCATOR_LABELS: &[(&str, &str)] = &[
    ("allocator.family", "name"),
    ("allocator.version", "version"),
    ("allocator.build_id", "build_id"),
    ("malloc.library", "path"),
];

/// The newest of everything of one process, or of the machine.
#[derive(Debug)]
pub struct Seen {
    /// Arm, process, pid and host.
    who: Vec<(&'static str, String)>,
    labels: Arc<str>,
    start_s: Option<f64>,
    /// By our own name.
    pub values: HashMap<String, f64>,
    pub facts: BTreeMap<String, String>,
}

impl Seen {
    pub fn of(one: &Chosen, start_s: f64, host: &str) -> Seen {
        let mut who = vec![
            ("process", one.name.clone()),
            ("pid", one.pid.to_string()),
            ("host", host.to_owned()),
        ];
        if !one.arm.is_empty() {
            who.insert(0, ("arm", one.arm.clone()));
        }
        Seen::labelled(who, Some(start_s))
    }

    pub fn machine(host: &str) -> Seen {
        Seen::labelled(vec![("host", host.to_owned())], None)
    }

    fn labelled(who: Vec<(&'static str, String)>, start_s: Option<f64>) -> Seen {
        Seen {
            labels: labels(who.iter().map(|(name, value)| (*name, value.as_str()))),
            who,
            start_s,
            values: HashMap::new(),
            facts: BTreeMap::new(),
        }
    }

    pub fn is_process(&self) -> bool {
        self.start_s.is_some()
    }

    /// Labels of its allocator, once that is proved.
    fn allocator(&self) -> Option<Arc<str>> {
        self.facts.get("malloc.library")?;
        let known = ALLOCATOR_LABELS.iter().map(|(fact, label)| {
            let value = self.facts.get(*fact).map_or("", String::as_str);
            (*label, value)
        });
        let who = self.who.iter().map(|(name, value)| (*name, value.as_str()));
        Some(labels(who.chain(known)))
    }
}

/// What this process itself costs and has done.
#[derive(Debug, Default, Clone)]
pub struct Own {
    pub snapshots: u64,
    pub snapshot_s: f64,
    pub scrapes: u64,
    pub refused: u64,
    /// Processes that were one too many.
    pub left_out: usize,
}

/// Everything, in the order of [`metric::ALL`].
pub fn families(seen: &BTreeMap<ProcessId, Seen>, own: &Own, host: &str) -> Vec<Family> {
    let is_ours = |id: &ProcessId| *id == OWN;
    let others: Vec<&Seen> = seen
        .iter()
        .filter(|(id, _)| !is_ours(id))
        .map(|(_, s)| s)
        .collect();
    let mut all: Vec<Family> = metric::ALL
        .iter()
        .filter(|m| !NOT_HERE.contains(m))
        .map(|m| family(m, &others))
        .collect();
    all.extend(beside(&others));
    let ourselves = seen.iter().find(|(id, _)| is_ours(id)).map(|(_, s)| s);
    all.extend(own_cost(
        ourselves,
        own,
        others.iter().filter(|s| s.is_process()).count(),
        host,
    ));
    all
}

/// The names of all samples that a page can hold, for those who write queries.
pub fn names() -> Vec<String> {
    let all = families(&BTreeMap::new(), &Own::default(), "");
    all.iter().map(Family::sample_name).collect()
}

fn family(metric: &Metric, seen: &[&Seen]) -> Family {
    let exposed = Exposed::of(metric);
    let sample = |s: &&Seen| {
        let value = s.values.get(metric.name)?;
        Some((s.labels.clone(), exposed.out(*value)))
    };
    Family {
        samples: seen.iter().filter_map(sample).collect(),
        name: exposed.family,
        kind: match metric.kind {
            Kind::Gauge => Type::Gauge,
            Kind::Counter => Type::Counter,
        },
        unit: exposed.unit,
        help: metric.describe.to_owned(),
    }
}

/// Start times, progress, and what answers malloc.
fn beside(seen: &[&Seen]) -> [Family; 3] {
    let starts = seen
        .iter()
        .filter_map(|s| Some((s.labels.clone(), s.start_s?)));
    let alive = |s: &&Seen| {
        let alive = s.facts.get("alive")?;
        Some((s.labels.clone(), f64::from(u8::from(alive == "yes"))))
    };
    let allocator = |s: &&Seen| Some((s.allocator()?, 1.0));
    [
        gauge(
            START_TIME,
            "seconds",
            "When the process started, since the epoch.",
            starts.collect(),
        ),
        gauge(
            ALIVE,
            "",
            "0 when it used no CPU and switched no thread for a minute.",
            seen.iter().filter_map(alive).collect(),
        ),
        Family {
            kind: Type::Info,
            ..gauge(
                ALLOCATOR,
                "",
                "What really answers malloc, read from the process itself.",
                seen.iter().filter_map(allocator).collect(),
            )
        },
    ]
}

fn gauge(name: &str, unit: &'static str, help: &str, samples: Vec<(Arc<str>, f64)>) -> Family {
    Family {
        name: name.to_owned(),
        kind: Type::Gauge,
        unit,
        help: help.to_owned(),
        samples,
    }
}

/// highwater's own cost: names of their own, so that no sum over processes holds it.
fn own_cost(seen: Option<&Seen>, own: &Own, processes: usize, host: &str) -> Vec<Family> {
    let labels = labels([("host", host)]);
    let value = |m: Metric| seen.and_then(|s| s.values.get(m.name)).copied();
    let cpu = value(metric::CPU_USER).zip(value(metric::CPU_SYSTEM));
    let one = |name: &str, unit, help: &str, value: Option<f64>| {
        let samples = value.map(|v| (labels.clone(), v)).into_iter().collect();
        gauge(&format!("highwater_observe_{name}"), unit, help, samples)
    };
    let counter = |family: Family| Family {
        kind: Type::Counter,
        ..family
    };
    vec![
        counter(one(
            "cpu_seconds",
            "seconds",
            "CPU of highwater observe itself, user and system.",
            cpu.map(|(user, system)| (user + system) / 1e9),
        )),
        one(
            "rss_bytes",
            "bytes",
            "Its own resident set.",
            value(metric::RSS),
        ),
        one(
            "look_seconds",
            "seconds",
            "Wall time of the last snapshot.",
            Some(own.snapshot_s),
        ),
        counter(one(
            "looks",
            "",
            "Snapshots so far.",
            Some(own.snapshots as f64),
        )),
        counter(one(
            "scrapes",
            "",
            "Pages given so far.",
            Some(own.scrapes as f64),
        )),
        counter(one(
            "refused",
            "",
            "Connections refused, broken or too slow so far.",
            Some(own.refused as f64),
        )),
        one(
            "processes",
            "",
            "Processes watched.",
            Some(processes as f64),
        ),
        one(
            "processes_left_out",
            "",
            "Processes that were chosen and are one too many.",
            Some(own.left_out as f64),
        ),
    ]
}
