//! Which combinations of levels to run when not all can be: those from which the effect of each factor is known best.
//!
//! A D-optimal selection for a model of main effects, by Fedorov's exchange (Fedorov 1972, "Theory of Optimal
//! Experiments") from several starts, as in Wheeler's AlgDesign: the determinant of the information matrix only rises.
//! The same factors always give the same selection.

use crate::order::mix;

/// Keeps the information matrix invertible while there are fewer combinations than effects.
const RIDGE: f64 = 1e-3;
/// An exchange, or another start, must raise the determinant by this share.
const GAIN_MIN: f64 = 1e-6;
/// Rounds of exchanges of a start; each takes the best one.
const ROUNDS_MAX: usize = 100;
/// An exchange ends in a selection that no single exchange improves, and not always in the best.
const STARTS: u64 = 12;

/// `most` of all combinations of so many levels, the first of each factor's first level; in order.
pub fn chosen(levels: &[usize], most: usize) -> Vec<Vec<usize>> {
    let all = combinations(levels);
    if most >= all.len() {
        return all;
    }
    let rows: Vec<Vec<f64>> = all.iter().map(|one| contrasts(levels, one)).collect();
    let mut best: Option<(f64, Vec<bool>)> = None;
    for start in 0..STARTS {
        let found = selection(&rows, most, start);
        if best
            .as_ref()
            .is_none_or(|before| found.0 > before.0 + GAIN_MIN)
        {
            best = Some(found);
        }
    }
    let is_in = best.map(|(_, is_in)| is_in).unwrap_or_default();
    let both = all.into_iter().zip(is_in);
    both.filter_map(|(one, is_in)| is_in.then_some(one))
        .collect()
}

/// The logarithm of the determinant, and which rows are in. The first start adds the best row each time, the others
/// begin with rows by chance.
fn selection(rows: &[Vec<f64>], most: usize, start: u64) -> (f64, Vec<bool>) {
    let mut is_in = vec![false; rows.len()];
    let mut design = Design::new(rows.first().map_or(0, Vec::len));
    is_in[0] = true;
    design.add(&rows[0], 1.0);
    let mut random = start;
    for _ in 1..most {
        let outside: Vec<usize> = (0..rows.len()).filter(|at| !is_in[*at]).collect();
        random = mix(random.wrapping_add(1));
        let at = match start {
            0 => largest(&outside, |at| design.leverage(&rows[at])).map(|(at, _)| at),
            _ => outside
                .get((random % outside.len().max(1) as u64) as usize)
                .copied(),
        };
        if let Some(at) = at {
            is_in[at] = true;
            design.add(&rows[at], 1.0);
        }
    }
    for _ in 0..ROUNDS_MAX {
        if !exchange(rows, &mut is_in, &mut design) {
            break;
        }
    }
    (design.log_determinant, is_in)
}

/// The best exchange of one inside (never the first) for one outside; whether there was one.
fn exchange(rows: &[Vec<f64>], is_in: &mut [bool], design: &mut Design) -> bool {
    let leverages: Vec<f64> = rows.iter().map(|row| design.leverage(row)).collect();
    let outside: Vec<usize> = (0..rows.len()).filter(|at| !is_in[*at]).collect();
    let mut found: Option<(usize, usize, f64)> = None;
    for out in (1..rows.len()).filter(|at| is_in[*at]) {
        let (product, own) = (design.times(&rows[out]), leverages[out]);
        // Ratio of the determinants with the one in place of the other, less 1.
        let gain = |at: usize| {
            let mixed: f64 = product.iter().zip(&rows[at]).map(|(a, b)| a * b).sum();
            leverages[at] - (leverages[at] * own - mixed * mixed) - own
        };
        if let Some((into, gain)) = largest(&outside, gain)
            && found.is_none_or(|before| gain > before.2)
        {
            found = Some((out, into, gain));
        }
    }
    match found {
        Some((out, into, gain)) if gain > GAIN_MIN => {
            design.add(&rows[into], 1.0);
            design.add(&rows[out], -1.0);
            (is_in[out], is_in[into]) = (false, true);
            true
        }
        _ => false,
    }
}

/// The one with the largest value; of equals the first.
fn largest(of: &[usize], value: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
    let valued = of.iter().map(|at| (*at, value(*at)));
    valued.fold(None, |best: Option<(usize, f64)>, one| match best {
        Some(before) if before.1 >= one.1 - 1e-12 => Some(before),
        _ => Some(one),
    })
}

/// All of them; the first factor varies slowest.
fn combinations(levels: &[usize]) -> Vec<Vec<usize>> {
    levels.iter().fold(vec![Vec::new()], |before, count| {
        let with = |one: &Vec<usize>, level: usize| [&one[..], &[level]].concat();
        before
            .iter()
            .flat_map(|one| (0..*count).map(move |level| with(one, level)))
            .collect()
    })
}

/// The row of the model of main effects: an intercept, and contrasts that sum to zero over the levels of a factor.
fn contrasts(levels: &[usize], one: &[usize]) -> Vec<f64> {
    let mut row = vec![1.0];
    for (count, level) in levels.iter().zip(one) {
        row.extend((1..*count).map(|at| match *level {
            0 => -1.0,
            level if level == at => 1.0,
            _ => 0.0,
        }));
    }
    row
}

/// The inverse of the information matrix of a selection, and what its determinant has risen to.
struct Design {
    inverse: Vec<Vec<f64>>,
    log_determinant: f64,
}

impl Design {
    fn new(size: usize) -> Design {
        let unit = |i: usize, j: usize| if i == j { 1.0 / RIDGE } else { 0.0 };
        Design {
            inverse: (0..size)
                .map(|i| (0..size).map(|j| unit(i, j)).collect())
                .collect(),
            log_determinant: 0.0,
        }
    }

    fn times(&self, row: &[f64]) -> Vec<f64> {
        let product = |of: &Vec<f64>| of.iter().zip(row).map(|(a, b)| a * b).sum();
        self.inverse.iter().map(product).collect()
    }

    fn leverage(&self, row: &[f64]) -> f64 {
        self.times(row).iter().zip(row).map(|(x, y)| x * y).sum()
    }

    /// Adds a row, or takes it out (`sign` -1), by the formula of Sherman and Morrison.
    fn add(&mut self, row: &[f64], sign: f64) {
        let product = self.times(row);
        let inner: f64 = product.iter().zip(row).map(|(a, b)| a * b).sum();
        let scale = sign / (1.0 + sign * inner);
        self.log_determinant += (1.0 + sign * inner).max(f64::MIN_POSITIVE).ln();
        for (i, line) in self.inverse.iter_mut().enumerate() {
            for (j, value) in line.iter_mut().enumerate() {
                *value -= scale * product[i] * product[j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_when_they_fit() {
        assert_eq!(chosen(&[2, 3], 6).len(), 6);
        assert_eq!(chosen(&[2, 3], 99), combinations(&[2, 3]));
        assert_eq!(combinations(&[2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }

    /// Of seven factors with two levels eight combinations are enough (Plackett and Burman 1946): each level four
    /// times, each pair of levels of two factors twice.
    #[test]
    fn eight_of_a_hundred_and_twenty_eight_are_balanced() {
        let found = chosen(&[2; 7], 8);
        assert_eq!((found.len(), &found[0]), (8, &vec![0; 7]));
        for factor in 0..7 {
            let high = found.iter().filter(|one| one[factor] == 1).count();
            assert_eq!(high, 4, "factor {factor} of {found:?}");
            for other in factor + 1..7 {
                let both = found
                    .iter()
                    .filter(|one| (one[factor], one[other]) == (1, 1))
                    .count();
                assert_eq!(both, 2, "factors {factor} and {other} of {found:?}");
            }
        }
    }

    #[test]
    fn a_third_of_three_by_three_by_three_has_each_level_as_often() {
        let found = chosen(&[3, 3, 3], 9);
        for factor in 0..3 {
            for level in 0..3 {
                let count = found.iter().filter(|one| one[factor] == level).count();
                assert_eq!(count, 3, "factor {factor} of {found:?}");
            }
        }
    }

    #[test]
    fn every_level_is_tried_with_the_least_number_of_arms() {
        for levels in [vec![5, 2, 2], vec![2, 4], vec![3, 3, 2, 2]] {
            let least = 1 + levels.iter().map(|count| count - 1).sum::<usize>();
            let found = chosen(&levels, least);
            assert_eq!(found.len(), least);
            for (factor, count) in levels.iter().enumerate() {
                for level in 0..*count {
                    let has = found.iter().any(|one| one[factor] == level);
                    assert!(has, "level {level} of factor {factor} in {found:?}");
                }
            }
        }
    }
}
