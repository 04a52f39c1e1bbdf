//! Every threshold of the verdicts, in one place. docs/verdict.md gives the reason of each.

/// Thresholds. The defaults are the published ones; their error rates are in docs/verdict.md.
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
    /// The leading label needs this much of the weight, or the verdict is insufficient.
    pub decisive: f64,
    /// And its side (growing, or any bounded label) needs this much.
    pub decisive_side: f64,
    /// Level of all intervals.
    pub interval: f64,
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
            decisive_side: 0.6,
            interval: 0.95,
            oom_share: 0.9,
        }
    }
}
