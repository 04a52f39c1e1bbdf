//! What the exam of made experiments (bench/verdict/audit.py) showed: each fault, and what only looks like it.

use super::tests::{checks, clean};
use super::*;

/// Only the resident sets are known.
fn bare(seed: u64) -> AuditInput {
    let mut input = clean(seed);
    for p in &mut input.processes {
        *p = ProcessFacts {
            id: p.id.clone(),
            arms: p.arms.clone(),
            rss: p.rss.clone(),
            ..ProcessFacts::default()
        };
    }
    input.stated.clear();
    input
}

fn scale(p: &mut ProcessFacts, since: usize, times: f64) {
    p.rss.iter_mut().skip(since).for_each(|r| r.value *= times);
}

#[test]
fn a_unit_that_changes_midway_or_is_that_of_a_whole_arm() {
    for times in [1024.0, 1000.0, 1.0 / 1024.0] {
        let mut input = bare(20);
        scale(&mut input.processes[2], 30, times);
        let found = audit(&input);
        let units = found
            .iter()
            .find(|f| f.check == Check::Units)
            .expect("a finding");
        assert_eq!(units.processes, ["jemalloc/2"], "{times}");
        assert_eq!(
            (units.since_s, units.severity),
            (Some(18_000.0), Severity::Refuses)
        );
        let mut input = bare(21);
        input.processes[..4]
            .iter_mut()
            .for_each(|p| scale(p, 0, times));
        let found = audit(&input);
        assert_eq!(found.len(), 1, "{times}: {found:?}");
        assert_eq!(
            (found[0].check, found[0].arms.as_slice()),
            (Check::Units, &["jemalloc".to_owned()][..])
        );
    }
    let mut uneven = bare(22);
    let times = [0.05, 0.3, 1.0, 20.0];
    for (at, p) in uneven.processes.iter_mut().enumerate() {
        scale(p, 0, times[at % 4]);
    }
    assert_eq!(audit(&uneven), []);
}

#[test]
fn one_of_three_may_be_told_in_another_unit() {
    let mut input = bare(23);
    input.processes.retain(|p| !p.id.ends_with("/3"));
    assert_eq!(checks(&input), []);
    scale(&mut input.processes[2], 0, 1.0 / 1024.0);
    let found = audit(&input);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].check, found[0].processes.len()),
        (Check::Units, 1)
    );
}

/// As the kernel tells it: whole pages.
fn paged(seed: u64) -> AuditInput {
    let mut input = bare(seed);
    for r in input.processes.iter_mut().flat_map(|p| &mut p.rss) {
        r.value = (r.value / 4096.0).round() * 4096.0;
    }
    input
}

#[test]
fn an_arm_of_another_size_is_no_other_unit() {
    // What lies between units: 1000, 1024, 4096, 1000^2, 1024^2; and well beside them.
    for times in [
        7.0, 30.0, 114.0, 300.0, 600.0, 1700.0, 2400.0, 10_000.0, 200_000.0,
    ] {
        for input in [bare(30), paged(30)] {
            for times in [times, 1.0 / times] {
                let mut input = input.clone();
                input.processes[..4]
                    .iter_mut()
                    .for_each(|p| scale(p, 0, 1.45 * times));
                if times > 1.0 {
                    repaged(&mut input.processes[..4]);
                }
                assert_eq!(audit(&input), [], "{times}");
            }
        }
    }
    for times in [8.0, 300.0, 800.0, 1300.0] {
        let mut input = bare(31);
        scale(&mut input.processes[1], 0, times);
        assert_eq!(audit(&input), [], "one process {times}");
    }
}

fn repaged(processes: &mut [ProcessFacts]) {
    for r in processes.iter_mut().flat_map(|p| &mut p.rss) {
        r.value = (r.value / 4096.0).round() * 4096.0;
    }
}

#[test]
fn a_thousandfold_is_a_question_and_the_grain_an_answer() {
    let mut real = paged(32);
    real.processes[..4]
        .iter_mut()
        .for_each(|p| scale(p, 0, 1450.0));
    repaged(&mut real.processes[..4]);
    let found = audit(&real);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Weakens);
    assert!(
        found[0].what.ends_with("or really of that size?"),
        "{}",
        found[0].what
    );
    for times in [1000.0, 1024.0, 1.0 / 1024.0] {
        // The arm is four times as large besides.
        let mut told = paged(33);
        told.processes[..4]
            .iter_mut()
            .for_each(|p| scale(p, 0, 4.0));
        told.processes[..4]
            .iter_mut()
            .for_each(|p| scale(p, 0, times));
        let found = audit(&told);
        assert_eq!(found.len(), 1, "{times}: {found:?}");
        assert_eq!(
            (found[0].severity, found[0].arms.len()),
            (Severity::Refuses, 1),
            "{times}"
        );
    }
}

#[test]
fn coarse_readings_and_rest_are_no_hang() {
    let mut coarse = bare(23);
    for r in coarse.processes.iter_mut().flat_map(|p| &mut p.rss) {
        r.value = (r.value / 16e6).round() * 16e6;
    }
    assert_eq!(audit(&coarse), []);
    let mut rest = bare(24);
    for p in &mut rest.processes[..4] {
        let top = p.rss[30].value;
        p.rss.iter_mut().skip(30).for_each(|r| r.value = top);
    }
    assert_eq!(audit(&rest), []);
    let mut hung = bare(25);
    let stop = hung.processes[5].rss[30].value;
    hung.processes[5]
        .rss
        .iter_mut()
        .skip(30)
        .for_each(|r| r.value = stop);
    assert_eq!(checks(&hung), [Check::Hung]);
    assert_eq!(audit(&hung)[0].processes, ["glibc/1"]);
}

#[test]
fn an_arm_that_is_read_half_as_often_misses_nothing() {
    for every in [2, 4] {
        let mut input = bare(26);
        for p in &mut input.processes[..4] {
            let mut at = 0;
            p.rss.retain(|_| {
                at += 1;
                (at - 1) % every == 0
            });
        }
        assert_eq!(audit(&input), [], "every {every}");
        let mut at = 0;
        input.processes[6].rss.retain(|_| {
            at += 1;
            at % 7 > 3
        });
        assert_eq!(audit(&input)[0].processes, ["glibc/2"]);
    }
}

#[test]
fn the_highest_since_the_last_snapshot_is_no_high_water_mark() {
    let mut input = bare(27);
    for p in &mut input.processes {
        let mark = |(i, r): (usize, &Point)| Point {
            value: r.value * (1.0 + 0.02 * ((i * 7) % 5) as f64),
            ..*r
        };
        p.hwm = p.rss.iter().enumerate().map(mark).collect();
    }
    assert_eq!(audit(&input), []);
}

#[test]
fn arms_that_were_never_watched_at_one_age_are_not_said_to_be_compared_at_one() {
    let mut input = bare(28);
    for (at, p) in input.processes.iter_mut().enumerate() {
        p.starts_s = vec![if at < 4 { -400_000.0 } else { -60.0 }];
    }
    let found = audit(&input);
    assert_eq!(checks(&input), [Check::Uptimes]);
    assert_eq!(found[0].arms, ["glibc", "mimalloc"]);
    assert!(found[0].still.contains("no age"), "{}", found[0].still);
    assert_eq!(equal_uptime_s(&input), None);
    // Old processes that are restarted in time are watched at the age of the young.
    for p in &mut input.processes[..4] {
        p.starts_s.push(12_000.0);
    }
    let equal_s = equal_uptime_s(&input).expect("an age");
    assert_eq!(equal_s, 23_400.0);
    let left = survivors_at(&input, &audit(&input), equal_s);
    let old = &left[1].processes[0];
    assert_eq!(
        (left[1].arm.as_str(), old.points[0].t_s),
        ("jemalloc", 12_000.0)
    );
    assert!(old.restarts_s.is_empty());
}

#[test]
fn another_interval_is_no_row_of_holes() {
    let mut input = bare(29);
    let keep = |t_s: &f64| *t_s < 18_000.0 || ((*t_s / 600.0) as u32).is_multiple_of(4);
    input.snapshots_s.retain(keep);
    for p in &mut input.processes {
        p.rss.retain(|r| keep(&r.t_s));
    }
    assert_eq!(audit(&input), []);
    input
        .snapshots_s
        .retain(|t_s| !(3_000.0..9_000.0).contains(t_s));
    for p in &mut input.processes {
        p.rss.retain(|r| !(3_000.0..9_000.0).contains(&r.t_s));
    }
    let found = audit(&input);
    assert_eq!(checks(&input), [Check::MissingSnapshots]);
    assert_eq!(found[0].since_s, Some(2_400.0));
}

#[test]
fn one_library_by_the_names_that_it_has() {
    let mut input = bare(30);
    for (at, p) in input.processes.iter_mut().enumerate() {
        let prefix = ["/usr", ""][at % 2];
        let name = format!("{prefix}/lib/x86_64-linux-gnu/libx.so.2");
        p.allocators = vec![(0.0, name.clone()), (12_000.0, format!("{name} (deleted)"))];
    }
    assert_eq!(audit(&input), []);
    input.processes[1].allocators[1].1 = "/usr/lib/x86_64-linux-gnu/liby.so".to_owned();
    let found = audit(&input);
    assert_eq!(checks(&input), [Check::Allocators]);
    assert_eq!(found[0].since_s, Some(12_000.0));
    assert_eq!(found[0].processes, ["jemalloc/1"]);
}
