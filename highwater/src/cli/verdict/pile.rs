//! Series on their way to a table: every one while they are few; of many, how many have which label, and
//! those that grow fastest.

use std::collections::BTreeMap;

use verdict::Label;
use verdict::series::SeriesVerdict;

/// More rows than this nobody reads.
const ROWS_MAX: usize = 200;
/// Of more series than [`ROWS_MAX`], so many of the fastest growing are shown.
const FASTEST: usize = 20;

/// Verdicts on series, in bounded memory.
#[derive(Debug, Default)]
pub struct Pile {
    few: Vec<SeriesVerdict>,
    fastest: Vec<SeriesVerdict>,
    counts: BTreeMap<&'static str, usize>,
    total: usize,
}

impl Pile {
    pub fn take(&mut self, verdict: SeriesVerdict) {
        self.total += 1;
        *self.counts.entry(verdict.label.word()).or_default() += 1;
        if verdict.label == Label::Growing {
            self.rank(&verdict);
        }
        if self.few.len() < ROWS_MAX {
            self.few.push(verdict);
        }
    }

    fn rank(&mut self, verdict: &SeriesVerdict) {
        let slope = |v: &SeriesVerdict| v.slope_per_hour.map_or(0.0, |e| e.value);
        let at = self.fastest.partition_point(|v| slope(v) >= slope(verdict));
        if at < FASTEST {
            self.fastest.insert(at, verdict.clone());
            self.fastest.truncate(FASTEST);
        }
    }

    /// All in order, or the fastest growing of too many.
    pub fn rows(&self) -> &[SeriesVerdict] {
        if self.is_cut() {
            &self.fastest
        } else {
            &self.few
        }
    }

    /// What was left out, in a sentence.
    pub fn words(&self) -> Option<String> {
        let counts = self.counts.iter().map(|(label, n)| format!("{n} {label}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        self.is_cut().then(|| {
            format!(
                "{} series: {counts}. Shown are the {} that grow fastest; --json prints every one.",
                self.total,
                self.fastest.len()
            )
        })
    }

    fn is_cut(&self) -> bool {
        self.total > ROWS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::estimate::Estimate;
    use series::series::Series;
    use verdict::Rules;
    use verdict::series::judge;

    #[test]
    fn of_many_the_fastest_are_shown_and_all_are_counted() {
        let blank = judge(&Series::default(), &Rules::default());
        let mut pile = Pile::default();
        for i in 0..1000 {
            let value = f64::from((i * 7919) % 1000);
            let label = if i % 2 == 0 {
                Label::Growing
            } else {
                Label::Flat
            };
            let slope = Estimate {
                value,
                lo: value,
                hi: value,
            };
            pile.take(SeriesVerdict {
                label,
                slope_per_hour: Some(slope),
                ..blank.clone()
            });
        }
        let shown: Vec<f64> = pile
            .rows()
            .iter()
            .map(|v| v.slope_per_hour.unwrap().value)
            .collect();
        assert_eq!(shown.len(), FASTEST);
        assert!(
            shown.windows(2).all(|w| w[0] >= w[1]) && shown[0] >= 998.0,
            "{shown:?}"
        );
        assert!(
            pile.words()
                .unwrap()
                .starts_with("1000 series: 500 flat, 500 growing.")
        );
    }
}
