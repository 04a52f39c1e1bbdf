//! Rests: stretches without a rise, between two rises. What has rested before may be resting again.

use super::fit::Window;

/// A stretch rests when it rises by less than this share of the usual rise.
const REST_SHARE: f64 = 0.2;
/// Before and after it this share of the whole rise must lie, or the rise has not begun, or is over.
const BETWEEN: f64 = 0.1;

/// The longest rest between two rises, in windows; 0 where there is none, or where a load cycle or restarts would
/// pass for one.
pub fn longest_rest(window: &Window) -> f64 {
    let lives = window.gap.iter().filter(|gap| gap.is_infinite()).count();
    let y = threes(&window.y);
    let (Some(first), Some(last)) = (y.first(), y.last()) else {
        return 0.0;
    };
    let rise = last - first;
    if lives > 1 || !window.nuisance.is_empty() || rise <= 0.0 {
        return 0.0;
    }
    let begun = |i: &usize| y[*i] - first >= BETWEEN * rise;
    let goes_on = |j: &usize| last - y[*j] >= BETWEEN * rise;
    let mut longest: f64 = 0.0;
    for i in (0..y.len()).filter(begun) {
        for j in (i + 1..y.len()).filter(goes_on) {
            let long = window.x[j] - window.x[i];
            if long > longest && y[j] - y[i] <= REST_SHARE * rise * long {
                longest = long;
            }
        }
    }
    longest
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

    fn window(y: impl Fn(f64) -> f64) -> Window {
        let x: Vec<f64> = (0..60).map(|i| f64::from(i) / 59.0).collect();
        Window {
            y: x.iter().map(|x| y(*x)).collect(),
            gap: vec![1.0; 60],
            x,
            ..Window::default()
        }
    }

    #[test]
    fn a_rest_between_rises_is_found_and_the_end_of_a_rise_is_none() {
        let rested = window(|x| if x < 0.4 { x } else { 0.4f64.max(x - 0.2) });
        assert!((longest_rest(&rested) - 0.2).abs() < 0.05);
        assert_eq!(longest_rest(&window(|x| x)), 0.0);
        assert!(longest_rest(&window(|x| x.min(0.6))) < 0.1);
        assert!(longest_rest(&window(|x| 1.0 - (-x / 0.15).exp())) < 0.1);
        assert_eq!(longest_rest(&window(|_| 1.0)), 0.0);
    }
}
