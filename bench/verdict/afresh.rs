//! An eleventh set, for a figure after the mends that the set *plain* led to: written when they were done, before any
//! verdict on it was looked at, and not mended for.

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain::{audible, clock, holes, outliers, soften};
use crate::plain_turns::{days, swing};
use crate::scene::Drawn;
use crate::strange::{Maker, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak under jobs", |d| jobs(d, true)),
    ("jobs, no leak", |d| jobs(d, false)),
    ("faint root, AR .5 to .9", root_ar),
    ("fill, tau .1 to .6, AR .9", fill_ar),
    ("weak leak, five weeks", five_weeks),
    ("heap doubles, leak", |d| doubling(d, true)),
    ("heap doubles, warm", |d| doubling(d, false)),
    ("deployed often, leak", |d| deployed(d, true)),
    ("deployed often, warm", |d| deployed(d, false)),
    ("two to five days, leak", few_days),
    ("step under days", step_days),
    ("all dirt, leak", |d| all_dirt(d, true)),
    ("all dirt, flat", |d| all_dirt(d, false)),
    ("users come, then stay", users),
    ("bends upwards, AR .9", bends_up),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x5be0_cd19_137e_2179);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

/// Jobs at random, each of which holds memory for 0.5 to 6 % of the window.
fn jobs(dice: &mut Dice, leaks: bool) -> Drawn {
    let by = dice.log_between(0.08, 1.5);
    let accept: &'static [Label] = if leaks {
        &[Growing]
    } else {
        &[Flat, Sawtooth, Stepped]
    };
    let clock = clock(dice, (150.0, 3000.0));
    let rise = if leaks { by } else { 0.0 };
    let drawn = story(clock, accept, move |x| rise * x);
    let share = (by * dice.log_between(0.003, 0.03)).min(audible(by, drawn.x.len(), 0.0));
    let mut drawn = soften(dice, drawn, share, 0.0);
    for _ in 0..dice.whole(2, 8) {
        let from = dice.between(0.0, 0.95);
        let (to, high) = (
            from + dice.log_between(0.005, 0.06),
            by * dice.log_between(0.2, 3.0),
        );
        for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
            *value += if (from..to).contains(x) { high } else { 0.0 };
        }
    }
    drawn
}

fn root_ar(dice: &mut Dice) -> Drawn {
    let (by, p) = (dice.log_between(0.08, 0.4), dice.between(0.45, 0.8));
    let phi = dice.between(0.5, 0.9);
    let clock = clock(dice, (150.0, 2000.0));
    let drawn = story(clock, &[Growing], move |x| by * x.powf(p));
    let most = audible(0.5 * by, drawn.x.len(), phi);
    let share = dice.log_between(0.001, 0.03).min(most);
    soften(dice, drawn, share, phi)
}

fn fill_ar(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.1, 2.0), dice.log_between(0.1, 0.6));
    let clock = clock(dice, (150.0, 2000.0));
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    let drawn = story(clock, &[Plateauing], f);
    let most = audible(0.5 * by, drawn.x.len(), 0.9);
    let share = dice.log_between(0.001, 0.02).min(most);
    soften(dice, drawn, share, 0.9)
}

fn five_weeks(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.04, 0.2);
    let clock = days(dice, 30.0, 40.0);
    let most = audible(by, clock.0.len(), 0.0);
    let share = dice.log_between(0.002, 0.03).min(most);
    let drawn = story(clock, &[Growing], move |x| by * x);
    let mut drawn = soften(dice, drawn, share, 0.0);
    let height = dice.log_between(0.05, 0.4);
    swing(dice, &mut drawn, height, true);
    drawn
}

/// A collector that runs when the heap is a share larger than what was live at its last run.
fn doubling(dice: &mut Dice, leaks: bool) -> Drawn {
    let (by, tau) = (dice.log_between(0.2, 2.0), dice.log_between(0.02, 0.1));
    let live = move |x: f64| match leaks {
        true => by * x,
        false => by * (1.0 - (-x / tau).exp()),
    };
    let accept: &'static [Label] = if leaks {
        &[Growing]
    } else {
        &[Sawtooth, Plateauing, Flat]
    };
    let (share, speed) = (dice.between(0.2, 1.0), dice.between(8.0, 50.0));
    let clock = clock(dice, (12.0 * speed / share.min(0.5), 4000.0));
    let mut drawn = story(clock, accept, live);
    let (mut garbage, mut last) = (0.0, 0.0);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        garbage += speed * share * (x - last);
        last = *x;
        if garbage > share * *value {
            garbage = 0.0;
        }
        *value += garbage;
    }
    drawn.cyclic = true;
    let share = 0.01 * share;
    soften(dice, drawn, share, 0.0)
}

/// Six to twenty lives, all told.
fn deployed(dice: &mut Dice, leaks: bool) -> Drawn {
    let count = dice.whole(5, 19);
    let part = 1.0 / (count as f64 + 1.0);
    let born: Vec<f64> = (1..=count)
        .map(|i| part * (i as f64 + dice.between(-0.3, 0.3)))
        .collect();
    let (by, tau) = (dice.log_between(0.2, 3.0), dice.between(0.03, 0.15) * part);
    let births = born.clone();
    let f = move |x: f64| {
        let age = x - births
            .iter()
            .copied()
            .filter(|b| *b <= x)
            .fold(0.0, f64::max);
        if leaks {
            by * age / part
        } else {
            by * (1.0 - (-age / tau).exp())
        }
    };
    let accept: &'static [Label] = if leaks {
        &[Growing]
    } else {
        &[Plateauing, Flat]
    };
    let clock = clock(dice, (20.0 / part, 4000.0));
    let mut drawn = story(clock, accept, f);
    drawn.slope = leaks.then_some(by / part);
    drawn.restarts = born;
    let share = by * dice.log_between(0.003, 0.03);
    soften(dice, drawn, share, 0.0)
}

fn few_days(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 1.0);
    let clock = days(dice, 2.0, 5.0);
    let share = (by * dice.log_between(0.01, 0.06)).min(audible(by, clock.0.len(), 0.0));
    let drawn = story(clock, &[Growing], move |x| by * x);
    let mut drawn = soften(dice, drawn, share, 0.0);
    let height = by * dice.log_between(0.2, 1.5);
    swing(dice, &mut drawn, height, false);
    drawn
}

fn step_days(dice: &mut Dice) -> Drawn {
    let (by, at) = (dice.log_between(0.1, 0.8), dice.between(0.2, 0.8));
    let clock = days(dice, 5.0, 14.0);
    let f = move |x: f64| if x >= at { by } else { 0.0 };
    let drawn = story(clock, &[Stepped, Sawtooth], f);
    let share = by * dice.log_between(0.01, 0.06);
    let mut drawn = soften(dice, drawn, share, 0.0);
    let height = by * dice.log_between(0.1, 0.7);
    swing(dice, &mut drawn, height, false);
    drawn
}

fn all_dirt(dice: &mut Dice, leaks: bool) -> Drawn {
    let by = if leaks {
        dice.log_between(0.08, 1.0)
    } else {
        0.0
    };
    let accept: &'static [Label] = if leaks { &[Growing] } else { &[Flat] };
    let clock = clock(dice, (200.0, 2000.0));
    let drawn = story(clock, accept, move |x| by * x);
    let share = dice.log_between(0.001, 0.02);
    let most = if leaks {
        audible(by, drawn.x.len(), 0.0)
    } else {
        share
    };
    let mut drawn = soften(dice, drawn, share.min(most), 0.0);
    outliers(dice, &mut drawn);
    holes(dice, &mut drawn);
    drawn.grain = Some(dice.log_between(0.0005, 0.01));
    drawn
}

fn users(dice: &mut Dice) -> Drawn {
    let (by, mid) = (dice.log_between(0.08, 1.5), dice.between(0.1, 0.35));
    let width = dice.between(0.02, 0.25 * mid);
    let clock = clock(dice, (100.0, 2000.0));
    let f = move |x: f64| by / (1.0 + (-(x - mid) / width).exp());
    let drawn = story(clock, &[Plateauing, Stepped], f);
    let share = by * dice.log_between(0.003, 0.04);
    soften(dice, drawn, share, 0.0)
}

fn bends_up(dice: &mut Dice) -> Drawn {
    let (by, p) = (dice.log_between(0.1, 2.0), dice.between(1.2, 2.5));
    let clock = clock(dice, (200.0, 2000.0));
    let drawn = story(clock, &[Growing], move |x| by * x.powf(p));
    let most = audible(by, drawn.x.len(), 0.9);
    let share = dice.log_between(0.001, 0.05).min(most);
    soften(dice, drawn, share, 0.9)
}
