//! What the stop rule said of a run that goes on until it is decided, as it stands in the record, and what that
//! adds to the verdict.
//!
//! The rule itself is [`crate::stop`]. The loop of `run` records each of its analyses as facts of
//! highwater's own process, so that a resumed run goes on with the same allowance of error, and so that a
//! report made later says the same.

use serde::{Deserialize, Serialize};

use super::RunVerdict;
use crate::stop::{Stages, StopVerdict};
use observe::snapshot::{Role, TimeNs};
use record::run::Run;
use units::written;

/// Fact: the state of the rule, [`Stopping`] as JSON.
pub const STOP_FACT: &str = "stop.rule";

/// The rule of a run, with what it said last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Seconds that the run may take.
    pub at_most_s: f64,
    pub stages: Stages,
    pub last: Option<InterimAnalysis>,
}

/// One analysis of the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterimAnalysis {
    /// Seconds over which the arms were judged.
    pub window_s: f64,
    /// Seconds since every process was ready.
    pub after_s: f64,
    pub verdict: StopVerdict,
    /// The question of the experiment was answered as well, so the run ended here.
    pub ends: bool,
}

/// The rule as it was recorded last; `None` for a run with a fixed duration.
pub fn stopping(run: &Run) -> Option<Stopping> {
    let own = run.processes.iter().filter(|p| p.role == Role::Highwater);
    let states = own.filter_map(|p| p.facts.get(STOP_FACT)).flatten();
    let (_, newest): &(TimeNs, String) = states.max_by_key(|(time, _)| *time)?;
    serde_json::from_str(newest).ok()
}

/// Adds the rule's last word to the verdict: what it has not decided is not decided.
pub fn apply(verdict: &mut RunVerdict, stopping: &Stopping, is_over: bool) {
    let at_most = written::seconds(stopping.at_most_s);
    let Some(last) = &stopping.last else {
        if is_over {
            undecided(verdict, None);
            verdict.learnings.push(format!(
                "It was to run until decided, at most {at_most}, and ended before the first decision was possible."
            ));
        }
        return;
    };
    let after = written::seconds(last.after_s);
    let said = &last.verdict.words;
    if last.verdict.decided {
        let when = match last.ends {
            true => format!("Stopped when it was decided, after {after} of at most {at_most}"),
            false => {
                format!("The order of the arms was decided after {after} of at most {at_most}")
            }
        };
        let chance = written::percent(stopping.stages.alpha);
        verdict.learnings.push(format!(
            "{when}: {said} (over all snapshots the probability of an error is at most {chance})."
        ));
        return;
    }
    let when = match is_over {
        true => format!("Not decided within {at_most}"),
        false => format!("Not decided after {after}"),
    };
    verdict.learnings.push(format!("{when}: {said}."));
    undecided(verdict, last.verdict.needs.clone());
}

fn undecided(verdict: &mut RunVerdict, needs: Option<String>) {
    if verdict.decided {
        let sentence = verdict.headline.trim_end_matches('.');
        verdict.headline = format!("{sentence}; the order of the arms is not decided yet.");
    }
    verdict.decided = false;
    let known = verdict.needs.take();
    let all: Vec<String> = known.into_iter().chain(needs).collect();
    verdict.needs = Some(all.join("; ")).filter(|words| !words.is_empty());
}
