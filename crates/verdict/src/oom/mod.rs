//! Why the OOM killer came: one finding for all kills of the same command under the same limit.
//!
//! What the kernel prints of a kill is a fact, so a finding has no confidence. What follows from it has a stated basis:
//! what the memory was made of, whether the process that was killed was the one that grew, how fast it grew.

mod growth;
mod made_of;
mod next;
mod sentence;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ::oom::kill::{By, Constraint, Kill, Outcome};
use ::oom::now::CgroupNow;
use observe::container::Owner;

pub use growth::{Beside, Growth};
pub use made_of::{Made, Part, made_of, parts};
pub use standing::Standing;

/// Which memory had run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomCause {
    CgroupLimit,
    Machine,
    /// Of a cpuset or a NUMA policy.
    Nodes,
    /// systemd-oomd's threshold.
    Pressure,
    Panic,
    Unknown,
}

impl OomCause {
    /// As in JSON.
    pub fn word(self) -> &'static str {
        match self {
            OomCause::CgroupLimit => "cgroup_limit",
            OomCause::Machine => "machine",
            OomCause::Nodes => "nodes",
            OomCause::Pressure => "pressure",
            OomCause::Panic => "panic",
            OomCause::Unknown => "unknown",
        }
    }

    fn of(kill: &Kill) -> OomCause {
        match (kill.outcome, &kill.by, kill.constraint) {
            (Outcome::Panicked, ..) => OomCause::Panic,
            (_, By::SystemdOomd(_), _) => OomCause::Pressure,
            (.., Constraint::Cgroup) => OomCause::CgroupLimit,
            (.., Constraint::Machine) => OomCause::Machine,
            (.., Constraint::Cpuset | Constraint::MemoryPolicy) => OomCause::Nodes,
            (.., Constraint::Unknown) => OomCause::Unknown,
        }
    }
}

/// Kills of one command under one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct OomFinding {
    pub cause: OomCause,
    /// In the order of the log; never empty.
    pub kills: Vec<Kill>,
    /// Of the cgroup whose limit it was.
    pub owner: Owner,
    pub made: Made,
    /// Of the process that was killed last among those that could have been.
    pub standing: Option<Standing>,
    pub growth: Option<Growth>,
    /// Another process that grew between two kills.
    pub beside: Option<Beside>,
    /// The cgroup as it is now, where it still exists.
    pub now: Option<CgroupNow>,
    pub sentence: String,
    pub next_step: String,
    pub limitations: Vec<String>,
}

impl OomFinding {
    /// The one that is described.
    pub fn last(&self) -> &Kill {
        &self.kills[self.kills.len() - 1]
    }
}

/// Findings, those with the newest kill first. `now` is asked for the cgroup by its path in the log.
pub fn conclude(
    kills: Vec<Kill>,
    mut now: impl FnMut(&str) -> Option<CgroupNow>,
) -> Vec<OomFinding> {
    // By the order of the log: stamps may be absent.
    let mut groups: BTreeMap<Key, Vec<(usize, Kill)>> = BTreeMap::new();
    for (place, kill) in kills.into_iter().enumerate() {
        groups.entry(key(&kill)).or_default().push((place, kill));
    }
    let mut groups: Vec<Vec<(usize, Kill)>> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.last().map(|(place, _)| *place)));
    let kills = |group: Vec<(usize, Kill)>| group.into_iter().map(|(_, kill)| kill).collect();
    groups
        .into_iter()
        .map(|group| finding(kills(group), &mut now))
        .collect()
}

/// Limit, command, cause.
type Key = (String, String, &'static str);

/// A pod's container has another cgroup after each restart, so the pod stands for it.
fn key(kill: &Kill) -> Key {
    let path = kill.cgroup_path().unwrap_or("");
    let limit = match kill.constraint {
        Constraint::Machine if kill.by == By::Kernel => String::new(),
        _ => Owner::of(path).pod.unwrap_or_else(|| path.to_owned()),
    };
    let command = match kill.victim() {
        Some(victim) => victim.command.clone(),
        None => kill
            .request
            .as_ref()
            .map_or_else(String::new, |request| request.command.clone()),
    };
    (limit, command, OomCause::of(kill).word())
}

fn finding(kills: Vec<Kill>, now: &mut impl FnMut(&str) -> Option<CgroupNow>) -> OomFinding {
    let last = &kills[kills.len() - 1];
    let path = last.cgroup_path().unwrap_or("");
    let mut finding = OomFinding {
        cause: OomCause::of(last),
        owner: Owner::of(path),
        made: made_of(last),
        standing: standing::of(last),
        growth: growth::growth(&kills),
        beside: growth::beside(&kills),
        now: now(path),
        sentence: String::new(),
        next_step: String::new(),
        limitations: Vec::new(),
        kills,
    };
    finding.sentence = sentence::sentence(&finding);
    finding.next_step = next::step(&finding);
    finding.limitations = sentence::limitations(&finding);
    finding
}
