//! What other metrics of the same targets tell of a series: when its process started, its limit, its CPU.

use std::collections::BTreeMap;

use super::answer::Raw;
use super::client::Client;
use super::selector::Selector;
use super::{Asked, FleetError, FleetSeries, Found, Labels, read_steps};
use observe::openmetrics::exposed::{PREFIX, START_TIME};

/// Sister metrics are read with at most so many steps, at least 15 s apart: a start time says when it was
/// even if it is seen late.
const STEPS: i64 = 2000;
const STEP_MIN_MS: i64 = 15_000;
/// Start times nearer than this are one: some exporters work them out anew at each scrape.
const SAME_START_S: f64 = 2.0;
/// A limit from here on is no limit (cgroups say 2^63 less a page).
const LIMIT_MAX: f64 = (1u64 << 60) as f64;
/// Labels that say who a target is, whatever the metric.
const WHO: &[&str] = &[
    "job",
    "instance",
    "namespace",
    "pod",
    "container",
    "service",
    "node",
    "cluster",
];

/// Sisters of one metric.
struct Sisters {
    start: &'static str,
    /// CPU seconds; of two, the sum.
    cpu: &'static [&'static str],
    limit: Option<&'static str>,
    /// A label that only the memory has.
    not: &'static str,
}

fn sisters_of(name: &str) -> Sisters {
    let group = name.starts_with("namedprocess_namegroup_");
    let container = name.starts_with("container_");
    if name.starts_with(PREFIX) {
        return Sisters {
            start: START_TIME,
            cpu: &[
                "highwater_cpu_user_seconds_total",
                "highwater_cpu_system_seconds_total",
            ],
            limit: Some("highwater_cgroup_memory_limit_bytes"),
            not: "",
        };
    }
    Sisters {
        start: match (group, container) {
            (true, _) => "namedprocess_namegroup_oldest_start_time_seconds",
            (_, true) => "container_start_time_seconds",
            _ => "process_start_time_seconds",
        },
        cpu: match group || container {
            true => &[],
            false => &["process_cpu_seconds_total"],
        },
        limit: container.then_some("container_spec_memory_limit_bytes"),
        not: if group { "memtype" } else { "" },
    }
}

/// Names of start time and CPU beside a metric of memory.
pub fn start_and_cpu(name: &str) -> (&'static str, Option<&'static str>) {
    let sisters = sisters_of(name);
    (sisters.start, sisters.cpu.first().copied())
}

/// Drops what is no process: sums over a pod and the sandbox that only holds its network. Says what the
/// numbers of some metrics mean.
pub fn tidy(selector: &Selector, found: &mut Found) {
    let name = selector.name.as_deref().unwrap_or("");
    let before = found.series.len();
    if name.starts_with("container_") && !selector.matches_on("container") {
        let of = |s: &FleetSeries| s.labels.get("container").cloned().unwrap_or_default();
        found
            .series
            .retain(|s| !matches!(of(s).as_str(), "" | "POD"));
    }
    if name == "namedprocess_namegroup_memory_bytes" && !selector.matches_on("memtype") {
        let is_resident = |s: &FleetSeries| s.labels.get("memtype").is_none_or(|m| m == "resident");
        found.series.retain(is_resident);
    }
    let left_out = before - found.series.len();
    if left_out > 0 {
        found.notes.push(format!(
            "{left_out} series are left out: sums over a pod, sandboxes, or memory that is not resident"
        ));
    }
    let meaning = match name {
        "container_memory_working_set_bytes" => {
            "holds active file cache besides the processes' memory"
        }
        "container_memory_usage_bytes" => "holds all file cache besides the processes' memory",
        "namedprocess_namegroup_memory_bytes" => "is a sum over the processes of a group",
        _ => return,
    };
    found.notes.push(format!("{name} {meaning}"));
}

/// Asks for the sisters. That there are none is no error: restarts are then found in the readings.
pub fn attach(
    client: &Client,
    selector: &Selector,
    asked: &Asked,
    found: &mut Found,
) -> Result<(), FleetError> {
    let Some(name) = &selector.name else {
        return Ok(());
    };
    if found.series.is_empty() {
        return Ok(());
    }
    let sisters = sisters_of(name);
    let native = [PREFIX, "process_", "container_", "namedprocess_"]
        .iter()
        .any(|p| name.starts_with(p));
    let keeps = |label: &str| label != sisters.not && (native || WHO.contains(&label));
    let mut ask = |metric: &str| -> Result<Vec<Raw>, FleetError> {
        let query = selector.sister(metric, keeps).to_string();
        read_steps(client, &query, asked, step_ms(asked), &mut found.notes)
    };
    let starts = ask(sisters.start)?;
    let cpu: Vec<Vec<Raw>> = sisters
        .cpu
        .iter()
        .map(|m| ask(m))
        .collect::<Result<_, _>>()?;
    let limits = sisters.limit.map(&mut ask).transpose()?.unwrap_or_default();
    for (series, raw) in pairs(&mut found.series, &starts) {
        series.starts_s = distinct(raw);
    }
    for one in &cpu {
        for (series, raw) in pairs(&mut found.series, one) {
            add(&mut series.cpu_s, raw);
        }
    }
    for (series, raw) in pairs(&mut found.series, &limits) {
        let last = raw.readings.last().map(|r| r.1);
        series.limit_bytes = last.filter(|l| *l > 0.0 && *l < LIMIT_MAX);
    }
    Ok(())
}

fn step_ms(asked: &Asked) -> i64 {
    ((asked.end_ms - asked.start_ms) / STEPS).max(STEP_MIN_MS)
}

/// Each series with the sister whose labels it has (it may have more).
fn pairs<'a>(
    series: &'a mut [FleetSeries],
    sisters: &'a [Raw],
) -> Vec<(&'a mut FleetSeries, &'a Raw)> {
    let bare = |labels: &Labels| -> Labels {
        let of_target = labels.iter().filter(|(k, _)| *k != "__name__");
        of_target.map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let by: BTreeMap<Labels, &Raw> = sisters.iter().map(|s| (bare(&s.labels), s)).collect();
    let mut keys: Vec<Vec<&String>> = by.keys().map(|labels| labels.keys().collect()).collect();
    keys.sort();
    keys.dedup();
    series
        .iter_mut()
        .filter_map(|s| {
            let of = |keys: &Vec<&String>| -> Option<&Raw> {
                let part = keys
                    .iter()
                    .map(|k| Some(((*k).clone(), s.labels.get(*k)?.clone())));
                by.get(&part.collect::<Option<Labels>>()?).copied()
            };
            let sister = keys.iter().find_map(of)?;
            Some((s, sister))
        })
        .collect()
}

/// A further counter of the same process, read at the same times.
fn add(sum: &mut Vec<(f64, f64)>, raw: &Raw) {
    if sum.is_empty() {
        *sum = raw.readings.iter().map(|r| (r.0, r.1)).collect();
        return;
    }
    sum.retain_mut(|(t_s, value)| {
        let other = raw.readings.binary_search_by(|r| r.0.total_cmp(t_s));
        if let Ok(at) = other {
            *value += raw.readings[at].1;
        }
        other.is_ok()
    });
}

/// Start times in order of appearance, those that differ by rounding once.
fn distinct(raw: &Raw) -> Vec<f64> {
    let mut starts: Vec<f64> = Vec::new();
    for start in raw
        .readings
        .iter()
        .map(|r| r.1)
        .filter(|s| s.is_finite() && *s > 0.0)
    {
        if starts
            .last()
            .is_none_or(|last| (start - last).abs() > SAME_START_S)
        {
            starts.push(start);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::super::answer::Reading;
    use super::super::selector::parse_selector;
    use super::*;

    fn labels(text: &str) -> Labels {
        let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        text.split(',').filter_map(pair).collect()
    }

    #[test]
    fn a_series_finds_the_sister_that_has_no_label_of_another() {
        let mut series = ["i=1,memtype=resident", "i=2,memtype=resident"].map(|l| FleetSeries {
            labels: labels(l),
            ..FleetSeries::default()
        });
        let sister = Raw {
            labels: labels("__name__=start,i=2"),
            readings: vec![Reading(1.0, 5.0), Reading(2.0, 5.4), Reading(3.0, 99.0)],
        };
        let found = pairs(&mut series, std::slice::from_ref(&sister));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.labels["i"], "2");
        assert_eq!(distinct(found[0].1), [5.0, 99.0]);
    }

    #[test]
    fn user_and_system_add_up() {
        let raw = |readings: &[(f64, f64)]| Raw {
            labels: Labels::new(),
            readings: readings.iter().map(|(t, v)| Reading(*t, *v)).collect(),
        };
        let mut sum = Vec::new();
        add(&mut sum, &raw(&[(15.0, 1.0), (30.0, 2.0), (45.0, 3.0)]));
        add(&mut sum, &raw(&[(15.0, 0.5), (45.0, 0.25)]));
        assert_eq!(sum, [(15.0, 1.5), (45.0, 3.25)]);
    }

    #[test]
    fn sandboxes_and_sums_are_left_out_and_it_is_said() {
        let selector = parse_selector("container_memory_working_set_bytes").unwrap();
        let of = |l: &str| FleetSeries {
            labels: labels(l),
            ..FleetSeries::default()
        };
        let mut found = Found {
            series: vec![
                of("pod=a,container=app"),
                of("pod=a,container=POD"),
                of("pod=a"),
            ],
            notes: Vec::new(),
        };
        tidy(&selector, &mut found);
        assert_eq!(found.series.len(), 1);
        assert!(found.notes[0].starts_with("2 series") && found.notes[1].contains("file cache"));
    }
}
