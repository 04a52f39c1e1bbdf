//! Every threshold of the verdicts, in one place. docs/explanation/series.md gives the reason of each.

use super::Label;
use experiment::file::Experiment;

/// Thresholds. The defaults are the published ones; their error rates are in bench/results/verdict-error-rates.md.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Fewer usable samples than this cannot be judged.
    pub samples_min: usize,
    /// A rise over the window of this share of the level makes a series growing.
    pub growth_share: f64,
    /// A bounded rise or a step of this share of the level is worth a label other than flat.
    pub shift_share: f64,
    /// A cycle whose swing is this share of the level is worth the label sawtooth.
    pub swing_share: f64,
    /// The leading label, if it is bounded, needs this much of the weight, or the verdict is insufficient.
    pub decisive: f64,
    /// And its side needs this much when there are many readings: growing ...
    pub side_growing: f64,
    /// ... or any bounded label, which says more about the time to come.
    pub side_bounded: f64,
    /// ... or stepped, whatever their number: what grows between steps hides behind them.
    pub side_stepped: f64,
    /// And this much when there are few, for weights know less than they say then: growing ...
    pub side_growing_few: f64,
    /// ... or bounded.
    pub side_bounded_few: f64,
    /// Up to this many readings are few; from there the bar falls with a power of their number (growing 1.5,
    /// else 2).
    pub few_readings: f64,
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
            side_growing: 0.2,
            side_bounded: 0.84,
            side_stepped: 0.95,
            side_growing_few: 0.85,
            side_bounded_few: 0.95,
            few_readings: 60.0,
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

    /// Weight that the side of a label needs, of a series of `readings`.
    pub fn side_needed(&self, label: Label, readings: usize) -> f64 {
        let (many, few, power) = match label {
            Label::Growing => (self.side_growing, self.side_growing_few, 1.5),
            Label::Stepped => (self.side_stepped, self.side_bounded_few, 2.0),
            _ => (self.side_bounded, self.side_bounded_few, 2.0),
        };
        let share = (self.few_readings / readings.max(1) as f64).min(1.0);
        many + (few - many) * share.powf(power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_readings_need_more_weight_and_bounded_more_than_growing() {
        let rules = Rules::default();
        let at = |label, n| rules.side_needed(label, n);
        let (growing, flat) = (Label::Growing, Label::Flat);
        assert!((at(growing, 8) - rules.side_growing_few).abs() < 1e-9);
        assert_eq!(at(flat, 60), rules.side_bounded_few);
        assert!(at(growing, 300) < at(growing, 100) && at(growing, 300) < at(flat, 300));
        assert!((at(growing, 120) - 0.4298).abs() < 1e-3);
        assert_eq!(at(Label::Stepped, 3000), rules.side_stepped);
    }
}
