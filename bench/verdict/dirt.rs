//! When readings are taken, and what happens to them on the way into a file.

use crate::dice::Dice;
use crate::family::{Clock, Dirt, Maybe, Range, Spacing};

/// Readings: times in windows (0 to 1), values in levels.
pub struct Rows {
    pub rows: Vec<(f64, f64)>,
    pub days: f64,
    pub rise: f64,
    pub level_kib: f64,
}

/// Times of the readings, and the length of the window in days.
pub fn clock(spec: &Clock, dice: &mut Dice) -> (Vec<f64>, f64) {
    let draw = |range: &Maybe, lo, hi, dice: &mut Dice| match range {
        Some(range) => range.draw(dice),
        None => dice.log_between(lo, hi),
    };
    let n = draw(&spec.readings, 100.0, 3000.0, dice).round();
    let days = draw(&spec.days, 0.02, 30.0, dice);
    let spacing = match spec.spacing {
        Spacing::Any => dice.pick(&[
            Spacing::Even,
            Spacing::Even,
            Spacing::Jitter,
            Spacing::Random,
            Spacing::TwoIntervals,
        ]),
        known => known,
    };
    let (change, times) = (dice.between(0.3, 0.7), dice.between(2.0, 4.0));
    let times = if dice.chance(0.5) { times } else { 1.0 / times };
    let mut at = 0.0;
    let mut x: Vec<f64> = Vec::with_capacity(n as usize);
    for i in 0..n as usize {
        let late = if spacing == Spacing::Jitter {
            0.6 * dice.unit()
        } else {
            0.0
        };
        x.push(at + late);
        at += match spacing {
            Spacing::Random => 0.05 + dice.exponential(),
            Spacing::TwoIntervals if i as f64 > change * n => times,
            _ => 1.0,
        };
    }
    let first = x[0];
    x.iter_mut().for_each(|x| *x = (*x - first) / at);
    (x, days)
}

impl Rows {
    pub fn soil(&mut self, dirt: &Dirt, dice: &mut Dice) {
        match dirt {
            Dirt::Holes { count, length } => {
                for _ in 0..count.count(dice) {
                    let (long, at) = (length.draw(dice), dice.unit());
                    let from = 0.05 + at * (0.9 - long).max(0.0);
                    self.rows.retain(|r| !(from..from + long).contains(&r.0));
                }
            }
            Dirt::Lost { share } => {
                let share = share.draw(dice);
                self.rows.retain(|_| !dice.chance(share));
            }
            Dirt::Nights { length } => {
                let (days, from, night) = (self.days, dice.unit(), length.draw(dice));
                self.rows.retain(|r| (r.0 * days + from).fract() > night);
            }
            Dirt::Outliers { share, times } => {
                let share = share.draw(dice);
                self.some(share, dice, |row, dice| row.1 *= times.draw(dice));
            }
            Dirt::Zeros { share } => {
                let share = share.draw(dice);
                self.some(share, dice, |row, dice| {
                    row.1 = dice.pick(&[0.0, 0.0, f64::NAN])
                });
            }
            Dirt::Bursts {
                share,
                height,
                readings,
            } => {
                let (share, mut left) = (share.draw(dice), 0);
                for row in &mut self.rows {
                    if left == 0 && dice.chance(share) {
                        left = readings.count(dice);
                    }
                    row.1 += if left > 0 { height.draw(dice) } else { 0.0 };
                    left = left.saturating_sub(1);
                }
            }
            Dirt::Doubled { share } => {
                let share = share.draw(dice);
                let twice = |row: &(f64, f64)| vec![*row; if dice.chance(share) { 2 } else { 1 }];
                self.rows = self.rows.iter().flat_map(twice).collect();
            }
            Dirt::Shuffled { share } => {
                let share = share.draw(dice);
                for i in 0..self.rows.len() {
                    if dice.chance(share) {
                        let other = dice.whole(0, self.rows.len() - 1);
                        self.rows.swap(i, other);
                    }
                }
            }
            Dirt::ClockSet { by } => {
                let from = dice.between(0.2, 0.8);
                let by = by.draw(dice);
                self.rows
                    .iter_mut()
                    .filter(|r| r.0 > from)
                    .for_each(|r| r.0 += by);
            }
            Dirt::Grain { level, rise, kib } => {
                let of = |range: &Maybe, dice: &mut Dice| range.as_ref().map(|r| r.draw(dice));
                let rise = of(rise, dice).map(|part| part * self.rise);
                let kib = kib.map(|kib| kib / self.level_kib);
                let grain = of(level, dice).or(rise).or(kib).unwrap_or(0.0).max(1e-9);
                for row in &mut self.rows {
                    row.1 = (row.1 / grain).round() * grain;
                }
            }
        }
    }

    fn some(&mut self, share: f64, dice: &mut Dice, change: impl Fn(&mut (f64, f64), &mut Dice)) {
        for row in &mut self.rows {
            if dice.chance(share) {
                change(row, dice);
            }
        }
    }

    /// The usual faults, each in one series of ten.
    pub fn soil_as_usual(&mut self, dice: &mut Dice) {
        let one = Range::Fixed(1.0);
        let between = |lo, hi| Range::Between([lo, hi]);
        let usual = [
            Dirt::Holes {
                count: one,
                length: between(0.05, 0.25),
            },
            Dirt::Lost {
                share: between(0.02, 0.2),
            },
            Dirt::Outliers {
                share: Range::Fixed(0.01),
                times: between(0.3, 3.0),
            },
            Dirt::Zeros {
                share: Range::Fixed(0.01),
            },
            Dirt::Doubled {
                share: Range::Fixed(0.01),
            },
            Dirt::Grain {
                level: Some(between(0.0005, 0.004)),
                rise: None,
                kib: None,
            },
        ];
        for dirt in &usual {
            if dice.chance(0.1) {
                self.soil(dirt, dice);
            }
        }
    }
}
