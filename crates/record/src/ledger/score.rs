//! How often predictions came true: the tool's own hit rate, over the entries of a ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use units::written;

use super::entry::{Entry, Predicted};

/// Of 95 % of a normal distribution.
const Z: f64 = 1.96;

/// Predictions that were compared with a measurement. Shares between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    pub compared_count: usize,
    /// Of which the measured mean lies within the predicted interval.
    pub inside_count: usize,
    /// 95 % interval of the share that lies inside.
    pub inside_lo_share: f64,
    pub inside_hi_share: f64,
    /// Median of the predictions' errors, without their sign.
    pub error_median_share: f64,
}

impl Score {
    /// `None` without a prediction that was compared. Of an arm that an entry's runs measured several times the last
    /// counts, and what stands in two entries counts once: the same answer again is no further evidence.
    pub fn of(entries: &[Entry]) -> Option<Score> {
        let mut latest = BTreeMap::new();
        for entry in entries {
            for one in &entry.predictions {
                let predicted = (one.predicted_bytes, one.lo_bytes, one.hi_bytes);
                latest.insert(
                    (&entry.experiment, &entry.hypothesis, &one.arm, predicted),
                    one,
                );
            }
        }
        let mut seen = BTreeSet::new();
        let is_new = |one: &&Predicted| seen.insert((one.run.clone(), one.arm.clone()));
        let all: Vec<&Predicted> = latest.into_values().filter(is_new).collect();
        if all.is_empty() {
            return None;
        }
        let inside = all.iter().filter(|one| one.is_inside()).count();
        let mut errors: Vec<f64> = all.iter().map(|one| one.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let middle = errors.len() / 2;
        let error_median_share = match errors.len() % 2 {
            0 => 0.5 * (errors[middle - 1] + errors[middle]),
            _ => errors[middle],
        };
        let (inside_lo_share, inside_hi_share) = wilson(inside, all.len());
        Some(Score {
            compared_count: all.len(),
            inside_count: inside,
            inside_lo_share,
            inside_hi_share,
            error_median_share,
        })
    }

    /// In one sentence.
    pub fn words(&self) -> String {
        format!(
            "Predictions in this ledger: {} of {} measured means lie within their interval ({} [{}, {}]), median error \
             {}.",
            self.inside_count,
            self.compared_count,
            written::percent(self.inside_count as f64 / self.compared_count as f64),
            written::percent(self.inside_lo_share),
            written::percent(self.inside_hi_share),
            written::percent(self.error_median_share),
        )
    }
}

/// Wilson's score interval of a share (Wilson 1927): right for few cases, and for shares of 0 and 1.
fn wilson(hits: usize, of: usize) -> (f64, f64) {
    let (n, share) = (of as f64, hits as f64 / of as f64);
    let z2 = Z * Z;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted(measured_bytes: u64) -> Predicted {
        Predicted {
            run: "r".to_owned(),
            arm: "a".to_owned(),
            predicted_bytes: 100,
            lo_bytes: 90,
            hi_bytes: 110,
            measured_bytes,
        }
    }

    /// Of an experiment of that name, an arm for each measurement.
    fn entry(name: &str, measured: &[u64]) -> Entry {
        let one = |(at, bytes): (usize, &u64)| Predicted {
            run: name.to_owned(),
            arm: at.to_string(),
            ..predicted(*bytes)
        };
        Entry {
            experiment: name.to_owned(),
            predictions: measured.iter().enumerate().map(one).collect(),
            ..Entry::new("2026-11-21", "g")
        }
    }

    #[test]
    fn both_ends_of_the_interval_lie_within_it() {
        assert!(predicted(90).is_inside() && predicted(110).is_inside());
        assert!(!predicted(89).is_inside() && !predicted(111).is_inside());
    }

    #[test]
    fn nine_of_ten() {
        assert_eq!(Score::of(&[entry("a", &[])]), None);
        let score = Score::of(&[
            entry("a", &[100; 6]),
            entry("b", &[]),
            entry("c", &[100, 100, 100, 200]),
        ]);
        let score = score.expect("ten predictions");
        assert_eq!((score.compared_count, score.inside_count), (10, 9));
        // R: binom::binom.wilson(9, 10).
        assert!((score.inside_lo_share - 0.5958).abs() < 1e-3, "{score:?}");
        assert!((score.inside_hi_share - 0.9821).abs() < 1e-3, "{score:?}");
        assert_eq!(score.error_median_share, 0.0);
        let sentence = "Predictions in this ledger: 9 of 10 measured means lie within their interval (90 % [59.6 %, \
                        98.2 %]), median error 0 %.";
        assert_eq!(score.words(), sentence);
    }

    #[test]
    fn the_same_answer_again_is_no_further_evidence() {
        let first = entry("a", &[100, 200]);
        let mut again = first.clone();
        for one in &mut again.predictions {
            one.run = "a-2".to_owned();
            one.measured_bytes = 100;
        }
        let both = Entry {
            predictions: [first.predictions.clone(), again.predictions].concat(),
            ..first.clone()
        };
        let score = Score::of(&[both]).expect("two");
        assert_eq!((score.compared_count, score.inside_count), (2, 2));
        // A run that stands in an entry and in a copy of it.
        let copied = Entry {
            hypothesis: "another".to_owned(),
            ..first.clone()
        };
        assert_eq!(
            Score::of(&[first, copied]).map(|score| score.compared_count),
            Some(2)
        );
    }

    #[test]
    fn a_process_that_took_nothing_is_an_error_and_no_division_by_zero() {
        let score = Score::of(&[entry("a", &[0, 100])]).expect("two");
        assert!(score.error_median_share.is_finite());
    }
}
