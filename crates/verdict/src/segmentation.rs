//! How the readings are cut before they are judged: incarnations, teeth, cycles.

use super::Rules;
use super::coarse::{CoarseFit, Lives, View};
use super::curve::{Opinion, Weights, conclude, opinion};
use super::cycles::Cycles;
use super::one_life::{LastLife, Seen, Segmented, Unseen, one_life, with_cycles};
use super::regimes::last_regime;
use series::bins::{Bin, bins, grain, width_for};
use series::incarnation::{Fall, climbs_around, cuts_at, falls};
use series::mixture::{Mixture, Part};
use series::order::{mean_sd, median};
use series::sawtooth::{
    TEETH_MIN, are_bursts, are_dips, by_threshold, climb_between, floors, gathered, rhythm,
};
use series::series::{Point, Series};

/// Evidence that restarts nobody told of must bring: they are rarer than steps.
const UNANNOUNCED_LN: f64 = 3.0;
/// Fewer floors than this are a handful.
const FEW: usize = 14;

/// Looks in every sensible way.
///
/// # Errors
/// Nothing can be fitted.
pub fn segment(series: &Series, points: &[Point], rules: &Rules) -> Seen {
    let sudden = falls(points);
    let known = cuts_at(points, &series.restarts_s);
    let bar = series.limit.map(|limit| rules.oom_share * limit);
    let killed = bar.is_some_and(|bar| killed_at(&sudden, bar));
    if killed || !known.is_empty() {
        let killed = killed || bar.is_some_and(|bar| ended_at(points, &known, bar));
        let mut cuts = known;
        if killed {
            cuts.extend(sudden.iter().map(|f| f.after));
            cuts.sort_unstable();
            cuts.dedup();
        }
        // What is killed is started again as it was.
        let common = if killed { &LIKE_BEFORE[..] } else { &ALL };
        let mut segmented = lives(series, points, &cuts, common, rules)?;
        if killed {
            bind_to_limit(&mut segmented.opinion.weights);
        }
        return Ok(segmented);
    }
    if sudden.len() >= TEETH_MIN
        && !are_dips(points, &sudden)
        && climb_between(points, &sudden)
        && let Some(mut segmented) = saw(points, &sudden, rules)
    {
        unless_restarted(&mut segmented, series, points, &sudden, rules);
        return Ok(segmented);
    }
    let few = !sudden.is_empty() && sudden.len() < TEETH_MIN;
    if few && climbs_around(points, &sudden) {
        return restarts_or_not(series, points, &sudden, rules);
    }
    let birth_s = points.first().map_or(0.0, |first| first.t_s);
    last_regime(points, birth_s, rules)
}

fn killed_at(sudden: &[Fall], bar: f64) -> bool {
    let high = sudden.iter().filter(|f| f.peak >= bar).count();
    high > 0 && 2 * high >= sudden.len()
}

/// Whether at least half of the incarnations before the last ended that high.
fn ended_at(points: &[Point], cuts: &[usize], bar: f64) -> bool {
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    let ends = begins.zip(cuts);
    let high = ends.filter(|(from, to)| {
        let last = (*from).max(to.saturating_sub(3));
        points[last..**to].iter().any(|p| p.value >= bar)
    });
    !cuts.is_empty() && 2 * high.count() >= cuts.len()
}

/// Share of what speaks for a bound that a kill at the limit leaves: what would have stopped below the
/// limit is not killed there.
const AFTER_KILLS: f64 = 0.1;

fn bind_to_limit(weights: &mut Weights) {
    let w = weights;
    let all = w.flat + w.plateauing + w.stepped + w.open;
    w.growing += (1.0 - AFTER_KILLS) * all;
    for bounded in [&mut w.flat, &mut w.plateauing, &mut w.stepped, &mut w.open] {
        *bounded *= AFTER_KILLS;
    }
}

fn cut(series: &Series, points: &[Point], cuts: &[usize]) -> (Vec<Bin>, f64) {
    let width_s = width_for(points, cuts);
    let births: Vec<f64> = std::iter::once(0)
        .chain(cuts.iter().copied())
        .map(|c| born(series, points, c))
        .collect();
    (bins(points, cuts, &births, width_s), width_s)
}

/// The known start of the incarnation whose first reading is `first`, else that reading's time.
fn born(series: &Series, points: &[Point], first: usize) -> f64 {
    let t_s = points[first].t_s;
    let before = if first > 0 {
        points[first - 1].t_s
    } else {
        f64::NEG_INFINITY
    };
    let starts = series
        .restarts_s
        .iter()
        .copied()
        .filter(|r| *r <= t_s && *r > before);
    let start = starts.fold(f64::NEG_INFINITY, f64::max);
    if start.is_finite() { start } else { t_s }
}

/// What incarnations may have in common, and what those of one program do.
const ALL: [Lives; 3] = [Lives::Alike, Lives::OwnLevels, Lives::Apart];
const LIKE_BEFORE: [Lives; 2] = [Lives::Alike, Lives::OwnLevels];

/// More incarnations than this are not looked at, but the newest: each is a bin at least.
const LIVES_MAX: usize = 256;

fn lives(
    series: &Series,
    points: &[Point],
    cuts: &[usize],
    common: &[Lives],
    rules: &Rules,
) -> Seen {
    let incarnations = cuts.len() + 1;
    let older = cuts.len().saturating_sub(LIVES_MAX);
    let from = older.checked_sub(1).map_or(0, |last| cuts[last]);
    let cuts: Vec<usize> = cuts[older..].iter().map(|cut| cut - from).collect();
    let (points, cuts) = (&points[from..], &cuts[..]);
    let (b, width_s) = cut(series, points, cuts);
    let view = View {
        bins: &b,
        by_uptime: true,
        width_s,
        grain: grain(points),
        ..View::default()
    };
    let (opinion, alone) = by_lives(&view, (series, points, cuts), common, rules)?;
    Ok(Segmented {
        opinion,
        incarnations,
        alone,
        period_s: None,
        saw: false,
    })
}

/// Evidence that another program must bring which is too young to be judged alone: with it, all that was seen before
/// says nothing any more.
const TOO_YOUNG_LN: f64 = 3.0;

/// The opinion under what has the most evidence of what incarnations may have in common; with the last one, where that
/// is nothing.
fn by_lives(
    view: &View,
    (series, points, cuts): (&Series, &[Point], &[usize]),
    common: &[Lives],
    rules: &Rules,
) -> Result<(Opinion, Option<LastLife>), Unseen> {
    let first = cuts.last().copied().unwrap_or(0);
    let last = &points[first..];
    let is_young = last.len() < rules.samples_min;
    let mut best: Option<(f64, Lives, CoarseFit)> = None;
    for &lives in common {
        let view = View {
            lives,
            ..view.clone()
        };
        let Some(coarse) = CoarseFit::at(&view, None) else {
            continue;
        };
        let asked = match lives {
            Lives::Apart if is_young => TOO_YOUNG_LN,
            _ => 0.0,
        };
        let evidence = coarse.ln_evidence() - asked;
        if best.as_ref().is_none_or(|(most, ..)| evidence > *most) {
            best = Some((evidence, lives, coarse));
        }
    }
    let (_, lives, coarse) = best.ok_or_else(Unseen::default)?;
    let view = View {
        lives,
        ..view.clone()
    };
    let opinion = conclude(coarse, &view, rules).ok_or_else(Unseen::default)?;
    if lives != Lives::Apart {
        return Ok((opinion, None));
    }
    let alone = LastLife {
        since_s: last.first().map_or(0.0, |first| first.t_s),
        readings: last.len(),
        is_restarted: true,
    };
    let too_short = Unseen {
        last_life: Some(alone),
    };
    let seen = (!is_young).then(|| one_life(last, born(series, points, first), rules).ok());
    let of_last = seen.flatten().ok_or(too_short)?.opinion;
    // Of all bins, for what else they may be.
    let ln_evidence = opinion.ln_evidence;
    Ok((
        Opinion {
            ln_evidence,
            ..of_last
        },
        Some(alone),
    ))
}

/// One to three sudden falls that nobody announced: restarts, steps down, or the first teeth of a saw?
fn restarts_or_not(series: &Series, points: &[Point], sudden: &[Fall], rules: &Rules) -> Seen {
    let cuts: Vec<usize> = sudden.iter().map(|f| f.after).collect();
    let (b, width_s) = cut(series, points, &cuts);
    let view = |by_uptime| View {
        bins: &b,
        by_uptime,
        width_s,
        grain: grain(points),
        ..View::default()
    };
    let whole = view(false);
    let of = (series, points, &cuts[..]);
    // A fall that nobody announced and that is too young to be judged alone may be anything yet.
    let (split, alone) = by_lives(&view(true), of, &ALL, rules)
        .or_else(|_| by_lives(&view(true), of, &LIKE_BEFORE, rules))?;
    let square = Cycles::square(points, &whole);
    let whole = if square.taken.is_empty() {
        square
            .coarse
            .and_then(|coarse| conclude(coarse, &whole, rules))
            .ok_or_else(Unseen::default)?
    } else {
        let segmented = with_cycles(points, square, &whole, rules)?;
        if segmented.opinion.ln_evidence > split.ln_evidence - UNANNOUNCED_LN {
            return Ok(segmented);
        }
        opinion(&whole, rules).ok_or_else(Unseen::default)?
    };
    let by_uptime = split.ln_evidence - UNANNOUNCED_LN >= whole.ln_evidence;
    let alone = alone.filter(|_| by_uptime);
    let mut said = if by_uptime { split } else { whole };
    if by_uptime && alone.is_none() {
        // A fall that nobody announced, between levels that stand still, is a step.
        let w = &mut said.weights;
        (w.stepped, w.flat) = (w.stepped + w.flat, 0.0);
        said.steps = sudden
            .iter()
            .map(|f| (points[f.after].t_s, f.floor - f.peak))
            .collect();
    }
    if by_uptime && alone.is_none() && !floors_rise(sudden, rules) {
        // Climbs that end at one threshold: a saw with few teeth looks the same as a leak restarted.
        let saw = by_threshold(sudden, height_now(points, sudden));
        let w = &mut said.weights;
        (w.growing, w.open) = (w.growing * (1.0 - saw), w.open + w.growing * saw);
    }
    let incarnations = if by_uptime { cuts.len() + 1 } else { 1 };
    Ok(Segmented {
        opinion: said,
        incarnations,
        alone,
        period_s: None,
        saw: false,
    })
}

/// Share of a tooth by which floors must rise to be no accident.
const FLOORS_SHARE: f64 = 0.12;

/// Whether the floors themselves climb: then it grows, by restarts as by teeth.
fn floors_rise(sudden: &[Fall], rules: &Rules) -> bool {
    let (Some(first), Some(last)) = (sudden.first(), sudden.last()) else {
        return false;
    };
    let rise = last.floor - first.floor;
    let height = median(&sudden.iter().map(|f| f.peak - f.floor).collect::<Vec<_>>());
    sudden.windows(2).all(|w| w[1].floor > w[0].floor)
        && rise > (2.0 * rules.growth_share * last.floor).max(FLOORS_SHARE * height)
}

/// How high the last incarnation stands above its floor.
fn height_now(points: &[Point], sudden: &[Fall]) -> f64 {
    let (Some(fall), Some(last)) = (sudden.last(), points.last()) else {
        return 0.0;
    };
    (last.value - fall.floor).max(0.0)
}

/// Many falls: the floors decide whether what the collector cannot free grows.
fn saw(points: &[Point], sudden: &[Fall], rules: &Rules) -> Option<Segmented> {
    let (low, each) = gathered(floors(points, sudden));
    let (period_s, _) = rhythm(points, sudden)?;
    let tail = &points[points.len() - points.len().div_ceil(5)..];
    let values: Vec<f64> = tail.iter().map(|p| p.value).collect();
    let (level, spread) = mean_sd(&values);
    let view = View {
        bins: &low,
        by_uptime: false,
        width_s: period_s * each as f64,
        level: Some(level),
        few: low.len() < FEW,
        ..View::default()
    };
    let mut said = opinion(&view, rules)?;
    let teeth = (sudden.len() as f64 / 5.0).max(1.0);
    let part = Part {
        weight: 1.0,
        mean: level,
        se: spread / teeth.sqrt() / 2.0,
        df: 10.0,
    };
    said.level = Mixture::new(vec![part]);
    // A saw whose floors stand still, step or settle is a bounded saw.
    let w = &mut said.weights;
    w.flat += w.stepped + w.plateauing + 0.5 * w.open;
    w.open *= 0.5;
    (w.stepped, w.plateauing) = (0.0, 0.0);
    Some(Segmented {
        opinion: said,
        incarnations: 1,
        alone: None,
        period_s: Some(period_s),
        saw: true,
    })
}

/// Climbs are called lives when a threshold of a collector is less likely than this to have ended them.
const UNLIKELY_SAW: f64 = 0.2;

/// Climbs whose heights have nothing in common were ended by restarts, not by a threshold: they are judged on their own
/// uptime. Jobs that come and go have such heights too, and climb nowhere.
fn unless_restarted(
    segmented: &mut Segmented,
    series: &Series,
    points: &[Point],
    sudden: &[Fall],
    rules: &Rules,
) {
    let saw = by_threshold(sudden, height_now(points, sudden));
    if saw >= UNLIKELY_SAW || are_bursts(points, sudden) {
        return;
    }
    let cuts: Vec<usize> = sudden.iter().map(|f| f.after).collect();
    if let Ok(restarted) = lives(series, points, &cuts, &ALL, rules) {
        *segmented = restarted;
    }
}
