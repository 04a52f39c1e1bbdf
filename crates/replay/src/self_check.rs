//! The replay on the recorded allocator against the recorded memory: it needs no second run of the program.

use serde::Serialize;
use trace::Trace;

use crate::forecast::{Curve, other_bytes};
use crate::outcome::{End, Ran};

/// A replay whose mean memory is further off than this is not trusted.
pub const TRUSTED_SHARE: f64 = 0.05;
/// Nor is one that is further off than this at the average sample: errors of both signs must not cancel. It is wider,
/// for threads that are scheduled otherwise move a steep rise or fall by some samples.
pub const TRUSTED_CURVE_SHARE: f64 = 0.10;
/// Below this a difference is no matter of the allocator: pages of the program's own start and end.
const SLACK_BYTES: f64 = (1u64 << 20) as f64;
/// Fewer samples than this are no curve.
const SAMPLES_MIN: usize = 5;

/// How well the recorded memory is reproduced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfCheck {
    pub recorded_mean_bytes: f64,
    pub replayed_mean_bytes: f64,
    pub recorded_end_bytes: f64,
    pub replayed_end_bytes: f64,
    pub recorded_peak_bytes: f64,
    /// Mean over the samples of how far the replay is off, of the recorded mean.
    pub off_share: f64,
    /// How far the mean is off, of the recorded mean.
    pub mean_off_share: f64,
    /// Both are within their limits.
    pub is_trusted: bool,
    /// Why not, in words.
    pub why_not: Option<String>,
}

impl SelfCheck {
    /// Of replays on the recorded allocator. `Err`: there is nothing to compare, in words.
    pub fn of(runs: &[Ran], trace: &Trace) -> Result<SelfCheck, String> {
        if trace.samples.len() < SAMPLES_MIN {
            return Err(format!(
                "the trace has {} samples of the program's memory, and {SAMPLES_MIN} are needed: it ran for too short \
                 a time",
                trace.samples.len()
            ));
        }
        let other = other_bytes(trace);
        let finished = runs.iter().filter(|ran| ran.end == End::Finished);
        let curves: Vec<Curve> = finished.map(|ran| Curve::of(ran, &other)).collect();
        if curves.is_empty() {
            return Err("no replay on the recorded allocator finished".to_owned());
        }
        let recorded: Vec<f64> = trace
            .samples
            .iter()
            .map(|sample| sample.anon_bytes as f64)
            .collect();
        let replayed: Vec<f64> = (0..recorded.len())
            .map(|at| {
                let points = curves
                    .iter()
                    .map(|curve| curve.0.get(at).copied().unwrap_or(0.0));
                points.sum::<f64>() / curves.len() as f64
            })
            .collect();
        Ok(SelfCheck::between(&Curve(recorded), &Curve(replayed)))
    }

    fn between(recorded: &Curve, replayed: &Curve) -> SelfCheck {
        let pairs = || recorded.0.iter().zip(&replayed.0);
        let off = pairs()
            .map(|(recorded, replayed)| (recorded - replayed).abs())
            .sum::<f64>()
            / recorded.0.len().max(1) as f64;
        let mean = recorded.mean();
        let mean_off = (replayed.mean() - mean).abs();
        let is_trusted = mean_off <= (TRUSTED_SHARE * mean).max(SLACK_BYTES)
            && off <= (TRUSTED_CURVE_SHARE * mean).max(SLACK_BYTES);
        SelfCheck {
            recorded_mean_bytes: mean,
            replayed_mean_bytes: replayed.mean(),
            recorded_end_bytes: recorded.end(),
            replayed_end_bytes: replayed.end(),
            recorded_peak_bytes: recorded.peak(),
            off_share: off / mean.max(1.0),
            mean_off_share: mean_off / mean.max(1.0),
            is_trusted,
            why_not: (!is_trusted).then(|| why(recorded, replayed)),
        }
    }
}

/// The most likely cause of a difference.
fn why(recorded: &Curve, replayed: &Curve) -> String {
    let lower = recorded
        .0
        .iter()
        .zip(&replayed.0)
        .filter(|(recorded, replayed)| replayed < recorded)
        .count();
    let is_lower = lower * 2 > recorded.0.len();
    match is_lower {
        true => {
            "the program has memory that malloc does not know: mappings of its own, another allocator inside it, or a \
             runtime's heap"
        }
        false => {
            "the replay writes to more memory than the program did: large blocks of which little is used, or blocks \
             whose frees are missing"
        }
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    #[test]
    fn within_five_percent_is_trusted() {
        let recorded = Curve(vec![100.0 * MIB; 10]);
        let near = SelfCheck::between(&recorded, &Curve(vec![104.0 * MIB; 10]));
        assert!(near.is_trusted && near.why_not.is_none(), "{near:?}");
        let far = SelfCheck::between(&recorded, &Curve(vec![90.0 * MIB; 10]));
        assert!(!far.is_trusted && far.why_not.unwrap().contains("malloc does not know"));
        let above = SelfCheck::between(&recorded, &Curve(vec![190.0 * MIB; 10]));
        assert!(above.why_not.unwrap().contains("writes to more"));
    }

    #[test]
    fn errors_of_both_signs_do_not_cancel() {
        let recorded = Curve(vec![100.0 * MIB; 2]);
        let off = SelfCheck::between(&recorded, &Curve(vec![80.0 * MIB, 120.0 * MIB]));
        assert!(!off.is_trusted);
        assert!((off.off_share - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_mebibyte_is_no_matter() {
        let small = SelfCheck::between(&Curve(vec![2.0 * MIB; 6]), &Curve(vec![2.9 * MIB; 6]));
        assert!(small.is_trusted);
    }
}
