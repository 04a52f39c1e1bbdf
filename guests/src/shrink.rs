//! Makes a failing program smaller: steps go while the difference stays.

use anyhow::Result;

use crate::program::{Chain, Program, Step};

/// Most smaller programs that are tried for one difference.
const TRIES_MAX: usize = 150;

/// The smallest program found for which `fails` is true. `program` itself is known to fail.
pub fn shrink<'a>(
    program: &Program<'a>,
    mut fails: impl FnMut(&Program<'a>) -> Result<bool>,
) -> Result<Program<'a>> {
    let mut best = program.clone();
    let mut tries = 0;
    loop {
        let mut is_smaller = false;
        for candidate in smaller(&best) {
            tries += 1;
            if tries > TRIES_MAX {
                return Ok(best);
            }
            if fails(&candidate)? {
                best = candidate;
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return Ok(best);
        }
    }
}

/// Programs with less in them: halves first, then single steps, then bodies without what is around them.
fn smaller<'a>(program: &Program<'a>) -> Vec<Program<'a>> {
    let mut all = Vec::new();
    let with = |steps: Vec<Step<'a>>| Program {
        steps,
        ..program.clone()
    };
    let count = program.steps.len();
    let mut chunk = count / 2;
    while chunk > 1 {
        for start in (0..count).step_by(chunk) {
            let mut steps = program.steps.clone();
            steps.drain(start..(start + chunk).min(count));
            all.push(with(steps));
        }
        chunk /= 2;
    }
    for index in 0..program.all_steps().len() {
        for keeps_body in [false, true] {
            let mut steps = program.steps.clone();
            if remove(&mut steps, &mut index.clone(), keeps_body) {
                all.push(with(steps));
            }
        }
    }
    if program.chain != Chain::None {
        all.push(Program {
            chain: Chain::None,
            ..program.clone()
        });
    }
    if program.has_own_operators {
        all.push(Program {
            has_own_operators: false,
            ..program.clone()
        });
    }
    all
}

/// Removes the step of an index in order of appearance, or puts its body in its place.
fn remove(steps: &mut Vec<Step>, index: &mut usize, keeps_body: bool) -> bool {
    for place in 0..steps.len() {
        if *index == 0 {
            let body = std::mem::take(&mut steps[place].body);
            if keeps_body && body.is_empty() {
                return false;
            }
            steps.splice(place..=place, if keeps_body { body } else { Vec::new() });
            return true;
        }
        *index -= 1;
        let inside = count(&steps[place].body);
        if *index < inside {
            return remove(&mut steps[place].body, index, keeps_body);
        }
        *index -= inside;
    }
    false
}

fn count(steps: &[Step]) -> usize {
    steps.iter().map(|step| 1 + count(&step.body)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::generate;

    #[test]
    fn one_guilty_step_is_found() {
        let fragments = crate::catalogue::read().unwrap();
        let is_guilty = |step: &&Step| step.fragment.name == "shell";
        let failing = (0..100)
            .map(|seed| generate(&fragments, seed))
            .find(|program| program.all_steps().iter().any(is_guilty))
            .unwrap();
        let small = shrink(&failing, |program| {
            Ok(program.all_steps().iter().any(is_guilty))
        })
        .unwrap();
        assert_eq!(small.outline(), "shell(0)");
    }
}
