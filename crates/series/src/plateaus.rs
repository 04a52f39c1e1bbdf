//! Rests: stretches without a rise. What has rested before as long as it rests now may go on.

use super::linear::Window;

/// A stretch rests when it rises by less than this share of the usual rise.
const REST_SHARE: f64 = 0.2;
/// Before and after a rest this share of the whole rise must lie, or the rise has not begun, or is over.
const BETWEEN: f64 = 0.1;
/// An earlier rest of this share of the one at the end is as long.
const AS_LONG: f64 = 0.8;

/// How many rests between two rises were as long as the one at the end; 0 where a load cycle or restarts would pass
/// for rests, and where nothing rises.
pub fn plateaus_like_now(window: &Window) -> usize {
    let lives = window.gap.iter().filter(|gap| gap.is_infinite()).count();
    let y = threes(&window.y);
    let rise = y
        .last()
        .zip(y.first())
        .map_or(0.0, |(last, first)| last - first);
    if lives > 1 || !window.nuisance.is_empty() || rise <= 0.0 {
        return 0;
    }
    let rests = Rests {
        x: &window.x,
        y: &y,
        rise,
    };
    rests.as_long_as(AS_LONG * rests.now())
}

struct Rests<'a> {
    x: &'a [f64],
    y: &'a [f64],
    rise: f64,
}

impl Rests<'_> {
    fn rests(&self, i: usize, j: usize) -> bool {
        self.y[j] - self.y[i] <= REST_SHARE * self.rise * (self.x[j] - self.x[i])
    }

    /// Length of the rest at the end, in windows; a bin at least.
    fn now(&self) -> f64 {
        let end = self.y.len() - 1;
        let began = (0..end).find(|i| self.rests(*i, end)).unwrap_or(end);
        self.x[end] - self.x[began.min(end - 1)]
    }

    /// Rests between rises of this length, one after the other.
    fn as_long_as(&self, long: f64) -> usize {
        let (first, last) = (self.y[0], self.y[self.y.len() - 1]);
        let (mut count, mut from) = (0, 0);
        while from < self.y.len() {
            let begun = self.y[from] - first >= BETWEEN * self.rise;
            let goes_on = |j: &usize| last - self.y[*j] >= BETWEEN * self.rise;
            let far = |j: &usize| self.x[*j] - self.x[from] >= long;
            let until =
                (from + 1..self.y.len()).find(|j| far(j) && goes_on(j) && self.rests(from, *j));
            match until.filter(|_| begun) {
                Some(until) => (count, from) = (count + 1, until),
                None => from += 1,
            }
        }
        count
    }
}

/// Means of each value with its neighbours.
fn threes(y: &[f64]) -> Vec<f64> {
    let mean = |i: usize| {
        let near = &y[i.saturating_sub(1)..(i + 2).min(y.len())];
        near.iter().sum::<f64>() / near.len() as f64
    };
    (0..y.len()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(y: impl Fn(f64) -> f64) -> usize {
        let x: Vec<f64> = (0..60).map(|i| f64::from(i) / 59.0).collect();
        plateaus_like_now(&Window {
            y: x.iter().map(|x| y(*x)).collect(),
            gap: vec![1.0; 60],
            x,
            ..Window::default()
        })
    }

    #[test]
    fn rests_as_long_as_the_one_at_the_end_are_counted() {
        // Rises for a fifth of the window, rests for a tenth; the last rest is as long.
        let turns = |x: f64| (x / 0.3).floor() * 0.2 + (x % 0.3).min(0.2);
        assert_eq!(rests(|x| turns(0.9 * x)), 2);
        // The rest at the end is longer than the others.
        assert_eq!(rests(|x| turns((1.3 * x).min(0.85))), 0);
        assert_eq!(rests(|x| x.min(0.6)), 0);
        assert_eq!(rests(|x| 1.0 - (-x / 0.15).exp()), 0);
        assert_eq!(rests(|_| 1.0), 0);
    }
}
