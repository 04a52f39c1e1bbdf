//! The fake subject from start to end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::file::{Arm, Restart, Revert, Stop, SubjectKind, SubjectPlan};

fn plan(curves: &[&str], replicas: u32) -> Experiment {
    let arm = |(number, curve): (usize, &&str)| Arm {
        name: format!("arm{number}"),
        allocator: "glibc".into(),
        environment: BTreeMap::new(),
        arguments: Vec::new(),
        command: None,
        curve: Some((*curve).to_owned()),
        prediction: None,
        levels: Vec::new(),
    };
    Experiment {
        name: "fake".into(),
        hypothesis: String::new(),
        why: String::new(),
        evidence: String::new(),
        control: "arm0".into(),
        adopt: None,
        subject: SubjectPlan {
            kind: SubjectKind::Fake,
            command: Vec::new(),
            directory: None,
            environment: BTreeMap::new(),
            ready: None,
            ready_timeout: Duration::from_secs(30),
            stop: Stop {
                signal: 15,
                grace: Duration::from_secs(5),
            },
            restart: Restart::Never,
            keep: false,
            ends: false,
            memory_limit: None,
            metrics: None,
            attach: Vec::new(),
            managed: false,
            remote: None,
        },
        backing: None,
        load: None,
        arms: curves.iter().enumerate().map(arm).collect(),
        replicas,
        duration: Duration::from_secs(100),
        interval: Duration::from_secs(1),
        warmup: Duration::ZERO,
        seed: 5,
        matters: 0.0,
        probe: false,
        stalls: false,
        verify: Vec::new(),
        guard: Vec::new(),
        revert: Revert::default(),
        base: PathBuf::from("/"),
    }
}

/// Polls once a second for `seconds`, then stops; everything that happened, as (second, arm, what).
fn run(plan: &Experiment, seconds: u64) -> Vec<(u64, String, What)> {
    let mut fake = Fake::new(plan, "r").unwrap();
    let mut happened = Vec::new();
    for second in 0..=seconds {
        happened.extend(fake.poll(Duration::from_secs(second)));
    }
    fake.stop_all("time is over");
    happened.extend(fake.poll(Duration::from_secs(seconds + 1)));
    assert!(fake.is_over());
    let short = |h: Happening| (h.at.as_secs(), h.who.arm, h.what);
    happened.into_iter().map(short).collect()
}

fn endings(happened: &[(u64, String, What)]) -> Vec<(u64, Ending)> {
    let ending = |(at, _, what): &(u64, String, What)| match what {
        What::Ended { ending, .. } => Some((*at, *ending)),
        _ => None,
    };
    happened.iter().filter_map(ending).collect()
}

#[test]
fn a_run_is_the_same_every_time() {
    let plan = plan(&["64MiB + noise 1%", "64MiB + 1MiB/s + crash at 20s"], 3);
    assert_eq!(run(&plan, 30), run(&plan, 30));
    let sample = |second| {
        let mut fake = Fake::new(&plan, "r").unwrap();
        fake.poll(Duration::ZERO);
        fake.sample("arm0", 2, Duration::from_secs(second))
    };
    assert_eq!(sample(7), sample(7));
    assert_ne!(sample(7), sample(8));
}

#[test]
fn every_process_starts_gets_ready_and_ends_once() {
    let happened = run(
        &plan(
            &["64MiB", "64MiB + ready after 5s", "64MiB + never ready"],
            2,
        ),
        10,
    );
    let count =
        |wanted: fn(&What) -> bool| happened.iter().filter(|(.., what)| wanted(what)).count();
    assert_eq!(count(|what| matches!(what, What::Started(_))), 6);
    assert_eq!(count(|what| matches!(what, What::Ready)), 4);
    assert_eq!(endings(&happened), [(11, Ending::Stopped); 6]);
    let late = happened
        .iter()
        .find(|(_, arm, what)| arm == "arm1" && *what == What::Ready)
        .unwrap();
    assert_eq!(late.0, 5);
}

#[test]
fn scripted_ends_come_at_their_time() {
    let cases = [
        ("64MiB + crash at 20s", (20, Ending::Crashed)),
        ("64MiB + exit at 20s", (20, Ending::Exited)),
        ("64MiB + 1MiB/s + oom at 84MiB", (20, Ending::OomKilled)),
    ];
    for (curve, expected) in cases {
        assert_eq!(endings(&run(&plan(&[curve], 1), 30)), [expected], "{curve}");
    }
    let mut limited = plan(&["64MiB + 1MiB/s"], 1);
    limited.subject.memory_limit = Some(84 << 20);
    assert_eq!(endings(&run(&limited, 30)), [(21, Ending::OomKilled)]);
}

#[test]
fn a_restarted_process_begins_its_curve_anew() {
    let mut plan = plan(&["10MiB + 1MiB/s + crash at 20s"], 1);
    plan.subject.restart = Restart::OnFailure;
    let mut fake = Fake::new(&plan, "r").unwrap();
    let mut happened = Vec::new();
    for second in 0..=25 {
        happened.extend(fake.poll(Duration::from_secs(second)));
    }
    let starts: Vec<_> = happened
        .iter()
        .filter(|h| matches!(h.what, What::Started(_)))
        .collect();
    assert_eq!(
        starts
            .iter()
            .map(|h| (h.at.as_secs(), h.who.incarnation))
            .collect::<Vec<_>>(),
        [(0, 0), (21, 1)]
    );
    let mib = |second| {
        fake.sample("arm0", 0, Duration::from_secs(second))
            .map(|r| r.rss_bytes >> 20)
    };
    assert_eq!(mib(25), Some(14));
}

#[test]
fn a_stopped_arm_is_read_no_more_while_the_others_are() {
    let mut fake = Fake::new(&plan(&["64MiB", "64MiB + latency 1ms"], 1), "r").unwrap();
    let observer = fake.clone();
    fake.poll(Duration::ZERO);
    fake.stop_arm("arm0", "a guard");
    fake.poll(Duration::from_secs(1));
    let at = Duration::from_secs(2);
    assert_eq!(observer.sample("arm0", 0, at), None);
    assert!(observer.sample("arm1", 0, at).is_some());
    assert_eq!(
        observer.latencies_ns("arm1", 0, Duration::ZERO, at).len(),
        200
    );
    assert!(fake.values("arm1", 0).unwrap().pid.unwrap() < 0);
    assert_eq!(fake.values("arm0", 0).unwrap().pid, None);
    assert!(!fake.is_over());
}

#[test]
fn an_unreadable_curve_names_its_arm() {
    let why = Fake::new(&plan(&["64MiB", "grow fast"], 1), "r").unwrap_err();
    assert!(why.contains("arm1") && why.contains("grow fast"), "{why}");
}
