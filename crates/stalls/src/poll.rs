//! Waits that a thread breaks off by the clock and takes up again at once: to whoever ends the last of them they are
//! one wait. CPython's threads wait so for the interpreter's lock, 5 ms at a time.

use std::collections::VecDeque;

use super::event::{Tid, Wait, WaitKind, Waker};
use super::segment::{Segment, State};

/// A thread that was on a CPU for longer between two waits did something meanwhile.
const RAN_MOST_NS: u64 = 500_000;

#[derive(Debug, Default)]
pub struct Poll {
    /// Where it waits, and since when; none unless it broke off just now.
    broken_off: Option<(Wait, u64)>,
    ran_ns: u64,
}

impl Poll {
    /// Takes the thread's next segment. For a wait that goes on with those before it, what is to be judged: all of
    /// them, when somebody ended it, or else this one.
    pub fn took_up(&mut self, segment: &Segment) -> Option<Segment> {
        match segment.state {
            State::Runnable { .. } => None,
            State::Running => {
                self.ran_ns += segment.ns();
                None
            }
            State::Blocked { wait, by, .. } => {
                let before = self
                    .broken_off
                    .take()
                    .filter(|(before, _)| self.ran_ns <= RAN_MOST_NS && is_same(before, &wait));
                let since_ns = before.map(|(_, since_ns)| since_ns);
                let is_answered = matches!(by, Some(Waker::Thread(_)));
                let breaks_off = wait.timed && !is_answered;
                if breaks_off && wait.kind == WaitKind::Queue {
                    self.broken_off = Some((wait, since_ns.unwrap_or(segment.start_ns)));
                }
                self.ran_ns = 0;
                let from_ns = |since_ns| match is_answered {
                    true => since_ns,
                    false => segment.start_ns,
                };
                since_ns.map(|since_ns| Segment {
                    start_ns: from_ns(since_ns),
                    ..*segment
                })
            }
        }
    }
}

/// `by` ended a wait: it stands as the holder in those before it, from the newest on, that were broken off and taken up
/// again.
pub fn ended(done: &mut VecDeque<Segment>, last: &Wait, by: Tid) {
    let mut ran_ns = 0;
    for segment in done.iter_mut().rev() {
        let ns = segment.ns();
        match &mut segment.state {
            State::Runnable { .. } => {}
            State::Running => ran_ns += ns,
            State::Blocked {
                wait,
                by: None | Some(Waker::Outside),
                ..
            } if wait.timed && wait.kind == WaitKind::Queue && is_same(wait, last) => {
                wait.holder = Some(by);
                ran_ns = 0;
            }
            State::Blocked { .. } => return,
        }
        if ran_ns > RAN_MOST_NS {
            return;
        }
    }
}

/// It is judged with the last of them.
pub fn is_broken_off(wait: &Wait) -> bool {
    wait.kind == WaitKind::Queue && wait.holder.is_some()
}

fn is_same(one: &Wait, other: &Wait) -> bool {
    let at = |wait: &Wait| (wait.kind, wait.object, wait.place);
    at(one) == at(other)
}
