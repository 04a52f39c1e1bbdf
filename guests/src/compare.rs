//! One program in all arms: alike, different, or not to be compared.

use anyhow::Result;

use crate::arms::{Arm, Group, Outcome};
use crate::program::Program;
use crate::workshop::Workshop;

/// Plain runs before the arms; and again after a difference, to be certain that the program is deterministic.
const PLAIN_RUNS: usize = 2;
const PLAIN_RUNS_AFTER: usize = 24;
/// Runs of an arm when a difference is shrunk: addresses differ from run to run, and some faults depend on them.
const SHRINK_RUNS: usize = 3;

pub enum Verdict {
    Same,
    /// Plain runs differ among themselves, or take too long.
    Skipped(String),
    Different(Box<Difference>),
}

pub struct Difference {
    pub arm: Arm,
    pub plain: Outcome,
    pub watched: Outcome,
}

/// Runs a program plain and in the arms of a group. No run is repeated until it passes.
pub fn compare(workshop: &Workshop, program: &Program, group: &Group) -> Result<Verdict> {
    let file = workshop.build(program)?;
    let run = |arm: &Arm| arm.run(workshop, &file, program.chain);
    let plain = run(&group.control)?;
    if plain.end == "timeout" {
        return Ok(Verdict::Skipped(
            "the plain program takes too long".to_owned(),
        ));
    }
    for _ in 1..PLAIN_RUNS {
        let again = run(&group.control)?;
        if again != plain {
            return Ok(not_deterministic(&plain, &again));
        }
    }
    for arm in &group.arms {
        let watched = run(arm)?;
        if watched == plain {
            continue;
        }
        for _ in 0..PLAIN_RUNS_AFTER {
            let again = run(&group.control)?;
            if again != plain {
                return Ok(not_deterministic(&plain, &again));
            }
        }
        return Ok(Verdict::Different(Box::new(Difference {
            arm: arm.clone(),
            plain,
            watched,
        })));
    }
    Ok(Verdict::Same)
}

fn not_deterministic(first: &Outcome, again: &Outcome) -> Verdict {
    Verdict::Skipped(format!("not deterministic: {}", first.difference(again)))
}

/// The same with one arm only, which may differ in any of a few runs.
pub fn still_differs(
    workshop: &Workshop,
    program: &Program,
    control: &Arm,
    arm: &Arm,
) -> Result<Option<Difference>> {
    let file = workshop.build(program)?;
    let plain = control.run(workshop, &file, program.chain)?;
    for _ in 1..PLAIN_RUNS {
        if control.run(workshop, &file, program.chain)? != plain {
            return Ok(None);
        }
    }
    for _ in 0..SHRINK_RUNS {
        let watched = arm.run(workshop, &file, program.chain)?;
        if watched != plain {
            return Ok(Some(Difference {
                arm: arm.clone(),
                plain,
                watched,
            }));
        }
    }
    Ok(None)
}
