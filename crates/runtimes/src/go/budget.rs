//! What one snapshot may take: time and memory.

use std::time::Instant;

use crate::Limits;

/// Counts down while a snapshot is taken. Once it is spent, it stays spent.
#[derive(Debug)]
pub struct Budget {
    until: Option<Instant>,
    bytes_left: usize,
    steps: u32,
    spent: Option<&'static str>,
}

/// Steps between two readings of the clock: each step reads memory, which takes about a microsecond.
const STEPS_PER_CLOCK: u32 = 64;

impl Budget {
    pub fn new(limits: &Limits) -> Budget {
        Budget {
            // None: so far ahead that there is no such moment.
            until: Instant::now().checked_add(limits.time),
            bytes_left: limits.bytes,
            steps: 0,
            spent: None,
        }
    }

    /// Before a step of a walk: whether it may be taken.
    pub fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps % STEPS_PER_CLOCK == 1
            && self.until.is_some_and(|until| Instant::now() >= until)
        {
            self.spent.get_or_insert("the time limit was reached");
        }
        self.spent.is_none()
    }

    /// Before memory is kept: whether it may be.
    pub fn keep(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => {
                self.spent.get_or_insert("the memory limit was reached");
            }
        }
        self.spent.is_none()
    }

    /// Why it ended early.
    pub fn spent(&self) -> Option<&'static str> {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn budget(time: Duration, bytes: usize) -> Budget {
        let pause = Duration::ZERO;
        Budget::new(&Limits { time, bytes, pause })
    }

    #[test]
    fn each_limit_ends_a_walk() {
        let mut none = budget(Duration::ZERO, 1 << 20);
        assert!(!none.step() && !none.step());
        assert_eq!(none.spent(), Some("the time limit was reached"));
        let mut small = budget(Duration::MAX, 100);
        assert!(
            small.step() && small.keep(60) && small.keep(40) && !small.keep(1) && !small.step()
        );
        assert_eq!(small.spent(), Some("the memory limit was reached"));
    }
}
