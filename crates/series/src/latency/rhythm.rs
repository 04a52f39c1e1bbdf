//! Do events come at a period? Judged by the gaps between them.
//!
//! Among gaps of equal length, more stand close together than chance allows. If events came at random (exponential
//! gaps), a window of 5 % around any length would hold at most a share of `2 w / e` of the gaps, with `w` = 0.05. The
//! window that holds the most gaps is a period when so many of them would not be met by chance, over all windows that
//! were tried. Windows of 20 % find a period that wanders, like *every 10 to 15 s*.

/// Half widths of the windows, relative; the narrow one first.
const WIDTHS: [f64; 2] = [0.05, 0.2];
/// A window that chance fills so well in fewer than this share of runs is a period.
const CHANCE_MAX: f64 = 0.01;
/// Fewer gaps than this in a window are no period.
const GAPS_MIN: usize = 4;
/// A period that fewer than one gap in so many keeps is of no use, however far beyond chance: every machine has some
/// (timers of a second, say) among many other pauses.
const ONE_IN: usize = 2;
/// Gaps looked at; of more, the first.
const GAPS_MAX: usize = 20_000;

/// A period, and how many gaps keep it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rhythm {
    /// Median of the gaps that keep it, seconds.
    pub period_s: f64,
    /// Shortest and longest of them.
    pub lo_s: f64,
    pub hi_s: f64,
    pub kept: usize,
    pub gaps: usize,
}

/// The period that most gaps keep. `tried` is how many sets of gaps the caller tries in all.
pub fn rhythm(gaps: &[f64], tried: usize) -> Option<Rhythm> {
    let taken = gaps.iter().copied().take(GAPS_MAX);
    let mut sorted: Vec<f64> = taken.filter(|gap| gap.is_finite() && *gap > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    WIDTHS
        .iter()
        .find_map(|width| densest(&sorted, *width, tried * WIDTHS.len()))
}

fn densest(sorted: &[f64], width: f64, tried: usize) -> Option<Rhythm> {
    let count = sorted.len();
    let end_of = |from: usize| {
        let end = sorted[from] * (1.0 + width) / (1.0 - width);
        sorted.partition_point(|gap| *gap <= end)
    };
    let (from, to) = (0..count)
        .map(|from| (from, end_of(from)))
        .max_by_key(|(from, to)| to - from)?;
    let kept = to - from;
    let share = 2.0 * width / std::f64::consts::E;
    let by_chance = tail(count, kept, share) * (count * tried) as f64;
    if kept < GAPS_MIN || kept * ONE_IN < count || by_chance > CHANCE_MAX {
        return None;
    }
    Some(Rhythm {
        period_s: sorted[from + kept / 2],
        lo_s: sorted[from],
        hi_s: sorted[to - 1],
        kept,
        gaps: count,
    })
}

/// The chance that at least `kept` of `count` fall where each falls with probability `share`; by Chernoff's bound, so
/// never too small.
pub(super) fn tail(count: usize, kept: usize, share: f64) -> f64 {
    let seen = kept as f64 / (count as f64).max(1.0);
    if seen <= share {
        return 1.0;
    }
    let part = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    (-(count as f64) * (part(seen, share) + part(1.0 - seen, 1.0 - share))).exp()
}

/// A seeded uniform number in (0, 1).
#[cfg(test)]
pub(super) fn uniform(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gaps_are_a_period_even_with_others_in_between() {
        let mut gaps = vec![12.0, 12.1, 11.9, 12.0, 12.05, 12.0, 11.95, 12.0];
        gaps.extend([3.0, 9.0, 30.0, 1.0]);
        let found = rhythm(&gaps, 10).unwrap();
        assert!((found.period_s - 12.0).abs() < 0.06, "{found:?}");
        assert_eq!((found.kept, found.gaps), (8, 12));
    }

    #[test]
    fn a_period_that_wanders_is_one_with_a_wide_range() {
        let mut state = 5;
        let gaps: Vec<f64> = (0..40).map(|_| 10.0 + 5.0 * uniform(&mut state)).collect();
        let found = rhythm(&gaps, 10).unwrap();
        assert!(found.lo_s < 11.0 && found.hi_s > 14.0, "{found:?}");
    }

    #[test]
    fn a_period_among_many_other_gaps_is_not_claimed() {
        let mut state = 9;
        let mut gaps = vec![1.04; 44];
        gaps.extend((0..368).map(|_| -uniform(&mut state).ln()));
        assert_eq!(rhythm(&gaps, 10), None);
    }

    #[test]
    fn random_gaps_have_none() {
        let mut wrong = 0;
        for seed in 0..400 {
            let mut state = seed;
            let count = 4 + 20 * (seed as usize % 10);
            let gaps: Vec<f64> = (0..count).map(|_| -uniform(&mut state).ln()).collect();
            wrong += usize::from(rhythm(&gaps, 10).is_some());
        }
        assert!(wrong <= 4, "{wrong} of 400 runs without a period have one");
    }

    #[test]
    fn nothing_and_odd_numbers_have_none() {
        assert_eq!(rhythm(&[], 1), None);
        assert_eq!(rhythm(&[5.0; 3], 1), None);
        assert_eq!(rhythm(&[f64::NAN, f64::INFINITY, -1.0, 0.0, 2.0], 1), None);
    }
}
