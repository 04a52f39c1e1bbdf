//! When what grows reaches a limit.
//!
//! By the curves, as if the slope at the end went on: that knows the shape, and nothing of how levels wander. By the
//! forecast, which knows that, and nothing of shapes. Both have half of the weight.

use series::estimate::Estimate;
use series::forecast::Forecast;
use series::student::{normal_cdf, t_quantile};

/// Times are asked about up to so many windows ahead; beyond, the limit is not reached.
const WINDOWS_AHEAD: f64 = 1_024.0;
/// From one time to the next, as a factor: a sixteenth is little beside any interval.
const STEP: f64 = 1.0625;
/// A t with so many degrees of freedom is a normal.
const NORMAL_DF: f64 = 1e6;
/// The first, in windows.
const FIRST: f64 = 1.0 / 256.0;

/// Seconds from the end of the window; an end of the interval is infinite when it may never be reached. `None`: even
/// the middle is never.
pub fn time_to_limit(
    limit: f64,
    (level, slope_per_s): (Estimate, Estimate),
    forecast: Option<(&Forecast, f64)>,
    interval: f64,
) -> Option<Estimate> {
    let room = (limit - level.value).max(0.0);
    let tail = 0.5 * (1.0 - interval);
    let value = match (slope_per_s.value > 0.0, forecast) {
        (true, _) => room / slope_per_s.value,
        (false, Some((forecast, window_s))) => first(window_s, |at_s| {
            forecast_above(forecast, at_s, limit) >= 0.5
        }),
        (false, None) => return None,
    };
    let wide = t_quantile(1.0 - tail, NORMAL_DF);
    let spread = ((slope_per_s.hi - slope_per_s.lo) / (2.0 * wide)).max(f64::MIN_POSITIVE);
    let by_curves = |at_s: f64| normal_cdf((slope_per_s.value - room / at_s) / spread);
    let ends = match forecast {
        Some((forecast, window_s)) => {
            let above = |at_s: f64| 0.5 * (by_curves(at_s) + forecast_above(forecast, at_s, limit));
            [tail, 1.0 - tail].map(|chance| first(window_s, |at_s| above(at_s) >= chance))
        }
        None => {
            let after = |slope: f64| {
                if slope > 0.0 {
                    room / slope
                } else {
                    f64::INFINITY
                }
            };
            [after(slope_per_s.hi), after(slope_per_s.lo)]
        }
    };
    value.is_finite().then_some(Estimate {
        value,
        lo: ends[0].min(value),
        hi: ends[1].max(value),
    })
}

fn forecast_above(forecast: &Forecast, at_s: f64, limit: f64) -> f64 {
    1.0 - forecast.level(at_s, at_s).below(limit)
}

/// The first time, in seconds, at which it is so.
fn first(window_s: f64, is_so: impl Fn(f64) -> bool) -> f64 {
    let mut at = FIRST;
    while at < WINDOWS_AHEAD {
        if is_so(at * window_s) {
            return at * window_s;
        }
        at *= STEP;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::series::Point;

    fn estimate(value: f64, off: f64) -> Estimate {
        Estimate {
            value,
            lo: value - off,
            hi: value + off,
        }
    }

    /// Up by one a second for 800 seconds, with noise.
    fn rising() -> Forecast {
        let point = |t: i32| Point {
            t_s: f64::from(t),
            value: 100.0 + f64::from(t) + f64::from(t * 7 % 11),
        };
        Forecast::of(&(0..800).map(point).collect::<Vec<_>>(), 25.0).unwrap()
    }

    #[test]
    fn the_interval_holds_what_the_curves_and_the_forecast_say() {
        let forecast = rising();
        let ends = (estimate(900.0, 5.0), estimate(1.0, 0.001));
        let left = time_to_limit(1_300.0, ends, Some((&forecast, 800.0)), 0.95).unwrap();
        assert!((left.value - 400.0).abs() < 1.0, "{left:?}");
        assert!(left.lo < 399.9 && left.hi > 401.0, "{left:?}");
        assert!(left.lo > 250.0 && left.hi < 700.0, "{left:?}");
    }

    #[test]
    fn a_slope_that_may_be_none_has_no_end_and_one_downwards_no_time() {
        let level = estimate(900.0, 5.0);
        let left = time_to_limit(1_300.0, (level, estimate(1.0, 2.0)), None, 0.95).unwrap();
        assert!(left.value == 400.0 && left.hi.is_infinite());
        let down = (level, estimate(-1.0, 0.5));
        assert_eq!(time_to_limit(1_300.0, down, None, 0.95), None);
    }
}
