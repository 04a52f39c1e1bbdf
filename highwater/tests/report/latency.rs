//! Latency over time, percentiles and pauses, from the histograms of a record.

use std::time::Duration;

use observe::snapshot::Role;
use report::charts::latency::{lines, pause_words};
use series::latency::over_time::{class_of, over_time};
use series::latency::pauses::arm_pauses;

use crate::synthetic::{PERIOD_S, pausing};

#[test]
fn columns_and_quantiles_hold_every_request_once() {
    let run = pausing();
    let over = over_time(&run, "mimalloc", 60);
    let loads = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Load && p.arm == "mimalloc");
    let rows = loads
        .flat_map(|p| &p.histograms)
        .filter(|row| row.metric == "latency");
    // Each row holds 400 requests and four for each pause in it; a pause's own row holds none.
    let pauses = arm_pauses(&run, "mimalloc", Duration::ZERO)
        .expect("requests")
        .count as u64;
    let requests = 400 * rows.count() as u64 + 4 * pauses;
    assert_eq!(over.requests, requests);
    assert_eq!(
        over.columns.iter().flat_map(|c| c.values()).sum::<u64>(),
        requests
    );
    assert_eq!(
        over.points.iter().map(|p| p.latency.requests).sum::<u64>(),
        requests - 4 * pauses
    );
    assert_eq!(over.columns.len(), 120);
    let slow: u64 = over
        .columns
        .iter()
        .flatten()
        .filter(|(c, _)| **c >= class_of(1_000_000))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(slow, 4 * pauses, "the pauses' requests are those over 1 ms");
}

#[test]
fn quantiles_rise_to_the_longest_and_have_the_nines() {
    let run = pausing();
    let quantiles = over_time(&run, "jemalloc", 60).quantiles;
    assert_eq!(quantiles[0].0, 0.5);
    assert!(
        quantiles
            .windows(2)
            .all(|w| w[0].0 > w[1].0 && w[0].1 <= w[1].1),
        "{quantiles:?}"
    );
    let last = quantiles.last().expect("some");
    assert!(last.0 == 0.0 && last.1 > 5_900_000, "{last:?}");
    assert!(quantiles.iter().any(|q| q.0 == 0.001));
    assert!(
        quantiles
            .iter()
            .all(|q| q.0 != 1e-5 || q.0 * 236_000.0 >= 1.0)
    );
}

#[test]
fn the_period_of_a_pause_is_found_and_chance_has_none() {
    let run = pausing();
    let found = arm_pauses(&run, "mimalloc", Duration::from_secs(30)).expect("requests");
    let rhythm = found.rhythm.expect("a period");
    assert!(
        (rhythm.period_s / PERIOD_S - 1.0).abs() < 0.05,
        "{rhythm:?}"
    );
    assert!(
        (found.rhythm_length_s / 0.006 - 1.0).abs() < 0.05,
        "{found:?}"
    );
    assert!((found.per_minute - 5.0).abs() < 0.5 && found.is_exact);
    let random = arm_pauses(&run, "jemalloc", Duration::ZERO).expect("requests");
    assert!(random.count > 20 && random.rhythm.is_none(), "{random:?}");
    let none = arm_pauses(&run, "snmalloc", Duration::ZERO).expect("requests");
    assert_eq!((none.count, none.rhythm), (0, None));
    let words = pause_words(&none);
    assert!(
        words.starts_with("No pause in 4 min") && words.contains("is excluded"),
        "{words}"
    );
}

#[test]
fn a_pause_within_another_is_part_of_it() {
    let mut run = pausing();
    let alone = arm_pauses(&run, "mimalloc", Duration::ZERO).expect("requests");
    for process in &mut run.processes {
        let pauses = process
            .histograms
            .iter()
            .filter(|row| row.metric == "pause");
        let within: Vec<_> = pauses.cloned().collect();
        for mut row in within {
            let tenth = (row.end.0 - row.start.0) / 10;
            row.end.0 = row.start.0 + 2 * tenth;
            row.start.0 += tenth;
            process.histograms.push(row);
        }
    }
    let found = arm_pauses(&run, "mimalloc", Duration::ZERO).expect("requests");
    assert!(alone.is_exact && alone.count > 10);
    assert_eq!(found, alone);
}

#[test]
fn a_load_that_prints_no_pauses_is_judged_by_its_intervals() {
    let mut run = pausing();
    for process in &mut run.processes {
        process.histograms.retain(|row| row.metric == "latency");
    }
    let found = arm_pauses(&run, "mimalloc", Duration::ZERO).expect("requests");
    let rhythm = found.rhythm.expect("a period");
    assert!(
        !found.is_exact && (rhythm.period_s - PERIOD_S).abs() <= 1.0,
        "{found:?}"
    );
    assert!(
        pause_words(&found).contains("recorded intervals"),
        "{}",
        pause_words(&found)
    );
    // An arm that is slow all the time has no period, whatever its intervals are.
    for process in &mut run.processes {
        let Some(slow) = process
            .histograms
            .iter()
            .max_by_key(|row| row.histogram.len())
            .cloned()
        else {
            continue;
        };
        for row in &mut process.histograms {
            row.histogram.clone_from(&slow.histogram);
        }
    }
    let slow = arm_pauses(&run, "mimalloc", Duration::ZERO).expect("requests");
    assert!(
        slow.count == slow.intervals && slow.rhythm.is_none(),
        "{slow:?}"
    );
}

#[test]
fn broken_histograms_and_absent_arms_are_no_latency() {
    let mut run = pausing();
    assert_eq!(arm_pauses(&run, "nobody", Duration::ZERO), None);
    for process in &mut run.processes {
        process
            .histograms
            .iter_mut()
            .for_each(|row| row.histogram.truncate(9));
    }
    assert!(lines(&run, &["mimalloc".to_string()]).is_empty());
    run.last = run.begun;
    assert_eq!(over_time(&run, "mimalloc", 60).requests, 0);
}
