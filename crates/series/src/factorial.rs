//! Effects of factors on a measured quantity: which of several things that were varied together moves it, and by how
//! much.
//!
//! In: observations, each with the level of every factor and a positive value. Out: for each level the ratio to the
//! factor's first level with its interval, shares of the variance, and the pairs of factors that act on each other. The
//! model is linear in the logarithm, with treatment contrasts (Montgomery, "Design and Analysis of Experiments",
//! chapters 5 and 10). Called by: the verdict on a run, and by `replay --factors`.

use crate::estimate::Estimate;
use crate::student::t_quantile;

/// Spread between processes of one kind that is assumed before any is seen, and how many degrees of freedom that is
/// worth; as for the mean of an arm.
const SPREAD_PRIOR: f64 = 0.03;
const SPREAD_PRIOR_DF: f64 = 1.0;
/// Variance of logarithms below which nothing differs: a hundred-thousandth, rounding and no more.
const NOTHING: f64 = 1e-10;
/// A column of which so little is its own, as a share of its length squared, is a mixture of the others.
const OWN_MIN: f64 = 1e-9;

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Number of the level of each factor; 0 is its first.
    pub levels: Vec<usize>,
    /// Above 0.
    pub value: f64,
}

/// A level against the first of its factor, averaged over the other factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub factor: usize,
    pub level: usize,
    pub ratio: Estimate,
}

/// Two levels that together do something else than each alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interaction {
    /// (factor, level), of factors in their order.
    pub first: (usize, usize),
    pub second: (usize, usize),
    /// What both together give, in times of what they would give if neither changed the other's effect. Its interval
    /// holds for all interactions at once (Bonferroni).
    pub ratio: Estimate,
}

/// What was found. Shares are of the variance between the observations, 0 to 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    pub effects: Vec<Effect>,
    /// What each factor explains alone. They add up to at most 1 where every combination was observed as often.
    pub shares: Vec<f64>,
    /// What only both factors of a pair explain; empty unless every combination was observed, with repeats.
    pub pair_shares: Vec<((usize, usize), f64)>,
    /// Those whose interval is on one side of 1.
    pub interactions: Vec<Interaction>,
    /// What differs between combinations, and neither a factor nor a pair explains.
    pub together_share: f64,
    /// What observations of one combination differ by; `None` without repeats.
    pub within_share: Option<f64>,
    /// Combinations of levels that were observed.
    pub combinations: usize,
}

/// Why there are no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// No observation of this level of this factor.
    Level(usize, usize),
    /// No more observations than effects, or levels that were never apart.
    TooFew,
    /// A value that is not above 0.
    Value,
}

/// Fits the effects. `levels`: how many each factor has; `confidence`: of an interval, such as 0.95.
///
/// # Errors
/// The observations do not tell.
pub fn effects(
    levels: &[usize],
    observations: &[Observation],
    confidence: f64,
) -> Result<Effects, Unclear> {
    let is_right = |one: &Observation| {
        let within = one
            .levels
            .iter()
            .zip(levels)
            .all(|(level, count)| level < count);
        one.levels.len() == levels.len() && within && one.value > 0.0 && one.value.is_finite()
    };
    if !observations.iter().all(is_right) {
        return Err(Unclear::Value);
    }
    for (factor, count) in levels.iter().enumerate() {
        let has = |level: usize| observations.iter().any(|one| one.levels[factor] == level);
        if let Some(level) = (0..*count).find(|level| !has(*level)) {
            return Err(Unclear::Level(factor, level));
        }
    }
    let y: Vec<f64> = observations.iter().map(|one| one.value.ln()).collect();
    let all: Vec<usize> = (0..levels.len()).collect();
    let main = Columns::of_factors(levels, observations, &all);
    let fit = main.fit(&y).ok_or(Unclear::TooFew)?;
    let mean = Columns::of_factors(levels, observations, &[]);
    let total = mean.fit(&y).ok_or(Unclear::TooFew)?.residual;
    let error = Error::of(observations, &y, &fit, main.count()).ok_or(Unclear::TooFew)?;
    let fitted = Fitted {
        error,
        levels,
        observations,
        y,
        main,
        fit,
        total,
        confidence,
    };
    Ok(fitted.effects(&all))
}

/// The model of main effects, fitted, with all that it was fitted to.
struct Fitted<'a> {
    levels: &'a [usize],
    observations: &'a [Observation],
    y: Vec<f64>,
    main: Columns,
    fit: Fit,
    error: Error,
    /// Sum of squares around the mean.
    total: f64,
    confidence: f64,
}

impl Fitted<'_> {
    fn effects(&self, all: &[usize]) -> Effects {
        let away = t_quantile(0.5 + 0.5 * self.confidence, self.error.df);
        let columns = self.main.names.iter().enumerate().skip(1);
        let effects = columns.map(|(at, name)| Effect {
            factor: name[0].0,
            level: name[0].1,
            ratio: self.ratio(&self.fit, at, away),
        });
        let mut found = Effects {
            effects: effects.collect(),
            shares: all
                .iter()
                .map(|factor| self.share_of(*factor, all))
                .collect(),
            within_share: self.error.within.map(|within| self.share(within)),
            combinations: self.error.combinations,
            ..Effects::default()
        };
        // In a selection the effect of one pair is the effect of another: none is told apart.
        let is_whole = self.error.combinations == self.levels.iter().product::<usize>();
        if is_whole && self.error.within.is_some() {
            self.interactions(all, &mut found);
        }
        let pairs: f64 = found.pair_shares.iter().map(|(_, share)| share).sum();
        let between = self.fit.residual - self.error.within.unwrap_or(0.0);
        found.together_share = (self.share(between) - pairs).max(0.0);
        found
    }

    /// Adds what pairs of factors do together.
    fn interactions(&self, all: &[usize], found: &mut Effects) {
        let pairs: Vec<(usize, usize)> = all
            .iter()
            .flat_map(|a| all[a + 1..].iter().map(|b| (*a, *b)))
            .collect();
        let count = |(a, b): &(usize, usize)| (self.levels[*a] - 1) * (self.levels[*b] - 1);
        let contrasts = pairs.iter().map(count).sum::<usize>().max(1) as f64;
        let away = t_quantile(
            1.0 - 0.5 * (1.0 - self.confidence) / contrasts,
            self.error.df,
        );
        for pair in pairs {
            let columns = self.main.clone();
            let both = columns
                .with_pair(self.levels, self.observations, pair)
                .fit(&self.y);
            let Some(both) = both else {
                continue;
            };
            let names = Columns::pair_names(self.levels, pair);
            for (at, (first, second)) in names.into_iter().enumerate() {
                let ratio = self.ratio(&both, self.main.count() + at, away);
                if ratio.lo > 1.0 || ratio.hi < 1.0 {
                    found.interactions.push(Interaction {
                        first,
                        second,
                        ratio,
                    });
                }
            }
            let share = self.share(self.fit.residual - both.residual);
            found.pair_shares.push((pair, share));
        }
    }

    /// What a column stands for, as a ratio.
    fn ratio(&self, fit: &Fit, at: usize, away: f64) -> Estimate {
        let half = away * (self.error.variance * fit.variance[at]).sqrt();
        Estimate {
            value: fit.mean[at].exp(),
            lo: (fit.mean[at] - half).exp(),
            hi: (fit.mean[at] + half).exp(),
        }
    }

    fn share(&self, sum: f64) -> f64 {
        match self.total > NOTHING * self.y.len() as f64 {
            true => (sum / self.total).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// What the model loses without a factor.
    fn share_of(&self, factor: usize, all: &[usize]) -> f64 {
        let others: Vec<usize> = all
            .iter()
            .copied()
            .filter(|other| *other != factor)
            .collect();
        let fewer = Columns::of_factors(self.levels, self.observations, &others).fit(&self.y);
        fewer.map_or(0.0, |fewer| self.share(fewer.residual - self.fit.residual))
    }
}

/// What observations of one combination differ by.
struct Error {
    variance: f64,
    df: f64,
    /// Sum of squares within combinations; `None` without repeats.
    within: Option<f64>,
    combinations: usize,
}

impl Error {
    fn of(observations: &[Observation], y: &[f64], fit: &Fit, columns: usize) -> Option<Error> {
        let mut cells: Vec<(&[usize], Vec<f64>)> = Vec::new();
        for (one, value) in observations.iter().zip(y) {
            match cells.iter_mut().find(|cell| cell.0 == one.levels) {
                Some(cell) => cell.1.push(*value),
                None => cells.push((&one.levels, vec![*value])),
            }
        }
        let within: f64 = cells
            .iter()
            .map(|(_, values)| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                values
                    .iter()
                    .map(|value| (value - mean).powi(2))
                    .sum::<f64>()
            })
            .sum();
        let repeats = (observations.len() - cells.len()) as f64;
        let left = observations.len() as f64 - columns as f64;
        let (sum, own, within) = match repeats > 0.0 {
            true => (within, repeats, Some(within)),
            false => (fit.residual, left, None),
        };
        if own <= 0.0 {
            return None;
        }
        let df = own + SPREAD_PRIOR_DF;
        Some(Error {
            variance: (sum + SPREAD_PRIOR_DF * SPREAD_PRIOR.powi(2)) / df,
            df,
            within,
            combinations: cells.len(),
        })
    }
}

type Contrast = ((usize, usize), (usize, usize));

/// The columns of a model, an intercept first.
#[derive(Debug, Clone)]
struct Columns {
    /// By observation.
    rows: Vec<Vec<f64>>,
    /// (factor, level) that each column stands for.
    names: Vec<Vec<(usize, usize)>>,
}

impl Columns {
    fn of_factors(levels: &[usize], observations: &[Observation], factors: &[usize]) -> Columns {
        let of_factor = |factor: usize| (1..levels[factor]).map(move |level| vec![(factor, level)]);
        let names: Vec<_> = std::iter::once(Vec::new())
            .chain(factors.iter().copied().flat_map(of_factor))
            .collect();
        let mut columns = Columns {
            rows: vec![Vec::new(); observations.len()],
            names: Vec::new(),
        };
        for name in names {
            columns.push(observations, name);
        }
        columns
    }

    fn pair_names(levels: &[usize], (a, b): (usize, usize)) -> Vec<Contrast> {
        let of_a = 1..levels[a];
        of_a.flat_map(|i| (1..levels[b]).map(move |j| ((a, i), (b, j))))
            .collect()
    }

    fn with_pair(mut self, levels: &[usize], all: &[Observation], pair: (usize, usize)) -> Columns {
        for (first, second) in Columns::pair_names(levels, pair) {
            self.push(all, vec![first, second]);
        }
        self
    }

    fn push(&mut self, observations: &[Observation], name: Vec<(usize, usize)>) {
        for (row, one) in self.rows.iter_mut().zip(observations) {
            let is_it = name
                .iter()
                .all(|(factor, level)| one.levels[*factor] == *level);
            row.push(f64::from(u8::from(is_it)));
        }
        self.names.push(name);
    }

    fn count(&self) -> usize {
        self.names.len()
    }

    /// Least squares by Cholesky's decomposition of the normal equations; `None`: a column is a mixture of others.
    fn fit(&self, y: &[f64]) -> Option<Fit> {
        let n = self.count();
        let sum = |of: &dyn Fn(usize) -> f64| (0..y.len()).map(of).sum::<f64>();
        let mut lower = vec![vec![0.0; n]; n];
        for i in 0..n {
            for j in 0..=i {
                let inner = sum(&|row| self.rows[row][i] * self.rows[row][j]);
                let before: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let left = inner - before;
                lower[i][j] = match i == j {
                    true if left <= OWN_MIN * inner.max(f64::MIN_POSITIVE) => return None,
                    true => left.sqrt(),
                    false => left / lower[j][j],
                };
            }
        }
        let products: Vec<f64> = (0..n)
            .map(|i| sum(&|row| self.rows[row][i] * y[row]))
            .collect();
        let mean = solve(&lower, products);
        let unit = |at: usize| {
            (0..n)
                .map(|i| f64::from(u8::from(i == at)))
                .collect::<Vec<f64>>()
        };
        let variance = (0..n).map(|at| solve(&lower, unit(at))[at]).collect();
        let fitted = |row: usize| {
            self.rows[row]
                .iter()
                .zip(&mean)
                .map(|(x, b)| x * b)
                .sum::<f64>()
        };
        let residual = sum(&|row| (y[row] - fitted(row)).powi(2));
        Some(Fit {
            mean,
            variance,
            residual,
        })
    }
}

/// A fitted model: of each column its coefficient, and its variance in units of the error's.
struct Fit {
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// Sum of squares that it leaves.
    residual: f64,
}

/// Solves L L' x = b.
fn solve(lower: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let before: f64 = (0..i).map(|k| lower[i][k] * b[k]).sum();
        b[i] = (b[i] - before) / lower[i][i];
    }
    for i in (0..n).rev() {
        let after: f64 = (i + 1..n).map(|k| lower[k][i] * b[k]).sum();
        b[i] = (b[i] - after) / lower[i][i];
    }
    b
}

#[cfg(test)]
mod tests;
