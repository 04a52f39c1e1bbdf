//! A budget over time: what is not spent is saved, up to a few seconds' worth, so that a short burst ends nothing.

/// Saved at most, and at the start: what so many seconds allow.
const SAVED_S: f64 = 6.0;

/// CPU time of the subject, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    share: f64,
    saved_s: f64,
    spent_s: f64,
    allowed_s: f64,
}

impl Bucket {
    /// `share`: of the subject's own CPU time, or of one core where that is more.
    pub fn new(share: f64) -> Bucket {
        Bucket {
            share,
            saved_s: SAVED_S * share,
            spent_s: 0.0,
            allowed_s: 0.0,
        }
    }

    /// What was spent since the last call, and the subject's CPU time in that time, with what was spent.
    pub fn spend(&mut self, spent_s: f64, cpu_s: f64, over_s: f64) {
        // What is said of a stop is of the time that used the savings up.
        if self.saved_s >= SAVED_S * self.share {
            (self.spent_s, self.allowed_s) = (0.0, 0.0);
        }
        let base_s = (cpu_s - spent_s).max(over_s);
        let allowed_s = self.share * base_s;
        self.spent_s += spent_s;
        self.allowed_s += allowed_s;
        self.saved_s = (self.saved_s + allowed_s - spent_s).min(SAVED_S * self.share);
    }

    pub fn is_empty(&self) -> bool {
        self.saved_s < 0.0
    }

    /// Of what the share is of, since the savings were last full.
    pub fn spent_share(&self) -> f64 {
        self.spent_s * self.share / self.allowed_s.max(1e-12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_borne_and_a_steady_excess_is_not() {
        let mut bucket = Bucket::new(0.05);
        bucket.spend(0.25, 0.3, 1.0);
        assert!(!bucket.is_empty(), "a quarter of a second at once");
        for _ in 0..20 {
            bucket.spend(0.04, 0.3, 1.0);
        }
        assert!(!bucket.is_empty(), "4 % of a core");
        let mut seconds = 0;
        while !bucket.is_empty() {
            bucket.spend(0.1, 0.5, 1.0);
            seconds += 1;
        }
        assert!((3..=8).contains(&seconds), "{seconds} s at 10 %");
        assert!(bucket.spent_share() > 0.05, "{bucket:?}");
    }

    #[test]
    fn a_burst_after_a_quiet_hour_is_what_was_too_much() {
        let mut bucket = Bucket::new(0.05);
        for _ in 0..3600 {
            bucket.spend(0.001, 0.3, 1.0);
        }
        while !bucket.is_empty() {
            bucket.spend(0.4, 0.7, 1.0);
        }
        assert!(bucket.spent_share() > 0.3, "{bucket:?}");
    }

    #[test]
    fn a_busy_subject_allows_more() {
        let mut bucket = Bucket::new(0.05);
        for _ in 0..60 {
            bucket.spend(0.15, 4.15, 1.0);
        }
        assert!(!bucket.is_empty(), "3.75 % of its own four cores");
        assert!((bucket.spent_share() - 0.15 / 4.0).abs() < 1e-6);
    }
}
