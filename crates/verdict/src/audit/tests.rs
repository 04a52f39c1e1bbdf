//! Each check on data with its fault, and on clean data, where all must stay silent.

use super::*;
use crate::short_runs::Dice;

/// Three arms of four processes, 60 snapshots every 10 minutes, all well.
pub(super) fn clean(seed: u64) -> AuditInput {
    let mut dice = Dice(seed);
    let snapshots_s: Vec<f64> = (0..60).map(|i| 600.0 * f64::from(i)).collect();
    let mut processes = Vec::new();
    for (a, arm) in ["jemalloc", "glibc", "mimalloc"].iter().enumerate() {
        for p in 0..4 {
            let level = 1e8 * (1.0 + 0.3 * a as f64);
            let series = |scale: f64, dice: &mut Dice| -> Vec<Point> {
                snapshots_s
                    .iter()
                    .map(|&t_s| Point {
                        t_s,
                        value: scale * (1.0 + 0.02 * dice.normal()),
                    })
                    .collect()
            };
            let counter = |rate: f64, dice: &mut Dice| -> Vec<Point> {
                let rate = rate * (1.0 + 0.03 * dice.normal());
                snapshots_s
                    .iter()
                    .map(|&t_s| Point {
                        t_s,
                        value: rate * (t_s + 300.0),
                    })
                    .collect()
            };
            let rss = series(level, &mut dice);
            let mut high: f64 = 0.0;
            let hwm = rss
                .iter()
                .map(|r| {
                    high = high.max(r.value);
                    Point {
                        t_s: r.t_s,
                        value: high,
                    }
                })
                .collect();
            processes.push(ProcessFacts {
                id: format!("{arm}/{p}"),
                arms: vec![(0.0, (*arm).to_owned())],
                allocators: vec![(0.0, format!("lib{arm}.so"))],
                starts_s: vec![-30.0],
                until_s: None,
                rss,
                hwm,
                cpu_s: counter(0.1 * (1.0 + 0.4 * a as f64), &mut dice),
                requests: counter(50.0, &mut dice),
                lazy_free: series(0.05 * level, &mut dice),
                huge_pages: series(0.1 * level, &mut dice),
            });
        }
    }
    let stated = vec![Stated {
        what: "mean of jemalloc".to_owned(),
        value: 100.0,
        unit: "MB".to_owned(),
        observed_bytes: 1e8,
    }];
    AuditInput {
        processes,
        snapshots_s,
        control: Some("glibc".to_owned()),
        stated,
    }
}

pub(super) fn checks(input: &AuditInput) -> Vec<Check> {
    audit(input).into_iter().map(|f| f.check).collect()
}

#[test]
fn clean_data_are_silent_with_and_without_each_fact() {
    for seed in 0..20 {
        assert_eq!(audit(&clean(seed)), [], "seed {seed}");
        let mut bare = clean(seed);
        for p in &mut bare.processes {
            p.starts_s.clear();
            p.requests.clear();
        }
        assert_eq!(audit(&bare), [], "seed {seed}, no starts, no requests");
        for p in &mut bare.processes {
            p.hwm.clear();
            p.cpu_s.clear();
        }
        assert_eq!(audit(&bare), [], "seed {seed}, RSS only");
    }
    assert_eq!(audit(&AuditInput::default()), []);
}

#[test]
fn processes_that_found_an_arm_together_are_its_members() {
    let mut input = clean(2);
    // Three of glibc's four are restarted as a new arm in the middle of the run.
    for p in &mut input.processes[4..7] {
        p.arms.push((18_000.0, "snmalloc".to_owned()));
        p.allocators.push((18_000.0, "libsnmalloc.so".to_owned()));
        p.starts_s.push(17_700.0);
    }
    let found = audit(&input);
    let moved: Vec<(&str, Severity)> = found
        .iter()
        .filter(|f| f.check == Check::Membership)
        .map(|f| (f.arms[0].as_str(), f.severity))
        .collect();
    assert_eq!(moved, [("glibc", Severity::Refuses)]);
    assert!(
        !found.iter().any(|f| f.check == Check::Allocators),
        "{found:?}"
    );
    let left = survivors(&input, &found);
    let young = left.iter().find(|s| s.arm == "snmalloc").unwrap();
    assert!(!young.refused && young.processes.len() == 3);
    assert!(young.processes.iter().all(|s| s.points[0].t_s >= 18_000.0));
    assert!((equal_uptime_s(&input).unwrap() - 17_700.0).abs() < 1.0);
}

#[test]
fn a_move_without_a_restart_founds_nothing() {
    let mut input = clean(3);
    for p in &mut input.processes[4..7] {
        p.arms.push((18_000.0, "snmalloc".to_owned()));
    }
    let found = audit(&input);
    assert!(
        found
            .iter()
            .any(|f| f.arms == ["snmalloc"] && f.severity == Severity::Refuses)
    );
    let left = survivors(&input, &found);
    assert!(
        left.iter()
            .find(|s| s.arm == "snmalloc")
            .unwrap()
            .processes
            .is_empty()
    );
}

#[test]
fn a_process_that_changes_arms_refuses_both() {
    let mut input = clean(1);
    input.processes[4]
        .arms
        .push((12_000.0, "jemalloc".to_owned()));
    let found = audit(&input);
    let refused: Vec<&str> = found
        .iter()
        .filter(|f| f.check == Check::Membership && f.severity == Severity::Refuses)
        .flat_map(|f| f.arms.iter().map(String::as_str))
        .collect();
    assert_eq!(refused, ["glibc", "jemalloc"]);
    assert_eq!(found[0].since_s, Some(12_000.0));
    let left = survivors(&input, &found);
    let of = |arm: &str| left.iter().find(|s| s.arm == arm).unwrap();
    assert!(of("glibc").refused && of("glibc").processes.len() == 3);
    assert_eq!(of("jemalloc").processes.len(), 4);
    assert!(!of("mimalloc").refused);
}

#[test]
fn two_allocators_in_an_arm_and_processes_without_an_arm() {
    let mut input = clean(2);
    input.processes[5].allocators[0].1 = "libc.so.6".to_owned();
    input.processes[0].arms.clear();
    let found = audit(&input);
    assert_eq!(
        found.iter().map(|f| f.check).collect::<Vec<_>>(),
        [Check::Allocators, Check::Unassigned]
    );
    assert_eq!(found[0].processes, ["glibc/1"]);
}

#[test]
fn restarts_are_known_or_inferred_and_ages_become_unequal() {
    let restart = |p: &mut ProcessFacts| {
        for series in [&mut p.rss, &mut p.hwm] {
            for r in series.iter_mut().filter(|r| r.t_s >= 24_000.0) {
                r.value *= 0.4;
            }
        }
    };
    let mut known = clean(3);
    known.processes[..4]
        .iter_mut()
        .for_each(|p| p.starts_s.push(24_000.0));
    let mut marks = clean(3);
    marks.processes[..4].iter_mut().for_each(|p| {
        p.starts_s.clear();
        restart(p);
    });
    let mut falls = marks.clone();
    falls.processes.iter_mut().for_each(|p| p.hwm.clear());
    for (input, how) in [
        (known, "start times"),
        (marks, "high-water"),
        (falls, "resident sets"),
    ] {
        let found = audit(&input);
        let kinds: Vec<Check> = found.iter().map(|f| f.check).collect();
        assert_eq!(kinds, [Check::Restarted, Check::Uptimes], "{how}");
        assert!(found[0].what.contains(how), "{}", found[0].what);
        assert_eq!(
            (found[0].processes.len(), found[0].since_s),
            (4, Some(24_000.0))
        );
        assert_eq!(found[1].arms, ["jemalloc"]);
        // The start times say that all began half a minute before the first snapshot.
        let equal_s = equal_uptime_s(&input).unwrap();
        assert!([24_000.0, 24_030.0].contains(&equal_s), "{how}: {equal_s}");
    }
}

/// Two relays of one name: their readings come in turns, and neither was restarted until one was.
#[test]
fn two_processes_under_one_name_are_restarted_when_one_of_them_is() {
    let mut input = clean(4);
    let twin = |series: &mut Vec<Point>| {
        let both = series.iter().flat_map(|r| {
            let other = Point {
                value: 0.6 * r.value,
                ..*r
            };
            [*r, other]
        });
        *series = both.collect();
    };
    let p = &mut input.processes[0];
    p.starts_s.clear();
    twin(&mut p.rss);
    twin(&mut p.hwm);
    assert_eq!(audit(&input), []);
    let p = &mut input.processes[0];
    let at = p.hwm[p.hwm.len() / 2].t_s;
    for series in [&mut p.rss, &mut p.hwm] {
        let later = series.iter_mut().filter(|r| r.t_s >= at);
        later.step_by(2).for_each(|r| r.value *= 0.3);
    }
    let found = audit(&input);
    assert_eq!(found[0].check, Check::Restarted, "{found:?}");
    assert!(found[0].what.contains("once"), "{}", found[0].what);
}

/// Warm from 70 % of its level on, without marks or starts: a fall back to where the record began is a restart, one to
/// another level is not, and neither are teeth.
#[test]
fn a_restart_that_comes_back_high_is_found_by_where_it_comes_back_to() {
    let with = |value: &dyn Fn(f64) -> f64| {
        let mut input = clean(5);
        let p = &mut input.processes[0];
        (p.starts_s, p.hwm) = (Vec::new(), Vec::new());
        for r in &mut p.rss {
            r.value *= value(r.t_s);
        }
        audit(&input)
    };
    let warm = |age: f64| 1.0 - 0.3 * (-age / 4000.0).exp();
    let found = with(&|t| warm(if t < 20_000.0 { t } else { t - 20_000.0 }));
    let kinds: Vec<Check> = found.iter().map(|f| f.check).collect();
    assert!(kinds.contains(&Check::Restarted), "{found:?}");
    let trimmed = with(&|t| {
        if t < 20_000.0 {
            1.0
        } else {
            warm(t - 20_000.0)
        }
    });
    assert_eq!(trimmed, []);
    assert_eq!(with(&|t| 0.7 + 0.3 * (t / 9000.0).fract()), []);
}

#[test]
fn an_arm_that_was_ended_early_is_not_called_younger() {
    let mut input = clean(9);
    for p in input.processes.iter_mut().take(4) {
        p.until_s = Some(600.0 * 20.0);
        for readings in [
            &mut p.rss,
            &mut p.hwm,
            &mut p.cpu_s,
            &mut p.requests,
            &mut p.lazy_free,
            &mut p.huge_pages,
        ] {
            readings.truncate(21);
        }
    }
    let found = audit(&input);
    let stopped: Vec<&Finding> = found.iter().filter(|f| f.check == Check::Stopped).collect();
    assert_eq!(stopped.len(), 1, "{found:?}");
    assert_eq!(stopped[0].arms, ["jemalloc"]);
    assert_eq!(stopped[0].since_s, Some(12_000.0));
    assert!(found.iter().all(|f| f.check != Check::Uptimes), "{found:?}");
}

#[test]
fn late_comers_are_found() {
    let mut input = clean(4);
    for p in &mut input.processes[8..] {
        p.starts_s = vec![18_000.0];
        for series in [&mut p.rss, &mut p.hwm, &mut p.cpu_s, &mut p.requests] {
            series.retain(|r| r.t_s >= 18_000.0);
        }
    }
    let kinds = checks(&input);
    assert!(
        kinds.contains(&Check::Added) && kinds.contains(&Check::Uptimes),
        "{kinds:?}"
    );
    assert!(
        !kinds.contains(&Check::MissingSnapshots) && !kinds.contains(&Check::Restarted),
        "{kinds:?}"
    );
}

#[test]
fn unequal_load_holes_and_a_hung_process() {
    let mut input = clean(5);
    for p in &mut input.processes[..4] {
        p.requests.iter_mut().for_each(|r| r.value *= 1.4);
    }
    assert_eq!(checks(&input), [Check::Load]);
    let mut input = clean(6);
    let inside = |t: f64| (9_000.0..15_000.0).contains(&t);
    input.snapshots_s.retain(|t| !inside(*t));
    for p in &mut input.processes {
        for series in [&mut p.rss, &mut p.hwm, &mut p.cpu_s, &mut p.requests] {
            series.retain(|r| !inside(r.t_s));
        }
    }
    assert_eq!(checks(&input), [Check::MissingSnapshots]);
    let mut input = clean(7);
    let stop = input.processes[3].cpu_s[40].value;
    input.processes[3]
        .cpu_s
        .iter_mut()
        .skip(40)
        .for_each(|r| r.value = stop);
    let found = audit(&input);
    assert_eq!(
        found.iter().map(|f| f.check).collect::<Vec<_>>(),
        [Check::Hung]
    );
    assert_eq!(
        (found[0].since_s, found[0].processes.len()),
        (Some(24_000.0), 1)
    );
}

#[test]
fn lazy_free_and_huge_pages_that_explain_a_difference() {
    let mut input = clean(8);
    for p in &mut input.processes[8..] {
        p.lazy_free.iter_mut().for_each(|r| r.value = 0.4 * 1.6e8);
    }
    let kinds = checks(&input);
    assert!(
        !kinds.is_empty() && kinds.iter().all(|k| *k == Check::LazyFree),
        "{kinds:?}"
    );
    let mut input = clean(8);
    let third: Vec<ProcessFacts> = input.processes[8..].to_vec();
    for mut p in third {
        p.id = format!("{}-again", p.id);
        p.arms[0].1 = "another".to_owned();
        input.processes.push(p);
    }
    for p in input.processes.iter_mut().filter(|p| p.arm() == "another") {
        p.rss.iter_mut().for_each(|r| r.value *= 1.5);
        p.lazy_free.iter_mut().for_each(|r| r.value = 0.4 * 2.4e8);
    }
    let found: Vec<Finding> = audit(&input)
        .into_iter()
        .filter(|f| f.check == Check::LazyFree)
        .collect();
    assert_eq!(
        found.len(),
        1,
        "one for the arm that has the pages: {found:#?}"
    );
    assert_eq!(
        (found[0].arms.len(), found[0].arms[0].as_str()),
        (4, "another")
    );
    assert!(
        found[0].what.contains("times what another has"),
        "{}",
        found[0].what
    );
    let mut input = clean(9);
    for p in &mut input.processes[8..] {
        p.huge_pages.iter_mut().for_each(|r| r.value = 0.5 * 1.6e8);
    }
    let kinds = checks(&input);
    assert!(
        !kinds.is_empty() && kinds.iter().all(|k| *k == Check::HugePages),
        "{kinds:?}"
    );
}

#[test]
fn units_said_and_meant_and_a_control_of_one() {
    let mut input = clean(10);
    input.stated[0].observed_bytes = 100.0 * 1_048_576.0;
    assert_eq!(checks(&input), [Check::Units]);
    let mut input = clean(11);
    input.processes[2]
        .rss
        .iter_mut()
        .for_each(|r| r.value /= 1024.0);
    input.processes[2].hwm.clear();
    assert_eq!(checks(&input), [Check::Units]);
    let mut input = clean(12);
    input
        .processes
        .retain(|p| p.arm() != "glibc" || p.id == "glibc/0");
    let found = audit(&input);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].what.contains("the control glibc is one process"),
        "{}",
        found[0].what
    );
}
