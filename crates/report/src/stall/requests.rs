//! What the slow requests' time went to, for a terminal and in JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::gains;
use stalls::accounted::Source;
use stalls::gain::Gains;
use stalls::naming::NamedFinding;
use units::written::{nanoseconds, percent};

/// One slow request. Times in nanoseconds; `went` adds up to `ns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Slow {
    pub name: String,
    pub start_ns: u64,
    pub ns: u64,
    /// Who served it; empty when nobody was found.
    pub thread: String,
    pub tid: Option<u64>,
    pub went: Vec<(&'static str, u64)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Requests {
    pub source: Source,
    /// Of the watch, the part in which requests were not told, for there were too many.
    pub unseen_share: f64,
    /// Within the watch.
    pub count: usize,
    /// Of these that were slow; `slow` has the longest.
    pub slow_count: usize,
    pub slow_from_ns: u64,
    /// Longest first.
    pub slow: Vec<Slow>,
    pub usual: Option<Usual>,
    /// Stretches of threads that did not fit into memory.
    pub dropped: u64,
    /// Rows that one fix would end.
    pub fixes: Vec<Vec<usize>>,
    /// Without each of these; none with too few requests.
    pub gains: Option<Gains>,
}

/// Of those that are not slow, a sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usual {
    /// Of all.
    pub median_ns: u64,
    /// Requests in the sample.
    pub count: usize,
    /// What their time went to, most first, in nanoseconds of all of them together.
    pub went: Vec<(&'static str, u64)>,
}

impl Usual {
    pub fn of(
        median_ns: u64,
        count: usize,
        went: impl Iterator<Item = (&'static str, u64)>,
    ) -> Usual {
        Usual {
            median_ns,
            count,
            went: most_first(went),
        }
    }

    /// "An ordinary request took 60.4 ms: lock 71 %, running 20 %."
    pub fn sentence(&self) -> String {
        let all = self.went.iter().map(|(_, ns)| *ns);
        let all = all.fold(0, u64::saturating_add).max(1) as f64;
        let shares = self.went.iter().map(|(what, ns)| (what, *ns as f64 / all));
        let told = shares.filter(|(_, share)| *share >= SHARE_LEAST);
        let told: Vec<String> = told
            .map(|(what, share)| format!("{what} {}", percent(share)))
            .collect();
        let median = nanoseconds(self.median_ns as f64);
        format!("An ordinary request took {median}: {}.", told.join(", "))
    }
}

/// Of an ordinary request's time: less is not told.
const SHARE_LEAST: f64 = 0.01;

fn most_first(went: impl Iterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (what, ns) in went {
        *sums.entry(what).or_default() += ns;
    }
    let mut sums: Vec<_> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    sums.sort_by_key(|(what, ns)| (std::cmp::Reverse(*ns), *what));
    sums
}

/// Requests with a line of their own.
const SHOWN: usize = 5;

impl Requests {
    fn sums(&self) -> Vec<(&'static str, u64)> {
        most_first(self.slow.iter().flat_map(|slow| slow.went.iter().copied()))
    }
}

pub fn text(requests: &Requests, rows: &[NamedFinding], columns: usize) -> String {
    let mut text = String::new();
    let times = requests.slow.iter().map(|slow| slow.ns);
    let total = times.fold(0, u64::saturating_add);
    let _ = writeln!(
        text,
        "\nRequests{}: {} of {} took {} or more, {} together.",
        match requests.source {
            Source::Connections => " on its connections",
            Source::File | Source::Calls => "",
        },
        requests.slow_count,
        requests.count,
        nanoseconds(requests.slow_from_ns as f64),
        nanoseconds(total as f64),
    );
    if let Some(usual) = &requests.usual {
        let options = textwrap::Options::new(columns)
            .initial_indent("  ")
            .subsequent_indent("  ");
        let _ = writeln!(text, "{}", textwrap::fill(&usual.sentence(), options));
    }
    if requests.unseen_share >= 0.005 {
        let _ = writeln!(
            text,
            "  Seen in {} of the time: there were too many.",
            percent(1.0 - requests.unseen_share)
        );
    }
    for (what, ns) in requests.sums() {
        let share = percent(ns as f64 / total.max(1) as f64);
        let _ = writeln!(
            text,
            "  {what:<14} {:>9}  {share:>7}",
            nanoseconds(ns as f64)
        );
    }
    for slow in requests.slow.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", one(slow));
    }
    if requests.dropped > 0 {
        let _ = writeln!(
            text,
            "  {} stretches of threads were dropped for memory: watch for a shorter time.",
            requests.dropped
        );
    }
    if let Some(gains) = requests.gains.as_ref().filter(|_| !rows.is_empty()) {
        text.push_str(&gains::text(gains, (rows, &requests.fixes), columns));
    }
    text
}

/// "request 300 ms in worker 12: lock 290 ms, outside 10.0 ms"
fn one(slow: &Slow) -> String {
    let mut went = slow.went.clone();
    went.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let parts = went.iter().filter(|(_, ns)| ns * 100 >= slow.ns);
    let parts = parts.map(|(what, ns)| format!("{what} {}", nanoseconds(*ns as f64)));
    let parts: Vec<String> = parts.collect();
    let or = |words: &str, none: &str| if words.is_empty() { none } else { words }.to_owned();
    format!(
        "{} {} in {}: {}",
        or(&slow.name, "request"),
        nanoseconds(slow.ns as f64),
        or(&slow.thread, "no thread seen"),
        parts.join(", ")
    )
}

pub fn json(requests: &Requests, rows: &[NamedFinding]) -> Value {
    let parts = |went: &[(&'static str, u64)]| -> Value {
        let parts = went
            .iter()
            .map(|(what, ns)| json!({ "what": what, "ns": ns }));
        parts.collect()
    };
    json!({
        "source": requests.source.word(),
        "unseen_share": requests.unseen_share,
        "count": requests.count,
        "slow_from_ns": requests.slow_from_ns,
        "went": parts(&requests.sums()),
        "ordinary": requests.usual.as_ref().map(|usual| json!({
            "median_ns": usual.median_ns,
            "count": usual.count,
            "went": parts(&usual.went),
        })),
        "dropped": requests.dropped,
        "gains": requests.gains.as_ref().map(|gains| gains::json(gains, (rows, &requests.fixes))),
        "slow": requests.slow.iter().map(|slow| json!({
            "name": slow.name,
            "start_ns": slow.start_ns,
            "ns": slow.ns,
            "thread": slow.thread,
            "tid": slow.tid,
            "went": parts(&slow.went),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_first_and_add_up() {
        let slow = |ns, lock| Slow {
            name: String::new(),
            start_ns: 0,
            ns,
            thread: "worker".into(),
            tid: Some(1),
            went: vec![("lock", lock), ("outside", ns - lock)],
        };
        let requests = Requests {
            source: Source::Connections,
            unseen_share: 0.4,
            count: 9,
            slow_count: 2,
            slow_from_ns: 1_000_000,
            slow: vec![
                slow(300_000_000, 290_000_000),
                slow(100_000_000, 10_000_000),
            ],
            usual: Some(Usual::of(
                400_000,
                2,
                [("running", 20), ("lock", 50), ("running", 30), ("disk", 0)].into_iter(),
            )),
            dropped: 0,
            fixes: Vec::new(),
            gains: None,
        };
        let words = text(&requests, &[], 100);
        assert!(words.contains("connections: 2 of 9 took"), "{words}");
        assert!(
            words.contains("lock") && words.contains(&percent(0.75)),
            "{words}"
        );
        let usual = "An ordinary request took 400 µs: lock 50 %, running 50 %.";
        assert!(words.contains(usual), "{words}");
        let value = json(&requests, &[]);
        assert_eq!(value["ordinary"]["went"][0]["what"], "lock");
        assert_eq!(value["source"], "connections");
        assert!(words.contains("Seen in 60"), "{words}");
        assert_eq!(value["went"][0]["ns"], 300_000_000);
        assert_eq!(value["slow"][1]["went"][0]["ns"], 10_000_000);
    }
}
