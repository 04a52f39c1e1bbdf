//! One program in all arms: alike, different, or not to be compared.

use std::time::Duration;

use anyhow::Result;

use crate::arms::{Arm, Group};
use crate::attach::Seen;
use crate::gates;
use crate::links::Link;
use crate::program::Program;
use crate::run::{Outcome, run};
use crate::workshop::Workshop;

/// Plain runs before the arms; and again after a difference, to be certain that the program is deterministic. One that
/// differs from itself in one run of forty is found out by 100 runs with a chance of 92 %.
const PLAIN_RUNS: usize = 2;
const PLAIN_RUNS_AFTER: usize = 100;
/// After a difference under an attachment every so many of them take as long as that one did.
const SLOW_EVERY: usize = 25;
/// Runs of an arm when a difference is shrunk: addresses differ from run to run, and some faults depend on them.
const SHRINK_RUNS: usize = 3;

pub enum Verdict {
    Same,
    /// Plain runs differ among themselves, or take too long, and so over the other allocators too.
    Skipped {
        why: String,
        is_everywhere: bool,
    },
    Different(Box<Difference>),
}

pub struct Difference {
    pub arm: Arm,
    pub link: Link,
    pub plain: Outcome,
    pub watched: Outcome,
    pub text: String,
}

/// One run of an arm, for the table.
pub struct Ran {
    pub arm: String,
    pub is_different: bool,
    pub seen: Option<Seen>,
}

/// Runs a program plain and in these arms of a group.
/// No run is repeated until it passes.
pub fn compare(
    workshop: &Workshop,
    program: &Program,
    group: &Group,
    arms: &[&Arm],
    ran: &mut Vec<Ran>,
) -> Result<Verdict> {
    if arms.is_empty() {
        return Ok(Verdict::Same);
    }
    let file = workshop.build(program, &group.link)?;
    let run = |arm: &Arm| run(workshop, arm, &file, program);
    let plain = run(&group.control)?;
    if plain.end == "timeout" {
        return Ok(Verdict::Skipped {
            why: "the plain program takes too long".to_owned(),
            is_everywhere: true,
        });
    }
    let not_deterministic = |again: &Outcome| {
        let text = plain.difference(again)?;
        Some(Verdict::Skipped {
            why: format!("not deterministic: {text}"),
            is_everywhere: false,
        })
    };
    for _ in 1..PLAIN_RUNS {
        if let Some(skipped) = not_deterministic(&run(&group.control)?) {
            return Ok(skipped);
        }
    }
    for arm in arms {
        let watched = run(arm)?;
        let text = plain.difference(&watched);
        ran.push(Ran {
            arm: arm.name.clone(),
            is_different: text.is_some(),
            seen: watched.seen,
        });
        let Some(text) = text else { continue };
        // Allocators do some things by the clock.
        let slow = Arm {
            pause: arm
                .attach
                .as_ref()
                .map_or(Duration::ZERO, |_| watched.time / gates::COUNT),
            ..group.control.clone()
        };
        for index in 0..PLAIN_RUNS_AFTER {
            let control = if index % SLOW_EVERY > 0 {
                &group.control
            } else {
                &slow
            };
            if let Some(skipped) = not_deterministic(&run(control)?) {
                ran.pop();
                return Ok(skipped);
            }
        }
        return Ok(Verdict::Different(Box::new(Difference {
            arm: Arm::clone(arm),
            link: group.link.clone(),
            plain,
            watched,
            text,
        })));
    }
    Ok(Verdict::Same)
}

/// The same with one arm only, which may differ in any of a few runs.
pub fn still_differs(
    workshop: &Workshop,
    program: &Program,
    group: &Group,
    arm: &Arm,
) -> Result<Option<Difference>> {
    let file = workshop.build(program, &group.link)?;
    let plain = run(workshop, &group.control, &file, program)?;
    for _ in 1..PLAIN_RUNS {
        let again = run(workshop, &group.control, &file, program)?;
        if plain.difference(&again).is_some() {
            return Ok(None);
        }
    }
    for _ in 0..SHRINK_RUNS {
        let watched = run(workshop, arm, &file, program)?;
        if let Some(text) = plain.difference(&watched) {
            return Ok(Some(Difference {
                arm: arm.clone(),
                link: group.link.clone(),
                plain,
                watched,
                text,
            }));
        }
    }
    Ok(None)
}
