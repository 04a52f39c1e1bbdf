//! A budget over made-up readings.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SHARE: f64 = 0.05;
const COST: Cost = Cost {
    hit_ns: 1_000.0,
    step_ns: 0.0,
    sample_ns: 10_000.0,
};

/// 400,000 a second, while all probes are on.
const HITS_ON: u64 = 400_000 / 100;

fn counted(hits: u64) -> Counted {
    Counted {
        hits,
        stepped: 0,
        samples: hits / 100,
        frees: 0,
    }
}

#[test]
fn what_stays_within_the_budget_goes_on() {
    let mut idle = Budget::new(COST, SHARE, 0.0);
    let mut busy = idle;
    for second in 1..=60u64 {
        idle.read(
            counted(second * 40_000),
            second as f64 * 0.1,
            SECOND,
            On::All,
        );
        busy.read(
            counted(second * 150_000),
            second as f64 * 4.0,
            SECOND,
            On::All,
        );
    }
    assert!(
        !idle.is_spent() && !busy.is_spent(),
        "4.4 % of a core; 4.3 % of its time"
    );
}

#[test]
fn what_does_not_is_on_for_as_long_as_the_budget_says() {
    let mut budget = Budget::new(COST, SHARE, 0.0);
    let (mut hits, mut all_s, mut on_s) = (0, 0.0, 0.0);
    while all_s < 60.0 {
        hits += HITS_ON;
        budget.read(counted(hits), 0.0, ON, On::All);
        let rest = if budget.is_spent() {
            budget.rest(1.0)
        } else {
            Duration::ZERO
        };
        budget.read(counted(hits), 0.0, rest, On::Frees);
        on_s += ON.as_secs_f64();
        all_s += (ON + rest).as_secs_f64();
    }
    let share = on_s * 0.44 / all_s;
    assert!((0.04..0.06).contains(&share), "{share} of a core");
}

/// A free costs 1.1 us here.
#[test]
fn frees_are_probed_in_between_as_long_as_they_leave_something() {
    let too_dear = |frees_per_second: u64| {
        let mut budget = Budget::new(COST, SHARE, 0.0);
        budget.read(counted(HITS_ON), 0.0, ON, On::All);
        budget.read(counted(HITS_ON + frees_per_second), 0.0, SECOND, On::Frees);
        budget.are_frees_too_dear()
    };
    assert!(!too_dear(30_000), "3.3 % of a core, of 5 %");
    assert!(
        too_dear(45_400),
        "4.99 %: the rest of the budget fills in half a minute"
    );
    assert!(too_dear(1_000_000));
}

/// A program that does nothing but free would stand still until it is known.
#[test]
fn frees_that_take_more_than_may_be_spent_at_once_are_too_dear_at_once() {
    let mut budget = Budget::new(COST, SHARE, 0.0);
    budget.read(counted(HITS_ON), 0.0, ON, On::All);
    budget.read(
        counted(4 * HITS_ON),
        0.0,
        Duration::from_millis(20),
        On::Frees,
    );
    assert!(budget.are_frees_too_dear());
}

#[test]
fn rests_differ_and_their_mean_is_one() {
    let parts: Vec<f64> = (1..=100).map(part).collect();
    let mean = parts.iter().sum::<f64>() / 100.0;
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
    let near = |of: f64| {
        parts
            .iter()
            .filter(|part| (*part - of).abs() < 0.05)
            .count()
    };
    assert!((6..=14).contains(&near(0.75)) && (6..=14).contains(&near(1.25)));
}

#[test]
fn a_budget_that_no_rest_restores_is_hopeless() {
    let after_a_turn = |share: f64| {
        let mut budget = Budget::new(COST, share, 0.0);
        budget.read(counted(2 * HITS_ON), 0.01, ON, On::All);
        budget.is_spent() && budget.is_hopeless()
    };
    assert!(after_a_turn(0.000_1));
    assert!(!after_a_turn(SHARE));
}

/// Slowed to a twentieth by traps that are believed to take four fifths of its time.
#[test]
fn frees_tell_how_fast_it_is() {
    let share_of = |frees_on: [u64; 2]| {
        let mut budget = Budget::new(COST, SHARE, 0.0);
        let (mut hits, mut cpu_s, mut frees) = (0, 0.0, 0);
        let mut read = |hits_each: u64, frees_each: u64, over: Duration, on: On| {
            (hits, frees) = (hits + hits_each, frees + frees_each);
            cpu_s += over.as_secs_f64();
            let counted = Counted {
                frees,
                ..counted(hits)
            };
            budget.read(counted, cpu_s, over, on);
        };
        for round in 0..20 {
            read(8_000 * 10 / 11, frees_on[round % 2], ON, On::All);
            read(0, 20_000, SECOND, On::Frees);
        }
        budget.speed_on()
    };
    assert!((share_of([11, 9]) - 0.05).abs() < 1e-6);
    assert!((share_of([0, 0]) - 0.2).abs() < 0.01, "by its own time");
    assert!((share_of([0, 1]) - 0.2).abs() < 0.15, "too few");
}

/// One that never pauses does a tenth of its work while a trap takes nine tenths of its time; one that waits for
/// requests does all of it.
#[test]
fn the_sampled_share_goes_by_the_work_that_was_done() {
    // `believed`: what the traps are said to take, of what they take.
    let sampled_share = |hits_each: u64, own_on: f64, own_off: f64, believed: f64| {
        let mut budget = Budget::new(COST, SHARE, 0.0);
        let (mut hits, mut cpu_s) = (0, 0.0);
        for _ in 0..10 {
            hits += hits_each;
            let spent_s = (COST.seconds(counted(hits)) - budget.all_s) / believed;
            cpu_s += spent_s + own_on * ON.as_secs_f64();
            budget.read(counted(hits), cpu_s, ON, On::All);
            cpu_s += own_off * SECOND.as_secs_f64();
            budget.read(counted(hits), cpu_s, SECOND, On::Frees);
        }
        budget.sampled_share(ON, SECOND, ON)
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-4;
    assert!(near(sampled_share(8_180, 0.1, 1.0, 1.0), 0.001 / 1.001));
    assert!(near(sampled_share(2_000, 0.02, 0.02, 1.0), 0.01 / 1.01));
    assert!(near(sampled_share(4_000, 0.02, 0.02, 1.7), 0.01 / 1.01));
}
