//! Restarts, counted for each replica: what `restarts_max` is about, as a guard and at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Seen;
use observe::snapshot::{EventKind, TimeNs};
use record::run::{Process, Run};
use series::arms::seconds_between;
use units::written;

/// The most restarts of a replica within any stretch of this length, else of all; `times` in order.
pub fn most(times: &[TimeNs], within: Option<Duration>) -> usize {
    let Some(within) = within else {
        return times.len();
    };
    let span = |from: TimeNs, to: TimeNs| seconds_between(from, to) <= within.as_secs_f64();
    let from = |at: usize| {
        let rest = times[at..].iter();
        rest.take_while(|time| span(times[at], **time)).count()
    };
    (0..times.len()).map(from).max().unwrap_or(0)
}

/// Whether so many are allowed, and what was seen.
pub fn judged(id: &str, restarts: usize, max: u32, within: Option<Duration>) -> Seen {
    let times = match restarts {
        1 => "once".to_string(),
        n => format!("{n} times"),
    };
    let within = within.map(|w| format!(" within {}", written::duration(w)));
    let observed = match restarts {
        0 => "no restart".to_string(),
        _ => format!(
            "restarted {times}{} (process {id})",
            within.unwrap_or_default()
        ),
    };
    (Some(restarts <= max as usize), observed)
}

/// The replica of an arm that was restarted most, from `after` on, counted from its first start.
pub fn of_arm(
    run: &Run,
    processes: &[&Process],
    max: u32,
    within: Option<Duration>,
    after: Duration,
) -> Seen {
    let mut begun: BTreeMap<String, TimeNs> = BTreeMap::new();
    for process in processes {
        let first = begun.entry(series::arms::replica_id(process));
        let first = first.or_insert(process.started);
        *first = (*first).min(process.started);
    }
    let mut times: BTreeMap<&str, Vec<TimeNs>> = BTreeMap::new();
    for event in run.events.iter().filter(|e| e.kind == EventKind::Restarted) {
        let own = processes.iter().find(|p| Some(p.id) == event.process);
        let Some(id) = own.map(|process| series::arms::replica_id(process)) else {
            continue;
        };
        let Some((id, first)) = begun.get_key_value(&id) else {
            continue;
        };
        if seconds_between(*first, event.time) >= after.as_secs_f64() {
            times.entry(id).or_default().push(event.time);
        }
    }
    let counted = times.iter().map(|(id, times)| (most(times, within), *id));
    let (restarts, id) = counted.max_by_key(|(n, _)| *n).unwrap_or((0, ""));
    judged(id, restarts, max, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_stretch_counts() {
        let times = [0, 10, 11, 12, 60].map(|s: i64| TimeNs(s * 1_000_000_000));
        assert_eq!(most(&times, None), 5);
        assert_eq!(most(&times, Some(Duration::from_secs(2))), 3);
        assert_eq!(most(&times, Some(Duration::from_secs(12))), 4);
        assert_eq!(most(&[], Some(Duration::from_secs(1))), 0);
    }
}
