//! Every kind of condition: passed, failed, and not to be told.

use std::time::Duration;

use experiment::file::{Check, Condition, Trend};
use record::run::Run;
use verdict::Label;
use verdict::check::{CheckOutcome, fact, judge_check, judge_checks};
use verdict::cost::arm_costs;

use crate::synthetic::judged::blank;
use crate::synthetic::{Plan, at, check, relay};

fn run() -> Run {
    let mut plan: Plan = relay();
    plan.arms.truncate(2);
    plan.duration_s = 60.0;
    plan.run()
}

fn judge(run: &Run, check: &Check) -> CheckOutcome {
    let costs = arm_costs(run, run.experiment.warmup);
    judge_check(
        check,
        "glibc",
        run,
        &blank("glibc", Label::Growing),
        &costs[0],
    )
}

fn after(condition: Condition, seconds: u64) -> Check {
    Check {
        after: Duration::from_secs(seconds),
        ..check(condition)
    }
}

/// A reading of a subject's own metric in the first process of the control.
fn with_metric(name: &str, readings: &[(f64, f64)]) -> Run {
    let mut run = run();
    let readings = readings
        .iter()
        .map(|(t_s, value)| (at(*t_s), *value))
        .collect();
    run.processes[0].samples.insert(name.to_string(), readings);
    run
}

/// The same with every request at half a millisecond.
fn quiet_run() -> Run {
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    let mut run = run();
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    histogram.record_n(500_000, 100).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&histogram, &mut bytes)
        .unwrap();
    let processes = run.processes.iter_mut();
    for row in processes.flat_map(|process| &mut process.histograms) {
        row.histogram = bytes.clone();
    }
    run
}

fn metric(name: &str, min: Option<f64>, max: Option<f64>) -> Condition {
    Condition::Metric {
        name: name.to_string(),
        min,
        max,
    }
}

#[test]
fn rss_max_counts_the_kernels_peak_unless_it_has_an_after() {
    let mut run = run();
    run.processes[0].samples.insert(
        "rss_peak_bytes".into(),
        vec![(at(1.0), (900_u64 << 20) as f64)],
    );
    let limit = Condition::RssMax { bytes: 800 << 20 };
    let failed = judge(&run, &check(limit.clone()));
    assert_eq!(failed.passed, Some(false));
    assert_eq!(failed.check, "rss_max 800 MiB");
    assert_eq!(failed.observed, "peak 900 MiB (process glibc/0)");
    let later = judge(&run, &after(limit.clone(), 10));
    assert_eq!(
        (later.passed, later.check.as_str()),
        (Some(true), "rss_max 800 MiB after 10 s")
    );
    let never = judge(&run, &after(limit, 3_600));
    assert_eq!(
        (never.passed, never.observed.as_str()),
        (None, "no reading of RSS after 1 h")
    );
}

#[test]
fn a_gauge_stays_within_its_bounds_from_the_warmup_on() {
    // The warm-up is 6 s: the first reading does not count.
    let run = with_metric(
        "openmetrics:queue",
        &[(1.0, 999.0), (20.0, 3.0), (30.0, 7.0)],
    );
    let good = judge(&run, &check(metric("queue", Some(1.0), Some(10.0))));
    assert_eq!(
        (good.passed, good.observed.as_str()),
        (Some(true), "between 3 and 7")
    );
    let high = judge(&run, &check(metric("queue", None, Some(5.0))));
    assert_eq!(high.passed, Some(false));
    assert_eq!(high.observed, "highest 7 (process glibc/0, at 30 s)");
    let low = judge(&run, &after(metric("queue", Some(5.0), None), 15));
    assert_eq!(low.observed, "lowest 3 (process glibc/0, at 20 s)");
    assert_eq!(low.check, "metric queue min 5 after 15 s");
}

#[test]
fn labels_narrow_a_metric_in_any_order_and_may_be_left_out() {
    let run = with_metric(
        "openmetrics:drops_total{host=\"a,b\",why=\"qu\\\"ote\"}",
        &[(20.0, 4.0)],
    );
    for name in [
        "drops_total",
        "drops_total{why=\"qu\\\"ote\"}",
        "drops_total{why=\"qu\\\"ote\", host=\"a,b\"}",
        "openmetrics:drops_total{host=\"a,b\"}",
    ] {
        let outcome = judge(&run, &check(metric(name, None, Some(3.0))));
        assert_eq!(outcome.passed, Some(false), "{name}: {}", outcome.observed);
    }
    let other = judge(
        &run,
        &check(metric("drops_total{host=\"c\"}", None, Some(3.0))),
    );
    assert_eq!(other.passed, None, "{}", other.observed);
}

#[test]
fn the_minimum_of_a_counter_is_asked_at_its_end() {
    let run = with_metric(
        "openmetrics:frames_total",
        &[(10.0, 0.0), (20.0, 50.0), (50.0, 500.0)],
    );
    assert_eq!(
        judge(&run, &check(metric("frames_total", Some(400.0), None))).passed,
        Some(true)
    );
    let few = judge(&run, &check(metric("frames_total", Some(600.0), None)));
    assert_eq!(few.observed, "lowest 500 (process glibc/0, at 50 s)");
}

#[test]
fn an_unknown_metric_is_open_and_names_the_nearest() {
    let run = with_metric("openmetrics:relay_frames_total", &[(20.0, 1.0)]);
    let outcome = judge(&run, &check(metric("relay_frame_total", Some(1.0), None)));
    assert_eq!(outcome.passed, None);
    assert_eq!(
        outcome.observed,
        "no reading of `relay_frame_total` after 6 s; recorded is `relay_frames_total`"
    );
}

#[test]
fn readings_that_are_no_numbers_break_every_bound() {
    let run = with_metric("openmetrics:x", &[(20.0, f64::NAN)]);
    assert_eq!(
        judge(&run, &check(metric("x", None, Some(5.0)))).passed,
        Some(false)
    );
}

#[test]
fn p99_and_pauses_come_from_the_merged_histograms() {
    let run = run();
    let p99 = |ms| {
        judge(
            &run,
            &check(Condition::P99Max {
                limit: Duration::from_millis(ms),
            }),
        )
    };
    assert_eq!(p99(100).passed, Some(true));
    assert_eq!(p99(1).passed, Some(false));
    assert!(p99(1).observed.starts_with("p99 5."), "{}", p99(1).observed);
    let pauses = judge(&run, &check(Condition::PausesPerMinuteMax { max: 1.0 }));
    assert_eq!(pauses.passed, Some(false));
    // Recorded every 5 s, each with a request above 1 ms.
    assert_eq!(pauses.observed, "12.0 pauses a minute and process");
    let quiet = judge(
        &quiet_run(),
        &check(Condition::PausesPerMinuteMax { max: 1.0 }),
    );
    assert_eq!(quiet.passed, Some(true));
    let words = "no pause in 50 s: one that comes less often than that is not excluded";
    assert_eq!(quiet.observed, words);
    let late = judge(
        &run,
        &after(
            Condition::P99Max {
                limit: Duration::from_millis(1),
            },
            3_600,
        ),
    );
    assert_eq!(late.passed, None);
}

#[test]
fn trend_takes_the_label_and_leaves_insufficient_open() {
    let run = run();
    let condition = Condition::Trend {
        any_of: vec![Trend::Flat, Trend::Sawtooth],
    };
    let cost = arm_costs(&run, Duration::ZERO).remove(0);
    let of = |label| {
        judge_check(
            &check(condition.clone()),
            "glibc",
            &run,
            &blank("glibc", label),
            &cost,
        )
    };
    assert_eq!(of(Label::Flat).passed, Some(true));
    assert_eq!(of(Label::Growing).passed, Some(false));
    assert_eq!(of(Label::Variable).passed, Some(false));
    assert_eq!(of(Label::Insufficient).passed, None);
    assert!(of(Label::Insufficient).observed.contains("20 more minutes"));
    assert_eq!(of(Label::Flat).check, "trend flat or sawtooth");
}

fn http() -> Condition {
    Condition::Http {
        url: "http://127.0.0.1:{port}/_health".into(),
        status: 200,
    }
}

fn with_facts(process: usize, facts: &[(f64, bool, &str)]) -> Run {
    let mut run = run();
    let key = fact::key(&http()).expect("http is tried by the runner");
    let facts = facts
        .iter()
        .map(|(t_s, passed, seen)| (at(*t_s), fact::value(*passed, seen)));
    run.processes[process].facts.insert(key, facts.collect());
    run
}

#[test]
fn what_the_runner_tried_is_looked_up() {
    assert_eq!(
        fact::key(&http()).as_deref(),
        Some("check:http 200 from http://127.0.0.1:{port}/_health")
    );
    assert_eq!(fact::key(&Condition::RssMax { bytes: 1 }), None);
    let untried = judge(&run(), &check(http()));
    assert_eq!(
        (untried.passed, untried.observed.as_str()),
        (None, "was never tried")
    );
    let run = with_facts(0, &[(10.0, false, "HTTP 503"), (50.0, true, "HTTP 200")]);
    assert_eq!(
        judge(&run, &check(http())).passed,
        Some(true),
        "without `after` the last attempt counts"
    );
    let from_5 = judge(&run, &after(http(), 5));
    assert_eq!(
        (from_5.passed, from_5.observed.as_str()),
        (Some(false), "HTTP 503 (process glibc/0)")
    );
    assert_eq!(judge(&run, &after(http(), 30)).passed, Some(true));
}

#[test]
fn one_replica_that_fails_fails_the_arm() {
    let run = with_facts(0, &[(50.0, false, "connection refused")]);
    let outcome = judge(&run, &check(http()));
    assert_eq!(
        (outcome.passed, outcome.observed.as_str()),
        (Some(false), "connection refused (process glibc/0)")
    );
}

#[test]
fn an_arm_of_which_nothing_was_started_is_open() {
    let mut run = run();
    run.processes.retain(|process| process.arm != "glibc");
    let outcome = judge(&run, &check(Condition::RssMax { bytes: 1 }));
    assert_eq!(
        (outcome.passed, outcome.observed.as_str()),
        (None, "no process of this arm was started")
    );
}

#[test]
fn a_check_is_asked_of_the_arms_it_names() {
    let mut run = run();
    let named = Check {
        arms: vec!["glibc-arena2".into()],
        ..check(Condition::RssMax { bytes: 1 })
    };
    run.experiment.verify = vec![check(Condition::RssMax { bytes: 1 << 40 }), named];
    let outcomes = judge_checks(&run, &[], &[]);
    let seen: Vec<(&str, Option<bool>)> = outcomes
        .iter()
        .map(|o| (o.arm.as_str(), o.passed))
        .collect();
    let expected = [
        ("glibc", Some(true)),
        ("glibc-arena2", Some(true)),
        ("glibc-arena2", Some(false)),
    ];
    assert_eq!(seen, expected);
}
