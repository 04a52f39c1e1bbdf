//! A rollout from its plan to its end: forward, and back as a whole where a step fails.

use super::act::{Means, forward};
use super::back;
use super::error::Error;
use super::journal::{Step, What};
use super::shelf::Rollout;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Every instance runs the arm.
    Adopted,
    /// A step failed, and everything is as it was (`left`: but for this).
    RolledBack { why: String, left: String },
    /// A step failed, and so did the way back: `revert` goes on with it.
    Stuck { why: String, then: String },
    /// Somebody asked to stop: `--resume` goes on, `revert` undoes it.
    Stopped { done: usize },
}

/// Carries out the plan, or goes on with it.
///
/// # Errors
/// The journal cannot be written: nothing more was done.
pub fn adopt(rollout: &mut Rollout, means: &mut Means<'_>) -> Result<Ended, Error> {
    rollout.write(What::Forward)?;
    let why = match forward(rollout, means) {
        Ok(true) => {
            rollout.write(What::Adopted)?;
            return Ok(Ended::Adopted);
        }
        Ok(false) => {
            let done = done_count(rollout);
            return Ok(Ended::Stopped { done });
        }
        Err(error) => error.to_string(),
    };
    (means.say)(&format!("failed: {why}"));
    (means.say)("taking everything back");
    Ok(match back::revert(rollout, means, &why, back::Pace::Fast) {
        Ok(left) => Ended::RolledBack { why, left },
        Err(then) => Ended::Stuck {
            why,
            then: then.to_string(),
        },
    })
}

fn done_count(rollout: &Rollout) -> usize {
    let instances = rollout.plan.instances.iter();
    instances
        .filter(|instance| rollout.is_done(&Step::Restart(instance.unit.clone())))
        .count()
}
