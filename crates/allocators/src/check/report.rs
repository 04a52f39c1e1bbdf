//! What a check found.

use serde::{Deserialize, Serialize};

pub(super) const SCHEMA: &str = "highwater.check/1";

/// What a check found. Kept under the library's sha256.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub spec: String,
    pub sha256: Option<String>,
    pub build_id: Option<String>,
    /// The glibc it was tried on.
    pub glibc: Option<String>,
    /// sha256 of the probes' sources: a check by older probes is no check.
    #[serde(default)]
    pub probes_sha256: String,
    /// RFC 3339.
    pub checked_at: String,
    pub seconds: f64,
    pub seed: u64,
    pub findings: Vec<Finding>,
    pub protections: Vec<Protection>,
}

/// The outcome of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub probe: String,
    /// What the probe is about.
    pub about: String,
    pub outcome: Outcome,
    /// What was seen; empty for a clean one.
    pub words: String,
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Clean,
    Defect,
    Crash,
    Hang,
    /// It departs from what C, C++ or POSIX ask for, and no memory is harmed.
    Deviation,
    /// It could not be tried here; the words say why.
    Untried,
}

/// What happens on one misuse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protection {
    pub misuse: String,
    pub about: String,
    pub answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The allocator notices and ends the program.
    Stops,
    /// The program dies by a bad access, at once or later.
    Crashes,
    /// It neither ends nor goes on.
    Hangs,
    /// Nothing is noticed.
    Nothing,
    /// It could not be tried here.
    Untried,
}

impl Report {
    /// What endangers a program: memory is corrupted or lost, or the program hangs or dies.
    pub fn defects(&self) -> impl Iterator<Item = &Finding> {
        let bad =
            |f: &&Finding| matches!(f.outcome, Outcome::Defect | Outcome::Crash | Outcome::Hang);
        self.findings.iter().filter(bad)
    }

    /// What departs from the standards and harms no memory.
    pub fn deviations(&self) -> impl Iterator<Item = &Finding> {
        let only = |f: &&Finding| f.outcome == Outcome::Deviation;
        self.findings.iter().filter(only)
    }

    /// The misuses that end the program.
    pub fn stopped(&self) -> impl Iterator<Item = &Protection> {
        self.protections
            .iter()
            .filter(|p| p.answer == Answer::Stops)
    }
}
