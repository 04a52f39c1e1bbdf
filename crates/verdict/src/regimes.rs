//! A shift of level with which slope and noise change too: what was before it says nothing of what comes.

use super::Rules;
use super::coarse::{CoarseFit, View};
use super::curve::Opinion;
use super::one_life::{LastLife, Seen, Segmented, one_life};
use series::bins::{bins, grain, width_for};
use series::series::Point;

/// Evidence that two regimes in one window must bring, as for restarts that nobody told of ...
const CHANGED_LN: f64 = 3.0;
/// ... and for each of the logs of the number of bins: one for the place of the shift, and half for a noise of its own
/// (as by BIC: Schwarz, Estimating the dimension of a model, 1978).
const OF_LN_BINS: f64 = 1.5;
/// What is left behind the shift is judged alone if it is so much of the window, and so many bins.
const LEFT_SHARE: f64 = 1.0 / 3.0;
const BINS_MIN: usize = 16;
const BEFORE_MIN: usize = 5;

/// One life, or the last regime of it.
pub(super) fn last_regime(points: &[Point], birth_s: f64, rules: &Rules) -> Seen {
    let whole = one_life(points, birth_s, rules)?;
    let width_s = width_for(points, &[]);
    let view = View {
        bins: &bins(points, &[], &[birth_s], width_s),
        width_s,
        grain: grain(points),
        ..View::default()
    };
    let since_s = match whole.period_s {
        None => last_start(&view, &whole.opinion),
        Some(_) => None,
    };
    let Some(since_s) = since_s else {
        return Ok(whole);
    };
    let last = &points[points.partition_point(|p| p.t_s < since_s)..];
    let alone = LastLife {
        since_s,
        readings: last.len(),
        is_restarted: false,
    };
    let Ok(mut of_last) = one_life(last, since_s, rules) else {
        return Ok(whole);
    };
    let grows = |of: &Segmented| of.opinion.weights.growing >= rules.growing_from;
    if grows(&whole) == grows(&of_last) {
        return Ok(whole);
    }
    // What is flat behind a shift of level is a step.
    let w = &mut of_last.opinion.weights;
    (w.stepped, w.flat) = (w.stepped + w.flat, 0.0);
    of_last.opinion.steps = whole.opinion.steps;
    Ok(Segmented {
        alone: Some(alone),
        ..of_last
    })
}

/// Where the last regime starts, seconds of the series: at one of the shifts that were found, if the bins before and
/// behind it are told better by curves of their own, with noise of their own, than by one for all.
fn last_start(view: &View, opinion: &Opinion) -> Option<f64> {
    let whole = density(view, 0..view.bins.len())?;
    let count = view.bins.len();
    let least = BINS_MIN.max((LEFT_SHARE * count as f64) as usize);
    let shifts = opinion.steps.iter().map(|(t_s, _)| *t_s);
    let places = shifts.map(|t_s| (t_s, view.bins.partition_point(|bin| bin.t_s < t_s)));
    let places = places.filter(|(_, at)| *at >= BEFORE_MIN && count - at >= least);
    let parts = places.filter_map(|(t_s, at)| {
        let both = density(view, 0..at)? + density(view, at..count)?;
        Some((t_s, both))
    });
    let (t_s, both) = parts.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let asked = CHANGED_LN + OF_LN_BINS * (count as f64).ln();
    (both > whole + asked).then_some(t_s)
}

/// Log density of these bins in the unit of the series: that of parts on scales of their own can be added.
fn density(view: &View, bins: std::ops::Range<usize>) -> Option<f64> {
    let part = View {
        bins: &view.bins[bins],
        by_uptime: false,
        cycles: &[],
        ..view.clone()
    };
    CoarseFit::at(&part, None).map(|coarse| coarse.ln_density())
}

#[cfg(test)]
mod tests {
    use super::super::short_runs::Dice;
    use super::super::{Label, Rules, series};
    use ::series::series::{Point, Series};

    const MIB: f64 = 1_048_576.0;
    const SEEDS: u64 = 20;

    /// MiB by hours, read every 16 s for four hours.
    fn four_hours(seed: u64, noise: f64, mib: impl Fn(f64) -> f64) -> Series {
        let mut dice = Dice(seed);
        let point = |i: u32| {
            let hours = f64::from(i) * 16.0 / 3_600.0;
            Point {
                t_s: hours * 3_600.0,
                value: (mib(hours) + noise * dice.normal()) * MIB,
            }
        };
        Series {
            points: (0..900).map(point).collect(),
            ..Series::default()
        }
    }

    fn judged(what: &str, of: impl Fn(u64) -> Series) -> Vec<series::SeriesVerdict> {
        let said: Vec<_> = (0..SEEDS)
            .map(|seed| series::judge(&of(seed), &Rules::default()))
            .collect();
        let right = said.iter().filter(|said| said.label == Label::Growing);
        assert!(right.count() as u64 >= SEEDS - 1, "{what}: {said:#?}");
        said
    }

    /// A start-up that gives back what it took, and then a leak of which a trim takes a little now and then.
    #[test]
    fn an_early_fall_hides_no_leak() {
        let mib = |hours: f64| {
            let start = 33.0 * (1.0 - hours / 0.13).max(0.0);
            let trims = 2.5 * f64::from(u8::from(hours > 1.6) + u8::from(hours > 2.9));
            24.0 + start + 4.0 * hours - trims
        };
        judged("trims", |seed| four_hours(seed, 0.12, mib));
    }

    /// A leak of which falls take all, and from when a large buffer is there no fall takes any more.
    #[test]
    fn what_leaks_behind_a_shift_of_level_is_judged_alone() {
        let mib = |hours: f64| {
            let falls = [0.2, 0.35, 0.55, 0.7, 0.95, 1.3, 1.5, 1.9, 2.2];
            let fell = falls.iter().filter(|at| hours > **at).count();
            let buffer = if hours > 2.4 { 38.0 } else { 0.0 };
            70.0 - 6.0 * fell as f64 + 9.0 * hours + buffer
        };
        let said = judged("late", |seed| four_hours(seed, 0.5, mib));
        let alone = said
            .iter()
            .filter(|said| said.rule.contains("from its last shift of level on"));
        assert!(alone.count() as u64 >= SEEDS / 2, "{said:#?}");
    }

    #[test]
    fn a_step_between_levels_that_stand_still_stays_one() {
        for seed in 0..SEEDS {
            let of = four_hours(seed, 0.5, |hours| if hours < 1.5 { 60.0 } else { 40.0 });
            let said = series::judge(&of, &Rules::default());
            assert_eq!(said.label, Label::Stepped, "seed {seed}: {said:?}");
        }
    }
}
