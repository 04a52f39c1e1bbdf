//! What is told of requests takes at most a hundredth of a core: above some rate they are seen in stretches.

/// An answer is six runs of the programs, the client's on the same machine included: less than a microsecond together
/// (bench/results/2026-11-28-connections.md).
const ANSWERS_PER_SECOND_MAX: u64 = 10_000;
/// Answers that may come at once: a stretch has at least so many.
const AT_ONCE: u64 = 20_000;
/// The shortest stretch, and pause.
const LEAST_NS: u64 = 200_000_000;

#[derive(Debug)]
pub(super) struct Pauses {
    /// The number of the stretch; 0 in a pause.
    pub stretch: u64,
    last_stretch: u64,
    began_ns: u64,
    changed_ns: u64,
    /// Time in stretches that are over.
    on_ns: u64,
}

impl Pauses {
    pub(super) fn begin(now_ns: u64) -> Pauses {
        Pauses {
            stretch: 1,
            last_stretch: 1,
            began_ns: now_ns,
            changed_ns: now_ns,
            on_ns: 0,
        }
    }

    /// With so many answers since the beginning: the number of the new stretch, or 0 for a pause, where that changes.
    pub(super) fn turn(&mut self, answers: u64, now_ns: u64) -> Option<u64> {
        let passed_ns = now_ns.saturating_sub(self.changed_ns);
        let over_ns = now_ns.saturating_sub(self.began_ns);
        let may = (u128::from(over_ns) * u128::from(ANSWERS_PER_SECOND_MAX) / 1_000_000_000) as u64;
        let is_on = self.stretch != 0;
        let changes = match is_on {
            true => answers > may.saturating_add(AT_ONCE),
            false => answers <= may,
        };
        if !changes || passed_ns < LEAST_NS {
            return None;
        }
        self.changed_ns = now_ns;
        if is_on {
            self.on_ns += passed_ns;
            self.stretch = 0;
        } else {
            self.last_stretch += 1;
            self.stretch = self.last_stretch;
        }
        Some(self.stretch)
    }

    /// Of the time so far.
    pub(super) fn share_on(&self, now_ns: u64) -> f64 {
        let open_ns = match self.stretch {
            0 => 0,
            _ => now_ns.saturating_sub(self.changed_ns),
        };
        let over_ns = now_ns.saturating_sub(self.began_ns).max(1);
        (self.on_ns + open_ns) as f64 / over_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN_NS: u64 = 40_000_000;

    /// The answers that are seen in a minute of so many a second, and the share of the time.
    fn minute(per_second: u64) -> (u64, f64) {
        let mut pauses = Pauses::begin(5);
        let (mut answers, mut now_ns, mut numbers) = (0, 5, vec![1]);
        for _ in 0..1_500 {
            now_ns += TURN_NS;
            if pauses.stretch != 0 {
                answers += per_second * TURN_NS / 1_000_000_000;
            }
            numbers.extend(pauses.turn(answers, now_ns).filter(|number| *number != 0));
        }
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        (answers, pauses.share_on(now_ns))
    }

    #[test]
    fn what_is_told_is_bounded_and_a_usual_service_is_seen_whole() {
        assert_eq!(minute(5_000), (300_000, 1.0));
        for per_second in [30_000, 100_000, 1_000_000] {
            let (answers, share) = minute(per_second);
            assert!(answers < 60 * ANSWERS_PER_SECOND_MAX * 5 / 4, "{answers}");
            let expected = ANSWERS_PER_SECOND_MAX as f64 / per_second as f64;
            assert!(
                (0.5..2.0).contains(&(share / expected)),
                "{share} at {per_second}"
            );
        }
    }
}
