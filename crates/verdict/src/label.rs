//! The labels of a series and of an arm, and the estimate with its interval.

use serde::{Deserialize, Serialize};

/// What a series does. The rule behind each label stands in docs/explanation/series.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Drift below 1 % of the level over the window.
    Flat,
    /// Rose, and bends towards an asymptote.
    Plateauing,
    /// Still rises at the end of the window.
    Growing,
    /// Bounded and periodic.
    Sawtooth,
    /// Shifts of level, flat between them.
    Stepped,
    /// Of an arm only: its processes disagree in kind.
    Variable,
    /// Cannot be told yet; the verdict says what would decide it.
    Insufficient,
}

impl Label {
    /// The word that tables and JSON use.
    pub fn word(self) -> &'static str {
        match self {
            Label::Flat => "flat",
            Label::Plateauing => "plateauing",
            Label::Growing => "growing",
            Label::Sawtooth => "sawtooth",
            Label::Stepped => "stepped",
            Label::Variable => "variable",
            Label::Insufficient => "insufficient",
        }
    }
}
