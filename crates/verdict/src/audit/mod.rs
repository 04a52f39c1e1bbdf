//! The audit: what in an experiment keeps its verdicts from meaning what they seem to mean. Pure; the input
//! is facts of each process over time, however they were come by.

mod ages;
mod load;
mod marks;
mod membership;
mod moves;
mod readings;
mod scales;
mod settled;
mod shares;
mod survive;
mod units;

use serde::{Deserialize, Serialize};

use ::units::written;
use series::series::Point;

pub use ages::{births, equal_uptime_s};
pub use moves::{Member, Stay, moves};
pub use survive::{Survivor, survivors, survivors_at};

/// Everything known of an experiment. What is unknown is left empty; checks that need it stay silent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AuditInput {
    pub processes: Vec<ProcessFacts>,
    /// Times of all snapshots, seconds on one clock, in order.
    pub snapshots_s: Vec<f64>,
    /// The arm that the others are compared with.
    pub control: Option<String>,
    /// Numbers said elsewhere (in a report, a limit) beside what was observed.
    pub stated: Vec<Stated>,
}

/// One process over time. All series share the clock of the snapshots; bytes, seconds, counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessFacts {
    pub id: String,
    /// The arm from each instant on; an empty name means that it belonged to none.
    pub arms: Vec<(f64, String)>,
    /// The allocator really mapped (path, build id or version) from each instant on.
    pub allocators: Vec<(f64, String)>,
    /// Known starts, in order.
    pub starts_s: Vec<f64>,
    /// Since when it is not looked at any more, though it goes on.
    pub until_s: Option<f64>,
    pub rss: Vec<Point>,
    pub hwm: Vec<Point>,
    /// Cumulative CPU seconds.
    pub cpu_s: Vec<Point>,
    /// Cumulative requests served.
    pub requests: Vec<Point>,
    pub lazy_free: Vec<Point>,
    pub huge_pages: Vec<Point>,
}

/// A number said with a unit, beside the same quantity as observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated {
    /// What it is: "mean RSS of arm B".
    pub what: String,
    pub value: f64,
    /// As written: "GB", "GiB", "MB" ...
    pub unit: String,
    pub observed_bytes: f64,
}

/// Which check found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    Membership,
    Unassigned,
    Allocators,
    Restarted,
    Added,
    Uptimes,
    /// An arm that ended before the others: a guard stopped it, or it left.
    Stopped,
    Load,
    #[serde(alias = "missing_looks")]
    MissingSnapshots,
    Hung,
    LazyFree,
    HugePages,
    Units,
    OneProcess,
}

/// What a finding does to the verdicts of the arms it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; the verdicts stand.
    Note,
    /// The verdicts stand in part, as `still` says.
    Weakens,
    /// No verdict on the arm as it was meant.
    Refuses,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub check: Check,
    pub severity: Severity,
    pub arms: Vec<String>,
    pub processes: Vec<String>,
    /// Since when, on the clock of the snapshots.
    pub since_s: Option<f64>,
    pub what: String,
    /// What it does to the verdict.
    pub effect: String,
    /// What can still be said.
    pub still: String,
}

/// All checks; the gravest findings first.
pub fn audit(input: &AuditInput) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(membership::changes(input));
    found.extend(membership::unassigned(input));
    let input = &settled::settled(input);
    found.extend(membership::allocators(input));
    found.extend(membership::one_process(input));
    found.extend(ages::restarted(input));
    found.extend(ages::added(input));
    found.extend(ages::uptimes(input));
    found.extend(ages::stopped(input));
    found.extend(load::unequal(input));
    found.extend(readings::missing(input));
    found.extend(readings::hung(input));
    found.extend(units::units(input));
    found.extend(marks::misread(input));
    found.extend(shares::explained(input));
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.check.cmp(&b.check)));
    found
}

impl ProcessFacts {
    /// The arm at the end; empty when none.
    pub fn arm(&self) -> &str {
        self.arms
            .iter()
            .rev()
            .map(|(_, a)| a.as_str())
            .find(|a| !a.is_empty())
            .unwrap_or("")
    }

    /// The arm at the beginning; empty when none.
    pub fn first_arm(&self) -> &str {
        self.arms
            .iter()
            .map(|(_, a)| a.as_str())
            .find(|a| !a.is_empty())
            .unwrap_or("")
    }
}

impl AuditInput {
    /// Names of the arms, in order of name, with their processes (by the arm at the end).
    pub fn by_arm(&self) -> Vec<(&str, Vec<&ProcessFacts>)> {
        let mut arms: std::collections::BTreeMap<&str, Vec<&ProcessFacts>> = Default::default();
        for p in &self.processes {
            if !p.arm().is_empty() {
                arms.entry(p.arm()).or_default().push(p);
            }
        }
        arms.into_iter().collect()
    }

    fn span_s(&self) -> f64 {
        match (self.snapshots_s.first(), self.snapshots_s.last()) {
            (Some(a), Some(b)) => b - a,
            _ => 0.0,
        }
    }

    /// Usual time between snapshots.
    fn interval_s(&self) -> f64 {
        let between: Vec<f64> = self.snapshots_s.windows(2).map(|w| w[1] - w[0]).collect();
        if between.is_empty() {
            f64::NAN
        } else {
            series::order::median(&between)
        }
    }
}

/// "a, b, c and 7 more"
fn names(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    if ids.len() <= SHOWN + 1 {
        return ids.join(", ");
    }
    format!("{} and {} more", ids[..SHOWN].join(", "), ids.len() - SHOWN)
}

/// "1 process", "3 processes"
fn counted(count: usize) -> String {
    written::counted(count as u64, "process", "processes")
}

/// "3.5 h", "2.1 days"
fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 2.0 * 86_400.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 2.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 2.0 => format!("{s:.0} s"),
        s => written::seconds(s),
    }
}

#[cfg(test)]
mod exam_tests;
#[cfg(test)]
mod tests;
