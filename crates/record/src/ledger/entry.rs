//! One entry of the ledger.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use experiment::file::redact::{redact_command, redact_text};
use experiment::file::{Check, Condition, Experiment};
use units::{write_bytes_exact, write_duration_exact};

/// Version of the file's shape, and of the JSON that `highwater log` prints.
pub const SCHEMA: &str = "highwater.ledger/2";
/// The version before: without predictions. An entry that has none is written so, and older versions read it.
pub const SCHEMA_PLAIN: &str = "highwater.ledger/1";
/// Versions that are read.
pub const SCHEMAS_READ: &[&str] = &[SCHEMA_PLAIN, SCHEMA];

/// What was believed, what was done about it, and what came out. Empty texts and lists: not said (yet).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the file without `.toml`: `2026-11-21-relay-leak`.
    pub id: String,
    /// Day on which the entry was made, 2026-11-21.
    pub date: String,
    pub status: Status,
    pub goal: String,
    /// Name of the experiment that the attempts run; empty for an entry made by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hypothesis: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// What was changed, one change each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learnings: Vec<String>,
    /// How to undo it: words and commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revert: Vec<String>,
    /// How to verify, with what came of each step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What the experiment file predicted, and what its runs measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Predicted>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Active,
    Paused,
    Concluded,
    Failed,
    Reverted,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Paused => "paused",
            Status::Concluded => "concluded",
            Status::Failed => "failed",
            Status::Reverted => "reverted",
        }
    }
}

/// One step of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub step: String,
    pub outcome: Outcome,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Not done yet.
    Open,
    Passed,
    Failed,
    /// Done, without a clear result.
    Unknown,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Open => "open",
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
        }
    }
}

/// One try, usually a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Day, 2026-11-21.
    pub date: String,
    /// Id of the run, when it was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// What came out, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// Mean anonymous resident memory of a process of one arm, predicted and then measured. Bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Id of the run that measured it.
    pub run: String,
    pub arm: String,
    pub predicted_bytes: u64,
    /// Where the measurement was expected.
    pub lo_bytes: u64,
    pub hi_bytes: u64,
    /// Mean over the processes of the arm.
    pub measured_bytes: u64,
}

impl Predicted {
    /// Whether the measured mean lies within the predicted interval.
    pub fn is_inside(&self) -> bool {
        (self.lo_bytes..=self.hi_bytes).contains(&self.measured_bytes)
    }

    /// How much the prediction was too high, as a share of what was measured; negative: too low.
    pub fn error(&self) -> f64 {
        self.predicted_bytes as f64 / self.measured_bytes.max(1) as f64 - 1.0
    }
}

impl Entry {
    /// An entry with nothing but its goal; the ledger gives it its id.
    pub fn new(date: &str, goal: &str) -> Entry {
        Entry {
            schema: SCHEMA.into(),
            id: String::new(),
            date: date.into(),
            status: Status::Active,
            goal: goal.into(),
            experiment: String::new(),
            hypothesis: String::new(),
            why: String::new(),
            evidence: String::new(),
            changed: Vec::new(),
            result: String::new(),
            learnings: Vec::new(),
            revert: Vec::new(),
            verify: Vec::new(),
            attempts: Vec::new(),
            predictions: Vec::new(),
        }
    }

    /// The entry that an experiment begins; secrets in its commands are left out.
    pub fn of_experiment(experiment: &Experiment, date: &str) -> Entry {
        let against = |name: &&str| **name != experiment.control;
        let others: Vec<&str> = experiment
            .arms
            .iter()
            .map(|arm| arm.name.as_str())
            .filter(against)
            .collect();
        let goal = match &others[..] {
            [] => format!("{}: watch {}", experiment.name, experiment.control),
            _ => format!(
                "{}: {} against {}",
                experiment.name,
                others.join(", "),
                experiment.control
            ),
        };
        let mut revert = Vec::new();
        if !experiment.revert.words.is_empty() {
            revert.push(experiment.revert.words.clone());
        }
        revert.extend(
            experiment
                .revert
                .commands
                .iter()
                .map(|command| words(command)),
        );
        Entry {
            experiment: experiment.name.clone(),
            hypothesis: experiment.hypothesis.clone(),
            why: experiment.why.clone(),
            evidence: experiment.evidence.clone(),
            changed: experiment.arms.iter().map(arm_words).collect(),
            revert,
            verify: experiment.verify.iter().map(step).collect(),
            ..Entry::new(date, &goal)
        }
    }
}

fn words(command: &[String]) -> String {
    let safe = redact_command(command);
    // A NUL cannot stand in a command; the parser has refused it.
    shlex::try_join(safe.iter().map(String::as_str)).unwrap_or_else(|_| safe.join(" "))
}

fn arm_words(arm: &experiment::file::Arm) -> String {
    use experiment::file::redact::redact_value;
    let mut parts: Vec<String> = Some(arm.allocator.clone())
        .filter(|name| !name.is_empty())
        .into_iter()
        .collect();
    parts.extend(
        arm.environment
            .iter()
            .map(|(k, v)| format!("{k}={}", redact_value(k, v))),
    );
    if !arm.arguments.is_empty() {
        parts.push(words(&arm.arguments));
    }
    if let Some(command) = &arm.command {
        parts.push(format!("command {}", words(command)));
    }
    if let Some(curve) = &arm.curve {
        parts.push(format!("curve {curve}"));
    }
    if parts.is_empty() {
        parts.push("as the program comes".into());
    }
    format!("{}: {}", arm.name, parts.join(", "))
}

fn step(check: &Check) -> Step {
    let mut step = condition_words(&check.condition);
    if !check.after.is_zero() {
        step.push_str(&format!(" after {}", write_duration_exact(check.after)));
    }
    if !check.arms.is_empty() {
        step.push_str(&format!(" ({})", check.arms.join(", ")));
    }
    Step {
        step,
        outcome: Outcome::Open,
        observed: String::new(),
    }
}

fn condition_words(condition: &Condition) -> String {
    match condition {
        Condition::Http { url, status } => format!("{} answers {status}", redact_text(url)),
        Condition::Command { command, exit } => format!("{} exits with {exit}", words(command)),
        Condition::Metric { name, min, max } => {
            let bound = |word: &str, value: &Option<f64>| value.map(|v| format!(" {word} {v}"));
            let bounds = [bound("min", min), bound("max", max)];
            format!("{name}{}", bounds.into_iter().flatten().collect::<String>())
        }
        Condition::RssMax { bytes } => format!("rss_max {}", write_bytes_exact(*bytes)),
        Condition::P99Max { limit } => format!("p99_max {}", write_duration_exact(*limit)),
        Condition::PausesPerMinuteMax { max } => format!("pauses_per_minute_max {max}"),
        Condition::RestartsMax { count, within } => {
            let within = within.map(|t| format!(" within {}", write_duration_exact(t)));
            format!("restarts_max {count}{}", within.unwrap_or_default())
        }
        Condition::Trend { any_of } => {
            let words: Vec<&str> = any_of.iter().map(|trend| trend.word()).collect();
            format!("trend {}", words.join(" or "))
        }
    }
}
