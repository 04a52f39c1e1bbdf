//! The fitted curve of a series with its interval, and where it leads: what a picture shows beside the
//! readings. It comes from the candidates that gave the verdict, by their weights.

use super::Rules;
use super::segmentation::segment;
use series::clean::clean;
use series::mixture::Mixture;
use series::series::Series;

/// Points of the curve within one incarnation, and of the forecast.
const POINTS: usize = 80;
const AHEAD_POINTS: usize = 40;

/// The level at one instant, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracePoint {
    pub t_s: f64,
    pub value: f64,
    pub lo: f64,
    pub hi: f64,
}

/// A curve for each incarnation, on the clock of the series, and the future of the last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    pub lives: Vec<Vec<TracePoint>>,
    pub ahead: Vec<TracePoint>,
}

/// The curve behind the verdict of this series, and `ahead_s` seconds beyond its end; `None` where nothing
/// could be fitted. The interval is that of the level (`rules.interval`), not of single readings.
pub fn trace(series: &Series, ahead_s: f64, rules: &Rules) -> Option<Trace> {
    let drawn = segment(series, &clean(series).points, rules)
        .ok()?
        .opinion
        .drawn;
    let said = |born: f64, from: f64, to: f64, points: usize| -> Vec<TracePoint> {
        let step = (to - from) / (points - 1) as f64;
        let times: Vec<f64> = (0..points).map(|i| from + step * i as f64).collect();
        let x: Vec<f64> = times.iter().map(|t| (t - born) / drawn.span_s).collect();
        let levels = drawn.sketch.at(&x);
        let point = |(t_s, m): (&f64, &Mixture)| {
            let real = |y: f64| y * drawn.scale + drawn.shift;
            let tail = 0.5 * (1.0 - rules.interval);
            (!m.is_empty()).then(|| TracePoint {
                t_s: *t_s,
                value: real(m.mean()),
                lo: real(m.quantile(tail)),
                hi: real(m.quantile(1.0 - tail)),
            })
        };
        times.iter().zip(&levels).filter_map(point).collect()
    };
    let lives = drawn
        .lives
        .iter()
        .map(|(born, from, to)| said(*born, *from, *to, POINTS));
    let (born, _, end) = *drawn.lives.last()?;
    Some(Trace {
        lives: lives.collect(),
        ahead: said(born, end, end + ahead_s, AHEAD_POINTS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::series::Point;

    fn series(restarts_s: Vec<f64>, value: impl Fn(f64) -> f64) -> Series {
        let wobble = |i: i32| 0.1 * (f64::from((i * 7919) % 17) / 17.0 - 0.5);
        let points = (0..400)
            .map(|i| Point {
                t_s: 1e9 + 60.0 * f64::from(i),
                value: value(f64::from(i)) + wobble(i),
            })
            .collect();
        Series {
            id: "s".to_owned(),
            points,
            restarts_s,
            limit: None,
        }
    }

    #[test]
    fn a_leak_is_drawn_and_led_on() {
        let leak = series(Vec::new(), |m| 100.0 + 0.1 * m);
        let said = trace(&leak, 12_000.0, &Rules::default()).unwrap();
        assert_eq!(said.lives.len(), 1);
        let middle = said.lives[0][POINTS / 2];
        let truth = 100.0 + 0.1 * (middle.t_s - 1e9) / 60.0;
        assert!(
            (middle.value - truth).abs() < 0.1
                && middle.lo <= middle.value
                && middle.value <= middle.hi
        );
        let end = said.ahead[AHEAD_POINTS - 1];
        assert!(
            (end.t_s - (1e9 + 12_000.0 + 60.0 * 399.0)).abs() < 600.0,
            "{}",
            end.t_s
        );
        assert!(end.lo < 159.9 && 159.9 < end.hi, "{end:?}");
    }

    #[test]
    fn every_incarnation_has_its_curve() {
        let restart = 1e9 + 60.0 * 200.0;
        let leak = series(vec![restart], |m| 100.0 + 0.2 * (m % 200.0));
        let said = trace(&leak, 600.0, &Rules::default()).unwrap();
        assert_eq!(said.lives.len(), 2);
        let first = said.lives[1][0];
        assert!(
            (first.t_s - restart).abs() < 600.0 && (first.value - 100.0).abs() < 3.0,
            "{first:?}"
        );
        assert!(trace(&Series::default(), 1.0, &Rules::default()).is_none());
    }
}
