//! An average over models: a mixture of Student's t, its mean and its quantiles.

use super::student::t_cdf;

/// One model's opinion on a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    pub weight: f64,
    pub mean: f64,
    pub se: f64,
    pub df: f64,
}

/// Parts below this share of the heaviest do not move a quantile.
const NEGLIGIBLE: f64 = 2e-4;

/// More parts than this cost time and move no quantile by a hundredth of the spread.
const PARTS_MAX: usize = 64;

/// A weighted mixture; weights need not add up to one.
#[derive(Debug, Clone, Default)]
pub struct Mixture {
    parts: Vec<Part>,
}

impl Mixture {
    /// Keeps the parts that matter.
    pub fn new(mut parts: Vec<Part>) -> Mixture {
        parts.retain(|p| p.weight > 0.0 && p.mean.is_finite() && p.se.is_finite());
        let heaviest = parts.iter().map(|p| p.weight).fold(0.0, f64::max);
        parts.retain(|p| p.weight >= NEGLIGIBLE * heaviest);
        parts.sort_unstable_by(|a, b| b.weight.total_cmp(&a.weight));
        parts.truncate(PARTS_MAX);
        let sum: f64 = parts.iter().map(|p| p.weight).sum();
        for p in &mut parts {
            p.weight /= sum;
        }
        Mixture { parts }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Weighted mean.
    pub fn mean(&self) -> f64 {
        self.parts.iter().map(|p| p.weight * p.mean).sum()
    }

    /// Spread within and between the parts, as one standard deviation.
    pub fn sd(&self) -> f64 {
        let mean = self.mean();
        let within = |p: &Part| p.se * p.se * (p.df / (p.df - 2.0).max(0.5));
        self.parts
            .iter()
            .map(|p| p.weight * (within(p) + (p.mean - mean).powi(2)))
            .sum::<f64>()
            .sqrt()
    }

    /// Share of the mixture below `x`.
    pub fn below(&self, x: f64) -> f64 {
        self.parts
            .iter()
            .map(|p| {
                let away = x - p.mean;
                let share = if p.se > 0.0 {
                    t_cdf(away / p.se, p.df)
                } else {
                    step(away)
                };
                p.weight * share
            })
            .sum()
    }

    /// The quantile, to a thousandth of the spread, by false position (Illinois).
    pub fn quantile(&self, q: f64) -> f64 {
        let (mean, sd) = (self.mean(), self.sd());
        if sd.is_nan() || sd <= 0.0 {
            return mean;
        }
        let miss = |x: f64| self.below(x) - q;
        let (mut lo, mut hi) = (mean - 4.0 * sd, mean + 4.0 * sd);
        let (mut at_lo, mut at_hi) = (miss(lo), miss(hi));
        while at_lo > 0.0 && lo > mean - 60.0 * sd {
            lo -= 8.0 * sd;
            at_lo = miss(lo);
        }
        while at_hi < 0.0 && hi < mean + 60.0 * sd {
            hi += 8.0 * sd;
            at_hi = miss(hi);
        }
        for round in 0..40 {
            if hi - lo <= 1e-3 * sd {
                break;
            }
            let guess = (lo * at_hi - hi * at_lo) / (at_hi - at_lo);
            // Every third round halves, so that a steep side cannot hold the bracket open.
            let fair = guess > lo && guess < hi && round % 3 != 2;
            let x = if fair { guess } else { 0.5 * (lo + hi) };
            let at = miss(x);
            if at.abs() < 1e-5 {
                return x;
            }
            if at < 0.0 {
                (lo, at_lo) = (x, at)
            } else {
                (hi, at_hi) = (x, at)
            }
        }
        0.5 * (lo + hi)
    }
}

fn step(away: f64) -> f64 {
    if away >= 0.0 { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_students_t() {
        let m = Mixture::new(vec![Part {
            weight: 3.0,
            mean: 5.0,
            se: 2.0,
            df: 10.0,
        }]);
        assert!((m.quantile(0.975) - (5.0 + 2.0 * 2.228)).abs() < 0.02);
        assert!((m.below(5.0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn two_camps_widen_the_interval_to_both() {
        let part = |mean| Part {
            weight: 1.0,
            mean,
            se: 1.0,
            df: 50.0,
        };
        let m = Mixture::new(vec![part(0.0), part(100.0)]);
        assert!(m.quantile(0.025) < 0.0 && m.quantile(0.975) > 100.0);
        assert!((m.mean() - 50.0).abs() < 1e-9);
    }
}
