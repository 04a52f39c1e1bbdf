//! The judgement on fleets whose snapshots are made up.

use super::*;
use crate::samples::Sample;

const MIB: f64 = 1_048_576.0;

/// Twenty instances that were predicted to take 50 MiB each, 950 to 1050 MiB together.
fn predicted() -> Prediction {
    Prediction {
        label: Label::Flat,
        mean_bytes: 50.0 * MIB,
        spread_bytes: MIB,
        processes: 6,
        age_s: 600.0,
        instances: 20,
        total: Estimate {
            value: 1000.0 * MIB,
            lo: 950.0 * MIB,
            hi: 1050.0 * MIB,
        },
    }
}

fn snapshot(at_s: f64, each_bytes: f64) -> Snapshot {
    let sample = |n: usize| Sample {
        unit: format!("tor@{n}.service"),
        pid: 100 + n as i32,
        start_ticks: 5,
        rss_bytes: Some((each_bytes * (1.0 + 0.002 * ((n as f64 + at_s) % 5.0))) as u64),
        runs_arm: Some(true),
    };
    Snapshot {
        at_s,
        instances: (0..20).map(sample).collect(),
    }
}

/// `n` snapshots over `seconds`, each instance as `bytes` says at that time.
fn snapshots(n: usize, seconds: f64, bytes: impl Fn(f64) -> f64) -> Vec<Snapshot> {
    let at = |i: usize| 1000.0 + seconds * i as f64 / (n - 1).max(1) as f64;
    (0..n)
        .map(|i| snapshot(at(i), bytes(at(i) - 1000.0)))
        .collect()
}

fn word(snapshots: &[Snapshot]) -> Word {
    stand(Some(&predicted()), snapshots, 1000.0).word
}

#[test]
fn a_fleet_at_its_predicted_level_is_holding() {
    assert_eq!(word(&snapshots(40, 1200.0, |_| 50.0 * MIB)), Word::Holding);
    let below = stand(
        Some(&predicted()),
        &snapshots(40, 1200.0, |_| 30.0 * MIB),
        1000.0,
    );
    assert_eq!(
        (below.word, below.why.as_str()),
        (Word::Holding, "below the predicted interval")
    );
    let total = below.total.expect("a level");
    assert!(
        (total.value / (20.0 * 30.12 * MIB) - 1.0).abs() < 0.01,
        "{total:?}"
    );
}

#[test]
fn early_is_said_with_what_would_decide() {
    let few = stand(
        Some(&predicted()),
        &snapshots(3, 1200.0, |_| 50.0 * MIB),
        1000.0,
    );
    assert_eq!(few.word, Word::TooEarly);
    assert_eq!(
        few.needs.as_deref(),
        Some("5 more samples (`highwater adopt --status`)")
    );
    let young = stand(
        Some(&predicted()),
        &snapshots(20, 60.0, |_| 50.0 * MIB),
        1000.0,
    );
    assert_eq!(young.word, Word::TooEarly);
    let missing = format!("{} more", units::written::seconds(240.0));
    assert_eq!(young.needs, Some(missing));
    let none = stand(Some(&predicted()), &[], 1000.0);
    assert_eq!((none.word, none.snapshots), (Word::TooEarly, 0));
    assert_eq!(
        stand(None, &snapshots(40, 1200.0, |_| 50.0 * MIB), 1000.0).word,
        Word::TooEarly
    );
}

#[test]
fn too_much_memory_is_a_regression_even_when_it_is_early() {
    assert_eq!(word(&snapshots(3, 10.0, |_| 60.0 * MIB)), Word::Regressed);
    assert_eq!(word(&snapshots(2, 10.0, |_| 60.0 * MIB)), Word::TooEarly);
    // A single high snapshot among good ones is none.
    let mut one = snapshots(40, 1200.0, |_| 50.0 * MIB);
    one.last_mut().unwrap().instances[0].rss_bytes = Some(900 << 20);
    assert_eq!(word(&one), Word::Holding);
}

#[test]
fn growth_that_the_run_did_not_have_is_a_regression() {
    let grown = stand(
        Some(&predicted()),
        &snapshots(60, 3600.0, |t| (40.0 + t / 400.0) * MIB),
        1000.0,
    );
    assert_eq!(
        (grown.word, grown.why.as_str()),
        (Word::Regressed, "it grows, and in the run it was flat")
    );
}

#[test]
fn an_instance_that_runs_something_else_is_named() {
    let mut all = snapshots(40, 1200.0, |_| 50.0 * MIB);
    all.last_mut().unwrap().instances[7].runs_arm = Some(false);
    let other = stand(Some(&predicted()), &all, 1000.0);
    assert_eq!(other.word, Word::Regressed);
    assert!(
        other.why.contains("1 of 20") && other.why.contains("tor@7.service"),
        "{}",
        other.why
    );
    all.last_mut().unwrap().instances[7].runs_arm = None;
    all.last_mut().unwrap().instances[7].pid = 0;
    all.last_mut().unwrap().instances[7].rss_bytes = None;
    let down = stand(Some(&predicted()), &all, 1000.0);
    assert_eq!(down.why, "not running: tor@7.service");
}

#[test]
fn snapshots_before_the_adoption_count_for_nothing() {
    let old = snapshots(10, 10.0, |_| 500.0 * MIB);
    assert_eq!(stand(Some(&predicted()), &old, 2000.0).snapshots, 0);
}
