//! How loud noise may be: by the distance between the true curve and the nearest curve of another label.

use std::f64::consts::TAU;

use verdict::Label;

use crate::load::Drawn;
use crate::noise::{Law, Space};

/// The curves of one series before its noise.
pub struct Clean<'a> {
    pub x: &'a [f64],
    /// The parts of the trend. The first decides the label; the others are fitted along.
    pub trend: Vec<Vec<f64>>,
    /// Time since the start of the life, and the life's number.
    pub age: Vec<f64>,
    pub life: Vec<usize>,
    pub loads: &'a [Drawn],
    pub accept: &'a [Label],
}

impl Clean<'_> {
    /// Deviation at which the truth stands off from its nearest rival by `z` standard errors.
    pub fn deviation(&self, law: &Law, z: f64) -> f64 {
        let white = |curve: Vec<f64>| law.whiten(self.x, &curve);
        let longest = self.age.iter().copied().fold(1e-9, f64::max);
        let over_age =
            |f: &dyn Fn(f64) -> f64| white(self.age.iter().map(|a| f(a / longest)).collect());
        let beside = self
            .known()
            .into_iter()
            .chain(self.trend.iter().skip(1).cloned());
        let known = Space::default().with(beside.map(&white));
        // Whether a straight rise of 3 % is there.
        let three = white(self.age.iter().map(|a| 0.03 * a).collect());
        let trend = white(self.trend.first().cloned().unwrap_or_default());
        if self.accept.contains(&Label::Flat) {
            return known.distance(&three) / z;
        }
        let nearest = |rivals: Vec<Vec<f64>>| {
            let beside = |rival: Vec<f64>| known.clone().with([rival]).distance(&trend);
            rivals
                .into_iter()
                .map(beside)
                .fold(known.distance(&trend), f64::min)
        };
        let fills = |taus: &[f64]| {
            taus.iter()
                .map(|tau| over_age(&|a| 1.0 - (-a / tau).exp()))
                .collect::<Vec<_>>()
        };
        let powers = [0.3, 0.5, 0.7, 1.0].map(|p| over_age(&|a: f64| a.powf(p)));
        let flat_end = known.clone().with([trend.clone()]).distance(&three) / 3.6;
        match self.accept {
            [Label::Growing] => {
                let mut rivals = fills(&[0.01, 0.03, 0.06, 0.1, 0.14, 0.2, 0.25]);
                let step = |at: f64| {
                    white(
                        self.x
                            .iter()
                            .map(|x| f64::from(u8::from(*x > at)))
                            .collect(),
                    )
                };
                rivals.extend((1..20).map(|i| step(f64::from(i) / 20.0)));
                nearest(rivals) / z
            }
            [Label::Stepped] => {
                let mut rivals = fills(&[0.03, 0.1, 0.25]);
                rivals.extend(powers);
                (nearest(rivals) / z).min(flat_end)
            }
            accept if accept.contains(&Label::Growing) => nearest(Vec::new()) / z,
            _ => {
                let mut rivals = fills(&[0.5, 1.0]);
                rivals.extend(powers);
                let logs = [0.3, 0.1, 0.03, 0.01, 0.003]
                    .map(|near| over_age(&|a: f64| (a / near).ln_1p()));
                rivals.extend(logs);
                (nearest(rivals) / z).min(flat_end)
            }
        }
    }

    /// Curves that are there whatever the label: the level of each life, the harmonics of each load.
    fn known(&self) -> Vec<Vec<f64>> {
        let lives = self.life.iter().copied().max().unwrap_or(0);
        let level = |i: usize| {
            self.life
                .iter()
                .map(|life| f64::from(u8::from(*life == i)))
                .collect()
        };
        let mut curves: Vec<Vec<f64>> = (0..=lives).map(level).collect();
        for period in self.loads.iter().filter_map(|load| load.period) {
            for turn in [1.0, 2.0] {
                let angle = |x: &f64| TAU * turn * x / period;
                curves.push(self.x.iter().map(|x| angle(x).sin()).collect());
                curves.push(self.x.iter().map(|x| angle(x).cos()).collect());
            }
        }
        curves
    }
}
