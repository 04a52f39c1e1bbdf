//! Does it repeat? The period of a load cycle or of a collector's saw.

use std::f64::consts::TAU;

use super::lanes::{LANES, Lanes};
use super::order::median;
use super::series::Point;

/// Resolution at which a period is looked for.
const GRID: usize = 400;
/// What explains less is not a cycle, and no weaker one is looked for after it.
const WEAK: f64 = 0.2;
/// What explains less between two frequencies that were tried is weak at the best of them too: half a step away at
/// most four fifths are left, of the second harmonic two fifths.
const HOPELESS: f64 = 0.5 * WEAK;
/// Frequencies whose rough power is above this share of the highest so far are worked out.
const CLOSE: f64 = 0.5;
/// Fewer cycles in the window are a bend, not a period.
const CYCLES_MIN: f64 = 2.5;

/// One candidate period with the share of the detrended variance that two harmonics explain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    pub length_s: f64,
    pub share: f64,
    /// Peak to trough, as of a sine, in the unit of the values.
    pub swing: f64,
}

/// The strongest periods (at most `count`), the strongest first, each with at least two and a half
/// cycles in the window. Cost: a few tenths of a millisecond whatever the length.
pub fn periods(points: &[Point], count: usize) -> Vec<Period> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let span = last.t_s - first.t_s;
    if points.len() < 24 || span <= 0.0 {
        return Vec::new();
    }
    let (t, mut y) = grid(points, span);
    detrend(&t, &mut y);
    let mut found = Vec::new();
    for _ in 0..count {
        let total: f64 = y.iter().map(|v| v * v).sum();
        if total <= 0.0 {
            break;
        }
        let Some((cycles, share)) = strongest(&t, &y, total) else {
            break;
        };
        // The mean square of a sine is an eighth of its swing squared.
        let swing = (8.0 * share * total / y.len() as f64).sqrt();
        found.push(Period {
            length_s: span / cycles,
            share,
            swing,
        });
        if share < WEAK {
            break;
        }
        remove(&t, &mut y, cycles);
    }
    found
}

/// Medians on a grid of at most [`GRID`] cells; time in windows.
fn grid(points: &[Point], span: f64) -> (Vec<f64>, Vec<f64>) {
    let cells = points.len().min(GRID) as f64;
    let start = points[0].t_s;
    let cell = |p: &Point| (((p.t_s - start) / span * cells) as usize).min(cells as usize - 1);
    let mut t = Vec::with_capacity(cells as usize);
    let mut y = Vec::with_capacity(cells as usize);
    for group in points.chunk_by(|a, b| cell(a) == cell(b)) {
        let mean_t = group.iter().map(|p| p.t_s - start).sum::<f64>() / group.len() as f64;
        t.push(mean_t / span);
        y.push(median(&group.iter().map(|p| p.value).collect::<Vec<_>>()));
    }
    (t, y)
}

/// Takes a cubic away (by least squares on Legendre-like columns, orthogonalised).
fn detrend(t: &[f64], y: &mut [f64]) {
    let mut done: Vec<Vec<f64>> = Vec::new();
    for degree in 0..4 {
        let mut column: Vec<f64> = t.iter().map(|t| (2.0 * t - 1.0).powi(degree)).collect();
        for q in &done {
            project(&mut column, q);
        }
        let length = column.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length > 1e-9 {
            column.iter_mut().for_each(|v| *v /= length);
            project(y, &column);
            done.push(column);
        }
    }
}

fn project(from: &mut [f64], q: &[f64]) {
    let times: f64 = from.iter().zip(q).map(|(a, b)| a * b).sum();
    from.iter_mut().zip(q).for_each(|(v, q)| *v -= times * q);
}

/// Numbers of all instants, eight in a row; the last row is filled up with zeros.
fn rows(values: &[f64]) -> Vec<Lanes> {
    let row = |of: &[f64]| {
        let mut row = Lanes::default();
        row.0[..of.len()].copy_from_slice(of);
        row
    };
    values.chunks(LANES).map(row).collect()
}

#[inline(always)]
fn product(a: &[Lanes], b: &[Lanes]) -> f64 {
    let mut sum = Lanes::default();
    for (a, b) in a.iter().zip(b) {
        sum = sum.plus(a.by(*b));
    }
    sum.sum()
}

/// Sine and cosine of one frequency at every instant, turned on to the next frequency without a call.
struct Wheel {
    sine: Vec<Lanes>,
    cosine: Vec<Lanes>,
}

impl Wheel {
    fn at(t: &[f64], cycles: f64) -> Wheel {
        let turns = t.iter().map(|t| (TAU * cycles * t).sin_cos());
        let (sine, cosine): (Vec<f64>, Vec<f64>) = turns.unzip();
        Wheel {
            sine: rows(&sine),
            cosine: rows(&cosine),
        }
    }

    /// Twice the frequency.
    fn doubled(&self) -> Wheel {
        let both = || self.sine.iter().zip(&self.cosine);
        Wheel {
            sine: both().map(|(s, c)| s.by(*c).times(2.0)).collect(),
            cosine: both().map(|(s, c)| c.by(*c).minus(s.by(*s))).collect(),
        }
    }

    /// Turns on; returns what the new frequency is worth: in proportion to [`Wheel::power`] at instants that are evenly
    /// spread, for two fifths of the work.
    #[inline(always)]
    fn turn(&mut self, by: &Wheel, y: &[Lanes]) -> f64 {
        let (mut ys, mut yc) = (Lanes::default(), Lanes::default());
        let steps = by.sine.iter().zip(&by.cosine).zip(y);
        for ((s, c), ((ds, dc), y)) in self.sine.iter_mut().zip(&mut self.cosine).zip(steps) {
            let (sine, cosine) = (*s, *c);
            *s = sine.by(*dc).plus(cosine.by(*ds));
            *c = cosine.by(*dc).minus(sine.by(*ds));
            ys = ys.plus(y.by(*s));
            yc = yc.plus(y.by(*c));
        }
        let (ys, yc) = (ys.sum(), yc.sum());
        ys * ys + yc * yc
    }

    /// What the frequency explains of the squares of `y`.
    #[inline(always)]
    fn power(&self, y: &[Lanes]) -> f64 {
        let (ys, yc) = (product(y, &self.sine), product(y, &self.cosine));
        let (ss, cc) = (
            product(&self.sine, &self.sine),
            product(&self.cosine, &self.cosine),
        );
        let sc = product(&self.sine, &self.cosine);
        let det = ss * cc - sc * sc;
        if det < 1e-9 * ss * cc {
            return 0.0;
        }
        (cc * ys * ys - 2.0 * sc * ys * yc + ss * yc * yc) / det
    }
}

fn strongest(t: &[f64], y: &[f64], total: f64) -> Option<(f64, f64)> {
    let y = rows(y);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { strongest_wide(t, &y, total) };
    }
    strongest_here(t, &y, total)
}

/// The same numbers to the last bit, four at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn strongest_wide(t: &[f64], y: &[Lanes], total: f64) -> Option<(f64, f64)> {
    strongest_here(t, y, total)
}

#[inline(always)]
fn strongest_here(t: &[f64], y: &[Lanes], total: f64) -> Option<(f64, f64)> {
    let top = (t.len() / 2) as f64;
    let (mut best, mut cycles) = ((0.0, 0.0), CYCLES_MIN);
    let half = Wheel::at(t, 0.5);
    // Two cycles: the first step makes them CYCLES_MIN.
    let mut wheel = half.doubled().doubled();
    let mut highest: f64 = 0.0;
    while cycles <= top {
        let rough = wheel.turn(&half, y);
        highest = highest.max(rough);
        // Gaps make the rough power wrong by a part of itself: what comes near is worked out.
        if rough > CLOSE * highest {
            let p = wheel.power(y);
            if p > best.1 {
                best = (cycles, p);
            }
        }
        cycles += 0.5;
    }
    if best.1 <= 0.0 {
        return None;
    }
    if best.1 < 0.5 * HOPELESS * total {
        return Some((best.0, best.1 / total));
    }
    let power = |cycles: f64| Wheel::at(t, cycles).power(y);
    let share = |best: (f64, f64)| {
        let second = if 2.0 * best.0 < top {
            power(2.0 * best.0)
        } else {
            0.0
        };
        ((best.1 + second) / total).min(1.0)
    };
    let rough = share(best);
    if rough < HOPELESS {
        return Some((best.0, rough));
    }
    for step in [0.25, 0.12, 0.06, 0.03] {
        for near in [best.0 - step, best.0 + step] {
            let p = power(near);
            if p > best.1 {
                best = (near, p);
            }
        }
    }
    Some((best.0, share(best)))
}

fn remove(t: &[f64], y: &mut [f64], cycles: f64) {
    for harmonic in [1.0, 2.0] {
        let omega = TAU * cycles * harmonic;
        let mut sine: Vec<f64> = t.iter().map(|t| (omega * t).sin()).collect();
        let mut cosine: Vec<f64> = t.iter().map(|t| (omega * t).cos()).collect();
        normalise(&mut sine);
        project(&mut cosine, &sine);
        normalise(&mut cosine);
        project(y, &sine);
        project(y, &cosine);
    }
}

fn normalise(column: &mut [f64]) {
    let length = column.iter().map(|v| v * v).sum::<f64>().sqrt();
    if length > 1e-9 {
        column.iter_mut().for_each(|v| *v /= length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daily_cycle_on_a_fill_is_found() {
        let points: Vec<Point> = (0..400)
            .map(|i| {
                let t_s = f64::from(i) * 1800.0;
                let wave = 5.0 * (TAU * t_s / 86_400.0).sin();
                Point {
                    t_s,
                    value: 100.0 + wave + 40.0 * (1.0 - (-t_s / 1e5).exp()),
                }
            })
            .collect();
        let p = periods(&points, 1);
        assert!((p[0].length_s / 86_400.0 - 1.0).abs() < 0.02, "{p:?}");
        assert!(p[0].share > 0.5, "{p:?}");
    }

    #[test]
    fn too_short_is_no_period() {
        assert!(periods(&[], 1).is_empty());
        assert!(
            periods(
                &[Point {
                    t_s: 0.0,
                    value: 1.0
                }; 30],
                1
            )
            .is_empty()
        );
    }
}
