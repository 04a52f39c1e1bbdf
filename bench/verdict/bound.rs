//! How far the true growth of a case stands off from what is bounded, to somebody who knows the noise.
//!
//! The case is made again with its noise muted: what is left is the true curve, and the difference is the noise itself,
//! of which deviation and memory are taken. A verdict that is missed although this distance is large is a judge's fault.

use series::series::Point;

use crate::case::Case;

/// Equal stretches of time over which both are averaged.
const BINS: usize = 40;

/// Standard errors between the true curve and the nearest constant, and the nearest bounded shape.
pub struct Bound {
    pub constant: f64,
    pub bounded: f64,
}

/// None where the muted curve is no smooth rise (cycles, teeth, restarts, outliers, noise that cannot be muted).
pub fn bound(case: &Case, muted: &Case) -> Option<Bound> {
    let (seen, clean) = (sorted(case), sorted(muted));
    if seen.len() != clean.len() || seen.iter().zip(&clean).any(|(a, b)| a.t_s != b.t_s) {
        return None;
    }
    let rise = clean.last()?.value - clean.first()?.value;
    if clean
        .windows(2)
        .any(|p| p[1].value < p[0].value - 0.02 * rise)
    {
        return None;
    }
    let noise = seen.iter().zip(&clean).map(|(a, b)| Point {
        t_s: a.t_s,
        value: a.value - b.value,
    });
    let (x, curve) = binned(&clean);
    let (_, noise) = binned(&noise.collect::<Vec<_>>());
    let whiten = Whiten::of(&noise)?;
    let target = whiten.apply(&curve);
    let left = |shape: Option<Vec<f64>>| {
        let mut basis = vec![whiten.apply(&vec![1.0; x.len()])];
        basis.extend(shape.map(|s| whiten.apply(&s)));
        distance(&target, basis)
    };
    let nearest = |best: f64, f: Shape| best.min(left(Some(x.iter().map(|x| f(*x)).collect())));
    let constant = left(None);
    let bounded = shapes().into_iter().fold(constant, nearest);
    Some(Bound { constant, bounded })
}

type Shape = Box<dyn Fn(f64) -> f64>;

/// Exponential fills with a time up to a third of the window, ramps that end by 0.7 of it, one step.
fn shapes() -> Vec<Shape> {
    let mut all: Vec<Shape> = Vec::new();
    for i in 1..=20 {
        let share = f64::from(i) / 20.0;
        all.push(Box::new(move |x| 1.0 - (-3.0 * x / share).exp()));
        all.push(Box::new(move |x| (x / (0.7 * share)).min(1.0)));
        all.push(Box::new(move |x| f64::from(u8::from(x >= share))));
    }
    all
}

fn sorted(case: &Case) -> Vec<Point> {
    let mut points = case.series.points.clone();
    points.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    points
}

/// Middle and mean of every stretch that has readings.
fn binned(points: &[Point]) -> (Vec<f64>, Vec<f64>) {
    let (from, to) = (points[0].t_s, points[points.len() - 1].t_s);
    let place = |p: &Point| (p.t_s - from) / (to - from).max(1e-9);
    let mut sums = [(0.0, 0.0); BINS];
    for p in points {
        let sum = &mut sums[((place(p) * BINS as f64) as usize).min(BINS - 1)];
        *sum = (sum.0 + 1.0, sum.1 + p.value);
    }
    let full = sums.iter().enumerate().filter(|(_, s)| s.0 > 0.0);
    full.map(|(i, s)| ((i as f64 + 0.5) / BINS as f64, s.1 / s.0))
        .unzip()
}

/// Deviation and memory (from stretch to stretch) of the noise.
struct Whiten {
    deviation: f64,
    memory: f64,
}

impl Whiten {
    fn of(noise: &[f64]) -> Option<Whiten> {
        let power = noise.iter().map(|e| e * e).sum::<f64>() / noise.len() as f64;
        let next = noise.windows(2).map(|e| e[0] * e[1]).sum::<f64>() / noise.len() as f64;
        (power > 0.0).then(|| Whiten {
            deviation: power.sqrt(),
            memory: (next / power).clamp(0.0, 0.95),
        })
    }

    fn apply(&self, curve: &[f64]) -> Vec<f64> {
        let fresh = self.deviation * (1.0 - self.memory * self.memory).sqrt();
        let first = curve.first().map(|v| v / self.deviation);
        let rest = curve
            .windows(2)
            .map(|v| (v[1] - self.memory * v[0]) / fresh);
        first.into_iter().chain(rest).collect()
    }
}

/// Length of what is left of `target` when the one or two vectors of `basis` are taken out.
fn distance(target: &[f64], basis: Vec<Vec<f64>>) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut left = target.to_vec();
    let mut taken: Vec<Vec<f64>> = Vec::new();
    for mut axis in basis {
        let whole = dot(&axis, &axis);
        for known in &taken {
            let share = dot(&axis, known) / dot(known, known);
            axis.iter_mut()
                .zip(known)
                .for_each(|(a, k)| *a -= share * k);
        }
        let power = dot(&axis, &axis);
        if power > 1e-9 * whole {
            let share = dot(&left, &axis) / power;
            left.iter_mut()
                .zip(&axis)
                .for_each(|(l, a)| *l -= share * a);
            taken.push(axis);
        }
    }
    dot(&left, &left).sqrt()
}
