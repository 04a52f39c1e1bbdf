//! Several steps at once: greedy choice over prepared step columns, then exchange of each for a better
//! place while the others stay. All of it runs on inner products, which are worked out once for every column
//! that is ever chosen.

/// One staircase.
#[derive(Debug, Clone, Default)]
pub struct Stair {
    /// Which columns, in order of place.
    pub at: Vec<usize>,
    /// Height of each.
    pub beta: Vec<f64>,
    pub rss: f64,
    /// Log determinant of the Gram matrix.
    pub logdet: f64,
    /// Largest variance of a height, per unit of residual variance.
    pub variance: f64,
}

/// No staircase has more steps than this: more are not told from a ramp.
pub const STEPS_MAX: usize = 5;
type Small = [[f64; STEPS_MAX]; STEPS_MAX];

/// A column with less than this left of it beside the others says nothing new; as a share of its length too.
const NEW_MIN: f64 = 1e-6;
const NEW_SHARE: f64 = 1e-3;

/// A step that brings less log likelihood than this cannot pay for its place and height.
const GAIN_LN: f64 = 2.0;

/// The best staircases of two to `most` steps (at most [`STEPS_MAX`]) for so many readings.
pub fn stairs(products: Products, readings: usize, most: usize) -> Vec<Stair> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { stairs_wide(products, readings, most) };
    }
    stairs_here(products, readings, most)
}

/// The same numbers to the last bit, four at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn stairs_wide(products: Products, readings: usize, most: usize) -> Vec<Stair> {
    stairs_here(products, readings, most)
}

#[inline(always)]
fn stairs_here(mut products: Products, readings: usize, most: usize) -> Vec<Stair> {
    let mut found: Vec<Stair> = Vec::new();
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < most.min(STEPS_MAX) && chosen.len() + 3 < readings {
        let Some(next) = products.best_addition(&chosen) else {
            break;
        };
        chosen.push(next);
        if chosen.len() < 2 {
            continue;
        }
        products.exchange(&mut chosen);
        let Some(stair) = products.measure(&chosen) else {
            break;
        };
        let before = found.last().map_or(f64::INFINITY, |s| s.rss);
        let gain = 0.5 * readings as f64 * (before / stair.rss.max(f64::MIN_POSITIVE)).ln();
        found.push(stair);
        if gain < GAIN_LN {
            break;
        }
    }
    found
}

/// Inner products of the columns with each other and with `y`.
pub struct Products<'a> {
    /// The products of one column with all.
    with_all: &'a dyn Fn(usize) -> Vec<f64>,
    /// Those of the columns that were chosen so far.
    rows: Vec<Vec<f64>>,
    cc: Vec<f64>,
    cy: Vec<f64>,
    yy: f64,
    left: Left,
}

/// What a choice of columns leaves of every column, and of its product with the readings.
#[derive(Default)]
struct Left {
    cc: Vec<f64>,
    cy: Vec<f64>,
    /// Of each of the choice, what it had of its own (as a unit column): its products with all.
    units: [Vec<f64>; STEPS_MAX],
}

impl Left {
    /// Takes column `s`, the `nth` of the choice; `None` when the others say the same.
    #[inline(always)]
    fn take(&mut self, nth: usize, s: usize, products: &[f64]) -> Option<()> {
        let own = self.cc[s];
        if own.is_nan() || own <= NEW_MIN {
            return None;
        }
        let (before, rest) = self.units.split_at_mut(nth);
        let unit = &mut rest[0];
        unit.clear();
        unit.extend_from_slice(products);
        for other in before {
            let by = other[s];
            unit.iter_mut().zip(other).for_each(|(u, o)| *u -= by * *o);
        }
        let scale = 1.0 / own.sqrt();
        let of_y = self.cy[s] * scale;
        for ((u, cc), cy) in unit.iter_mut().zip(&mut self.cc).zip(&mut self.cy) {
            *u *= scale;
            *cc -= *u * *u;
            *cy -= *u * of_y;
        }
        Some(())
    }
}

impl<'a> Products<'a> {
    /// Of columns, by the products of one of them with all, of each with itself and with the readings, and that of the
    /// readings with themselves.
    pub fn of(
        with_all: &'a dyn Fn(usize) -> Vec<f64>,
        cc: Vec<f64>,
        cy: Vec<f64>,
        yy: f64,
    ) -> Products<'a> {
        Products {
            with_all,
            rows: vec![Vec::new(); cc.len()],
            cc,
            cy,
            yy,
            left: Left::default(),
        }
    }

    fn know(&mut self, chosen: &[usize]) {
        for &s in chosen {
            if self.rows[s].is_empty() {
                self.rows[s] = (self.with_all)(s);
            }
        }
    }

    /// Inverse of the Gram matrix of the chosen, and the log of its determinant.
    fn inverse(&self, chosen: &[usize]) -> Option<(Small, f64)> {
        let mut gram = [[0.0; STEPS_MAX]; STEPS_MAX];
        for (i, &s) in chosen.iter().enumerate() {
            for (j, &c) in chosen.iter().enumerate() {
                gram[i][j] = self.rows[s][c];
            }
        }
        invert(gram, chosen.len())
    }

    /// The column that takes most from what the chosen leave.
    #[inline(always)]
    fn best_addition(&mut self, chosen: &[usize]) -> Option<usize> {
        self.know(chosen);
        let left = &mut self.left;
        left.cc.clone_from(&self.cc);
        left.cy.clone_from(&self.cy);
        for (nth, &s) in chosen.iter().enumerate() {
            left.take(nth, s, &self.rows[s])?;
        }
        let mut best = (NEW_MIN, None);
        for (c, (&own, &rest)) in left.cc.iter().zip(&left.cy).enumerate() {
            if own > NEW_MIN.max(NEW_SHARE * self.cc[c]) {
                let gain = rest * rest / own;
                if gain > best.0 && !chosen.contains(&c) {
                    best = (gain, Some(c));
                }
            }
        }
        best.1
    }

    #[inline(always)]
    fn exchange(&mut self, chosen: &mut [usize]) {
        for i in 0..chosen.len() {
            let others: Vec<usize> = chosen
                .iter()
                .enumerate()
                .filter(|(j, _)| *j != i)
                .map(|(_, k)| *k)
                .collect();
            if let Some(better) = self.best_addition(&others) {
                chosen[i] = better;
            }
        }
    }

    /// Heights, residual and determinant; `None` when two steps are one.
    fn measure(&mut self, chosen: &[usize]) -> Option<Stair> {
        let mut at = chosen.to_vec();
        at.sort_unstable();
        at.dedup();
        if at.len() != chosen.len() {
            return None;
        }
        self.know(&at);
        let (inverse, logdet) = self.inverse(&at)?;
        let k = at.len();
        let beta: Vec<f64> = (0..k)
            .map(|i| (0..k).map(|j| inverse[i][j] * self.cy[at[j]]).sum())
            .collect();
        let fitted: f64 = beta.iter().zip(&at).map(|(b, s)| b * self.cy[*s]).sum();
        Some(Stair {
            rss: (self.yy - fitted).max(0.0),
            logdet,
            variance: (0..k).map(|i| inverse[i][i]).fold(0.0, f64::max),
            beta,
            at,
        })
    }
}

/// Inverse of the first `k` rows and columns of a symmetric positive matrix (Gauss-Jordan), with the log of
/// their determinant.
fn invert(mut a: Small, k: usize) -> Option<(Small, f64)> {
    let mut logdet = 0.0;
    for p in 0..k {
        let pivot = a[p][p];
        if pivot.is_nan() || pivot <= NEW_MIN {
            return None;
        }
        logdet += pivot.ln();
        a[p][p] = 1.0;
        a[p].iter_mut().for_each(|v| *v /= pivot);
        let row = a[p];
        for (i, other) in a.iter_mut().enumerate().take(k) {
            if i != p {
                let times = other[p];
                other[p] = 0.0;
                other
                    .iter_mut()
                    .zip(&row)
                    .for_each(|(v, r)| *v -= times * r);
            }
        }
    }
    Some((a, logdet))
}

#[cfg(test)]
mod tests {
    use super::super::linear::dot;
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
        let with = |of: &[f64]| -> Vec<f64> { columns.iter().map(|c| dot(c, of)).collect() };
        let own = columns.iter().map(|c| dot(c, c)).collect();
        let with_all = |c: usize| with(&columns[c]);
        let products = Products::of(&with_all, own, with(&y), dot(&y, &y));
        let found = stairs(products, y.len(), 3);
        assert_eq!(found[0].at, [9, 19]);
        assert!((found[0].beta[0] - 2.0).abs() < 1e-9 && (found[0].beta[1] + 2.0).abs() < 1e-9);
        assert!(found[0].rss < 1e-9);
    }
}
