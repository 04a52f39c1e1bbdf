//! How densely to sample: 450 to 1,000 samples a second where so much is allocated, coarser as the table fills.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Finest and coarsest mean distance of samples, requested bytes.
pub const MEAN_BYTES_MIN: u64 = 512;
/// See above.
pub const MEAN_BYTES_MAX: u64 = 1 << 40;
/// The mean at the start: 1,000 samples a second at 32 MB/s.
const MEAN_BYTES_START: u64 = 32 << 10;
/// Samples in a full window. Filled in under 128 ms the rate is above 1,000 a second, in over 280
/// ms below 457: as high a floor as halving leaves, for a leak of 20 kB/s among 100 MB/s is one sample in 5,000.
const WINDOW_SAMPLES: u64 = 128;
const FULL_TOO_SOON_NS: u64 = 128_000_000;
const FULL_TOO_LATE_NS: u64 = 280_000_000;
/// In windows of this length at least, a rate below an eighth of the aim lowers the mean at once, by as much as
/// is missing: after a storm every sample at its mean would stand for megabytes of the quiet that follows.
const SPARSE_AFTER_NS: u64 = 100_000_000;
const SPARSE_EIGHTHS: u64 = 8;
/// Most that one window may change the mean by. A storm takes some hundred samples more on its way up than with
/// one leap, and what else is allocated in it is not lost between two samples.
const RAISE_MAX: u64 = 8;
const LOWER_MAX: u64 = 16;
/// Halvings of the permitted rate for the budget's sake: two to four samples a second are left.
const SLOWED_MAX: u64 = 8;
/// Share of the table, in eighths, above which samples are thinned; below half of it the mean may
/// fall.
const THIN_EIGHTHS: u64 = 3;
/// Blocks from here are all sampled, at a mean of one byte, while they come slowly enough: a few of
/// them may be most of a heap, and a draw that misses one would name nobody.
pub const LARGE_BYTES: u64 = 1 << 20;
/// Their mean.
pub const CERTAIN_MEAN_BYTES: u64 = 1;
/// Such samples: 200 a second, 64 at once.
const LARGE_EVERY_NS: u64 = 5_000_000;
const LARGE_AT_ONCE: u64 = 64;
/// Stacks of mappings too small for one each: 500 a second, 512 at once.
const SMALL_MAPPING_EVERY_NS: u64 = 2_000_000;
const SMALL_MAPPINGS_AT_ONCE: u64 = 512;
/// Looks at the mean per distance. A snapshot costs some 60 ns, and 500 distances a second end.
const CUTS: u64 = 16;
/// Rows that one sample thins while a sweep is on.
const SWEEP_ROWS: usize = 128;

/// A change of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stays.
    None,
    /// Fewer samples from now on.
    Coarser,
    /// More.
    Finer,
}

/// Part of a sweep over the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// First row.
    pub from: usize,
    /// Rows.
    pub count: usize,
    /// Mean to raise samples to.
    pub mean_bytes: u64,
}

/// The state of the pace. Threads race on it; a lost update only delays a change.
pub struct Pace {
    mean_bytes: AtomicU64,
    /// Fixed by the user: never changed.
    fixed: bool,
    /// The mean never falls below it.
    least_bytes: u64,
    window_ns: AtomicU64,
    window_samples: AtomicU64,
    /// Mean that every sample of the table must reach, and where the sweep is.
    thin_bytes: AtomicU64,
    sweep_at: AtomicU64,
    /// How often the budget has halved the permitted rate.
    slowed: AtomicU64,
    large: Ration,
    small_mappings: Ration,
}

/// So many a second, and some at once. Two threads at one moment may get one too many.
#[derive(Default)]
struct Ration {
    /// When what was given out so far will have been due.
    due_ns: AtomicU64,
}

impl Ration {
    fn take(&self, now_ns: u64, every_ns: u64, at_once: u64) -> bool {
        let due = self.due_ns.load(Relaxed);
        if due > now_ns.saturating_add(every_ns * at_once) {
            return false;
        }
        self.due_ns.store(due.max(now_ns) + every_ns, Relaxed);
        true
    }
}

impl Pace {
    /// From a mean that the user fixed, or the default.
    pub fn new(fixed_bytes: Option<u64>, now_ns: u64) -> Pace {
        let mean = fixed_bytes.unwrap_or(MEAN_BYTES_START);
        Pace {
            fixed: fixed_bytes.is_some(),
            ..Pace::starting(mean, MEAN_BYTES_MIN, now_ns)
        }
    }

    /// From a mean that is raised where there would be too many samples, and never goes below it.
    pub fn at_least(mean_bytes: u64, now_ns: u64) -> Pace {
        Pace::starting(mean_bytes, mean_bytes, now_ns)
    }

    fn starting(mean_bytes: u64, least_bytes: u64, now_ns: u64) -> Pace {
        Pace {
            mean_bytes: AtomicU64::new(mean_bytes.clamp(1, MEAN_BYTES_MAX)),
            fixed: false,
            least_bytes,
            window_ns: AtomicU64::new(now_ns),
            window_samples: AtomicU64::new(0),
            thin_bytes: AtomicU64::new(0),
            sweep_at: AtomicU64::new(u64::MAX),
            slowed: AtomicU64::new(0),
            large: Ration::default(),
            small_mappings: Ration::default(),
        }
    }

    /// Whether a block of so many bytes is a sample whatever the distance says.
    pub fn takes_large(&self, bytes: u64, now_ns: u64) -> bool {
        !self.fixed
            && bytes >= LARGE_BYTES
            && self.large.take(now_ns, LARGE_EVERY_NS, LARGE_AT_ONCE)
    }

    /// Whether a small mapping gets a stack.
    pub fn takes_small_mapping(&self, now_ns: u64) -> bool {
        let ration = &self.small_mappings;
        ration.take(now_ns, SMALL_MAPPING_EVERY_NS, SMALL_MAPPINGS_AT_ONCE)
    }

    /// Mean distance of samples now.
    pub fn mean_bytes(&self) -> u64 {
        self.mean_bytes.load(Relaxed)
    }

    /// Longest distance before another snapshot of the mean: a thread that drew a long one while the
    /// load was high must not sleep through the quiet hours; and no large block must pass unseen.
    pub fn cut_bytes(&self) -> u64 {
        (self.mean_bytes() / CUTS)
            .max(self.least_bytes)
            .min(LARGE_BYTES)
    }

    /// A distance ended, with a sample or without. `live` of `capacity` rows are taken.
    pub fn tick(&self, now_ns: u64, sampled: bool, live: u64, capacity: u64) -> Change {
        if self.fixed {
            return Change::None;
        }
        let count = self.window_samples.fetch_add(u64::from(sampled), Relaxed) + u64::from(sampled);
        let spent = now_ns.saturating_sub(self.window_ns.load(Relaxed));
        let slowed = self.slowed.load(Relaxed);
        let (soon, late) = (FULL_TOO_SOON_NS << slowed, FULL_TOO_LATE_NS << slowed);
        if count >= WINDOW_SAMPLES {
            self.open_window(now_ns);
            if spent < soon {
                return self.raise(
                    (soon / spent.max(1))
                        .next_power_of_two()
                        .clamp(2, RAISE_MAX),
                );
            }
            return Change::None;
        }
        // What a window that is neither too soon nor too late would have by now.
        let aim = spent / (late / 2 / WINDOW_SAMPLES);
        let sparse = spent > SPARSE_AFTER_NS << slowed && count * SPARSE_EIGHTHS < aim;
        if spent <= late && !sparse {
            return Change::None;
        }
        self.open_window(now_ns);
        let roomy = live * 16 < capacity * THIN_EIGHTHS;
        match roomy {
            true => self.lower(prev_power_of_two(aim / (count + 1)).clamp(2, LOWER_MAX)),
            false => Change::None,
        }
    }

    /// The rows to thin with this sample, if the table is too full or a sweep is under way.
    pub fn sweep(&self, live: u64, capacity: u64) -> Option<Sweep> {
        let at = self.sweep_at.load(Relaxed);
        if at < capacity {
            let from = self.sweep_at.fetch_add(SWEEP_ROWS as u64, Relaxed);
            let mean_bytes = self.thin_bytes.load(Relaxed);
            return Some(Sweep {
                from: from as usize,
                count: SWEEP_ROWS,
                mean_bytes,
            });
        }
        if live * 8 > capacity * THIN_EIGHTHS {
            self.begin_sweep();
        }
        None
    }

    /// The probe cost too much: halves the permitted rate so many times. False when it cannot go lower.
    pub fn slow_down(&self, halvings: u32) -> bool {
        let slowed = self.slowed.load(Relaxed);
        let next = (slowed + u64::from(halvings)).min(SLOWED_MAX);
        self.slowed.store(next, Relaxed);
        self.raise(2 << (next - slowed));
        next > slowed
    }

    /// Raises what all samples must reach: to the present mean first, then by doubling, the mean
    /// with it.
    fn begin_sweep(&self) {
        let mean = self.mean_bytes();
        let next = (self.thin_bytes.load(Relaxed) * 2)
            .max(mean)
            .min(MEAN_BYTES_MAX);
        self.thin_bytes.store(next, Relaxed);
        if !self.fixed {
            self.mean_bytes.fetch_max(next, Relaxed);
        }
        self.sweep_at.store(0, Relaxed);
    }

    fn open_window(&self, now_ns: u64) {
        self.window_ns.store(now_ns, Relaxed);
        self.window_samples.store(0, Relaxed);
    }

    fn raise(&self, factor: u64) -> Change {
        let mean = self.mean_bytes();
        self.mean_bytes
            .store(mean.saturating_mul(factor).min(MEAN_BYTES_MAX), Relaxed);
        Change::Coarser
    }

    fn lower(&self, factor: u64) -> Change {
        let mean = self.mean_bytes();
        // Below what samples are thinned to, a finer mean would only feed the sweep.
        let least = self.least_bytes.max(self.thin_bytes.load(Relaxed) / 2);
        let mut next = mean / factor;
        while next < least {
            next = next.max(1) * 2;
        }
        if next >= mean {
            return Change::None;
        }
        self.mean_bytes.store(next, Relaxed);
        Change::Finer
    }
}

/// The largest power of two that is not above `value`; 1 for 0.
fn prev_power_of_two(value: u64) -> u64 {
    1 << value.max(1).ilog2()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::draw;

    /// Samples per second, over the last 10 of 30 simulated seconds, of a program that allocates so
    /// much.
    fn settled_rate(bytes_per_second: f64) -> f64 {
        let (pace, mut state) = (Pace::new(None, 0), 11);
        let (mut now, mut counted) = (0.0, 0);
        while now < 30e9 {
            let cut = pace.cut_bytes();
            let drawn = draw::distance(&mut state, pace.mean_bytes());
            let sampled = drawn <= cut;
            now += drawn.min(cut) as f64 / bytes_per_second * 1e9;
            pace.tick(now as u64, sampled, 0, 32_768);
            counted += u64::from(sampled && now > 20e9);
        }
        counted as f64 / 10.0
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn settles_between_450_and_1000_a_second() {
        for bytes_per_second in [1e6, 8e6, 77e6, 1e9, 20e9] {
            let rate = settled_rate(bytes_per_second);
            assert!(
                (350.0..1100.0).contains(&rate),
                "{bytes_per_second} B/s: {rate} samples a second"
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn a_slow_program_is_sampled_as_finely_as_may_be() {
        let rate = settled_rate(20_000.0);
        assert!(
            (30.0..60.0).contains(&rate),
            "{rate}: 20 kB/s at a mean of 512 are 39 a second"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn a_mean_that_the_user_fixed_stays() {
        let pace = Pace::new(Some(4096), 0);
        for now in 0..10_000 {
            pace.tick(now, true, 30_000, 32_768);
            pace.sweep(30_000, 32_768);
        }
        assert_eq!(pace.mean_bytes(), 4096);
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn a_least_mean_is_come_back_to_after_a_storm() {
        let (pace, least) = (Pace::at_least(512 << 10, 0), 512 << 10);
        for storm in 0..10_000u64 {
            pace.tick(storm * 1_000, true, 0, 32_768);
        }
        assert!(pace.mean_bytes() > 8 * least);
        for quiet in 0..600u64 {
            pace.tick((1 + quiet) * 100_000_000, true, 0, 32_768);
        }
        assert_eq!(pace.mean_bytes(), least);
    }

    #[test]
    fn for_the_budget_the_rate_is_halved_down_to_some_samples_a_second() {
        let pace = Pace::new(None, 0);
        assert!(
            pace.slow_down(3) && pace.slow_down(3),
            "an eighth of an eighth"
        );
        assert_eq!(pace.mean_bytes(), MEAN_BYTES_START << 8);
        assert!(pace.slow_down(8), "what was left");
        assert!(!pace.slow_down(1));
        assert_eq!(pace.slowed.load(Relaxed), SLOWED_MAX);
    }

    #[test]
    fn large_blocks_are_taken_up_to_their_ration() {
        let pace = Pace::new(None, 0);
        assert!(!pace.takes_large(LARGE_BYTES - 1, 0));
        let at_once = (0..1000)
            .filter(|_| pace.takes_large(LARGE_BYTES, 0))
            .count() as u64;
        assert!(
            (LARGE_AT_ONCE..=LARGE_AT_ONCE + 1).contains(&at_once),
            "{at_once}"
        );
        let later = |ms: u64| pace.takes_large(LARGE_BYTES, ms * 1_000_000);
        let second = (0..1000).filter(|ms| later(*ms)).count();
        assert!((190..=200).contains(&second), "{second}");
        assert!(
            !Pace::new(Some(4096), 0).takes_large(1 << 30, 0),
            "fixed by the user"
        );
    }

    #[test]
    fn a_sweep_visits_every_row_once() {
        let pace = Pace::new(None, 0);
        assert_eq!(pace.sweep(100, 1024), None);
        assert_eq!(pace.sweep(900, 1024), None, "begins with the next sample");
        let visited: Vec<usize> = std::iter::from_fn(|| pace.sweep(100, 1024))
            .map(|sweep| sweep.from)
            .collect();
        assert_eq!(visited, (0..8).map(|part| part * 128).collect::<Vec<_>>());
    }
}
