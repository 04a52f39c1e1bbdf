//! Which allocations are sampled: distances in requested bytes, exponential around a mean that follows the rate and
//! the filling of the table.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use abi::Thread;

use super::{map, settings::Settings};
use ::sampler::word::atomic;

/// More samples than this in a second double the mean; at 5 us each they are half a percent of a core.
const SAMPLES_PER_S_MAX: u64 = 1_000;
/// Fewer than this halve it again, down to the setting.
const SAMPLES_PER_S_MIN: u64 = 100;
const MEAN_BYTES_MAX: u64 = 1 << 44;
/// An allocation of this many means is always looked at (chance of missing it without the cap: e^-32).
const MEANS_MAX: f64 = 32.0;

static SEED: AtomicU64 = AtomicU64::new(1);
static MEAN_MIN: AtomicU64 = AtomicU64::new(super::settings::MEAN_BYTES);
static SECOND_NS: AtomicU64 = AtomicU64::new(0);
static IN_SECOND: AtomicU64 = AtomicU64::new(0);

pub(crate) fn set_up(settings: &Settings) {
    SEED.store(settings.seed, Relaxed);
    MEAN_MIN.store(settings.mean_bytes, Relaxed);
}

/// The start of a row's random numbers; never 0.
pub(crate) fn seed_of(row: u64) -> u64 {
    // The row's place in its page and beyond, not its address: the same in every process.
    let mixed = (SEED.load(Relaxed) ^ (row & 0xf_ffff) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) | 1
}

/// Draws the distance to a row's next sample; the mean of the one that ended. Requested bytes so far stay
/// `drawn_bytes - countdown_bytes`.
///
/// # Safety
/// `row` is this thread's own.
pub(crate) unsafe fn draw(row: *mut Thread) -> u64 {
    let mean = map::mean_bytes().load(Relaxed);
    // SAFETY: by the caller: no other thread writes these words.
    unsafe {
        let (drawn, countdown) = (
            atomic(&raw mut (*row).drawn_bytes),
            atomic(&raw mut (*row).countdown_bytes),
        );
        let requested = drawn.load(Relaxed).wrapping_sub(countdown.load(Relaxed));
        let random = atomic(&raw mut (*row).random);
        let mut state = random.load(Relaxed);
        let distance = exponential(&mut state, mean);
        random.store(state, Relaxed);
        countdown.store(distance, Relaxed);
        drawn.store(requested.wrapping_add(distance), Relaxed);
        atomic(&raw mut (*row).mean_bytes).swap(mean, Relaxed)
    }
}

fn exponential(random: &mut u64, mean: u64) -> u64 {
    // xorshift64*: the low bits are weak, the upper 53 are used.
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    let bits = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    let uniform = bits as f64 / (1u64 << 53) as f64;
    let means = (-(1.0 - uniform).ln()).min(MEANS_MAX);
    ((means * mean as f64) as u64).max(1)
}

/// What one sample stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// Weight of a sample of `bytes` requested bytes under `mean`.
pub(crate) fn weight(bytes: u64, mean: u64) -> Weight {
    let chance = chance(bytes, mean);
    Weight {
        blocks: (1.0 / chance).round() as u64,
        bytes: (bytes as f64 / chance).round() as u64,
    }
}

/// Chance that a block of `bytes` is sampled under `mean`.
pub(crate) fn chance(bytes: u64, mean: u64) -> f64 {
    // -expm1(-x) keeps its digits for small blocks, where 1 - exp(-x) loses them.
    (-(-(bytes.max(1) as f64) / mean.max(1) as f64).exp_m1()).max(f64::MIN_POSITIVE)
}

/// Counts a sample and, once a second or when there are too many, moves the mean. True when the table should be
/// thinned to the new one.
pub(crate) fn pace(now_ns: u64) {
    let taken = IN_SECOND.fetch_add(1, Relaxed) + 1;
    let begun = SECOND_NS.load(Relaxed);
    let is_over = now_ns.saturating_sub(begun) >= 1_000_000_000;
    if !is_over && taken <= SAMPLES_PER_S_MAX {
        return;
    }
    if SECOND_NS
        .compare_exchange(begun, now_ns, Relaxed, Relaxed)
        .is_err()
    {
        return;
    }
    IN_SECOND.store(0, Relaxed);
    let mean = map::mean_bytes().load(Relaxed);
    if taken > SAMPLES_PER_S_MAX {
        coarsen(mean);
    } else if taken < SAMPLES_PER_S_MIN && mean > MEAN_MIN.load(Relaxed) {
        map::mean_bytes().store((mean / 2).max(MEAN_MIN.load(Relaxed)), Relaxed);
        map::counters().refined.fetch_add(1, Relaxed);
    }
}

/// Doubles the mean; the new one.
pub(crate) fn coarsen(mean: u64) -> u64 {
    let doubled = (mean * 2).min(MEAN_BYTES_MAX);
    map::mean_bytes().store(doubled, Relaxed);
    map::counters().coarsened.fetch_add(1, Relaxed);
    doubled
}

/// The mean below which it does not fall: raised when the table is too small for the setting.
pub(crate) fn keep_above(mean: u64) {
    MEAN_MIN.fetch_max(mean, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_mean_they_were_drawn_with() {
        let seed = 5;
        let mut random = seed;
        let (mean, count) = (1_000_000, 40_000);
        let sum: u64 = (0..count).map(|_| exponential(&mut random, mean)).sum();
        // Standard error of an exponential's mean: 0.5 %; five of them.
        let off = sum as f64 / count as f64 / mean as f64 - 1.0;
        assert!(off.abs() < 0.025, "{off} with seed {seed}");
    }

    #[test]
    fn weights_stand_for_what_was_not_sampled() {
        // Far below the mean a block stands for a mean of bytes, far above for itself.
        assert_eq!(weight(8, 524_288).bytes, 524_292);
        assert_eq!(weight(8, 524_288).blocks, 65_537);
        assert_eq!(weight(64 << 20, 524_288).blocks, 1);
        assert!(weight(0, 0).blocks >= 1);
    }
}
