//! How many records may come: the limit below which waits are left out follows their number.

/// An ordinary service of a dozen threads has 5,000, in waits of up to 0.3 ms that its rows are made of.
const RECORDS_PER_SECOND_MAX: u64 = 8_000;
/// Far enough below to try a lower limit.
const RECORDS_PER_SECOND_FEW: u64 = 2_000;
const TURN_NS: u64 = 50_000_000;
/// Waits that a watch may leave out, in steps.
const LIMITS_NS: [u64; 7] = [0, 10_000, 20_000, OF_DEVICES_NS, 80_000, 160_000, 320_000];
/// The highest limit for a wait that may be one for a device: many of 100 us each are a stall.
pub const OF_DEVICES_NS: u64 = 40_000;
/// Its step.
const OF_DEVICES: usize = 3;
/// Above it only waits for no device are left out. Where that leaves more than four in five of the records, they are a
/// device's, a storm of faults, and it is not worth the idle waits that end a request.
const LEFT: (u64, u64) = (4, 5);
/// Turns to wait before a lower limit is tried; doubled each time that it proves too low.
const PATIENCE: u32 = 10;
const PATIENCE_MAX: u32 = 600;

#[derive(Debug)]
pub struct Pace {
    step: usize,
    count: u64,
    since_ns: u64,
    calm: u32,
    patience: u32,
    lowered: bool,
    /// Records a second as they were at the step of devices.
    of_devices: u64,
    /// Turns in which no higher step is tried, and what they will be the next time.
    held: u32,
    hold: u32,
    pub highest_ns: u64,
}

impl Default for Pace {
    /// Nothing is left out.
    fn default() -> Pace {
        Pace {
            step: 0,
            count: 0,
            since_ns: 0,
            calm: 0,
            patience: PATIENCE,
            lowered: false,
            of_devices: 0,
            held: 0,
            hold: PATIENCE,
            highest_ns: 0,
        }
    }
}

impl Pace {
    pub fn came(&mut self, records: u64) {
        self.count += records;
    }

    /// The limit now, in nanoseconds.
    pub fn limit_ns(&self) -> u64 {
        LIMITS_NS[self.step]
    }

    /// The new limit, where it changes.
    pub fn adapt(&mut self, now_ns: u64) -> Option<u64> {
        let passed = now_ns.saturating_sub(self.since_ns);
        if passed < TURN_NS {
            return None;
        }
        let first = self.since_ns == 0;
        let per_second = (self.count as f64 * 1e9 / passed as f64) as u64;
        (self.count, self.since_ns) = (0, now_ns);
        if first {
            return None;
        }
        let before = self.step;
        if self.step == OF_DEVICES {
            self.of_devices = per_second;
        }
        self.held = self.held.saturating_sub(1);
        if self.is_in_vain(per_second) {
            self.step = OF_DEVICES;
            self.held = self.hold;
            self.hold = (self.hold * 2).min(PATIENCE_MAX);
        } else if per_second > RECORDS_PER_SECOND_MAX {
            self.raise(per_second / RECORDS_PER_SECOND_MAX);
        } else if per_second < RECORDS_PER_SECOND_FEW && self.step > 0 {
            self.calm += 1;
            if self.calm >= self.patience {
                (self.step, self.calm, self.lowered) = (self.step - 1, 0, true);
            }
        }
        (self.step != before).then(|| self.limit_ns())
    }

    /// The highest limit keeps few records away that the one of devices does not.
    fn is_in_vain(&self, per_second: u64) -> bool {
        let (few, of) = LEFT;
        let too_many = per_second > RECORDS_PER_SECOND_MAX;
        self.step == LIMITS_NS.len() - 1 && too_many && per_second * of > self.of_devices * few
    }

    /// `times` too many: far too many are not borne for a step at a time, but for those after a lower limit was
    /// tried, since the step before it was enough.
    fn raise(&mut self, times: u64) {
        let mut steps = if times > 3 { 3 } else { 1 };
        if std::mem::take(&mut self.lowered) {
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            steps = 1;
        }
        self.calm = 0;
        let most = match self.held {
            0 => LIMITS_NS.len() - 1,
            _ => OF_DEVICES.max(self.step),
        };
        self.step = (self.step + steps).min(most);
        self.highest_ns = self.highest_ns.max(self.limit_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a twentieth of a second under each limit.
    fn run(pace: &mut Pace, turns: std::ops::Range<u64>, records: impl Fn(u64) -> u64) -> Vec<u64> {
        let turn = |at: u64| {
            pace.came(records(pace.limit_ns()));
            pace.adapt(1 + at * TURN_NS);
            pace.limit_ns()
        };
        turns.map(turn).collect()
    }

    #[test]
    fn short_waits_are_left_out_while_there_are_too_many() {
        let mut pace = Pace::default();
        let busy = |limit| if limit < 40_000 { 7_500 } else { 15 };
        let limits = run(&mut pace, 0..600, busy);
        let low = limits[10..].iter().filter(|limit| **limit < 40_000).count();
        assert!(low < 60, "the limit is seldom too low: {low} of 600");
        assert_eq!(pace.highest_ns, 40_000);
        let limits = run(&mut pace, 600..4_000, |_| 15);
        assert_eq!(limits.last(), Some(&0), "and given up when it is quiet");
    }

    #[test]
    fn a_storm_of_faults_costs_no_idle_waits() {
        let mut pace = Pace::default();
        // A sixth of them are no device's, and fall away above it.
        let storm = |limit| if limit > OF_DEVICES_NS { 1_000 } else { 1_200 };
        let limits = run(&mut pace, 0..600, storm);
        let high = limits.iter().filter(|limit| **limit > OF_DEVICES_NS);
        assert!(high.count() < 40, "{limits:?}");
        // What a higher limit does keep away goes on being left out.
        let busy = |limit| if limit > 160_000 { 300 } else { 2_500 };
        let limits = run(&mut pace, 600..1_900, busy);
        assert_eq!(limits.last(), Some(&320_000));
    }

    #[test]
    fn a_quiet_watch_leaves_nothing_out() {
        let mut pace = Pace::default();
        assert!(
            run(&mut pace, 0..50, |_| 350)
                .iter()
                .all(|limit| *limit == 0)
        );
        assert_eq!(pace.highest_ns, 0);
    }
}
