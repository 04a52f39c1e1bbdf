//! Tests of effects on made observations of known factors.

use super::*;
use testkit::Random;

/// All combinations of so many levels, each `repeats` times, with noise of this standard deviation.
fn observed(
    levels: &[usize],
    repeats: usize,
    noise: f64,
    seed: u64,
    value: impl Fn(&[usize]) -> f64,
) -> Vec<Observation> {
    let mut random = Random::new(seed);
    let cells: usize = levels.iter().product();
    let mut all = Vec::new();
    for cell in 0..cells {
        let mut rest = cell;
        let own: Vec<usize> = levels
            .iter()
            .map(|count| {
                let level = rest % count;
                rest /= count;
                level
            })
            .collect();
        for _ in 0..repeats {
            let value = value(&own) * (noise * random.normal()).exp();
            all.push(Observation {
                levels: own.clone(),
                value,
            });
        }
    }
    all
}

fn ratio(found: &Effects, factor: usize, level: usize) -> Estimate {
    let is_it = |one: &&Effect| (one.factor, one.level) == (factor, level);
    found.effects.iter().find(is_it).expect("an effect").ratio
}

#[test]
fn a_factor_that_matters_is_distinguished_from_one_that_does_not() {
    // The second level of the first factor doubles it, the third takes a quarter off; the second factor does nothing.
    let value = |levels: &[usize]| 100.0 * [1.0, 2.0, 0.75][levels[0]];
    let all = observed(&[3, 2], 3, 0.02, 1, value);
    let found = effects(&[3, 2], &all, 0.95).expect("effects");
    let (doubled, less, same) = (
        ratio(&found, 0, 1),
        ratio(&found, 0, 2),
        ratio(&found, 1, 1),
    );
    assert!(
        doubled.lo < 2.0 && 2.0 < doubled.hi && doubled.lo > 1.8,
        "{doubled:?}"
    );
    assert!(
        less.lo < 0.75 && 0.75 < less.hi && less.hi < 0.85,
        "{less:?}"
    );
    assert!(same.lo < 1.0 && 1.0 < same.hi, "{same:?}");
    assert!(
        found.shares[0] > 0.98 && found.shares[1] < 0.01,
        "{found:?}"
    );
    assert!(found.interactions.is_empty(), "{found:?}");
    assert_eq!(found.combinations, 6);
}

#[test]
fn two_that_only_act_together_are_found() {
    let value = |levels: &[usize]| if levels == [1, 1] { 50.0 } else { 100.0 };
    let all = observed(&[2, 2], 3, 0.02, 2, value);
    let found = effects(&[2, 2], &all, 0.95).expect("effects");
    let [only] = &found.interactions[..] else {
        panic!("{found:?}")
    };
    assert_eq!((only.first, only.second), ((0, 1), (1, 1)));
    assert!(only.ratio.lo < 0.5 && 0.5 < only.ratio.hi, "{only:?}");
    assert!(found.pair_shares[0].1 > 0.2, "{found:?}");
}

#[test]
fn intervals_hold_as_often_as_they_say_and_interactions_are_rarely_made_up() {
    let (mut held, mut tried, mut made_up) = (0, 0, 0);
    for seed in 0..400 {
        let all = observed(&[3, 2, 2], 2, 0.05, seed, |levels| {
            1e6 * (1.0 + levels[0] as f64)
        });
        let found = effects(&[3, 2, 2], &all, 0.95).expect("effects");
        made_up += usize::from(!found.interactions.is_empty());
        for (factor, level, truth) in [(0, 1, 2.0), (0, 2, 3.0), (1, 1, 1.0), (2, 1, 1.0)] {
            let ratio = ratio(&found, factor, level);
            held += usize::from(ratio.lo <= truth && truth <= ratio.hi);
            tried += 1;
        }
    }
    let share = f64::from(held as u32) / f64::from(tried as u32);
    assert!(
        (0.93..0.985).contains(&share),
        "{share} of the intervals hold"
    );
    assert!(made_up <= 28, "{made_up} of 400 made-up interactions");
}

#[test]
fn a_selection_of_combinations_gives_effects_and_says_what_it_cannot_tell() {
    // Half of 2 x 2 x 2: the third factor is the product of the others.
    let value = |levels: &[usize]| 100.0 * [1.0, 1.5][levels[0]] * [1.0, 0.8][levels[2]];
    let whole = observed(&[2, 2, 2], 2, 0.01, 3, value);
    let half: Vec<Observation> = whole
        .into_iter()
        .filter(|one| one.levels.iter().sum::<usize>() % 2 == 0)
        .collect();
    let found = effects(&[2, 2, 2], &half, 0.95).expect("effects");
    let (first, third) = (ratio(&found, 0, 1), ratio(&found, 2, 1));
    assert!(
        (first.value - 1.5).abs() < 0.05 && (third.value - 0.8).abs() < 0.03,
        "{found:?}"
    );
    assert!(
        found.pair_shares.is_empty() && found.interactions.is_empty(),
        "{found:?}"
    );
}

#[test]
fn one_observation_each_uses_what_the_factors_leave_as_noise() {
    let all = observed(&[2, 3], 1, 0.01, 4, |levels| [1.0, 2.0][levels[0]]);
    let found = effects(&[2, 3], &all, 0.95).expect("effects");
    assert!(ratio(&found, 0, 1).lo > 1.5, "{found:?}");
    assert!(found.pair_shares.is_empty() && found.within_share.is_none());
}

#[test]
fn what_cannot_be_fitted_is_none() {
    let one = |levels: &[usize], value: f64| Observation {
        levels: levels.to_vec(),
        value,
    };
    let why = |all: &[Observation]| effects(&[2], all, 0.95).unwrap_err();
    assert_eq!(why(&[]), Unclear::Level(0, 0));
    assert_eq!(why(&[one(&[0], 1.0), one(&[0], 2.0)]), Unclear::Level(0, 1));
    assert_eq!(why(&[one(&[0], 1.0), one(&[1], 2.0)]), Unclear::TooFew);
    for wrong in [
        one(&[1], 0.0),
        one(&[5], 1.0),
        one(&[1], f64::NAN),
        one(&[1, 0], 1.0),
    ] {
        assert_eq!(
            why(&[one(&[0], 1.0), one(&[1], 2.0), wrong]),
            Unclear::Value
        );
    }
    // Two factors that were always varied together.
    let same = [
        one(&[0, 0], 1.0),
        one(&[1, 1], 2.0),
        one(&[1, 1], 2.1),
        one(&[0, 0], 1.1),
    ];
    assert_eq!(effects(&[2, 2], &same, 0.95), Err(Unclear::TooFew));
}

/// In eight of the 32 combinations of five factors the product of two is the product of two others: nothing is said of
/// pairs, rather than the wrong one.
#[test]
fn a_selection_names_no_pair() {
    let value = |levels: &[usize]| {
        if (levels[1], levels[2]) == (1, 1) {
            50.0
        } else {
            100.0
        }
    };
    let whole = observed(&[2; 5], 2, 0.01, 5, value);
    // D = AB, E = AC.
    let is_in = |one: &Observation| {
        let l = &one.levels;
        (l[0] + l[1] + l[3]).is_multiple_of(2) && (l[0] + l[2] + l[4]).is_multiple_of(2)
    };
    let some: Vec<Observation> = whole.into_iter().filter(is_in).collect();
    assert_eq!(some.len(), 16);
    let found = effects(&[2; 5], &some, 0.95).expect("effects");
    assert!(
        found.interactions.is_empty() && found.pair_shares.is_empty(),
        "{found:?}"
    );
    assert!(found.together_share > 0.1, "{found:?}");
}

#[test]
fn shares_of_all_combinations_add_up() {
    let value = |levels: &[usize]| {
        let pair = if (levels[0], levels[1]) == (1, 1) {
            1.4
        } else {
            1.0
        };
        let three = if levels == [1, 1, 1] { 1.3 } else { 1.0 };
        100.0 * [1.0, 1.5][levels[0]] * pair * three
    };
    let all = observed(&[2, 2, 2], 3, 0.02, 6, value);
    let found = effects(&[2, 2, 2], &all, 0.95).expect("effects");
    let pairs: f64 = found.pair_shares.iter().map(|(_, share)| share).sum();
    let sum = found.shares.iter().sum::<f64>()
        + pairs
        + found.together_share
        + found.within_share.unwrap();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}: {found:?}");
    assert!(found.together_share > 0.002, "{found:?}");
}

#[test]
fn where_nothing_differs_nothing_is_shared_out() {
    let all = observed(&[2, 2], 2, 1e-9, 7, |_| 5.0);
    let found = effects(&[2, 2], &all, 0.95).expect("effects");
    assert_eq!(found.shares, [0.0, 0.0]);
    assert_eq!((found.together_share, found.within_share), (0.0, Some(0.0)));
    assert!(
        found.pair_shares.iter().all(|(_, share)| *share == 0.0) && found.interactions.is_empty()
    );
}
