//! Series of our own metrics carry the pid: a process that was restarted is two series there, and one process with
//! two incarnations here.

use std::collections::BTreeMap;

use super::{FleetSeries, Found, Labels};
use observe::openmetrics::exposed::PREFIX;

/// A successor may have started this long before the last sample of the one before it: clocks differ.
const SLACK_S: f64 = 5.0;

/// Joins what differs in nothing but the pid, where each began after the one before it was seen last. What ran
/// side by side stays apart.
pub fn join(name: Option<&str>, found: &mut Found) {
    if !name.is_some_and(|name| name.starts_with(PREFIX)) {
        return;
    }
    let mut groups: BTreeMap<Labels, Vec<FleetSeries>> = BTreeMap::new();
    for series in found.series.drain(..) {
        let mut labels = series.labels.clone();
        labels.remove("pid");
        groups.entry(labels).or_default().push(series);
    }
    for mut group in groups.into_values() {
        let first = |s: &FleetSeries| s.readings.first().map_or(f64::INFINITY, |r| r.0);
        group.sort_by(|a, b| first(a).total_cmp(&first(b)));
        let mut rest = group.into_iter();
        let Some(mut joined) = rest.next() else {
            continue;
        };
        for next in rest {
            if succeeds(&joined, &next) {
                append(&mut joined, next);
            } else {
                found.series.push(std::mem::replace(&mut joined, next));
            }
        }
        found.series.push(joined);
    }
}

fn succeeds(before: &FleetSeries, next: &FleetSeries) -> bool {
    let last_s = before.readings.last().map_or(f64::INFINITY, |r| r.0);
    let began_s = next.starts_s.first().copied();
    began_s.is_some_and(|began| began >= last_s - SLACK_S)
}

fn append(joined: &mut FleetSeries, next: FleetSeries) {
    joined.labels = next.labels;
    joined.readings.extend(next.readings);
    joined.starts_s.extend(next.starts_s);
    joined.cpu_s.extend(next.cpu_s);
    joined.limit_bytes = next.limit_bytes.or(joined.limit_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(pid: &str, start_s: f64, times: &[f64]) -> FleetSeries {
        let label = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        FleetSeries {
            labels: Labels::from([label("process", "tor"), label("pid", pid)]),
            readings: times.iter().map(|t| (*t, 1.0)).collect(),
            starts_s: vec![start_s],
            ..FleetSeries::default()
        }
    }

    fn joined(series: Vec<FleetSeries>) -> Vec<FleetSeries> {
        let mut found = Found {
            series,
            notes: Vec::new(),
        };
        join(Some("highwater_rss_bytes"), &mut found);
        found.series
    }

    #[test]
    fn a_restart_is_one_process_with_two_starts() {
        let all = joined(vec![
            series("9", 101.0, &[105.0, 110.0]),
            series("7", 50.0, &[60.0, 100.0]),
        ]);
        assert_eq!(all.len(), 1);
        let times: Vec<f64> = all[0].readings.iter().map(|r| r.0).collect();
        assert_eq!(times, [60.0, 100.0, 105.0, 110.0]);
        assert_eq!(
            (&all[0].starts_s, all[0].labels["pid"].as_str()),
            (&vec![50.0, 101.0], "9")
        );
    }

    #[test]
    fn what_ran_side_by_side_stays_apart() {
        let all = joined(vec![
            series("7", 50.0, &[60.0, 100.0]),
            series("9", 40.0, &[105.0, 110.0]),
        ]);
        assert_eq!(all.len(), 2);
    }
}
