//! A cycle of two levels: working days and weekends, office hours and nights. Two harmonics leave its edges, which
//! then look like steps; one column that is 1 in a part of each turn has none left.

use super::bins::Bin;

/// When in each turn the level is the other one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Square {
    pub length_s: f64,
    /// Where the part begins and how long it is, in turns of the clock.
    pub from: f64,
    pub part: f64,
    /// Difference of the two levels, in the unit of the values.
    pub swing: f64,
    /// How often the level changes within the window.
    pub edges: usize,
    /// Share of the variance about a line that it explains.
    pub share: f64,
}

impl Square {
    /// 1 within the part, 0 outside it.
    pub fn at(&self, t_s: f64) -> f64 {
        let phase = (t_s / self.length_s - self.from).rem_euclid(1.0);
        f64::from(u8::from(phase < self.part))
    }
}

/// Neither part is shorter than this share of a turn: what is shorter is a spike.
const PART_MIN: f64 = 0.1;
/// A part with less than this left of it beside a line says nothing.
const NEW_MIN: f64 = 1e-6;
/// Fewer bins are not enough for two levels, a line and what is left.
const BINS_MIN: usize = 12;
/// A length that is not known beforehand is tried so many times to either side of what waves say, this far apart: an
/// edge that lies in the wrong bin costs more than the square explains.
const LENGTHS: i32 = 4;
const LENGTHS_APART: f64 = 0.005;

/// A bin in its turn.
#[derive(Clone, Copy, Default)]
struct Spot {
    phase: f64,
    /// The unit line, and what a line leaves of the value.
    line: f64,
    rest: f64,
}

/// The best square cycle of this length, or, where it is not `known` to the end, one near it; a line is taken away
/// first.
pub fn square(bins: &[Bin], length_s: f64, known: bool) -> Option<Square> {
    let steps = if known { 0 } else { LENGTHS };
    let spots = beside_a_line(bins)?;
    let lengths = (-steps..=steps).map(|step| length_s * (1.0 + LENGTHS_APART * f64::from(step)));
    let found = lengths.filter_map(|length_s| best_part(bins, &spots, length_s));
    found.max_by(|a, b| a.share.total_cmp(&b.share))
}

/// The unit line and what a line leaves of the values; `None` where no time passes.
fn beside_a_line(bins: &[Bin]) -> Option<Vec<Spot>> {
    let n = bins.len() as f64;
    if bins.len() < BINS_MIN {
        return None;
    }
    let mean = |of: fn(&Bin) -> f64| bins.iter().map(of).sum::<f64>() / n;
    let (t, y) = (mean(|b| b.t_s), mean(|b| b.value));
    let length = bins.iter().map(|b| (b.t_s - t).powi(2)).sum::<f64>();
    let length = Some(length.sqrt()).filter(|length| *length > 0.0)?;
    let line = |b: &Bin| (b.t_s - t) / length;
    let slope: f64 = bins.iter().map(|b| line(b) * (b.value - y)).sum();
    let spot = |b: &Bin| Spot {
        phase: 0.0,
        line: line(b),
        rest: b.value - y - slope * line(b),
    };
    Some(bins.iter().map(spot).collect())
}

fn best_part(bins: &[Bin], spots: &[Spot], length_s: f64) -> Option<Square> {
    let n = spots.len();
    let phase = |b: &Bin| (b.t_s / length_s).rem_euclid(1.0);
    let mut turn: Vec<Spot> = spots.to_vec();
    turn.iter_mut()
        .zip(bins)
        .for_each(|(s, b)| s.phase = phase(b));
    turn.sort_by(|a, b| a.phase.total_cmp(&b.phase));
    let total: f64 = turn.iter().map(|s| s.rest * s.rest).sum();
    // Where one could begin: midway to the one before.
    let edge = |i: usize| {
        let before = turn[(i + n - 1) % n].phase - f64::from(u8::from(i.is_multiple_of(n)));
        0.5 * (turn[i % n].phase + before) + (i / n) as f64
    };
    let mut best = (0.0, None);
    for from in 0..n {
        let (mut line, mut rest) = (0.0, 0.0);
        for count in 1..n {
            let last = turn[(from + count - 1) % n];
            (line, rest) = (line + last.line, rest + last.rest);
            let own = count as f64 * (1.0 - count as f64 / n as f64) - line * line;
            let part = edge(from + count) - edge(from);
            let gain = rest * rest / own.max(NEW_MIN);
            if own > NEW_MIN && gain > best.0 && (PART_MIN..1.0 - PART_MIN).contains(&part) {
                best = (gain, Some((edge(from), part, (rest / own).abs())));
            }
        }
    }
    let (from, part, swing) = best.1?;
    let mut found = Square {
        length_s,
        from,
        part,
        swing,
        edges: 0,
        share: best.0 / total.max(f64::MIN_POSITIVE),
    };
    let levels: Vec<f64> = bins.iter().map(|b| found.at(b.t_s)).collect();
    found.edges = levels.windows(2).filter(|w| w[0] != w[1]).count();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: f64 = 86_400.0;

    fn weeks(days: f64, leak: f64) -> Vec<Bin> {
        let bin = |i: u32| {
            let t_s = f64::from(i) * days * DAY_S / 60.0;
            let weekend = (t_s / DAY_S + 2.0) % 7.0 >= 5.0;
            let wobble = f64::from(i * 7919 % 17) / 17.0 - 0.5;
            Bin {
                t_s,
                uptime_s: t_s,
                value: 100.0 - 12.0 * f64::from(u8::from(weekend)) + leak * t_s / DAY_S + wobble,
                count: 8,
                incarnation: 0,
            }
        };
        (0..60).map(bin).collect()
    }

    #[test]
    fn weekends_are_found_beside_a_leak() {
        for (leak, known) in [(0.0, true), (1.5, true), (0.0, false), (1.5, false)] {
            let near = if known { 7.0 } else { 7.1 };
            let found = square(&weeks(21.0, leak), near * DAY_S, known).unwrap();
            assert!((found.swing - 12.0).abs() < 1.0, "{found:?}");
            let part = found.part.min(1.0 - found.part);
            assert!((part - 2.0 / 7.0).abs() < 0.04, "{found:?}");
            assert!(found.share > 0.98, "{found:?}");
            assert_eq!(found.edges, 6, "{found:?}");
        }
    }

    #[test]
    fn two_edges_are_counted_as_two() {
        let found = square(&weeks(7.0, 0.0), 7.0 * DAY_S, true).unwrap();
        assert_eq!(found.edges, 2, "{found:?}");
    }

    #[test]
    fn too_little_is_none() {
        assert_eq!(square(&[], DAY_S, true), None);
        assert_eq!(square(&weeks(21.0, 0.0)[..8], DAY_S, true), None);
        let mut still = weeks(21.0, 0.0);
        still.iter_mut().for_each(|bin| bin.t_s = 5.0);
        assert_eq!(square(&still, DAY_S, true), None);
    }
}
