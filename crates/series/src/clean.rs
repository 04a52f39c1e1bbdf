//! The first step: readings as they came become a series that can be judged, and what was dropped is counted.

use std::ops::Range;

use super::order::{mad, median, nth, quantile};
use super::series::{Point, Series};

/// A window of seven readings decides whether the middle one stands alone.
const SPIKE_WINDOW: usize = 7;
/// A spike is this many local deviations from the median of its window. Eight, because load that
/// is uneven but real reaches five; measured on exponential and Student-t(3) noise.
const SPIKE_DEVIATIONS: f64 = 8.0;
/// More spikes than this share are not accidents but the shape of the series: then none is removed.
const SPIKE_SHARE_MAX: f64 = 0.2;
/// What comes and goes at once within so many readings, or this share of the window, is a burst (or a dip), and a spike
/// too: a job that holds memory for a while says nothing of what lasts ...
const BURST_MAX: usize = 5;
const BURST_SHARE: f64 = 0.1;
/// ... if what is left of it then is no more than this share of its height.
const BURST_LEFT: f64 = 0.3;

/// No memory is smaller, in any unit, nor larger than an address space in bytes; no clock is later
/// than this (epoch milliseconds taken for seconds still pass).
const VALUE_MIN: f64 = 1e-9;
const VALUE_MAX: f64 = 1.9e19;
const TIME_MAX_S: f64 = 1e13;

/// Ordered, finite, positive readings with distinct times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cleaned {
    pub points: Vec<Point>,
    /// Readings that were zero, negative, NaN or infinite (a dead process reads as zero).
    pub unusable: usize,
    /// Readings with a time that another reading already had.
    pub doubled: usize,
    /// Readings that came out of order (a clock step, or a merge of files).
    pub unordered: usize,
    /// Isolated spikes, removed.
    pub spikes: usize,
}

/// Drops what cannot be a reading, restores the order, keeps the median of readings at one instant,
/// and removes isolated spikes.
pub fn clean(series: &Series) -> Cleaned {
    let mut out = Cleaned::default();
    let mut points: Vec<Point> = Vec::with_capacity(series.points.len());
    for p in &series.points {
        if p.t_s.abs() < TIME_MAX_S && p.value > VALUE_MIN && p.value < VALUE_MAX {
            out.unordered += usize::from(points.last().is_some_and(|q| q.t_s > p.t_s));
            points.push(*p);
        } else {
            out.unusable += 1;
        }
    }
    if out.unordered > 0 {
        points.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    }
    out.points = merge_doubles(&points, &mut out.doubled);
    remove_spikes(&mut out);
    out
}

fn merge_doubles(points: &[Point], doubled: &mut usize) -> Vec<Point> {
    let mut merged: Vec<Point> = Vec::with_capacity(points.len());
    for group in points.chunk_by(|a, b| a.t_s == b.t_s) {
        *doubled += group.len() - 1;
        let value = if group.len() == 1 {
            group[0].value
        } else {
            median(&group.iter().map(|p| p.value).collect::<Vec<_>>())
        };
        merged.push(Point {
            t_s: group[0].t_s,
            value,
        });
    }
    merged
}

fn remove_spikes(out: &mut Cleaned) {
    let n = out.points.len();
    if n < 2 * SPIKE_WINDOW {
        return;
    }
    let floor = typical_move(&out.points);
    let mut spikes: Vec<bool> = (0..n).map(|i| is_spike(&out.points, i, floor)).collect();
    mark_bursts(&out.points, floor, &mut spikes);
    let count = spikes.iter().filter(|s| **s).count();
    if count as f64 <= SPIKE_SHARE_MAX * n as f64 {
        let mut keep = spikes.iter().map(|s| !s);
        out.points.retain(|_| keep.next().unwrap_or(true));
        out.spikes = count;
    }
}

/// Typical move between neighbours: no reading within a few of these is a spike. Of coarse readings most
/// moves are zero, so half of what one move in ten reaches counts too, up to the typical move that is not
/// zero: one outlier in twenty readings is one move in ten.
fn typical_move(points: &[Point]) -> f64 {
    let mut moves: Vec<f64> = points
        .windows(2)
        .map(|w| (w[1].value - w[0].value).abs())
        .collect();
    let (usual, large) = (quantile(&mut moves, 0.5), quantile(&mut moves, 0.9));
    moves.retain(|m| *m > 0.0);
    let coarse = if moves.is_empty() {
        0.0
    } else {
        quantile(&mut moves, 0.5)
    };
    (1.4826 * usual).max((0.5 * large).min(1.4826 * coarse))
}

fn is_spike(points: &[Point], i: usize, typical: f64) -> bool {
    let half = SPIKE_WINDOW / 2;
    let from = i.saturating_sub(half).min(points.len() - SPIKE_WINDOW);
    let mut near = [0.0; SPIKE_WINDOW];
    for (slot, p) in near.iter_mut().zip(&points[from..]) {
        *slot = p.value;
    }
    let centre = nth(&mut near, SPIKE_WINDOW / 2);
    let away = points[i].value - centre;
    let least = typical.max(1e-3 * centre.abs());
    // Nearly every reading is decided here, before its neighbours are asked.
    if away.abs() <= SPIKE_DEVIATIONS * least {
        return false;
    }
    let spread = mad(&near).max(least);
    // One neighbour may share the accident; more on the same side mean a step or a tooth.
    let shares = |j: usize| {
        points
            .get(j)
            .is_some_and(|p| (p.value - centre) * away.signum() >= 0.5 * away.abs())
    };
    // One reading at an end may be a step that has just happened, but decides nothing yet; two are one.
    let alone = match (shares(i.wrapping_sub(1)), shares(i + 1)) {
        (false, false) => true,
        (true, false) => !shares(i.wrapping_sub(2)) && i + 1 < points.len(),
        (false, true) => !shares(i + 2) && i > 0 && i + 2 < points.len(),
        (true, true) => false,
    };
    alone && away.abs() > SPIKE_DEVIATIONS * spread
}

/// Marks bursts and dips: a sudden move of [`SPIKE_DEVIATIONS`] typical ones, undone as suddenly within a few readings.
fn mark_bursts(points: &[Point], typical: f64, spikes: &mut [bool]) {
    let span_s = points[points.len() - 1].t_s - points[0].t_s;
    let mut long: Vec<Range<usize>> = Vec::new();
    let mut i = 1;
    while i + 1 < points.len() {
        match burst(points, i, typical, BURST_SHARE * span_s) {
            Some(end) if end - i > BURST_MAX => {
                long.push(i..end);
                i = end + 1;
            }
            Some(end) => {
                spikes[i..end].fill(true);
                i = end + 1;
            }
            None => i += 1,
        }
    }
    if !is_one_more_under_way(points, &long) {
        long.into_iter().for_each(|burst| spikes[burst].fill(true));
    }
}

/// Bursts are alike when none is lower than this share of the highest.
const BURSTS_ALIKE: f64 = 0.6;

/// Whether the readings begin or end during one more of two or more like bursts: weekends, say. Without the
/// whole ones, that part would be a step.
fn is_one_more_under_way(points: &[Point], bursts: &[Range<usize>]) -> bool {
    let level = |of: Range<usize>| median(&points[of].iter().map(|p| p.value).collect::<Vec<_>>());
    let height = |burst: &Range<usize>| level(burst.clone()) - points[burst.start - 1].value;
    let heights: Vec<f64> = bursts.iter().map(height).collect();
    let Some(highest) = heights
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))
    else {
        return false;
    };
    let like = |height: f64| height / highest > BURSTS_ALIKE;
    let n = points.len();
    let (first, last) = (&bursts[0], &bursts[bursts.len() - 1]);
    let ends = [
        level(n - BURST_MAX..n) - points[last.end].value,
        level(0..BURST_MAX) - points[first.start - 1].value,
    ];
    bursts.len() >= 2 && heights.iter().all(|h| like(*h)) && ends.into_iter().any(like)
}

/// The first reading after the burst that begins at `i`.
fn burst(points: &[Point], i: usize, typical: f64, long_s: f64) -> Option<usize> {
    let before = points[i - 1].value;
    let up = points[i].value - before;
    let sudden = SPIKE_DEVIATIONS * typical.max(1e-3 * before);
    if up.abs() <= sudden {
        return None;
    }
    let height = |j: usize| (points[j].value - before) * up.signum();
    let near = |j: &usize| *j <= i + BURST_MAX || points[*j].t_s - points[i].t_s <= long_s;
    let mut after = (i + 1..points.len()).take_while(near);
    let over = after.find(|j| height(*j) < BURST_LEFT * up.abs())?;
    let undone = height(over - 1) - height(over);
    (undone > sudden && height(over) > -BURST_LEFT * up.abs()).then_some(over)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(f64, f64)]) -> Series {
        let points = values
            .iter()
            .map(|&(t_s, value)| Point { t_s, value })
            .collect();
        Series {
            points,
            ..Series::default()
        }
    }

    #[test]
    fn what_is_not_a_reading_is_dropped_and_counted() {
        let c = clean(&series(&[
            (2.0, 10.0),
            (1.0, 11.0),
            (3.0, 0.0),
            (4.0, f64::NAN),
            (f64::NAN, 1.0),
            (5.0, -3.0),
            (2.0, 12.0),
        ]));
        assert_eq!((c.unusable, c.unordered, c.doubled), (4, 1, 1));
        let kept: Vec<(f64, f64)> = c.points.iter().map(|p| (p.t_s, p.value)).collect();
        assert_eq!(kept, [(1.0, 11.0), (2.0, 11.0)]);
    }

    #[test]
    fn a_spike_among_coarse_readings_goes_and_their_grains_stay() {
        let mut v: Vec<(f64, f64)> = (0..120)
            .map(|i| {
                (
                    f64::from(i),
                    2000.0 + 40.0 * f64::from(i / 15 + (i % 7) / 6),
                )
            })
            .collect();
        v[50].1 *= 4.0;
        let c = clean(&series(&v));
        assert_eq!((c.spikes, c.points.len()), (1, 119));
    }

    #[test]
    fn a_burst_of_five_readings_goes_and_a_tooth_stays() {
        let mut v: Vec<(f64, f64)> = (0..120)
            .map(|i| {
                (
                    f64::from(i),
                    1000.0 + f64::from(i) + f64::from(i * 7919 % 17),
                )
            })
            .collect();
        for i in [20, 21, 22, 23, 24, 60, 61] {
            v[i].1 += 700.0;
        }
        assert_eq!(clean(&series(&v)).spikes, 7);
        // What lasts for more than a tenth of the window stays, and so does a collector's tooth of five.
        for late in &mut v[25..35] {
            late.1 += 700.0;
        }
        assert_eq!(clean(&series(&v)).spikes, 2);
        let saw: Vec<(f64, f64)> = (0..120)
            .map(|i| (f64::from(i), 1000.0 + 100.0 * f64::from(i % 5)))
            .collect();
        assert_eq!(clean(&series(&saw)).spikes, 0);
    }

    #[test]
    fn outliers_in_numbers_go_and_so_does_one_at_the_end() {
        let mut v: Vec<(f64, f64)> = (0..200)
            .map(|i| {
                (
                    f64::from(i),
                    1000.0 + f64::from(i) + f64::from(i * 7919 % 17),
                )
            })
            .collect();
        // One reading in fourteen: one move in seven is large.
        for i in (5..199).step_by(14) {
            v[i].1 *= 1.5 + (i % 4) as f64;
        }
        v[199].1 *= 100.0;
        let c = clean(&series(&v));
        assert_eq!((c.spikes, c.points.len()), (15, 185));
        // Two readings at the end are a step that has just happened.
        v[198].1 *= 100.0;
        assert_eq!(clean(&series(&v)).spikes, 14);
    }

    #[test]
    fn bursts_that_recur_stay_when_one_more_is_under_way() {
        let dips = |end: u32| {
            let at = |i: u32| {
                let low = (40..55).contains(&(i % 80));
                (
                    f64::from(i),
                    1000.0 + f64::from(i * 7919 % 17) - 300.0 * f64::from(u8::from(low)),
                )
            };
            clean(&series(&(0..end).map(at).collect::<Vec<_>>())).spikes
        };
        assert_eq!(dips(240), 45, "three, all of them over");
        assert_eq!(dips(290), 0, "the fourth goes on");
        assert_eq!(dips(120), 0, "one, and too long for so short a window");
    }

    #[test]
    fn a_lone_spike_goes_and_a_step_stays() {
        let mut v: Vec<(f64, f64)> = (0..60)
            .map(|i| (f64::from(i), 100.0 + f64::from(i % 3)))
            .collect();
        v[20].1 = 900.0;
        for p in &mut v[40..] {
            p.1 += 300.0;
        }
        let c = clean(&series(&v));
        assert_eq!(c.spikes, 1);
        assert_eq!(c.points.len(), 59);
        assert!(c.points.iter().filter(|p| p.value > 300.0).count() == 20);
    }
}
