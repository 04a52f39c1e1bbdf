//! Where a thread spends its time on a CPU, by the stacks of several samples.

use sched::places::{Frame, Stack};

/// Fewer stacks do not tell what they have in common.
const STACKS_MIN: usize = 3;

/// The innermost function that more than half of the time was spent in, and a stack with it; with the time of each
/// stack.
/// `None`: they have no more in common than what the thread was started for.
pub fn hottest<'a>(stacks: &[(&'a Stack, u64)]) -> Option<(&'a Stack, &'a str)> {
    let all: u64 = stacks.iter().map(|(_, ns)| ns).sum();
    let time_in = |frame: &Frame| -> u64 {
        let within = stacks
            .iter()
            .filter(|(stack, _)| stack.frames.contains(frame));
        within.map(|(_, ns)| ns).sum()
    };
    let innermost = |counts: fn(&Frame) -> bool| {
        let found = stacks.iter().filter_map(|(stack, _)| {
            let mut frames = stack.frames.iter().filter(|frame| counts(frame));
            let frame = frames.find(|frame| time_in(frame) * 2 > all)?;
            (stack.entry() != Some(frame)).then_some((*stack, frame))
        });
        // Of one that calls the other, the callee has no more time.
        found.min_by_key(|(_, frame)| time_in(frame))
    };
    if stacks.len() < STACKS_MIN {
        return None;
    }
    let hottest = innermost(Frame::is_own).or_else(|| innermost(Frame::is_of_program));
    hottest.map(|(stack, frame)| (stack, frame.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &[&str]) -> Stack {
        let frame = |name: &&str| Frame {
            name: (*name).into(),
            module: "service".into(),
            start: 0,
            bytes: 0,
            package: String::new(),
            borrowed: false,
            interpreter: false,
        };
        Stack {
            frames: names.iter().map(frame).collect(),
            ..Stack::default()
        }
    }

    fn told(stacks: &[(&[&str], u64)]) -> Option<String> {
        let stacks: Vec<(Stack, u64)> = stacks.iter().map(|(s, ns)| (stack(s), *ns)).collect();
        let stacks: Vec<(&Stack, u64)> = stacks.iter().map(|(s, ns)| (s, *ns)).collect();
        hottest(&stacks).map(|(_, name)| name.to_owned())
    }

    #[test]
    fn what_most_samples_have_in_common_is_named_and_not_where_one_was() {
        let mixed = told(&[
            (&["hash", "decode", "parse", "handle", "main"], 30),
            (&["copy", "decode", "parse", "handle", "main"], 10),
            (&["lookup", "parse", "handle", "main"], 30),
            (&["write", "log", "main"], 20),
        ]);
        assert_eq!(mixed.as_deref(), Some("parse"));
        let one = told(&[
            (&["hash", "decode", "main"], 30),
            (&["hash", "decode", "main"], 30),
            (&["copy", "decode", "main"], 10),
        ]);
        assert_eq!(one.as_deref(), Some("hash"));
        let nothing = told(&[
            (&["a", "main"], 5),
            (&["b", "main"], 5),
            (&["c", "main"], 5),
        ]);
        assert_eq!(nothing, None);
        assert_eq!(told(&[(&["a", "b", "main"], 5)]), None);
    }
}
