//! How a quantity grew over the window: between its first and last quarter, and whether it still does.
//!
//! Windows of an explanation are short (a minute), often with the program's start in them, and
//! quantities may climb in bursts. So levels are medians of quarters of the window, a start is left
//! out, and "still grows" asks that the last quarters rise too.

use series::order::median;

/// Part of the observation that is left out as start-up, and at most this many seconds.
const START_SHARE: f64 = 0.15;
const START_S_MAX: f64 = 10.0;

/// Samples that a window needs.
pub const SAMPLES_MIN: usize = 8;

/// A quarter's rise must be this share of an even one.
const STILL_SHARE: f64 = 0.25;

/// (seconds, bytes), ordered by time.
pub type Points = [(f64, f64)];

/// How one quantity moved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Growth {
    /// Level of the last quarter less that of the first, bytes.
    pub bytes: f64,
    /// From the middle of the first quarter to that of the last, seconds.
    pub over_s: f64,
    /// Robust slope (Theil and Sen) over the window, bytes per hour.
    pub slope_per_hour: f64,
    /// It rose in the second half too, and in the last quarter.
    pub still: bool,
    /// It rose in every quarter.
    pub even: bool,
    /// Level at the end: median of the last quarter.
    pub level: f64,
    /// Highest value of the whole observation.
    pub peak: f64,
    /// Highest values of the window's halves.
    pub peak_early: f64,
    pub peak_late: f64,
    /// The largest fall within the window, from a peak to what came after it; of medians of five samples, so that
    /// it is a tooth and no flicker.
    pub fall: f64,
    /// Scatter within a quarter, bytes.
    pub noise: f64,
}

/// First second of the window, for an observation from `from` to `to`.
pub fn window_start(from: f64, to: f64) -> f64 {
    from + ((to - from) * START_SHARE).min(START_S_MAX)
}

/// Growth of a series; `None` when too few samples fall into the window.
pub fn growth(points: &Points) -> Option<Growth> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let begin = window_start(first, last);
    let window: Vec<(f64, f64)> = points
        .iter()
        .filter(|(t, _)| *t >= begin)
        .copied()
        .collect();
    if window.len() < SAMPLES_MIN {
        return None;
    }
    let quarter = |index: usize| -> Vec<f64> {
        let from = index * window.len() / 4;
        let to = (index + 1) * window.len() / 4;
        window[from..to].iter().map(|(_, value)| *value).collect()
    };
    let levels: Vec<f64> = (0..4).map(|index| median(&quarter(index))).collect();
    let bytes = levels[3] - levels[0];
    let middle = |index: usize| window[(2 * index + 1) * window.len() / 8].0;
    let least = STILL_SHARE * bytes / 3.0;
    let still = bytes > 0.0 && levels[3] - levels[2] > least && levels[3] - levels[1] > 2.0 * least;
    let rises = |pair: &[f64]| pair[1] - pair[0] > least;
    let even = bytes > 0.0 && levels.windows(2).all(rises);
    Some(Growth {
        bytes,
        over_s: middle(3) - middle(0),
        slope_per_hour: theil_sen(&window) * 3600.0,
        still,
        even,
        level: levels[3],
        peak: highest(points),
        peak_early: highest(&window[..window.len() / 2]),
        peak_late: highest(&window[window.len() / 2..]),
        fall: largest_fall(&window),
        noise: noise(&window),
    })
}

fn highest(points: &Points) -> f64 {
    let values = points.iter().map(|(_, value)| *value);
    values.fold(f64::MIN, f64::max)
}

fn largest_fall(points: &Points) -> f64 {
    let (mut peak, mut fall) = (f64::MIN, 0.0f64);
    for five in points.windows(5) {
        let values: Vec<f64> = five.iter().map(|(_, value)| *value).collect();
        let value = median(&values);
        peak = peak.max(value);
        fall = fall.max(peak - value);
    }
    fall
}

/// Median of the slopes between all pairs of points, at most about 120 points.
fn theil_sen(points: &Points) -> f64 {
    let step = points.len().div_ceil(120).max(1);
    let thin: Vec<&(f64, f64)> = points.iter().step_by(step).collect();
    let mut slopes = Vec::new();
    for (index, a) in thin.iter().enumerate() {
        for b in &thin[index + 1..] {
            if b.0 > a.0 {
                slopes.push((b.1 - a.1) / (b.0 - a.0));
            }
        }
    }
    if slopes.is_empty() {
        0.0
    } else {
        median(&slopes)
    }
}

/// Median distance from one sample to the next, less the trend. On a busy machine samples are seconds apart here
/// and tens of seconds there: the trend goes by time.
fn noise(points: &Points) -> f64 {
    let step = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
    let steps: Vec<(f64, f64)> = points.windows(2).map(step).collect();
    let rates: Vec<f64> = steps
        .iter()
        .filter(|(seconds, _)| *seconds > 0.0)
        .map(|(seconds, bytes)| bytes / seconds)
        .collect();
    if rates.is_empty() {
        return 0.0;
    }
    let trend = median(&rates);
    let off: Vec<f64> = steps
        .iter()
        .map(|(seconds, bytes)| (bytes - trend * seconds).abs())
        .collect();
    median(&off)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..60)
            .map(|t| (f64::from(t), value(f64::from(t))))
            .collect()
    }

    #[test]
    fn a_line_grows_and_a_plateau_does_not() {
        let line = growth(&series(|t| 1e6 + 1e5 * t)).unwrap();
        assert!(line.still && (line.slope_per_hour - 3.6e8).abs() < 1.0);
        assert!((line.bytes / line.over_s - 1e5).abs() < 5e3, "{line:?}");
        let plateau = growth(&series(|t| 1e6 + 1e6 * (t / 5.0).min(5.0))).unwrap();
        assert!(!plateau.still, "{plateau:?}");
        let bursts = growth(&series(|t| 1e6 + 3e6 * (t / 6.0).floor())).unwrap();
        assert!(bursts.still, "{bursts:?}");
        let saw = growth(&series(|t| 1e6 + 1e5 * (t % 7.0))).unwrap();
        assert!(saw.bytes.abs() < 3e5, "{saw:?}");
        assert!(saw.fall >= 2e5 && line.fall == 0.0, "{saw:?}");
        let flicker = growth(&series(|t| 1e6 + 3e6 * f64::from(t % 4.0 == 0.0))).unwrap();
        assert_eq!(flicker.fall, 0.0, "{flicker:?}");
        // By quarters of the window, which begins at 9 s.
        let level = |t: f64| [0.0, 9.0, 6.0, 10.0][((t - 8.0).max(0.0) / 13.0) as usize];
        let dip = growth(&series(|t| 1e6 + 1e5 * level(t))).unwrap();
        assert!(!dip.still, "a dip made good: {dip:?}");
    }

    #[test]
    fn even_is_a_rise_in_every_quarter() {
        let even = |value: fn(f64) -> f64| growth(&series(value)).unwrap().even;
        assert!(even(|t| 1e6 + 1e5 * t));
        assert!(even(|t| 1e6 + 1e6 * (t / 7.0).floor()), "by steps");
        assert!(!even(|t| 1e6 + 1e6 * (t / 5.0).min(5.0)), "then full");
        assert!(!even(|t| 1e6 + 1e5 * (t - 25.0).max(0.0)), "begins late");
        assert!(!even(|_| 1e6));
    }

    #[test]
    fn samples_at_uneven_times_are_no_noise() {
        let uneven: Vec<(f64, f64)> = (0..20u32)
            .map(|sample| f64::from(sample * sample) / 4.0)
            .map(|t| (t, 1e6 + 1e5 * t))
            .collect();
        let growth = growth(&uneven).unwrap();
        assert!(growth.noise < 1.0 && growth.still, "{growth:?}");
    }

    #[test]
    fn few_samples_are_no_window() {
        assert_eq!(growth(&[(0.0, 1.0), (1.0, 2.0)]), None);
    }
}
