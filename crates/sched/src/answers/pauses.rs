//! What is told of requests takes at most a hundredth of a core: above some rate they are seen in stretches.

/// An answer is six runs of the programs, the client's on the same machine included: less than a microsecond together
/// (bench/results/2026-11-28-connections.md).
const ANSWERS_PER_SECOND_MAX: i64 = 10_000;
/// Answers that may come at once after a quiet time.
const AT_ONCE: i64 = 20_000;
/// A pause is over when so many more may come.
const AGAIN: i64 = AT_ONCE / 2;
/// The shortest stretch, and pause.
const LEAST_NS: u64 = 200_000_000;

#[derive(Debug)]
pub(super) struct Pauses {
    is_on: bool,
    /// Answers that may come still; below zero: too many came.
    credit: i64,
    /// Answers up to the last turn.
    answers: u64,
    turned_ns: u64,
    began_ns: u64,
    changed_ns: u64,
    /// Time in stretches that are over.
    on_ns: u64,
}

impl Pauses {
    pub(super) fn begin(now_ns: u64) -> Pauses {
        Pauses {
            is_on: true,
            credit: AT_ONCE,
            answers: 0,
            turned_ns: now_ns,
            began_ns: now_ns,
            changed_ns: now_ns,
            on_ns: 0,
        }
    }

    /// With so many answers since the beginning: whether requests are told from now on, where that changes.
    pub(super) fn turn(&mut self, answers: u64, now_ns: u64) -> Option<bool> {
        let passed_ns = now_ns.saturating_sub(self.turned_ns).min(1_000_000_000) as i64;
        let came = answers
            .saturating_sub(self.answers)
            .min(i64::MAX as u64 / 2) as i64;
        (self.turned_ns, self.answers) = (now_ns, answers);
        let more = passed_ns * ANSWERS_PER_SECOND_MAX / 1_000_000_000;
        self.credit = (self.credit + more).min(AT_ONCE) - came;
        let changes = match self.is_on {
            true => self.credit < 0,
            false => self.credit >= AGAIN,
        };
        if !changes || now_ns.saturating_sub(self.changed_ns) < LEAST_NS {
            return None;
        }
        match self.is_on {
            true => self.end(now_ns),
            false => (self.is_on, self.changed_ns) = (true, now_ns),
        }
        Some(self.is_on)
    }

    /// The stretch is over.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.on_ns += self.open_ns(now_ns);
        (self.is_on, self.changed_ns) = (false, now_ns);
    }

    fn open_ns(&self, now_ns: u64) -> u64 {
        match self.is_on {
            true => now_ns.saturating_sub(self.changed_ns),
            false => 0,
        }
    }

    /// Of the time so far.
    pub(super) fn share_on(&self, now_ns: u64) -> f64 {
        let over_ns = now_ns.saturating_sub(self.began_ns).max(1);
        // It may have ended after `now_ns`.
        ((self.on_ns + self.open_ns(now_ns)) as f64 / over_ns as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN_NS: u64 = 40_000_000;

    /// Turns of so many answers a second while they are told; the answers that came, and the end.
    fn turns(pauses: &mut Pauses, from_ns: u64, turns: u64, per_second: u64) -> (u64, u64) {
        let (before, mut answers, mut now_ns) = (pauses.answers, pauses.answers, from_ns);
        for _ in 0..turns {
            now_ns += TURN_NS;
            if pauses.is_on {
                answers += per_second * TURN_NS / 1_000_000_000;
            }
            pauses.turn(answers, now_ns);
        }
        (answers - before, now_ns)
    }

    #[test]
    fn what_is_told_is_bounded_and_a_usual_service_is_seen_whole() {
        let minute = |per_second| {
            let mut pauses = Pauses::begin(5);
            let (answers, now_ns) = turns(&mut pauses, 5, 1_500, per_second);
            (answers, pauses.share_on(now_ns))
        };
        assert_eq!(minute(5_000), (300_000, 1.0));
        for per_second in [30_000, 100_000, 1_000_000] {
            let (answers, share) = minute(per_second);
            // A stretch lasts for a fifth of a second at least.
            let most = 60 * 10_000 + AT_ONCE as u64 + per_second / 4;
            assert!(answers < most, "{answers} at {per_second}");
            let expected = 10_000.0 / per_second as f64;
            assert!(
                (0.5..2.0).contains(&(share / expected)),
                "{share} at {per_second}"
            );
        }
    }

    #[test]
    fn a_quiet_time_saves_up_for_no_more_than_a_moment() {
        let mut pauses = Pauses::begin(5);
        let (_, now_ns) = turns(&mut pauses, 5, 15_000, 10);
        let (answers, now_ns) = turns(&mut pauses, now_ns, 250, 100_000);
        assert!(
            answers < 10 * 10_000 + 2 * AT_ONCE as u64,
            "{answers} in 10 s"
        );
        let seen = pauses.share_on(now_ns);
        assert!(pauses.share_on(10) <= 1.0);
        pauses.end(now_ns);
        assert!(
            pauses.share_on(2 * now_ns) < 0.6 * seen,
            "taken off, it sees nothing"
        );
    }
}
