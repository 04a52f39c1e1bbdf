//! The verdict on one series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::curve::{Opinion, Weights, estimate};
use super::last_readings::LastReadings;
use super::one_life::{LastLife, Segmented, Unseen};
use super::segmentation::segment;
use super::time_to_limit::time_to_limit;
use super::{Label, Rules};
use series::clean::{Cleaned, clean};
use series::estimate::Estimate;
use series::forecast::Forecast;
use series::order::median;
use series::series::{Point, Series};

/// What is said of one series. Values are in the unit of the series (bytes for memory),
/// times in seconds, slopes per hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesVerdict {
    pub id: String,
    pub label: Label,
    /// Calibrated: of verdicts said at 0.9, nine in ten are right.
    pub confidence: f64,
    /// The rule that decided, in words: "terminal slope x window is 7 % of the level (3 % makes it growing)".
    pub rule: String,
    /// Level at the end of the window.
    pub level: Option<Estimate>,
    /// Slope at the end of the window, per hour.
    pub slope_per_hour: Option<Estimate>,
    /// Where a plateauing series is heading.
    pub asymptote: Option<Estimate>,
    /// Seconds from the end of the window to the limit, when growing and a limit is known.
    pub time_to_limit_s: Option<Estimate>,
    /// Period of a sawtooth.
    pub period_s: Option<f64>,
    /// Shifts of level: when (`t_s`) and by how much.
    pub steps: Vec<(f64, f64)>,
    /// What would decide it, when it is insufficient: "3.5 more hours at this rate of samples".
    pub needs: Option<String>,
    /// Named numbers behind the label (n, window_s, incarnations, weights of the models ...).
    pub evidence: BTreeMap<String, f64>,
}

const HOUR_S: f64 = 3600.0;

/// Judges one series. Pure; about a millisecond whatever the length.
pub fn judge(series: &Series, rules: &Rules) -> SeriesVerdict {
    let cleaned = clean(series);
    let mut verdict = blank(series, &cleaned);
    let Some((first, last)) = cleaned.points.first().zip(cleaned.points.last()) else {
        let needs = match series.points.is_empty() {
            true => "readings",
            false => "readings above zero",
        };
        return refuse(verdict, "no usable reading", needs.to_owned());
    };
    let span_s = last.t_s - first.t_s;
    verdict.evidence.insert("window_s".to_owned(), span_s);
    verdict.level = rough_level(&cleaned.points);
    if cleaned.points.len() < rules.samples_min || span_s <= 0.0 {
        let more = rules
            .samples_min
            .saturating_sub(cleaned.points.len())
            .max(1);
        return refuse(verdict, "too few usable readings", more_readings(more));
    }
    match segment(series, &cleaned.points, rules) {
        Ok(segmented) => {
            let since_s = segmented.alone.map(|life| life.since_s);
            let from = since_s.map_or(0, |t_s| cleaned.points.partition_point(|p| p.t_s < t_s));
            let points = &cleaned.points[from..];
            let ahead = note_forecast(&mut verdict, points, rules);
            // What restarts the forecast does not know: a program that rises from restart to restart is level to it.
            let ahead = ahead.filter(|_| segmented.incarnations == 1 || segmented.alone.is_some());
            let verdict = speak(verdict, series, (&segmented, ahead.as_ref()), rules);
            match LastReadings::of(points) {
                Some(last) => beside_last(verdict, &last, rules),
                None => verdict,
            }
        }
        Err(unseen) => unjudged(verdict, &cleaned.points, unseen, rules),
    }
}

/// The level is forecast for the last of so many stretches of one more window.
const STRETCHES: f64 = 8.0;

/// What comes after the window.
struct Ahead {
    forecast: Forecast,
    window_s: f64,
    /// The chance that the level is higher one more window ahead by the share that makes a series growing.
    rises: f64,
}

/// Notes what the level will be one more window ahead. Of the incarnation that runs now.
fn note_forecast(verdict: &mut SeriesVerdict, points: &[Point], rules: &Rules) -> Option<Ahead> {
    let (first, last) = points.first().zip(points.last())?;
    let window_s = last.t_s - first.t_s;
    let stretch_s = window_s / STRETCHES;
    let forecast = Forecast::of(points, stretch_s)?;
    let level = forecast.level(window_s - stretch_s, window_s);
    let now = points.partition_point(|p| p.t_s < last.t_s - stretch_s);
    let now = median(&points[now..].iter().map(|p| p.value).collect::<Vec<_>>());
    let rises = 1.0 - level.below((1.0 + rules.growth_share) * now);
    let Estimate { value, lo, hi } = estimate(&level, rules.interval)?;
    for (name, number) in [
        ("ahead_level", value),
        ("ahead_lo", lo),
        ("ahead_hi", hi),
        ("ahead_rises", rises),
    ] {
        verdict.evidence.insert(name.to_owned(), number);
    }
    Some(Ahead {
        forecast,
        window_s,
        rises,
    })
}

fn unjudged(
    mut verdict: SeriesVerdict,
    points: &[Point],
    unseen: Unseen,
    rules: &Rules,
) -> SeriesVerdict {
    let Some(LastLife {
        since_s, readings, ..
    }) = unseen.last_life
    else {
        let needs = "a longer window".to_owned();
        return refuse(verdict, "too few stretches of time", needs);
    };
    verdict.evidence.insert("judged_from_s".to_owned(), since_s);
    verdict.level = rough_level(&points[points.len() - readings..]);
    let rule = format!(
        "{readings} readings since the last restart, and what ran before had another level and slope"
    );
    let needs = match rules.samples_min.saturating_sub(readings) {
        0 => "a longer window since the restart".to_owned(),
        more => more_readings(more),
    };
    refuse(verdict, &rule, needs)
}

fn more_readings(more: usize) -> String {
    match more {
        1 => "1 more reading".to_owned(),
        more => format!("{more} more readings"),
    }
}

fn blank(series: &Series, cleaned: &Cleaned) -> SeriesVerdict {
    let mut evidence = BTreeMap::new();
    evidence.insert("n".to_owned(), cleaned.points.len() as f64);
    for (name, count) in [
        ("dropped_unusable", cleaned.unusable),
        ("dropped_doubled", cleaned.doubled),
        ("dropped_spikes", cleaned.spikes),
        ("unordered", cleaned.unordered),
    ] {
        if count > 0 {
            evidence.insert(name.to_owned(), count as f64);
        }
    }
    SeriesVerdict {
        id: series.id.clone(),
        label: Label::Insufficient,
        confidence: 0.0,
        rule: String::new(),
        level: None,
        slope_per_hour: None,
        asymptote: None,
        time_to_limit_s: None,
        period_s: None,
        steps: Vec::new(),
        needs: None,
        evidence,
    }
}

/// Level of a handful of readings: the median of their later half, with their range (at least a twentieth
/// of it to either side). Replaced by the fitted one when there is a fit.
fn rough_level(points: &[Point]) -> Option<Estimate> {
    let later: Vec<f64> = points[points.len() / 2..].iter().map(|p| p.value).collect();
    let value = median(&later);
    let lo = later.iter().copied().fold(0.95 * value, f64::min);
    let hi = later.iter().copied().fold(1.05 * value, f64::max);
    (points.len() >= 2).then_some(Estimate { value, lo, hi })
}

fn refuse(mut verdict: SeriesVerdict, rule: &str, needs: String) -> SeriesVerdict {
    verdict.label = Label::Insufficient;
    verdict.rule = rule.to_owned();
    verdict.needs = Some(needs);
    verdict
}

/// The named numbers behind a label.
fn note(
    evidence: &mut BTreeMap<String, f64>,
    segmented: &Segmented,
    weights: &Weights,
    growth: f64,
) {
    let said = &segmented.opinion;
    evidence.insert("incarnations".to_owned(), segmented.incarnations as f64);
    if let Some(life) = segmented.alone {
        evidence.insert("judged_from_s".to_owned(), life.since_s);
        // Of those that were judged.
        evidence.insert("n".to_owned(), life.readings as f64);
    }
    evidence.insert("bins".to_owned(), said.bins as f64);
    evidence.insert("growth_share".to_owned(), growth);
    for (family, weight) in &said.families {
        if *weight >= 0.01 {
            evidence.insert(format!("weight_{}", family.word()), *weight);
        }
    }
    for (name, weight) in [
        ("flat", weights.flat),
        ("plateauing", weights.plateauing),
        ("growing", weights.growing),
        ("stepped", weights.stepped),
        // Of the curves, before the forecast was asked.
        ("open", said.weights.open),
    ] {
        evidence.insert(format!("p_{name}"), weight.min(1.0));
    }
}

fn speak(
    mut verdict: SeriesVerdict,
    series: &Series,
    (segmented, ahead): (&Segmented, Option<&Ahead>),
    rules: &Rules,
) -> SeriesVerdict {
    let said = &segmented.opinion;
    let weights = said.weights.with_forecast(ahead.map(|ahead| ahead.rises));
    let (label, weight) = weights.leader(rules.growing_from);
    verdict.confidence = weight;
    verdict.level = estimate(&said.level, rules.interval);
    let growth = said.growth_share.mean();
    note(&mut verdict.evidence, segmented, &weights, growth);
    verdict.period_s = segmented.period_s;
    verdict.label = if label == Label::Flat && segmented.saw {
        Label::Sawtooth
    } else {
        label
    };
    verdict.slope_per_hour = slope_per_hour(said, label, rules);
    let is_decided = weight >= rules.decisive && weights.bounded() >= rules.bounded_from;
    if label != Label::Growing && !is_decided {
        verdict.label = Label::Insufficient;
        verdict.rule = undecided((label, weight), &weights, rules);
        verdict.rule += &since_restart(series, segmented);
        verdict.needs = Some(needs(said, rules));
        return verdict;
    }
    verdict.rule = rule_of(verdict.label, growth, rules);
    verdict.rule += &since_restart(series, segmented);
    match label {
        Label::Plateauing => verdict.asymptote = estimate(&said.asymptote, rules.interval),
        Label::Stepped => verdict.steps.clone_from(&said.steps),
        Label::Growing => verdict.time_to_limit_s = reached(&verdict, series.limit, ahead, rules),
        _ => {}
    }
    verdict
}

/// When it reaches its limit.
fn reached(
    verdict: &SeriesVerdict,
    limit: Option<f64>,
    ahead: Option<&Ahead>,
    rules: &Rules,
) -> Option<Estimate> {
    let (limit, level, slope) = (limit?, verdict.level?, verdict.slope_per_hour?);
    let per_s = Estimate {
        value: slope.value / HOUR_S,
        lo: slope.lo / HOUR_S,
        hi: slope.hi / HOUR_S,
    };
    let forecast = ahead.map(|ahead| (&ahead.forecast, ahead.window_s));
    time_to_limit(limit, (level, per_s), forecast, rules.interval)
}

/// What the last readings say against it: the curves see them as one stretch of many.
fn beside_last(mut verdict: SeriesVerdict, last: &LastReadings, rules: &Rules) -> SeriesVerdict {
    let is_bounded = !matches!(verdict.label, Label::Growing | Label::Insufficient);
    let Some(level) = verdict
        .level
        .filter(|level| is_bounded && level.value > 0.0)
    else {
        return verdict;
    };
    let now = last.now;
    let has_cycle = verdict.period_s.is_some() && verdict.label != Label::Flat;
    if !has_cycle && last.contradict(level.lo, level.hi) {
        verdict.level = Some(Estimate {
            value: now,
            lo: level.lo.min(now),
            hi: level.hi.max(now),
        });
    }
    let Some(above) = last.unfinished(level.value, rules.growth_share) else {
        return verdict;
    };
    verdict.evidence.insert("last_above".to_owned(), above);
    (verdict.asymptote, verdict.steps) = (None, Vec::new());
    let rule = format!(
        "{}, but the last {} are {:.0} % above what was usual and higher than all before: whether that passes is \
         not in the window",
        verdict.label.word(),
        time(last.for_s()),
        100.0 * above
    );
    refuse(verdict, &rule, more(last.decided_in_s()))
}

/// What is said beside the rule where the incarnation that runs now was judged alone.
fn since_restart(series: &Series, segmented: &Segmented) -> String {
    let Some(life) = segmented.alone else {
        return String::new();
    };
    let end_s = series
        .points
        .iter()
        .map(|p| p.t_s)
        .filter(|t_s| t_s.is_finite());
    let end_s = end_s.fold(life.since_s, f64::max);
    let start = match life.is_restarted {
        true => "restart",
        false => "shift of level",
    };
    format!(
        "; classified from its last {start} on, {} before the end: level and slope were different before it",
        time(end_s - life.since_s)
    )
}

fn slope_per_hour(said: &Opinion, label: Label, rules: &Rules) -> Option<Estimate> {
    let (slopes, drawn) = match label {
        Label::Growing => (&said.slope_growing, rules.slope_drawn),
        _ => (&said.slope_all, 1.0),
    };
    let Estimate { value, lo, hi } = estimate(slopes, rules.interval)?;
    Some(Estimate {
        value: value * HOUR_S,
        lo: (value - drawn * (value - lo)) * HOUR_S,
        hi: (value + drawn * (hi - value)) * HOUR_S,
    })
}

/// Which bar was missed: of the leading bounded label's own weight, or of all bounded labels'.
fn undecided((label, weight): (Label, f64), weights: &Weights, rules: &Rules) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    if weights.bounded() >= rules.bounded_from {
        return format!(
            "no label has {} of the weight (the best, {}, has {})",
            percent(rules.decisive),
            label.word(),
            percent(weight)
        );
    }
    format!(
        "growing has {} of the weight ({} are needed), bounded {} ({})",
        percent(weights.growing),
        percent(rules.growing_from),
        percent(weights.bounded()),
        percent(rules.bounded_from)
    )
}

fn rule_of(label: Label, growth: f64, rules: &Rules) -> String {
    let bar = 100.0 * rules.growth_share;
    // To the digit that is said, and no zero below nothing.
    let share = (1_000.0 * growth).round() / 10.0 + 0.0;
    match label {
        Label::Growing => format!(
            "probably {bar:.0} % higher one more window ahead; unbounded growth adds {share:.1} % in this one"
        ),
        Label::Plateauing => "rose, and bends towards a bound within the window".to_owned(),
        Label::Sawtooth => {
            format!("bounded and periodic; the trend adds {share:.1} % of the level")
        }
        Label::Stepped => format!("shifts of level with a trend of {share:.1} % between them"),
        _ => format!(
            "the trend adds {share:.1} % of the level; {bar:.0} % higher one more window ahead is not likely"
        ),
    }
}

/// How much longer at this rate of samples. The spread of growth over the window shrinks at least with the
/// square root of the window, and the growth itself is proportional to it.
fn needs(said: &Opinion, rules: &Rules) -> String {
    let growth = said.growth_share.mean();
    let spread = said.growth_share.sd();
    let gap = (growth - rules.growth_share)
        .abs()
        .max(0.25 * rules.growth_share);
    let factor = (1.65 * spread / gap).powf(2.0 / 3.0).clamp(1.25, 8.0);
    let factor = if said.weights.open > 0.3 {
        factor.max(2.0)
    } else {
        factor
    };
    format!(
        "{} at this rate of samples",
        more(said.window_s * (factor - 1.0))
    )
}

/// "3.5 more hours".
fn more(seconds: f64) -> String {
    let (number, word) = in_unit(seconds);
    format!("{number:.1} more {word}")
}

/// "3.5 hours".
fn time(seconds: f64) -> String {
    let (number, word) = in_unit(seconds);
    format!("{number:.1} {word}")
}

/// In the unit that reads best.
fn in_unit(seconds: f64) -> (f64, &'static str) {
    let (unit, word) = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")]
        .into_iter()
        .find(|(unit, _)| seconds >= 2.0 * unit)
        .unwrap_or((1.0, "seconds"));
    (seconds / unit, word)
}
