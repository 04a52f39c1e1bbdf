//! Do some of many events come by a clock? Among hundreds of pauses of a busy machine the dozen of a timer keep no
//! share of the gaps worth a word, but they stand on a grid in time.
//!
//! Each pair of events in the first two periods lays a grid. Where its next slot is, an event is looked for, and the
//! period is fitted to those found. Chance fills a slot with probability `1 - exp(-density x window)`; how likely
//! chance fills so many of so many slots, times the grids tried, must be small.

use super::rhythm::{Rhythm, tail};

/// A slot is so wide to either side: a share of the period, and two milliseconds for requests that were rare.
const SLOT_SHARE: f64 = 0.005;
const SLOT_LEAST_S: f64 = 0.002;
/// Shorter periods are not looked for: their slots would be as wide as they are.
const PERIOD_MIN_S: f64 = 0.05;
/// Fewer events on a grid are no clock.
const HITS_MIN: usize = 6;
/// A clock misses at most one slot in so many, and no more than this many in a row.
const MISSED_ONE_IN: usize = 4;
const MISSED_IN_A_ROW: usize = 2;
/// Where chance fills more slots than this, no grid stands out.
const FILLED_MAX: f64 = 0.5;
/// Grids that chance fills so well in fewer than this share of runs are a clock.
const CHANCE_MAX: f64 = 0.01;
/// Events looked at; of more, the first.
const EVENTS_MAX: usize = 2_000;

/// Events that come by a clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat {
    /// Bound on the probability that chance made it.
    pub chance: f64,
    /// `gaps` and `kept` are the grid's slots and those that were filled, but for the first.
    pub rhythm: Rhythm,
    /// When, seconds, in order.
    pub at_s: Vec<f64>,
}

/// The clearest clock among events at these times (seconds, in order); `tried` is how many sets the caller tries.
pub fn beat(times: &[f64], tried: usize) -> Option<Beat> {
    let times = &times[..times.len().min(EVENTS_MAX)];
    let (begin, end) = (*times.first()?, *times.last()?);
    let mut grids = 0;
    let mut best: Option<Beat> = None;
    for (at, &first) in times.iter().enumerate() {
        for &second in &times[at + 1..] {
            let period = second - first;
            if period * (HITS_MIN - 1) as f64 > end - first {
                break;
            }
            if period < PERIOD_MIN_S
                || first - begin > 2.0 * period
                || filled(times.len(), end - begin, period) > FILLED_MAX
            {
                continue;
            }
            grids += 1;
            let found = grid(times, first, second);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.chance < best.chance)
            {
                best = Some(found);
            }
        }
    }
    let mut best = best?;
    best.chance *= (grids * tried) as f64;
    (best.chance <= CHANCE_MAX).then_some(best)
}

fn half_slot(period: f64) -> f64 {
    SLOT_SHARE * period + SLOT_LEAST_S
}

/// The probability that one of `count` events, spread at random over `span` seconds, falls into a slot.
fn filled(count: usize, span: f64, period: f64) -> f64 {
    1.0 - (-2.0 * half_slot(period) * count as f64 / span).exp()
}

/// Follows a grid to the end of the events.
fn grid(times: &[f64], first: f64, second: f64) -> Option<Beat> {
    let (begin, end) = (times[0], times[times.len() - 1]);
    let mut hits = vec![first, second];
    let (mut slot, mut missed, mut period) = (1, 0, second - first);
    loop {
        let due = hits[hits.len() - 1] + period * (1 + missed) as f64;
        if due > end + half_slot(period) {
            break;
        }
        match nearest(times, due, half_slot(period)) {
            Some(time) => {
                slot += 1 + missed;
                missed = 0;
                hits.push(time);
                period = (time - first) / slot as f64;
            }
            None if missed == MISSED_IN_A_ROW => return None,
            None => missed += 1,
        }
    }
    let slots = slot + missed;
    if hits.len() < HITS_MIN || (slots + 1 - hits.len()) * MISSED_ONE_IN > slots + 1 {
        return None;
    }
    // The two that laid the grid fill their slots for certain.
    let chance = tail(
        slots - 1,
        hits.len() - 2,
        filled(times.len(), end - begin, period),
    );
    let steps = hits.windows(2).map(|pair| pair[1] - pair[0]);
    let single: Vec<f64> = steps.filter(|step| *step < 1.5 * period).collect();
    let rhythm = Rhythm {
        period_s: period,
        lo_s: single.iter().copied().fold(period, f64::min),
        hi_s: single.iter().copied().fold(period, f64::max),
        kept: hits.len() - 1,
        gaps: slots,
    };
    Some(Beat {
        chance,
        rhythm,
        at_s: hits,
    })
}

/// The event nearest to `due`, within `reach`.
fn nearest(times: &[f64], due: f64, reach: f64) -> Option<f64> {
    let after = times.partition_point(|time| *time < due);
    let around = [after.checked_sub(1), Some(after)];
    let near = around.into_iter().flatten().filter_map(|at| times.get(at));
    let closest = near.min_by(|a, b| (*a - due).abs().total_cmp(&(*b - due).abs()))?;
    ((closest - due).abs() <= reach).then_some(*closest)
}

#[cfg(test)]
mod tests {
    use super::super::rhythm::uniform;
    use super::*;

    /// `count` events at random over `span_s` seconds; every third brings `burst` others within 20 ms.
    fn noise(random: &mut u64, count: usize, span_s: f64, burst: usize) -> Vec<f64> {
        let mut times = Vec::new();
        for at in 0..count {
            let time = uniform(random) * span_s;
            times.push(time);
            if at % 3 == 0 {
                times.extend((0..burst).map(|_| time + 0.02 * uniform(random)));
            }
        }
        times.sort_by(f64::total_cmp);
        times
    }

    #[test]
    fn a_timer_is_found_among_ten_times_as_many_other_pauses() {
        for seed in 0..40_u64 {
            let random = &mut seed.clone();
            let mut times = noise(random, 160, 190.0, 0);
            let phase = 12.0 * uniform(random);
            let slots = (0..).map(|slot| phase + 12.0 * f64::from(slot));
            // A timer that is late at times, and misses the third.
            let late = slots.take_while(|time| *time < 190.0).enumerate();
            let timer: Vec<f64> = late
                .filter(|(at, _)| *at != 3)
                .map(|(_, time)| time + 0.006 * uniform(random))
                .collect();
            times.extend(timer);
            times.sort_by(f64::total_cmp);
            let found = beat(&times, 20).unwrap_or_else(|| panic!("seed {seed}: none"));
            let period = found.rhythm.period_s;
            assert!((period - 12.0).abs() < 0.02, "seed {seed}: {found:?}");
            assert!(found.rhythm.kept >= 12, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn chance_has_no_clock_not_even_in_bursts() {
        let mut wrong = Vec::new();
        for seed in 0..300_u64 {
            let random = &mut seed.clone();
            let count = 10 + 10 * (seed as usize % 40);
            let burst = [0, 0, 2, 5][seed as usize % 4];
            let times = noise(random, count, 190.0, burst);
            wrong.extend(beat(&times, 1).map(|found| (seed, found.rhythm)));
        }
        assert!(wrong.len() <= 3, "of 300 runs: {wrong:?}");
    }

    #[test]
    fn neither_half_nor_twice_the_period_is_told() {
        let times: Vec<f64> = (0..20).map(|slot| 5.0 + 3.0 * f64::from(slot)).collect();
        let found = beat(&times, 1).expect("a clock");
        assert!((found.rhythm.period_s - 3.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found.rhythm.kept, found.at_s.len()), (19, 20));
    }

    #[test]
    fn few_events_and_equal_ones_have_none() {
        assert_eq!(beat(&[], 1), None);
        assert_eq!(beat(&[1.0], 1), None);
        assert_eq!(beat(&[1.0, 2.0, 3.0, 4.0, 5.0], 1), None);
        assert_eq!(beat(&[1.0; 50], 1), None);
    }
}
