//! The last readings, which the curves see as one stretch of many at most: what has just begun, and what the level is.

use series::order::median;
use series::series::Point;

/// This part of the window is *now* ...
const NOW_SHARE: f64 = 1.0 / 64.0;
/// ... and at least so many readings.
const NOW_MIN: usize = 3;
/// What began within this last part has not been seen to end: bursts of up to this length are known to pass
/// ([`series::clean`]).
const RECENT_SHARE: f64 = 0.1;
/// A record is none by less than this share of what the highest stretch before it is above the middle of all.
const RECORD_SHARE: f64 = 0.5;
/// Bursts and dips of up to this part of the window come and go ([`series::staircase`]).
const NEW_SHARE: f64 = 0.05;
/// From the first half of a straight climb to the second it is half of it; of a step it is nothing.
const CLIMBS_SHARE: f64 = 0.25;
/// Deviations of a stretch from the next: what a level may be off the last stretch.
const DEVIATIONS: f64 = 3.0;
/// A level below this share of what is now is none to compare with.
const LEAST_SHARE: f64 = 1e-3;
/// Of what is now: less is no difference.
const ROUNDED: f64 = 1e-3;
/// Of a normal distribution, over its median absolute deviation.
const OF_MAD: f64 = 1.4826;

/// Medians of equal numbers of readings, the last of which is now.
pub struct LastReadings {
    /// Median of the last readings.
    pub now: f64,
    /// Of the stretches before the last tenth of the window: the highest, and the median.
    highest: f64,
    middle: f64,
    /// Deviation of one stretch from the next.
    scatter: f64,
    window_s: f64,
    /// The readings since they are all above what was seen before.
    lately: Vec<Point>,
    end_s: f64,
}

impl LastReadings {
    /// `None`: there are too few.
    pub fn of(points: &[Point]) -> Option<LastReadings> {
        let (first, last) = points.first().zip(points.last())?;
        let each = ((points.len() as f64 * NOW_SHARE) as usize).max(NOW_MIN);
        let stretch = |part: &[Point]| Point {
            t_s: part[0].t_s,
            value: median(&part.iter().map(|p| p.value).collect::<Vec<_>>()),
        };
        let mut stretches: Vec<Point> = points.rchunks_exact(each).map(stretch).collect();
        stretches.reverse();
        let now = stretches.last()?.value;
        let window_s = last.t_s - first.t_s;
        let recent_s = last.t_s - RECENT_SHARE * window_s;
        let is_before = |p: &&Point| p.t_s < recent_s;
        let inner = &stretches[..stretches.len() - 1];
        let before: Vec<f64> = inner.iter().filter(is_before).map(|p| p.value).collect();
        if before.len() < 2 {
            return None;
        }
        let moves = stretches
            .windows(2)
            .map(|w| (w[1].value - w[0].value).abs());
        let highest = before.iter().copied().fold(f64::MIN, f64::max);
        let lately = points.rchunks(NOW_MIN).take_while(|part| {
            let is_above = part.iter().filter(|p| p.value > highest).count();
            2 * is_above > part.len()
        });
        let lately: usize = lately.map(<[Point]>::len).sum();
        Some(LastReadings {
            now,
            highest,
            lately: points[points.len() - lately..].to_vec(),
            middle: median(&before),
            scatter: OF_MAD * median(&moves.collect::<Vec<_>>()) / std::f64::consts::SQRT_2,
            window_s,
            end_s: last.t_s,
        })
    }

    /// By what share they are above what was usual, if they are higher than all that was seen to end, by `least` of
    /// the level and more, and it is not known yet whether that passes, lasts or goes on: it has just started, it still
    /// climbs, or `level` does not account for it.
    pub fn unfinished(&self, level: f64, least: f64) -> Option<f64> {
        let usual = RECORD_SHARE * (self.highest - self.middle);
        let is_record = self.now - self.highest > usual.max(least * level);
        let is_new = self.for_s() < NEW_SHARE * self.window_s;
        let is_above = self.now / level - 1.0 > least;
        let is_open = is_new || is_above || self.climbs();
        (is_record && is_open && !self.lately.is_empty())
            .then_some(self.now / self.middle.max(LEAST_SHARE * self.now) - 1.0)
    }

    /// For how long they have been above all that was seen before, seconds.
    pub fn for_s(&self) -> f64 {
        let first = self.lately.first();
        self.end_s - first.map_or(self.end_s, |p| p.t_s)
    }

    /// Whether the second half of them is above the first by a share of the whole rise, and by more than scatter.
    fn climbs(&self) -> bool {
        let (first, second) = self.lately.split_at(self.lately.len() / 2);
        if first.len() < NOW_MIN {
            return false;
        }
        let middle = |part: &[Point]| median(&part.iter().map(|p| p.value).collect::<Vec<_>>());
        let climbed = middle(second) - middle(first);
        climbed > (CLIMBS_SHARE * (self.now - self.middle)).max(DEVIATIONS * self.scatter)
    }

    /// Until what began lately is a tenth of the window: by then it is known whether it passes.
    pub fn decided_in_s(&self) -> f64 {
        RECENT_SHARE * self.window_s
    }

    /// Whether a level from `lo` to `hi` is not what they show.
    pub fn contradict(&self, lo: f64, hi: f64) -> bool {
        let off = (lo - self.now).max(self.now - hi);
        off > (DEVIATIONS * self.scatter).max(ROUNDED * self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: impl Fn(usize) -> f64) -> LastReadings {
        let point = |i: usize| Point {
            t_s: 60.0 * i as f64,
            value: value(i) + [0.0, 3.0, -2.0, 1.0, -3.0][i % 5],
        };
        LastReadings::of(&(0..600).map(point).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_has_just_begun_is_a_record_and_what_was_there_before_is_none() {
        let unfinished = |last: &LastReadings, level| last.unfinished(level, 0.03);
        for length in [10, 20, 30] {
            let climb = of(|i| 500.0 + 20.0 * (i as f64 - f64::from(600 - length)).max(0.0));
            // Whatever the level is said to be.
            assert!(unfinished(&climb, climb.now) > Some(0.1), "{length}");
            assert!(unfinished(&climb, 500.0) > Some(0.1), "{length}");
        }
        let step = |at| of(move |i| if i < at { 500.0 } else { 700.0 });
        assert!(unfinished(&step(585), 700.0) > Some(0.3), "it may pass");
        assert!((step(585).for_s() - 14.0 * 60.0).abs() < 120.0);
        // A fifteenth of the window is long enough, and a sixth is no end of it.
        assert_eq!(unfinished(&step(560), 700.0), None);
        assert_eq!(unfinished(&step(500), 700.0), None);
        let again = of(|i| 500.0 + if i % 300 > 280 { 500.0 } else { 0.0 });
        assert_eq!(unfinished(&again, 500.0), None);
        assert_eq!(unfinished(&of(|_| 500.0), 500.0), None);
    }

    #[test]
    fn a_level_that_the_last_readings_do_not_show_is_contradicted() {
        let flat = of(|_| 500.0);
        assert!(!flat.contradict(499.0, 501.0));
        assert!(flat.contradict(530.0, 540.0) && flat.contradict(440.0, 450.0));
    }

    #[test]
    fn a_handful_of_readings_is_too_little() {
        let points = [1.0, 2.0, 3.0, 4.0].map(|t_s| Point { t_s, value: 1.0 });
        assert!(LastReadings::of(&points).is_none());
    }
}
