//! Samples of a store put together as snapshots: which process each belongs to, which incarnation of it, and at which
//! look of the run it was the newest. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Labels;
use super::answer::Raw;
use observe::metric;
use observe::openmetrics::exposed::{ALIVE, ALLOCATOR, PREFIX, START_TIME, find_exposed};

/// Start times nearer than this are one: some exporters work them out anew at each scrape.
const SAME_START_S: f64 = 2.0;
/// Labels of the info metric that say something of the allocator, and the facts that they are.
const FACTS: &[(&str, &str)] = &[
    ("name", "allocator.family"),
    ("version", "allocator.version"),
    ("build_id", "allocator.build_id"),
    ("path", "malloc.library"),
];

/// Which names are read, and what they are.
#[derive(Debug, Clone, PartialEq)]
pub enum Names {
    /// Everything that `highwater observe` writes.
    Ours,
    /// A metric of resident memory, that of start times, and that of CPU seconds.
    Theirs {
        memory: String,
        start: String,
        cpu: String,
    },
}

impl Names {
    pub fn of(metric: Option<&str>) -> Names {
        match metric {
            None => Names::Ours,
            Some(name) if name.starts_with(PREFIX) => Names::Ours,
            Some(name) => {
                let (start, cpu) = super::beside::start_and_cpu(name);
                Names::Theirs {
                    memory: name.to_owned(),
                    start: start.to_owned(),
                    cpu: cpu.unwrap_or_default().to_owned(),
                }
            }
        }
    }

    /// For `__name__`.
    pub fn pattern(&self) -> String {
        match self {
            Names::Ours => format!("{PREFIX}.+"),
            Names::Theirs { memory, start, cpu } if cpu.is_empty() => format!("{memory}|{start}"),
            Names::Theirs { memory, start, cpu } => format!("{memory}|{start}|{cpu}"),
        }
    }

    pub fn is_start(&self, name: &str) -> bool {
        match self {
            Names::Ours => name == START_TIME,
            Names::Theirs { start, .. } => name == start,
        }
    }

    /// Our own name and unit of a sample; `None` for what a snapshot does not hold.
    fn own(&self, name: &str, value: f64) -> Option<(&'static str, f64)> {
        match self {
            Names::Ours => {
                let (metric, exposed) = find_exposed(name)?;
                Some((metric.name, exposed.back(value)))
            }
            Names::Theirs { memory, .. } if memory == name => Some((metric::RSS.name, value)),
            Names::Theirs { cpu, .. } if cpu == name => {
                Some((metric::CPU_USER.name, (value * 1e9).round()))
            }
            Names::Theirs { .. } => None,
        }
    }
}

/// What makes a process that process: where it runs, its pid if that is known, and when it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Labels without name, pid and those of the allocator.
    pub labels: Labels,
    pub pid: Option<i32>,
    pub start_s: f64,
}

impl Identity {
    /// The same process, whatever it is called and whoever scrapes it: a name or an address may change, what
    /// started then on that host under that pid does not.
    pub fn is_same(&self, other: &Identity) -> bool {
        let near = (self.start_s - other.start_s).abs() <= SAME_START_S;
        let place = |identity: &Identity| match identity.labels.get("host") {
            Some(host) => Labels::from([("host".to_owned(), host.clone())]),
            None => {
                let named = identity
                    .labels
                    .iter()
                    .filter(|(name, _)| *name != "process");
                named.map(|(k, v)| (k.clone(), v.clone())).collect()
            }
        };
        near && match (self.pid, other.pid) {
            (Some(a), Some(b)) => a == b && place(self) == place(other),
            _ => self.labels == other.labels,
        }
    }
}

/// One process with its samples, by slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembled {
    pub who: Identity,
    /// Of each slot, the newest value of each metric in our own unit.
    pub slots: BTreeMap<i64, BTreeMap<&'static str, f64>>,
    /// Slot and facts where they changed.
    pub facts: BTreeMap<i64, BTreeMap<&'static str, String>>,
    pub first_s: f64,
    pub last_s: f64,
}

/// Time in slots of one interval: slot n holds what came after the snapshot before and up to snapshot n.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Nanoseconds since the epoch of slot 0.
    pub begun_ns: i64,
    pub interval_ns: i64,
}

impl Grid {
    pub fn slot(&self, t_s: f64) -> i64 {
        let passed = ((t_s * 1e9) as i64).saturating_sub(self.begun_ns);
        passed.div_euclid(self.interval_ns.max(1))
            + i64::from(passed.rem_euclid(self.interval_ns.max(1)) > 0)
    }

    pub fn time_ns(&self, slot: i64) -> i64 {
        self.begun_ns + slot * self.interval_ns
    }
}

/// Series with their names.
type Named<'a> = Vec<(&'a str, &'a Raw)>;

/// Puts the series of one arm together.
pub fn assemble(all: &[Raw], names: &Names, grid: Grid) -> Vec<Assembled> {
    let mut targets: BTreeMap<(Labels, Option<i32>), Named<'_>> = BTreeMap::new();
    for raw in all {
        let Some(name) = raw.labels.get("__name__") else {
            continue;
        };
        if !is_process(&raw.labels, names) {
            continue;
        }
        let (labels, pid) = who(&raw.labels, names);
        targets.entry((labels, pid)).or_default().push((name, raw));
    }
    let mut found = Vec::new();
    for ((labels, pid), series) in targets {
        found.extend(of_target(&labels, pid, &series, names, grid));
    }
    found.sort_by(|a, b| a.first_s.total_cmp(&b.first_s));
    found
}

/// Not the machine, the endpoint itself, a sum over a pod, its sandbox, or memory that is not resident.
fn is_process(labels: &Labels, names: &Names) -> bool {
    let label = |name: &str| labels.get(name).map(String::as_str);
    match names {
        Names::Ours => label("process").is_some(),
        Names::Theirs { memory, .. } if memory.starts_with("container_") => {
            !matches!(label("container"), None | Some("" | "POD"))
        }
        Names::Theirs { .. } => matches!(label("memtype"), None | Some("resident")),
    }
}

fn who(labels: &Labels, names: &Names) -> (Labels, Option<i32>) {
    let mut labels = labels.clone();
    let name = labels.remove("__name__").unwrap_or_default();
    if *names != Names::Ours {
        labels.remove("memtype");
        return (labels, None);
    }
    if is_allocator(&name) {
        FACTS
            .iter()
            .for_each(|(label, _)| drop(labels.remove(*label)));
    }
    let pid = labels.remove("pid").and_then(|pid| pid.parse().ok());
    (labels, pid)
}

fn is_allocator(name: &str) -> bool {
    name.strip_suffix("_info") == Some(ALLOCATOR)
}

/// The incarnations of one target: it is another process from each new start time on.
fn of_target(
    labels: &Labels,
    pid: Option<i32>,
    series: &[(&str, &Raw)],
    names: &Names,
    grid: Grid,
) -> Vec<Assembled> {
    let mut found: Vec<Assembled> = starts(series, names)
        .into_iter()
        .map(|(from_s, start_s)| Assembled {
            who: Identity {
                labels: labels.clone(),
                pid,
                start_s,
            },
            slots: BTreeMap::new(),
            facts: BTreeMap::new(),
            first_s: from_s,
            last_s: from_s,
        })
        .collect();
    for (name, raw) in series {
        for reading in raw.readings.iter().filter(|r| r.1.is_finite()) {
            let at = found.partition_point(|one| one.first_s <= reading.0);
            let Some(one) = found.get_mut(at.saturating_sub(1)) else {
                continue;
            };
            let slot = grid.slot(reading.0);
            one.last_s = one.last_s.max(reading.0);
            if is_allocator(name) && *names == Names::Ours {
                one.facts
                    .entry(slot)
                    .or_default()
                    .extend(facts(&raw.labels));
            } else if *name == ALIVE && *names == Names::Ours {
                let alive = if reading.1 > 0.0 { "yes" } else { "no" };
                let facts = one.facts.entry(slot).or_default();
                facts.insert("alive", alive.to_owned());
            } else if let Some((own, value)) = names.own(name, reading.1) {
                one.slots.entry(slot).or_default().insert(own, value);
            }
        }
    }
    found.retain(|one| !one.slots.is_empty());
    found
}

fn facts(labels: &Labels) -> impl Iterator<Item = (&'static str, String)> {
    let of = |(label, fact): &(&'static str, &'static str)| {
        let value = labels.get(*label).cloned().unwrap_or_default();
        (*fact, value)
    };
    FACTS.iter().map(of)
}

/// From when on which start time held; one from the beginning where nothing tells it.
fn starts(series: &[(&str, &Raw)], names: &Names) -> Vec<(f64, f64)> {
    let of_start = series.iter().find(|(name, _)| names.is_start(name));
    let mut starts: Vec<(f64, f64)> = Vec::new();
    for reading in of_start.iter().flat_map(|(_, raw)| &raw.readings) {
        let is_new = |last: &(f64, f64)| (last.1 - reading.1).abs() > SAME_START_S;
        if reading.1.is_finite() && starts.last().is_none_or(is_new) {
            starts.push((reading.0, reading.1));
        }
    }
    if starts.is_empty() {
        let firsts = series.iter().filter_map(|(_, raw)| raw.readings.first());
        let first_s = firsts.map(|r| r.0).fold(f64::INFINITY, f64::min);
        starts.push((first_s, 0.0));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::super::answer::Reading;
    use super::*;

    const GRID: Grid = Grid {
        begun_ns: 1_000_000_000_000,
        interval_ns: 5_000_000_000,
    };

    fn raw(name: &str, labels: &[(&str, &str)], readings: &[(f64, f64)]) -> Raw {
        let mut all: Labels = labels
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect();
        all.insert("__name__".into(), name.into());
        Raw {
            labels: all,
            readings: readings.iter().map(|(t, v)| Reading(*t, *v)).collect(),
        }
    }

    #[test]
    fn a_slot_ends_with_its_snapshot() {
        let slots = [1000.0, 1000.001, 1005.0, 1005.001].map(|t| GRID.slot(t));
        assert_eq!(slots, [0, 1, 1, 2]);
        assert_eq!(GRID.time_ns(2), 1_010_000_000_000);
    }

    #[test]
    fn what_observe_wrote_comes_back_as_a_snapshot_had_it() {
        let who = [("process", "tor"), ("pid", "7"), ("host", "h")];
        let allocator = [&who[..], &[("name", "mimalloc"), ("version", "2.0.9")]].concat();
        let all = [
            raw(
                "highwater_rss_bytes",
                &who,
                &[(1001.0, 10.0), (1004.0, 20.0), (1006.0, 30.0)],
            ),
            raw("highwater_cpu_user_seconds_total", &who, &[(1004.0, 1.5)]),
            raw(
                START_TIME,
                &who,
                &[(1001.0, 900.0), (1004.0, 900.1), (1006.0, 900.0)],
            ),
            raw("highwater_allocator_info", &allocator, &[(1004.0, 1.0)]),
            raw("highwater_alive", &who, &[(1004.0, 1.0), (1006.0, 0.0)]),
            raw("highwater_host_load_1m", &[("host", "h")], &[(1004.0, 1.0)]),
        ];
        let found = assemble(&all, &Names::Ours, GRID);
        assert_eq!(found.len(), 1);
        let one = &found[0];
        assert_eq!((one.who.pid, one.who.start_s), (Some(7), 900.0));
        assert_eq!(one.slots[&1]["rss_bytes"], 20.0);
        assert_eq!(one.slots[&1]["cpu_user_ns"], 1.5e9);
        assert_eq!(one.slots[&2]["rss_bytes"], 30.0);
        assert_eq!(one.facts[&1]["allocator.family"], "mimalloc");
        assert_eq!(
            (
                one.facts[&1]["alive"].as_str(),
                one.facts[&2]["alive"].as_str()
            ),
            ("yes", "no")
        );
    }

    #[test]
    fn a_new_start_time_is_a_new_incarnation() {
        let who = [("instance", "a:1")];
        let names = Names::of(Some("process_resident_memory_bytes"));
        let all = [
            raw(
                "process_resident_memory_bytes",
                &who,
                &[(1001.0, 9.0), (1006.0, 3.0)],
            ),
            raw(
                "process_start_time_seconds",
                &who,
                &[(1001.0, 500.0), (1006.0, 1005.0)],
            ),
            raw(
                "process_cpu_seconds_total",
                &who,
                &[(1001.0, 8.0), (1006.0, 0.5)],
            ),
        ];
        let found = assemble(&all, &names, GRID);
        let told: Vec<_> = found
            .iter()
            .map(|f| (f.who.start_s, f.slots.len()))
            .collect();
        assert_eq!(told, [(500.0, 1), (1005.0, 1)]);
        assert_eq!(found[1].slots[&2]["cpu_user_ns"], 5e8);
        assert!(!found[0].who.is_same(&found[1].who));
    }

    #[test]
    fn what_is_not_resident_or_no_process_is_left_out() {
        let group = Names::of(Some("namedprocess_namegroup_memory_bytes"));
        let of = |memtype| {
            let who = [("groupname", "tor"), ("memtype", memtype)];
            raw(
                "namedprocess_namegroup_memory_bytes",
                &who,
                &[(1001.0, 9.0)],
            )
        };
        let found = assemble(
            &[of("virtual"), of("resident"), of("swapped")],
            &group,
            GRID,
        );
        assert_eq!(found.len(), 1);
        let pods = Names::of(Some("container_memory_rss"));
        let of = |container| {
            let who = [("pod", "p"), ("container", container)];
            raw("container_memory_rss", &who, &[(1001.0, 9.0)])
        };
        let found = assemble(&[of(""), of("POD"), of("app")], &pods, GRID);
        assert_eq!(
            (found.len(), found[0].who.labels["container"].as_str()),
            (1, "app")
        );
    }

    #[test]
    fn a_process_is_the_same_under_another_name() {
        let of = |name: &str, pid, start_s| Identity {
            labels: Labels::from([("process".into(), name.into()), ("host".into(), "h".into())]),
            pid: Some(pid),
            start_s,
        };
        assert!(of("tor-2", 7, 10.0).is_same(&of("tor-3", 7, 10.5)));
        let mut moved = of("tor-2", 7, 10.0);
        moved.labels.insert("instance".into(), "h:2".into());
        assert!(of("tor-2", 7, 10.0).is_same(&moved));
        moved.labels.insert("host".into(), "g".into());
        assert!(!of("tor-2", 7, 10.0).is_same(&moved));
        assert!(!of("tor-2", 7, 10.0).is_same(&of("tor-2", 7, 90.0)));
        assert!(!of("tor-2", 7, 10.0).is_same(&of("tor-2", 8, 10.0)));
    }

    proptest::proptest! {
        #[test]
        fn no_store_panics_us(
            names in proptest::collection::vec(0usize..5, 1..6),
            readings in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 0..20),
        ) {
            const NAMES: [&str; 5] =
                ["highwater_rss_bytes", START_TIME, "highwater_allocator_info", "highwater_alive", "x"];
            let who = [("process", "p"), ("pid", "7")];
            let all: Vec<Raw> = names.iter().map(|n| raw(NAMES[*n], &who, &readings)).collect();
            for one in assemble(&all, &Names::Ours, GRID) {
                proptest::prop_assert!(!one.slots.is_empty());
            }
        }
    }
}
