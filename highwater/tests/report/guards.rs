//! Guard rails, snapshot by snapshot.

use std::time::Duration;

use experiment::file::{Check, Condition};
use hdrhistogram::Histogram;
use observe::snapshot::{Expected, Fact, HistogramRow, ProcessId, Role, Sample, Snapshot, Target};
use verdict::check::guard::Guards;
use verdict::check::{CheckOutcome, fact};

use crate::synthetic::{at, check, encode, relay};

const OLD: Duration = Duration::from_secs(3_600);

fn guards(checks: Vec<Check>) -> Guards {
    let mut experiment = relay().experiment();
    experiment.guard = checks;
    Guards::new(&experiment)
}

fn target(id: i64, arm: &str, role: Role) -> Target {
    Target {
        process: ProcessId(id),
        pid: 1,
        start_ticks: 1,
        arm: arm.to_string(),
        replica: id as u32,
        role,
        metrics_url: None,
        load_lines: None,
        cgroup: None,
        expected_allocator: Expected::Any,
    }
}

fn targets() -> Vec<Target> {
    vec![
        target(1, "a", Role::Subject),
        target(2, "b", Role::Subject),
        target(3, "a", Role::Load),
    ]
}

fn evaluate(t_s: f64, samples: &[(i64, &str, f64)]) -> Snapshot {
    let sample = |(id, metric, value): &(i64, &str, f64)| Sample {
        process: ProcessId(*id),
        metric: metric.to_string(),
        value: *value,
    };
    Snapshot {
        samples: samples.iter().map(sample).collect(),
        ..Snapshot::at(at(t_s))
    }
}

fn histogram(t_s: f64, count: u64, ms: u64) -> HistogramRow {
    let mut histogram = Histogram::<u64>::new(3).expect("3 digits");
    histogram
        .record_n(ms * 1_000_000, count)
        .expect("auto-resizing");
    HistogramRow {
        process: ProcessId(3),
        start: at(t_s - 1.0),
        end: at(t_s),
        metric: "latency".into(),
        requests: count,
        errors: 0,
        dropped: 0,
        histogram: encode(&histogram),
    }
}

fn of(outcomes: &[CheckOutcome]) -> Vec<(&str, &str)> {
    outcomes
        .iter()
        .map(|o| (o.arm.as_str(), o.observed.as_str()))
        .collect()
}

#[test]
fn a_guard_names_the_arm_that_breaks_it_and_fires_once() {
    let mut guards = guards(vec![check(Condition::RssMax { bytes: 1 << 20 })]);
    let small = evaluate(1.0, &[(1, "rss_bytes", 1e6), (2, "rss_bytes", 1e6)]);
    assert!(guards.evaluate(&small, &targets(), &|_| OLD).is_empty());
    let large = evaluate(
        2.0,
        &[
            (1, "rss_bytes", 1e6),
            (2, "rss_bytes", 2.0 * 1024.0 * 1024.0),
        ],
    );
    let broken = guards.evaluate(&large, &targets(), &|_| OLD);
    assert_eq!(of(&broken), [("b", "2.00 MiB (process b/2)")]);
    assert_eq!(broken[0].passed, Some(false));
    assert!(
        guards.evaluate(&large, &targets(), &|_| OLD).is_empty(),
        "it fires once"
    );
}

#[test]
fn a_guard_waits_for_its_after_and_keeps_to_its_arms() {
    let condition = Condition::RssMax { bytes: 1 };
    let late = Check {
        after: Duration::from_secs(10),
        ..check(condition.clone())
    };
    let other = Check {
        arms: vec!["b".into()],
        ..check(condition)
    };
    let mut guards = guards(vec![late, other]);
    let snapshot = evaluate(1.0, &[(1, "rss_bytes", 5.0)]);
    assert!(
        guards
            .evaluate(&snapshot, &targets(), &|_| Duration::from_secs(9))
            .is_empty()
    );
    let broken = guards.evaluate(&snapshot, &targets(), &|_| Duration::from_secs(10));
    assert_eq!(of(&broken), [("a", "5 B (process a/1)")]);
}

#[test]
fn restarts_before_its_after_do_not_count() {
    let after = Duration::from_secs(10);
    let mut guards = guards(vec![Check {
        after,
        ..check(Condition::RestartsMax {
            count: 1,
            within: None,
        })
    }]);
    let mut restarts =
        |at_s: u64| guards.restarted("a", 1, at(at_s as f64), Duration::from_secs(at_s));
    assert_eq!(restarts(5), []);
    assert_eq!(restarts(20), [], "one since then");
    assert_eq!(of(&restarts(30)).len(), 1);
}

#[test]
fn p99_needs_enough_requests_of_the_last_minute() {
    let mut guards = guards(vec![check(Condition::P99Max {
        limit: Duration::from_millis(10),
    })]);
    let with = |t_s, count, ms| Snapshot {
        histograms: vec![histogram(t_s, count, ms)],
        ..evaluate(t_s, &[])
    };
    assert!(
        guards
            .evaluate(&with(1.0, 50, 80), &targets(), &|_| OLD)
            .is_empty(),
        "50 requests are too few"
    );
    // A minute later the slow ones are forgotten.
    assert!(
        guards
            .evaluate(&with(100.0, 500, 1), &targets(), &|_| OLD)
            .is_empty()
    );
    let broken = guards.evaluate(&with(101.0, 90, 80), &targets(), &|_| OLD);
    assert_eq!(broken.len(), 1);
    assert!(
        broken[0].observed.starts_with("p99 80"),
        "{}",
        broken[0].observed
    );
}

#[test]
fn pauses_are_counted_over_the_last_minute() {
    let mut guards = guards(vec![check(Condition::PausesPerMinuteMax { max: 2.0 })]);
    let mut fired = Vec::new();
    for t_s in [10.0, 80.0, 90.0, 95.0] {
        let snapshot = Snapshot {
            histograms: vec![histogram(t_s, 1, 5)],
            ..evaluate(t_s, &[])
        };
        fired.push(guards.evaluate(&snapshot, &targets(), &|_| OLD).len());
    }
    assert_eq!(
        fired,
        [0, 0, 0, 1],
        "three within a minute, the first one long ago"
    );
}

#[test]
fn metrics_and_the_runners_own_attempts_are_guarded_too() {
    let http = Condition::Http {
        url: "http://x".into(),
        status: 200,
    };
    let metric = Condition::Metric {
        name: "drops_total".into(),
        min: None,
        max: Some(3.0),
    };
    let mut guards = guards(vec![check(http.clone()), check(metric)]);
    let mut bad = evaluate(1.0, &[(2, "openmetrics:drops_total{host=\"a\"}", 4.0)]);
    let key = fact::key(&http).expect("tried by the runner");
    let attempt = |value: String| Fact {
        process: ProcessId(1),
        key: key.clone(),
        value,
    };
    bad.facts = vec![
        attempt(fact::value(true, "HTTP 200")),
        attempt(fact::value(false, "HTTP 500")),
    ];
    let broken = guards.evaluate(&bad, &targets(), &|_| OLD);
    assert_eq!(
        of(&broken),
        [("a", "HTTP 500 (process a/1)"), ("b", "4 (process b/2)")]
    );
}
