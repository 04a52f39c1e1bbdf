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
fn the_highest_since_the_last_look_is_no_high_water_mark() {
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
