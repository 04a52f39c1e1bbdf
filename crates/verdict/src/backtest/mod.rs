//! Forecasts held against what came: the last part of each series is hidden, and forecast from the rest.
//!
//! In: series. Out: how often the 95 % intervals held the level that came, how wide they were, and how often *growing*
//! was followed by a rise; of this model and of the rules that people use, on the same series.

pub mod rules;
#[cfg(test)]
mod tests;

use serde::Serialize;

use self::rules::{RISE, RULES, Said, last_eighth};
use super::series::judge;
use super::{Label, Rules};
use series::clean::clean;
use series::forecast::Forecast;
use series::mixture::Mixture;
use series::order::median;
use series::series::Series;

/// The level that is to be forecast is the median of the last third of what was hidden.
const TARGET: f64 = 1.0 / 3.0;
/// Fewer readings on either side show nothing.
const KNOWN_MIN: usize = 12;
const HIDDEN_MIN: usize = 3;
/// For the ranked probability score.
const QUANTILES: usize = 19;
/// The forecast, with the label of the verdict; and what the forecast itself would call growing.
const NAME: &str = "highwater";
const LIKELY: &str = "highwater, a rise by 3 % is likely";

/// One way to forecast, over all series. Shares are of the level at the end of what was known.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    /// Series of which it forecast the level; the next four are over those of which all ways did.
    pub forecasts: usize,
    /// Share of those whose level was within the 95 % interval.
    pub covered: f64,
    /// Median width of the interval.
    pub width: f64,
    /// Mean interval score (Gneiting and Raftery 2007): the width, and 40 times what a level lies outside.
    pub interval_score: f64,
    /// Mean continuous ranked probability score.
    pub crps: f64,
    /// Series that it called growing, and those of them whose level was higher by [`RISE`] or more.
    pub called: usize,
    pub called_rose: usize,
}

/// All ways on the same series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Backtest {
    pub series: usize,
    /// With too few readings before or after.
    pub left_out: usize,
    /// Whose level every way that forecasts one did.
    pub compared: usize,
    /// Whose level was higher by [`RISE`] or more.
    pub rose: usize,
    pub rows: Vec<Row>,
}

/// The series up to a moment, and what came.
struct Split {
    known: Series,
    /// Seconds after the last known reading between which the level is asked for.
    from_s: f64,
    to_s: f64,
    /// At the end of what is known.
    base: f64,
    came: f64,
}

/// One series under every way: [`NAME`] and [`LIKELY`] first, then [`RULES`].
pub struct Tried {
    rose: bool,
    ways: Vec<Scored>,
}

struct Scored {
    grows: bool,
    level: Option<Score>,
}

/// Shares of the level at the end of what was known.
struct Score {
    is_covered: bool,
    width: f64,
    interval_score: f64,
    crps: f64,
}

/// Hides the last `hidden` (a share of the time) of a series. `None`: there are too few readings.
pub fn try_on(series: &Series, hidden: f64, rules: &Rules) -> Option<Tried> {
    let split = split(series, hidden)?;
    let middle_s = 0.5 * (split.from_s + split.to_s);
    let others = RULES
        .iter()
        .map(|(_, rule)| rule(&split.known.points, middle_s));
    let own = said(&split, rules);
    let likely = Said {
        grows: own.level.below((1.0 + RISE) * split.base) < 0.5 && !own.level.is_empty(),
        ..Said::default()
    };
    let all = [own, likely].into_iter().chain(others);
    let scored = |said: Said| Scored {
        grows: said.grows,
        level: score(&said.level, &split),
    };
    Some(Tried {
        rose: split.came >= (1.0 + RISE) * split.base,
        ways: all.map(scored).collect(),
    })
}

impl Backtest {
    /// Of all series that were tried.
    pub fn of(all: &[Option<Tried>]) -> Backtest {
        let tried: Vec<&Tried> = all.iter().flatten().collect();
        let forecasts = |at: usize| tried.iter().any(|t| t.ways[at].level.is_some());
        let ways = 0..tried.first().map_or(0, |t| t.ways.len());
        let forecasting: Vec<usize> = ways.filter(|at| forecasts(*at)).collect();
        let is_whole = |t: &&Tried| forecasting.iter().all(|at| t.ways[*at].level.is_some());
        let compared: Vec<&Tried> = tried.iter().copied().filter(is_whole).collect();
        let rules = RULES.iter().map(|(name, _)| *name);
        let names = [NAME, LIKELY].into_iter().chain(rules);
        Backtest {
            series: tried.len(),
            left_out: all.len() - tried.len(),
            compared: compared.len(),
            rose: tried.iter().filter(|t| t.rose).count(),
            rows: names
                .enumerate()
                .map(|(at, name)| row(name, (&tried, &compared), at))
                .collect(),
        }
    }
}

fn row(name: &str, (tried, compared): (&[&Tried], &[&Tried]), at: usize) -> Row {
    let called = tried.iter().filter(|t| t.ways[at].grows);
    let forecasts = tried.iter().filter(|t| t.ways[at].level.is_some());
    let scores = compared.iter().filter_map(|t| t.ways[at].level.as_ref());
    let scores: Vec<&Score> = scores.collect();
    let mean = |value: fn(&Score) -> f64| {
        scores.iter().map(|s| value(s)).sum::<f64>() / scores.len().max(1) as f64
    };
    Row {
        name: name.to_owned(),
        forecasts: forecasts.count(),
        covered: mean(|s| f64::from(u8::from(s.is_covered))),
        width: median(&scores.iter().map(|s| s.width).collect::<Vec<_>>()),
        interval_score: mean(|s| s.interval_score),
        crps: mean(|s| s.crps),
        called_rose: called.clone().filter(|t| t.rose).count(),
        called: called.count(),
    }
}

/// `None`: the way forecasts no level.
fn score(level: &Mixture, split: &Split) -> Option<Score> {
    if level.is_empty() {
        return None;
    }
    let (lo, hi) = (level.quantile(0.025), level.quantile(0.975));
    if lo.is_nan() || hi.is_nan() {
        return None;
    }
    let outside = (lo - split.came).max(split.came - hi).max(0.0);
    let loss = |at: usize| {
        let q = at as f64 / (QUANTILES + 1) as f64;
        let off = split.came - level.quantile(q);
        if off >= 0.0 { q * off } else { (q - 1.0) * off }
    };
    let crps = 2.0 * (1..=QUANTILES).map(loss).sum::<f64>() / QUANTILES as f64;
    Some(Score {
        is_covered: outside == 0.0,
        width: (hi - lo) / split.base,
        interval_score: (hi - lo + 40.0 * outside) / split.base,
        crps: crps / split.base,
    })
}

fn split(series: &Series, hidden: f64) -> Option<Split> {
    let points = clean(series).points;
    let (first, last) = (points.first()?, points.last()?);
    let end_s = last.t_s - hidden * (last.t_s - first.t_s);
    let known = points.partition_point(|p| p.t_s <= end_s);
    let from_s = last.t_s - TARGET * (last.t_s - end_s);
    let came: Vec<f64> = points[known..]
        .iter()
        .filter(|p| p.t_s >= from_s)
        .map(|p| p.value)
        .collect();
    if known < KNOWN_MIN || came.len() < HIDDEN_MIN {
        return None;
    }
    let now_s = points[known - 1].t_s;
    let points = points[..known].to_vec();
    let base = median(&last_eighth(&points));
    Some(Split {
        known: Series {
            id: series.id.clone(),
            restarts_s: series
                .restarts_s
                .iter()
                .copied()
                .filter(|t| *t <= end_s)
                .collect(),
            points,
            limit: series.limit,
        },
        base,
        came: median(&came),
        from_s: from_s - now_s,
        to_s: last.t_s - now_s,
    })
}

/// Of the incarnation that runs, where it has been watched for as long as is forecast; else of all readings: nothing is
/// told further ahead than it was watched.
fn said(split: &Split, rules: &Rules) -> Said {
    let verdict = judge(&split.known, rules);
    let now_s = split.known.points.last().map_or(0.0, |p| p.t_s);
    let since_s = verdict.evidence.get("judged_from_s").copied();
    let since_s = since_s.filter(|t_s| now_s - t_s >= split.to_s);
    let from = since_s.map_or(0, |t_s| split.known.points.partition_point(|p| p.t_s < t_s));
    let stretch_s = split.to_s - split.from_s;
    let level = Forecast::of(&split.known.points[from..], stretch_s);
    let level = level.map(|f| f.level(split.from_s, split.to_s));
    Said {
        level: level.unwrap_or_default(),
        grows: verdict.label == Label::Growing,
    }
}
