//! Every threshold of the verdicts, in one place. docs/explanation/series.md gives the reason of each.

use experiment::file::Experiment;

/// Thresholds. The defaults are the published ones; their error rates are in bench/results/verdict-error-rates.md.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Fewer usable samples than this cannot be judged.
    pub samples_min: usize,
    /// What is likely to rise by this share of the level in one more window is growing.
    pub growth_share: f64,
    /// A bounded rise or a step of this share of the level is worth a label other than flat.
    pub shift_share: f64,
    /// A cycle whose swing is this share of the level is worth the label sawtooth.
    pub swing_share: f64,
    /// The leading label, if it is bounded, needs this much of the weight, or the verdict is insufficient.
    pub decisive: f64,
    /// Growing is what rises more likely than not by `growth_share` in one more window ...
    pub growing_from: f64,
    /// ... and all bounded labels together this weight, for they say more about the time to come.
    pub bounded_from: f64,
    /// Level of all intervals.
    pub interval: f64,
    /// Intervals of the slope of what grows are drawn to this share of what the mixture of candidates says.
    pub slope_drawn: f64,
    /// Levels of two arms that differ by less than this share of the lower are as good as each other.
    pub matters: f64,
    /// Peaks at this share of the limit are OOM kills.
    pub oom_share: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            samples_min: 8,
            growth_share: 0.03,
            shift_share: 0.02,
            swing_share: 0.03,
            decisive: 0.45,
            growing_from: 0.5,
            bounded_from: 0.9,
            interval: 0.95,
            slope_drawn: 0.85,
            matters: 0.0,
            oom_share: 0.9,
        }
    }
}

impl Rules {
    /// With what an experiment says of itself.
    pub fn for_experiment(&self, experiment: &Experiment) -> Rules {
        Rules {
            matters: experiment.matters,
            ..self.clone()
        }
    }
}
