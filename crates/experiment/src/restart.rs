//! When a process that ended is started again, and when not any more.

use std::time::Duration;

use super::happening::Ending;
use crate::file::Restart;

/// Wait before the first restart; it doubles with each failure in a row (so it ends at 16 s).
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// Failures in a row after which a process counts as in a crash loop.
pub const FAILURES_IN_A_ROW_MAX: u32 = 5;
/// A process that lived this long did not fail "in a row" with the one before.
pub const LIVED_LONG: Duration = Duration::from_secs(60);
/// Restarts of one replica in one run, however long each lived.
pub const RESTARTS_MAX: u32 = 100;

/// What to do with a process that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It stays ended.
    Rest,
    StartAfter(Duration),
    /// It fails again and again; the words say how often.
    GiveUp(String),
}

/// The restarts of one replica so far.
#[derive(Debug, Clone)]
pub struct Restarts {
    policy: Restart,
    in_a_row: u32,
    total: u32,
}

impl Restarts {
    pub fn new(policy: Restart) -> Self {
        Self {
            policy,
            in_a_row: 0,
            total: 0,
        }
    }

    /// Decides after an ending that highwater did not ask for. `lived` is the age of the process.
    pub fn after(&mut self, ending: Ending, lived: Duration) -> Next {
        let failed = !matches!(ending, Ending::Stopped | Ending::Exited);
        if self.policy == Restart::Never || !failed {
            return Next::Rest;
        }
        self.again(lived)
    }

    /// A process that must run for as long as the run does, whatever its exit code: a load program.
    pub fn again(&mut self, lived: Duration) -> Next {
        self.in_a_row = if lived >= LIVED_LONG {
            1
        } else {
            self.in_a_row + 1
        };
        if self.in_a_row > FAILURES_IN_A_ROW_MAX {
            return Next::GiveUp(format!(
                "crash loop: {FAILURES_IN_A_ROW_MAX} restarts, none lived for {} s",
                LIVED_LONG.as_secs()
            ));
        }
        if self.total == RESTARTS_MAX {
            return Next::GiveUp(format!("{RESTARTS_MAX} restarts in one run are the limit"));
        }
        self.total += 1;
        Next::StartAfter(BACKOFF_FIRST * 2_u32.pow(self.in_a_row - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(2);

    #[test]
    fn never_means_never() {
        let mut restarts = Restarts::new(Restart::Never);
        assert_eq!(restarts.after(Ending::Crashed, SHORT), Next::Rest);
        assert_eq!(restarts.after(Ending::OomKilled, SHORT), Next::Rest);
    }

    #[test]
    fn on_failure_leaves_a_clean_exit_alone() {
        let mut restarts = Restarts::new(Restart::OnFailure);
        assert_eq!(restarts.after(Ending::Exited, SHORT), Next::Rest);
        assert_eq!(restarts.after(Ending::Stopped, SHORT), Next::Rest);
        for ending in [
            Ending::Crashed,
            Ending::OomKilled,
            Ending::Killed,
            Ending::Vanished,
        ] {
            let next = Restarts::new(Restart::OnFailure).after(ending, SHORT);
            assert_eq!(next, Next::StartAfter(BACKOFF_FIRST), "{ending:?}");
        }
    }

    #[test]
    fn the_backoff_doubles_up_to_the_crash_loop() {
        let mut restarts = Restarts::new(Restart::OnFailure);
        let waits: Vec<_> = (0..5)
            .map(|_| restarts.after(Ending::Crashed, SHORT))
            .collect();
        let seconds = [1, 2, 4, 8, 16].map(|s| Next::StartAfter(Duration::from_secs(s)));
        assert_eq!(waits, seconds);
        assert!(matches!(
            restarts.after(Ending::Crashed, SHORT),
            Next::GiveUp(_)
        ));
    }

    #[test]
    fn a_long_life_forgives_what_was_before_but_not_for_ever() {
        let mut restarts = Restarts::new(Restart::OnFailure);
        for _ in 0..RESTARTS_MAX {
            let next = restarts.after(Ending::Crashed, LIVED_LONG);
            assert_eq!(next, Next::StartAfter(BACKOFF_FIRST));
        }
        assert!(matches!(
            restarts.after(Ending::Crashed, LIVED_LONG),
            Next::GiveUp(_)
        ));
    }
}
