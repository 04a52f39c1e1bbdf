//! A labelled series, made from its family and a seed.

use std::f64::consts::TAU;

use series::series::{Point, Series};
use verdict::Label;

use crate::dice::Dice;
use crate::dirt::{Rows, clock};
use crate::family::{By, Family, Lives, Maybe, Places};
use crate::load::{self, Drawn};
use crate::noise::Law;
use crate::rivals::Clean;
use crate::shape::{Curve, Trend, places};

/// Steps in which the growth of a series is followed.
const GRID: usize = 200;
const MIB: f64 = 1_048_576.0;
const DAY_S: f64 = 86_400.0;

/// What is true of a series. Labels follow docs/explanation/series.md literally.
pub struct Truth {
    pub accept: Vec<Label>,
    pub grows: bool,
    /// Has a load that turns: while it has not grown, it is a sawtooth.
    is_cyclic: bool,
    /// Slope at the end, per hour, when it grows.
    pub slope_per_hour: Option<f64>,
    /// Where it is heading, when it plateaus.
    pub asymptote: Option<f64>,
    /// Largest growth so far, in parts of the level then, at equal parts of the window.
    growth: Vec<f64>,
}

impl Truth {
    fn growth_so_far(&self, part: f64) -> f64 {
        self.growth[((part * GRID as f64) as usize).min(GRID)]
    }

    /// Labels that are right of the first `part` of the window.
    pub fn right_at(&self, part: f64, label: Label) -> bool {
        let small = self.growth_so_far(part) < 0.03;
        let is_swing = self.accept == [Label::Sawtooth];
        let still =
            (label == Label::Flat && !is_swing) || (self.is_cyclic && label == Label::Sawtooth);
        self.accept.contains(&label) || (small && still)
    }

    /// A call on the wrong side: growing of what is bounded, bounded of what grows.
    pub fn wrong_side(&self, part: f64, label: Label) -> bool {
        match label {
            Label::Insufficient => false,
            _ if self.right_at(part, label) => false,
            Label::Growing => !self.grows,
            _ => self.grows,
        }
    }

    /// Whether the first `part` alone is growing by the word's own meaning: up by 3 % of the level or more, and in both
    /// of its last two fifths at nine tenths of its mean pace or faster.
    pub fn rises_until(&self, part: f64) -> bool {
        let risen = |x: f64| {
            let share = self.growth_so_far(x * part);
            share / (1.0 - share).max(0.05)
        };
        let pace = |from: f64, to: f64| (risen(to) - risen(from)) / (to - from);
        let mean = pace(0.0, 1.0);
        let goes_on = [(0.6, 0.8), (0.8, 1.0)].map(|(from, to)| pace(from, to) >= 0.9 * mean);
        self.growth_so_far(part) >= 0.03 && mean > 0.0 && goes_on == [true, true]
    }
}

pub struct Case {
    pub series: Series,
    pub truth: Truth,
    /// Deviation of the noise in parts of the level.
    pub deviation: f64,
}

/// What the processes of one family and seed have in common.
pub struct Plan<'a> {
    family: &'a Family,
    x: Vec<f64>,
    days: f64,
    start_s: f64,
    trend: Trend,
    loads: Vec<Drawn>,
    law: Law,
    is_known: bool,
}

/// What one process has of its own.
pub struct Own {
    pub level: f64,
    /// Times the trend.
    pub pace: f64,
    /// By which loads that no clock drives are moved, in windows.
    pub shift: f64,
}

/// One series of a family.
pub fn make(family: &Family, dice: &mut Dice) -> Case {
    let plan = Plan::draw(family, dice);
    let level = match &family.level {
        Some(mib) => mib.draw(dice) * MIB,
        None => dice.log_between(8e6, 6e10),
    };
    let own = Own {
        level,
        pace: 1.0,
        shift: 0.0,
    };
    plan.process(&own, dice)
}

impl Plan<'_> {
    pub fn draw<'a>(family: &'a Family, dice: &mut Dice) -> Plan<'a> {
        let (x, days) = clock(&family.clock, dice);
        let trend = Trend::draw(&family.trend, days, dice);
        let drawn = |load| load::draw(load, days, &|x| trend.at(x), dice);
        let loads: Vec<Drawn> = family.load.iter().map(drawn).collect();
        Plan {
            law: Law::draw(&family.noise, x.len(), dice),
            start_s: dice.pick(&[0.0, 1.7e9, 1.77e9]),
            is_known: family
                .lives
                .as_ref()
                .is_some_and(|lives| dice.chance(lives.known)),
            family,
            x,
            days,
            trend,
            loads,
        }
    }

    pub fn process(&self, own: &Own, dice: &mut Dice) -> Case {
        let births = Births::draw(self.family.lives.as_ref(), dice);
        let trend: Vec<f64> = self
            .x
            .iter()
            .map(|x| own.pace * births.value(&self.trend, *x))
            .collect();
        let load = |x: f64| {
            let at = |l: &Drawn| (l.curve)(if l.is_shared { x } else { x + own.shift });
            self.loads.iter().map(at).sum::<f64>()
        };
        let mut values: Vec<f64> = self
            .x
            .iter()
            .zip(&trend)
            .map(|(x, f)| 1.0 + f + load(*x))
            .collect();
        let deviation = self.deviation(&births, dice);
        self.add_noise(&mut values, deviation, dice);
        let peak = values.iter().copied().fold(0.0, f64::max);
        let truth = self.truth(own, &births);
        let limit = match &self.family.lives {
            Some(lives) if lives.killed => Some(1.0 + own.pace * self.trend.at(1.0)),
            _ => None,
        };
        let limit = self
            .family
            .limit
            .as_ref()
            .map(|times| times.draw(dice) * limit.unwrap_or(peak));
        if let (Some(limit), true) = (limit, births.killed) {
            values.iter_mut().for_each(|v| *v = v.min(limit));
        }
        let mut rows = Rows {
            rows: self.x.iter().copied().zip(values).collect(),
            days: self.days,
            rise: trend.iter().copied().fold(0.0, f64::max),
            level_kib: own.level / 1024.0,
        };
        match &self.family.dirt {
            Some(all) => all.iter().for_each(|dirt| rows.soil(dirt, dice)),
            None if self.family.arm.is_some() => {}
            None => rows.soil_as_usual(dice),
        }
        let at = |x: f64| self.start_s + x * self.days * DAY_S;
        let point = |(x, v): (f64, f64)| Point {
            t_s: at(x),
            value: (own.level * v / 4096.0).round().max(0.0) * 4096.0,
        };
        let known = births.starts[1..].iter().filter(|_| self.is_known);
        let series = Series {
            points: rows.rows.into_iter().map(point).collect(),
            restarts_s: known.filter(|b| **b < 1.0).map(|b| at(*b)).collect(),
            limit: limit.map(|limit| limit * own.level),
            ..Series::default()
        };
        Case {
            series,
            truth,
            deviation,
        }
    }

    fn deviation(&self, births: &Births, dice: &mut Dice) -> f64 {
        let noise = &self.family.noise;
        let of = |range: &Maybe, dice: &mut Dice| range.as_ref().map(|r| r.draw(dice));
        let swing = self.loads.first().map_or(0.0, |load| load.swing.abs());
        let (z, share) = (of(&noise.z, dice), of(&noise.share, dice));
        let of_swing = of(&noise.of_swing, dice).map(|part| part * swing);
        let by_z = z.map(|z| self.clean(births).deviation(&self.law, z));
        let sizes = [by_z, share, of_swing].into_iter().flatten();
        sizes.fold(noise.cap.unwrap_or(0.12), f64::min)
    }

    fn clean(&self, births: &Births) -> Clean<'_> {
        let over = |f: &Curve| self.x.iter().map(|x| f(births.uptime(*x))).collect();
        Clean {
            x: &self.x,
            trend: self.trend.parts.iter().map(over).collect(),
            age: self.x.iter().map(|x| births.age(*x)).collect(),
            life: self.x.iter().map(|x| births.of(*x)).collect(),
            loads: &self.loads,
            accept: &self.family.truth.label,
        }
    }

    fn add_noise(&self, values: &mut [f64], deviation: f64, dice: &mut Dice) {
        let noise = self.law.at(&self.x, dice);
        for ((value, x), e) in values.iter_mut().zip(&self.x).zip(noise) {
            let e = deviation * e;
            *value = match self.family.noise.by {
                By::Nothing => *value + e,
                By::Level => *value * e.clamp(-1.0, 2.0).exp(),
                By::Time => *value + (0.25 + 0.75 * x) * e,
                By::Day => *value + (0.55 - 0.45 * (TAU * x * self.days).cos()) * e,
            };
            *value = value.max(0.05);
        }
    }

    fn truth(&self, own: &Own, births: &Births) -> Truth {
        let accept = self.family.truth.label.clone();
        let grows = accept.contains(&Label::Growing);
        let hours = self.days * 24.0;
        let has_lives = self.family.lives.is_some();
        let has_slope = grows
            && self.family.truth.slope
            && own.pace > 0.0
            && !births.killed
            && (!has_lives || self.trend.is_line);
        let loads: f64 = self
            .loads
            .iter()
            .map(|load| self.x.iter().map(|x| (load.curve)(*x)).sum::<f64>())
            .sum();
        let bound = || 1.0 + own.pace * self.trend.at(1000.0) + loads / self.x.len() as f64;
        let is_fill = accept == [Label::Plateauing] && !has_lives;
        Truth {
            grows,
            is_cyclic: self.loads.iter().any(|load| load.is_cycle),
            slope_per_hour: has_slope.then(|| own.pace * own.level * self.trend.slope / hours),
            asymptote: is_fill.then(|| own.level * bound()),
            growth: growth(&self.trend, own.pace, births),
            accept,
        }
    }
}

/// Growth within a life so far, in parts of the level.
fn growth(trend: &Trend, pace: f64, births: &Births) -> Vec<f64> {
    let (mut low, mut high, mut life, mut most) = (f64::MAX, f64::MIN, 0, 0.0f64);
    let step = |i: usize| {
        let x = i as f64 / GRID as f64;
        let now = pace * births.value(trend, x);
        if births.of(x) != life {
            (low, high, life) = (f64::MAX, f64::MIN, births.of(x));
        }
        (low, high) = (low.min(now), high.max(now));
        most = most.max(high - low);
        most / (1.0 + now).max(0.05)
    };
    (0..=GRID).map(step).collect()
}

/// Starts of the lives of one process, the first at 0.
struct Births {
    starts: Vec<f64>,
    levels: Vec<f64>,
    killed: bool,
    first_is_warm: bool,
}

impl Births {
    fn draw(lives: Option<&Lives>, dice: &mut Dice) -> Births {
        let mut starts = vec![0.0];
        match lives {
            Some(lives) if lives.killed => {
                let many = lives.count.draw(dice);
                while starts[starts.len() - 1] < 1.0 {
                    let pace = if lives.places == Places::Even {
                        1.0
                    } else {
                        dice.between(0.8, 1.25)
                    };
                    starts.push(starts[starts.len() - 1] + pace / many);
                }
            }
            Some(lives) => {
                let count = lives.count.count(dice);
                starts.extend(places(count, lives.places, dice));
            }
            None => {}
        }
        let spread = lives.and_then(|lives| lives.own_level.as_ref());
        let spread = spread.map_or(0.0, |spread| spread.draw(dice));
        let levels = starts
            .iter()
            .map(|_| (spread * dice.normal()).exp() - 1.0)
            .collect();
        Births {
            starts,
            levels,
            killed: lives.is_some_and(|lives| lives.killed),
            first_is_warm: lives.is_some_and(|lives| lives.first_is_warm),
        }
    }

    fn of(&self, x: f64) -> usize {
        self.starts.partition_point(|b| *b <= x).max(1) - 1
    }

    fn age(&self, x: f64) -> f64 {
        x - self.starts[self.of(x)]
    }

    /// Where in its trend a life is.
    fn uptime(&self, x: f64) -> f64 {
        let life = self.of(x);
        match self.killed {
            true => self.age(x) / (self.starts.get(life + 1).unwrap_or(&2.0) - self.starts[life]),
            false if life == 0 && self.first_is_warm => 1.0,
            false => self.age(x),
        }
    }

    fn value(&self, trend: &Trend, x: f64) -> f64 {
        trend.at(self.uptime(x)) + self.levels[self.of(x)]
    }
}
