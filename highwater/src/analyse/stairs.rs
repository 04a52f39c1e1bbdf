//! Several steps at once: greedy choice over prepared step columns, then exchange of each for a better
//! place while the others stay.

use super::solve::dot;

/// One staircase.
#[derive(Debug, Clone, Default)]
pub struct Stair {
    /// Which columns, in the order of choice.
    pub at: Vec<usize>,
    /// Height of each.
    pub beta: Vec<f64>,
    pub rss: f64,
    /// Log determinant of the Gram matrix.
    pub logdet: f64,
    /// Largest variance of a height, per unit of residual variance.
    pub variance: f64,
}

/// A column with less than this left of it after projection says nothing new.
const NEW_MIN: f64 = 1e-6;

/// A step that brings less log likelihood than this cannot pay for its place and height.
const GAIN_LN: f64 = 2.0;

/// The best staircases of two to `most` steps.
pub fn stairs(columns: &[Vec<f64>], y: &[f64], most: usize) -> Vec<Stair> {
    let mut found = Vec::new();
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < most && chosen.len() + 3 < y.len() {
        let Some(next) = best_addition(columns, y, &chosen) else {
            break;
        };
        chosen.push(next);
        if chosen.len() >= 2 {
            exchange(columns, y, &mut chosen);
            let Some(stair) = measure(columns, y, &chosen) else {
                break;
            };
            let before = found.last().map_or(f64::INFINITY, |s: &Stair| s.rss);
            let gain = 0.5 * y.len() as f64 * (before / stair.rss.max(f64::MIN_POSITIVE)).ln();
            found.push(stair);
            if gain < GAIN_LN {
                break;
            }
        }
    }
    found
}

/// Orthonormal basis of the chosen columns.
fn basis(columns: &[Vec<f64>], chosen: &[usize]) -> Vec<Vec<f64>> {
    let mut q: Vec<Vec<f64>> = Vec::with_capacity(chosen.len());
    for &k in chosen {
        let mut column = columns[k].clone();
        for done in &q {
            let times = dot(&column, done);
            column
                .iter_mut()
                .zip(done)
                .for_each(|(v, d)| *v -= times * d);
        }
        let length = dot(&column, &column).sqrt();
        if length > NEW_MIN {
            column.iter_mut().for_each(|v| *v /= length);
            q.push(column);
        }
    }
    q
}

/// The column that takes most from what the chosen leave.
fn best_addition(columns: &[Vec<f64>], y: &[f64], chosen: &[usize]) -> Option<usize> {
    let q = basis(columns, chosen);
    let mut rest = y.to_vec();
    for done in &q {
        let times = dot(&rest, done);
        rest.iter_mut().zip(done).for_each(|(v, d)| *v -= times * d);
    }
    let mut best = (NEW_MIN, None);
    for (k, column) in columns.iter().enumerate() {
        let full = dot(column, column);
        let left = full - q.iter().map(|q| dot(column, q).powi(2)).sum::<f64>();
        if left > NEW_MIN.max(1e-3 * full) {
            let gain = dot(column, &rest).powi(2) / left;
            if gain > best.0 && !chosen.contains(&k) {
                best = (gain, Some(k));
            }
        }
    }
    best.1
}

fn exchange(columns: &[Vec<f64>], y: &[f64], chosen: &mut [usize]) {
    for i in 0..chosen.len() {
        let others: Vec<usize> = chosen
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .map(|(_, k)| *k)
            .collect();
        if let Some(better) = best_addition(columns, y, &others) {
            chosen[i] = better;
        }
    }
}

/// Heights, residual and determinant by Gram-Schmidt; `None` when two steps are one.
fn measure(columns: &[Vec<f64>], y: &[f64], chosen: &[usize]) -> Option<Stair> {
    let mut order = chosen.to_vec();
    order.sort_unstable();
    order.dedup();
    let q = basis(columns, &order);
    if q.len() != chosen.len() {
        return None;
    }
    let k = order.len();
    let r: Vec<Vec<f64>> = q
        .iter()
        .map(|q| order.iter().map(|&c| dot(&columns[c], q)).collect())
        .collect();
    let z: Vec<f64> = q.iter().map(|q| dot(y, q)).collect();
    let mut beta = vec![0.0; k];
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|j| r[i][j] * beta[j]).sum();
        beta[i] = (z[i] - known) / r[i][i];
    }
    Some(Stair {
        rss: dot(y, y) - dot(&z, &z),
        logdet: (0..k).map(|i| 2.0 * r[i][i].abs().ln()).sum(),
        variance: (0..k).map(|i| r[i][i].powi(-2)).fold(0.0, f64::max),
        at: order,
        beta,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_is_two_steps() {
        let n = 30;
        let columns: Vec<Vec<f64>> = (1..n)
            .map(|at| {
                let mean = (n - at) as f64 / n as f64;
                (0..n)
                    .map(|i| if i >= at { 1.0 - mean } else { -mean })
                    .collect()
            })
            .collect();
        let y: Vec<f64> = (0..n)
            .map(|i| if (10..20).contains(&i) { 2.0 } else { 0.0 } - 2.0 / 3.0)
            .collect();
        let found = stairs(&columns, &y, 3);
        assert_eq!(found[0].at, [9, 19]);
        assert!((found[0].beta[0] - 2.0).abs() < 1e-9 && (found[0].beta[1] + 2.0).abs() < 1e-9);
        assert!(found[0].rss < 1e-9);
    }
}
