//! Which arm to put into service, and what speaks against it.
//!
//! The rule, in order. No answer, no recommendation. The arm that the experiment wants to adopt is recommended when
//! it passes, and no other one is when it does not. Else, of the arms that ran to the end, do not grow and fail no
//! check: the lowest, if its whole interval lies below the control's level, or if the control grows. Else the
//! control stays.

use serde::Serialize;

use super::phrases::{costs, level, lowest, name, slope};
use super::standing::{Change, Class, Standing, standings};
use super::{ArmRow, RunVerdict};
use record::run::Run;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Recommendation {
    /// `None`: nothing is to be changed (yet).
    pub arm: Option<String>,
    pub words: String,
    /// What speaks against it, a sentence each.
    pub cautions: Vec<String>,
}

pub fn recommend(run: &Run, verdict: &RunVerdict) -> Recommendation {
    let all = standings(run, &verdict.arms, &verdict.pairs);
    let control = all.iter().find(|one| one.change == Change::Control);
    let nothing = |words: String| Recommendation {
        words,
        ..Recommendation::default()
    };
    if !verdict.decided {
        return nothing("Nothing is to be changed yet: the run is not decided.".into());
    }
    if let Some(adopt) = &verdict.adopt {
        let best = all.iter().find(|one| one.row.arm == adopt.arm);
        return match (adopt.passed, best) {
            (Some(true), Some(best)) => advise(best, control, verdict),
            _ => nothing(format!("Nothing is to be changed: {}", adopt.words)),
        };
    }
    let fits = |one: &&Standing| is_better(one, control, verdict);
    let candidates: Vec<&Standing> = all.iter().filter(fits).collect();
    match (lowest(&candidates), control) {
        (Some(best), _) => advise(best, control, verdict),
        (None, Some(control)) => nothing(format!(
            "Stay with {}: no other arm is clearly better.",
            name(control)
        )),
        (None, None) => {
            nothing("Nothing is to be changed: there is no control to be better than.".into())
        }
    }
}

fn is_better(one: &Standing, control: Option<&Standing>, verdict: &RunVerdict) -> bool {
    let fails = |row: &ArmRow| {
        let mut own = verdict.checks.iter().filter(|check| check.arm == row.arm);
        own.any(|check| check.passed == Some(false))
    };
    let grows = control.is_some_and(|control| control.class == Class::Growing);
    let is_lower = one
        .pair
        .and_then(|pair| pair.ratio)
        .is_some_and(|ratio| ratio.hi < 1.0);
    one.change != Change::Control
        && one.class == Class::Bounded
        && !fails(one.row)
        && (grows || is_lower)
}

fn advise(best: &Standing, control: Option<&Standing>, verdict: &RunVerdict) -> Recommendation {
    let beside = control
        .map(|control| costs(best, control))
        .unwrap_or_default();
    let against = match control.filter(|control| control.class == Class::Growing) {
        Some(control) => format!("; {} grows ({})", name(control), slope(control)),
        None => String::new(),
    };
    let who = name(best);
    let words = match best.change {
        Change::Control => format!("Stay with {who}: {}.", level(best)),
        _ => format!("Put {who} into service: {}{beside}{against}.", level(best)),
    };
    let mut cautions = Vec::new();
    match verdict.findings.len() {
        0 => {}
        1 => cautions.push("One finding of the audit weakens this.".into()),
        n => cautions.push(format!("{n} findings of the audit weaken this.")),
    }
    let defects = best.row.defects.iter();
    cautions.extend(defects.map(|defect| format!("{who} has a known defect: {defect}")));
    if best.row.started < 2 {
        cautions.push(format!("{who} was one process only."));
    }
    Recommendation {
        arm: (best.change != Change::Control).then(|| best.row.arm.clone()),
        words,
        cautions,
    }
}
