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

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    pub effects: Vec<Effect>,
    /// Of each factor, its share of the variance between the observations, 0 to 1.
    pub shares: Vec<f64>,
    /// Of each pair of factors, first to last, the share of the variance that only both together explain; `None`: this
    /// selection of combinations cannot tell.
    pub pair_shares: Vec<((usize, usize), Option<f64>)>,
    /// Those whose interval is on one side of 1.
    pub interactions: Vec<Interaction>,
    /// Share of the variance between observations of one combination; without repeats, what the factors leave.
    pub rest_share: f64,
    /// Combinations of levels that were observed.
    pub combinations: usize,
}

/// Fits the effects. `levels`: how many each factor has; `confidence`: of an interval, such as 0.95. `None`: too few
/// observations for the factors, values that are not above 0, or levels that were never apart.
pub fn effects(levels: &[usize], observations: &[Observation], confidence: f64) -> Option<Effects> {
    let is_right = |one: &Observation| {
        let within = one
            .levels
            .iter()
            .zip(levels)
            .all(|(level, count)| level < count);
        one.levels.len() == levels.len() && within && one.value > 0.0 && one.value.is_finite()
    };
    if observations.is_empty() || !observations.iter().all(is_right) {
        return None;
    }
    let y: Vec<f64> = observations.iter().map(|one| one.value.ln()).collect();
    let all: Vec<usize> = (0..levels.len()).collect();
    let main = Columns::of_factors(levels, observations, &all);
    let fit = main.fit(&y)?;
    let total = Columns::of_factors(levels, observations, &[])
        .fit(&y)?
        .residual;
    let error = Error::of(observations, &y, &fit, main.count())?;
    let interval = |mean: f64, variance: f64, away: f64| {
        let half = away * (error.variance * variance).sqrt();
        Estimate {
            value: mean.exp(),
            lo: (mean - half).exp(),
            hi: (mean + half).exp(),
        }
    };
    let away = t_quantile(0.5 + 0.5 * confidence, error.df);
    let effects = main
        .names
        .iter()
        .enumerate()
        .skip(1)
        .map(|(at, name)| Effect {
            factor: name[0].0,
            level: name[0].1,
            ratio: interval(fit.mean[at], fit.variance[at], away),
        });
    let share = |sum: f64| {
        if total > 0.0 {
            (sum / total).clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let without = |factor: usize| {
        let others: Vec<usize> = all
            .iter()
            .copied()
            .filter(|other| *other != factor)
            .collect();
        Columns::of_factors(levels, observations, &others).fit(&y)
    };
    let shares = all
        .iter()
        .map(|factor| without(*factor).map_or(0.0, |fewer| share(fewer.residual - fit.residual)));
    let mut found = Effects {
        effects: effects.collect(),
        shares: shares.collect(),
        rest_share: share(error.within.unwrap_or(fit.residual)),
        combinations: error.combinations,
        ..Effects::default()
    };
    let pairs: Vec<(usize, usize)> = all
        .iter()
        .flat_map(|a| all[a + 1..].iter().map(|b| (*a, *b)))
        .collect();
    let contrasts: usize = pairs
        .iter()
        .map(|(a, b)| (levels[*a] - 1) * (levels[*b] - 1))
        .sum();
    let strict = t_quantile(
        1.0 - 0.5 * (1.0 - confidence) / contrasts.max(1) as f64,
        error.df,
    );
    for (a, b) in pairs {
        let both = main.clone().with_pair(levels, observations, (a, b)).fit(&y);
        // Without repeats the interactions are all that there is to judge by.
        let Some(both) = both.filter(|_| error.within.is_some()) else {
            found.pair_shares.push(((a, b), None));
            continue;
        };
        found
            .pair_shares
            .push(((a, b), Some(share(fit.residual - both.residual))));
        let columns = Columns::pair_names(levels, (a, b)).into_iter();
        let own = columns
            .enumerate()
            .map(|(at, name)| (main.count() + at, name));
        found
            .interactions
            .extend(own.filter_map(|(at, (first, second))| {
                let ratio = interval(both.mean[at], both.variance[at], strict);
                let is_one = ratio.lo <= 1.0 && 1.0 <= ratio.hi;
                (!is_one).then_some(Interaction {
                    first,
                    second,
                    ratio,
                })
            }));
    }
    Some(found)
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
mod tests {
    use super::*;
    use testkit::Random;

    /// All combinations of so many levels, each `repeats` times, with noise of this standard deviation.
    fn observed(
        levels: &[usize],
        repeats: usize,
        noise: f64,
        seed: u64,
        value: impl Fn(&[usize]) -> f64,
    ) -> Vec<Observation> {
        let mut random = Random::new(seed);
        let cells: usize = levels.iter().product();
        let mut all = Vec::new();
        for cell in 0..cells {
            let mut rest = cell;
            let own: Vec<usize> = levels
                .iter()
                .map(|count| {
                    let level = rest % count;
                    rest /= count;
                    level
                })
                .collect();
            for _ in 0..repeats {
                let value = value(&own) * (noise * random.normal()).exp();
                all.push(Observation {
                    levels: own.clone(),
                    value,
                });
            }
        }
        all
    }

    fn ratio(found: &Effects, factor: usize, level: usize) -> Estimate {
        let is_it = |one: &&Effect| (one.factor, one.level) == (factor, level);
        found.effects.iter().find(is_it).expect("an effect").ratio
    }

    #[test]
    fn what_moves_it_is_told_from_what_does_not() {
        // The second level of the first factor doubles it, the third takes a quarter off; the second factor does nothing.
        let value = |levels: &[usize]| 100.0 * [1.0, 2.0, 0.75][levels[0]];
        let all = observed(&[3, 2], 3, 0.02, 1, value);
        let found = effects(&[3, 2], &all, 0.95).expect("effects");
        let (doubled, less, same) = (
            ratio(&found, 0, 1),
            ratio(&found, 0, 2),
            ratio(&found, 1, 1),
        );
        assert!(
            doubled.lo < 2.0 && 2.0 < doubled.hi && doubled.lo > 1.8,
            "{doubled:?}"
        );
        assert!(
            less.lo < 0.75 && 0.75 < less.hi && less.hi < 0.85,
            "{less:?}"
        );
        assert!(same.lo < 1.0 && 1.0 < same.hi, "{same:?}");
        assert!(
            found.shares[0] > 0.98 && found.shares[1] < 0.01,
            "{found:?}"
        );
        assert!(found.interactions.is_empty(), "{found:?}");
        assert_eq!(found.combinations, 6);
    }

    #[test]
    fn two_that_only_act_together_are_found() {
        let value = |levels: &[usize]| if levels == [1, 1] { 50.0 } else { 100.0 };
        let all = observed(&[2, 2], 3, 0.02, 2, value);
        let found = effects(&[2, 2], &all, 0.95).expect("effects");
        let [only] = &found.interactions[..] else {
            panic!("{found:?}")
        };
        assert_eq!((only.first, only.second), ((0, 1), (1, 1)));
        assert!(only.ratio.lo < 0.5 && 0.5 < only.ratio.hi, "{only:?}");
        assert!(found.pair_shares[0].1 > Some(0.2), "{found:?}");
    }

    #[test]
    fn intervals_hold_as_often_as_they_say_and_interactions_are_seldom_made_up() {
        let (mut held, mut tried, mut made_up) = (0, 0, 0);
        for seed in 0..400 {
            let all = observed(&[3, 2, 2], 2, 0.05, seed, |levels| {
                1e6 * (1.0 + levels[0] as f64)
            });
            let found = effects(&[3, 2, 2], &all, 0.95).expect("effects");
            made_up += usize::from(!found.interactions.is_empty());
            for (factor, level, truth) in [(0, 1, 2.0), (0, 2, 3.0), (1, 1, 1.0), (2, 1, 1.0)] {
                let ratio = ratio(&found, factor, level);
                held += usize::from(ratio.lo <= truth && truth <= ratio.hi);
                tried += 1;
            }
        }
        let share = f64::from(held as u32) / f64::from(tried as u32);
        assert!(
            (0.93..0.985).contains(&share),
            "{share} of the intervals hold"
        );
        assert!(made_up <= 28, "{made_up} of 400 made-up interactions");
    }

    #[test]
    fn a_selection_of_combinations_gives_effects_and_says_what_it_cannot_tell() {
        // Half of 2 x 2 x 2: the third factor is the product of the others.
        let value = |levels: &[usize]| 100.0 * [1.0, 1.5][levels[0]] * [1.0, 0.8][levels[2]];
        let whole = observed(&[2, 2, 2], 2, 0.01, 3, value);
        let half: Vec<Observation> = whole
            .into_iter()
            .filter(|one| one.levels.iter().sum::<usize>() % 2 == 0)
            .collect();
        let found = effects(&[2, 2, 2], &half, 0.95).expect("effects");
        let (first, third) = (ratio(&found, 0, 1), ratio(&found, 2, 1));
        assert!(
            (first.value - 1.5).abs() < 0.05 && (third.value - 0.8).abs() < 0.03,
            "{found:?}"
        );
        assert!(
            found.pair_shares.iter().all(|(_, share)| share.is_none()),
            "{found:?}"
        );
    }

    #[test]
    fn one_observation_each_is_judged_by_what_the_factors_leave() {
        let all = observed(&[2, 3], 1, 0.01, 4, |levels| [1.0, 2.0][levels[0]]);
        let found = effects(&[2, 3], &all, 0.95).expect("effects");
        assert!(ratio(&found, 0, 1).lo > 1.5, "{found:?}");
        assert!(found.pair_shares[0].1.is_none() && found.interactions.is_empty());
    }

    #[test]
    fn what_cannot_be_fitted_is_none() {
        let one = |levels: &[usize], value: f64| Observation {
            levels: levels.to_vec(),
            value,
        };
        assert_eq!(effects(&[2], &[], 0.95), None);
        assert_eq!(effects(&[2], &[one(&[0], 1.0), one(&[1], 2.0)], 0.95), None);
        assert_eq!(effects(&[2], &[one(&[0], 1.0), one(&[0], 2.0)], 0.95), None);
        assert_eq!(
            effects(
                &[2],
                &[one(&[0], 0.0), one(&[1], 2.0), one(&[1], 2.0)],
                0.95
            ),
            None
        );
        assert_eq!(
            effects(
                &[2],
                &[one(&[0], 1.0), one(&[5], 2.0), one(&[1], 2.0)],
                0.95
            ),
            None
        );
        assert_eq!(
            effects(
                &[2],
                &[one(&[0], f64::NAN), one(&[1], 2.0), one(&[1], 2.0)],
                0.95
            ),
            None
        );
    }
}
