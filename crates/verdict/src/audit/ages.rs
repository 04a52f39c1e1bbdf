//! How old each process is: restarts, late comers, arms of unequal uptime.

use super::readings::own_interval;
use super::settled::settled;
use super::{AuditInput, Check, Finding, ProcessFacts, Severity, names, span};
use series::clean::clean;
use series::incarnation::{Fall, climbs_around, falls};
use series::order::median;
use series::sawtooth::by_threshold;
use series::series::{Point, Series};

/// A high-water mark never falls while a process lives; this share allows for rounding.
const HWM_FALL: f64 = 0.02;
/// A mark that falls at more than this share of the snapshots is none, unless at half of them the resident set falls by
/// more than the second share.
const MARK_FALLS: f64 = 0.1;
const MARK_WITH_RSS: f64 = 0.1;
/// Without high-water marks, more falls than this are a saw, not restarts.
const FALLS_MAX: usize = 3;
/// Without high-water marks a restart must lose this share of the level.
const FALL_LEVEL: f64 = 0.4;
/// Or, where it loses less, lead back to within this share of its height of where the record began.
const BACK_SHARE: f64 = 0.2;
/// Uptimes of arms that differ by this share are unequal.
const UPTIME_SHARE: f64 = 0.2;

/// Births of a process after the first snapshot: known starts, or inferred from falls of the high-water mark
/// (of the resident set, where there are no marks). In order, on the clock of the snapshots.
pub fn births(p: &ProcessFacts, first_snapshot_s: f64) -> Vec<f64> {
    if !p.starts_s.is_empty() {
        return p
            .starts_s
            .iter()
            .copied()
            .filter(|s| *s > first_snapshot_s)
            .collect();
    }
    if has_marks(p) {
        return mark_falls(p);
    }
    rss_falls(p)
}

/// Deep falls of the resident set that last: single readings that are wrong are no births, nor may the last one be.
fn rss_falls(p: &ProcessFacts) -> Vec<f64> {
    let readings = clean(&Series {
        points: p.rss.clone(),
        ..Series::default()
    });
    let points = readings.points;
    let sudden = falls(&points);
    if sudden.len() > FALLS_MAX {
        return Vec::new();
    }
    let anew = begins_anew(&points, &sudden);
    let reborn = sudden
        .iter()
        .filter(|f| anew || f.floor < (1.0 - FALL_LEVEL) * f.peak)
        // The last reading alone is no restart yet.
        .filter(|f| f.after + 1 < points.len());
    reborn.map(|f| points[f.after].t_s).collect()
}

/// Whether shallower falls are restarts: each leads back to where the record began, from a climb or to one, and their
/// heights are not those of a collector's threshold.
fn begins_anew(rss: &[Point], sudden: &[Fall]) -> bool {
    let (Some(first), Some(last)) = (rss.first(), rss.last()) else {
        return false;
    };
    let back = |f: &Fall| (f.floor - first.value).abs() <= BACK_SHARE * (f.peak - first.value);
    let now = sudden.last().map_or(0.0, |f| last.value - f.floor);
    let saw = || by_threshold(sudden, now) >= 0.5;
    sudden.iter().all(back) && climbs_around(rss, sudden) && !saw()
}

/// Looks at which a mark fell. Of several processes under one name the lowest mark is compared with the lowest, and so
/// on: when one of them is born anew, one of these falls; where one is missing nothing can be told.
fn mark_falls(p: &ProcessFacts) -> Vec<f64> {
    let mut before: Vec<f64> = Vec::new();
    let mut born = Vec::new();
    for snapshot in p.hwm.chunk_by(|a, b| a.t_s == b.t_s) {
        let mut marks: Vec<f64> = snapshot.iter().map(|m| m.value).collect();
        marks.sort_by(f64::total_cmp);
        let mut pairs = before.iter().zip(&marks);
        if before.len() == marks.len() && pairs.any(|(old, new)| *new < (1.0 - HWM_FALL) * old) {
            born.push(snapshot[0].t_s);
        }
        before = marks;
    }
    born
}

/// Whether what is called a high-water mark is one: the highest since the last snapshot falls at every other snapshot,
/// and the resident set does not fall with it.
fn has_marks(p: &ProcessFacts) -> bool {
    let steps = p.hwm.len().saturating_sub(1);
    let falls = mark_falls(p);
    let few = falls.len() as f64 <= (MARK_FALLS * steps as f64).max(FALLS_MAX as f64);
    let lower = falls.iter().filter(|t_s| fell(&p.rss, **t_s)).count();
    steps > 0 && (few || 2 * lower >= falls.len())
}

/// Whether the reading at this instant is well below the one before it.
fn fell(rss: &[Point], t_s: f64) -> bool {
    let at = rss.partition_point(|p| p.t_s < t_s);
    at > 0 && at < rss.len() && rss[at].value < (1.0 - MARK_WITH_RSS) * rss[at - 1].value
}

/// Restarts within the window, by arm.
pub fn restarted(input: &AuditInput) -> Vec<Finding> {
    let Some(first) = input.snapshots_s.first().copied() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (arm, processes) in input.by_arm() {
        let born: Vec<(&ProcessFacts, Vec<f64>)> = processes
            .iter()
            .map(|p| (*p, births(p, first)))
            .filter(|(p, b)| b.iter().any(|t| p.rss.first().is_some_and(|f| *t > f.t_s)))
            .collect();
        if born.is_empty() {
            continue;
        }
        let ids: Vec<String> = born.iter().map(|(p, _)| p.id.clone()).collect();
        let times: usize = born.iter().map(|(_, b)| b.len()).sum();
        let since = born
            .iter()
            .flat_map(|(_, b)| b)
            .copied()
            .fold(f64::INFINITY, f64::min);
        let how = if born.iter().all(|(p, _)| !p.starts_s.is_empty()) {
            "by their start times"
        } else if born.iter().all(|(p, _)| has_marks(p)) {
            "by falls of their high-water marks"
        } else {
            "by falls of their resident sets"
        };
        found.push(Finding {
            check: Check::Restarted,
            severity: Severity::Weakens,
            arms: vec![arm.to_owned()],
            what: format!(
                "{} of {} processes of {arm} restarted, {} in all ({how}): {}",
                ids.len(),
                processes.len(),
                if times == 1 {
                    "once".to_owned()
                } else {
                    format!("{times} times")
                },
                names(&ids)
            ),
            processes: ids,
            since_s: Some(since),
            effect: "a restart looks like memory given back, and hides growth".to_owned(),
            still: "level and slope are of what runs now; earlier incarnations count on their own uptime, where \
                    they were alike"
                .to_owned(),
        });
    }
    found
}

/// A process is late by so many snapshots, or by so many of its own intervals.
const LATE_SNAPSHOTS: f64 = 2.5;
/// One that misses many snapshots may have missed the first ones, with at least this chance.
const ACCIDENT: f64 = 1e-3;

/// Whether a process that is first seen at `began_s` may have been there before, and missed the snapshots.
fn is_accident(input: &AuditInput, p: &ProcessFacts, began_s: f64) -> bool {
    let late_s = began_s - input.snapshots_s.first().copied().unwrap_or(began_s);
    if own_interval(p).is_some_and(|own| late_s > LATE_SNAPSHOTS * own) {
        return false;
    }
    let before = input.snapshots_s.partition_point(|t_s| *t_s < began_s);
    let since = (input.snapshots_s.len() - before).max(1);
    let missed = (1.0 - p.rss.len() as f64 / since as f64).max(0.0);
    missed.powf(before as f64) > ACCIDENT
}

/// Processes first seen well after the first snapshot.
pub fn added(input: &AuditInput) -> Vec<Finding> {
    let Some(first) = input.snapshots_s.first().copied() else {
        return Vec::new();
    };
    let late = first + (0.05 * input.span_s()).max(LATE_SNAPSHOTS * input.interval_s());
    let mut found = Vec::new();
    for (arm, processes) in input.by_arm() {
        let began: Vec<(&ProcessFacts, f64)> = processes
            .iter()
            .filter_map(|p| Some((*p, p.rss.first()?.t_s)))
            .filter(|(p, t_s)| *t_s > late && !is_accident(input, p, *t_s))
            .collect();
        if began.is_empty() {
            continue;
        }
        let ids: Vec<String> = began.iter().map(|(p, _)| p.id.clone()).collect();
        let since = began.iter().map(|b| b.1).fold(f64::INFINITY, f64::min);
        let whole = ids.len() == processes.len();
        found.push(Finding {
            check: Check::Added,
            severity: Severity::Weakens,
            arms: vec![arm.to_owned()],
            what: format!(
                "{} of {} processes of {arm} were first seen {} after the first snapshot: {}",
                ids.len(),
                processes.len(),
                span(since - first),
                names(&ids)
            ),
            processes: ids,
            since_s: Some(since),
            effect: if whole {
                "the whole arm is younger than the others".to_owned()
            } else {
                "the arm mixes ages".to_owned()
            },
            still: "compared at equal uptime".to_owned(),
        });
    }
    found
}

/// Age at the end of each process: since its last birth, or since it was first seen. One that is looked at no more is
/// not younger for it.
fn age_s(input: &AuditInput, p: &ProcessFacts) -> Option<f64> {
    let first = *input.snapshots_s.first()?;
    let seen_last = p.rss.last()?.t_s;
    let end = p.until_s.and(input.snapshots_s.last().copied());
    let last = end.unwrap_or(seen_last);
    let known = p
        .starts_s
        .iter()
        .copied()
        .filter(|s| *s <= last)
        .fold(f64::NEG_INFINITY, f64::max);
    let born = births(p, first)
        .into_iter()
        .fold(f64::NEG_INFINITY, f64::max);
    let seen = p.rss.first()?.t_s;
    let since = if known.is_finite() {
        known
    } else {
        born.max(seen)
    };
    Some(last - since)
}

/// One life of a process: when it was born, which may be before anybody looked, and from when to when it was watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) born_s: f64,
    pub(super) from_s: f64,
    /// The birth of the next, or the last reading.
    pub(super) to_s: f64,
}

impl Life {
    /// For how long it was watched up to this age, seconds; nothing or less when it was older from the first.
    pub(super) fn watched_to_s(&self, age_s: f64) -> f64 {
        // Differences first: two lives of one length must come out alike to the last bit.
        (self.to_s - self.from_s).min(age_s - (self.from_s - self.born_s))
    }
}

/// The lives of a process, in order; none without a reading.
pub(super) fn lives(p: &ProcessFacts, first_snapshot_s: f64) -> Vec<Life> {
    let (Some(first), Some(last)) = (p.rss.first(), p.rss.last()) else {
        return Vec::new();
    };
    let known = p.starts_s.iter().copied().filter(|s| *s <= first.t_s);
    let born = known.fold(f64::NEG_INFINITY, f64::max);
    let mut marks = vec![first.t_s];
    let inside = |t: &f64| *t > first.t_s && *t < last.t_s;
    marks.extend(births(p, first_snapshot_s).into_iter().filter(inside));
    marks.push(last.t_s);
    let life = |w: &[f64]| Life {
        born_s: w[0],
        from_s: w[0],
        to_s: w[1],
    };
    let mut lives: Vec<Life> = marks.windows(2).map(life).collect();
    if let Some(oldest) = lives.first_mut().filter(|_| born.is_finite()) {
        oldest.born_s = born;
    }
    lives
}

/// Arms are compared at an age up to which each was watched for so many snapshots.
const SHARED_SNAPSHOTS: f64 = 8.0;

/// Longest uptime that every arm has reached: its processes' longest incarnations, median over the arm,
/// least over arms. `None` without arms, and where some arm was never watched at such an age.
pub fn equal_uptime_s(input: &AuditInput) -> Option<f64> {
    let input = &settled(input);
    let first = *input.snapshots_s.first()?;
    let interval_s = input.interval_s();
    let arms = input.by_arm();
    let lives: Vec<Vec<Vec<Life>>> = arms
        .iter()
        .map(|(_, ps)| ps.iter().map(|p| lives(p, first)).collect())
        .collect();
    let mut equal_s = f64::INFINITY;
    // Who is too old at that age may have a life in which it was younger: that one counts from then on.
    loop {
        let least_s = (SHARED_SNAPSHOTS * interval_s).min(equal_s);
        let reached = |arm: &Vec<Vec<Life>>| {
            let each = arm.iter().map(|own| reached_s(own, equal_s, least_s));
            median(&each.collect::<Vec<_>>())
        };
        let next_s = lives.iter().map(reached).reduce(f64::min)?;
        if next_s.is_nan() || next_s <= 0.0 {
            return None;
        }
        if next_s >= equal_s {
            return Some(equal_s);
        }
        equal_s = next_s;
    }
}

/// The highest age up to `age_s` at which a process was watched, in a life that was watched for `least_s` up to
/// there; of one that was watched for less in all, the longest.
fn reached_s(lives: &[Life], age_s: f64, least_s: f64) -> f64 {
    let whole = |l: &Life| l.to_s - l.from_s;
    let longest_s = lives.iter().map(whole).fold(0.0, f64::max);
    let is_watched =
        |l: &&Life| l.watched_to_s(age_s) >= least_s.min(longest_s).max(f64::MIN_POSITIVE);
    let reached = lives
        .iter()
        .filter(is_watched)
        .map(|l| (l.to_s - l.born_s).min(age_s));
    reached.fold(0.0, f64::max)
}

/// Arms that were looked at no more well before the end, every process of them.
pub fn stopped(input: &AuditInput) -> Vec<Finding> {
    let Some(end) = input.snapshots_s.last().copied() else {
        return Vec::new();
    };
    let last = |ps: &[&ProcessFacts]| {
        let each: Option<Vec<f64>> = ps.iter().map(|p| p.until_s).collect();
        each.map(|t| t.into_iter().fold(f64::NEG_INFINITY, f64::max))
    };
    let early = input
        .by_arm()
        .into_iter()
        .filter_map(|(arm, ps)| Some((arm, last(&ps)?)))
        .filter(|(_, until)| {
            end - until > (UPTIME_SHARE * input.span_s()).max(2.0 * input.interval_s())
        });
    let found = early.map(|(arm, until)| Finding {
        check: Check::Stopped,
        severity: Severity::Weakens,
        arms: vec![arm.to_owned()],
        processes: Vec::new(),
        since_s: Some(until),
        what: format!("{arm} ended {} before the others", span(end - until)),
        effect: "what it would have come to is not known".to_owned(),
        still: "it is classified over the time that it was watched".to_owned(),
    });
    found.collect()
}

/// Arms whose processes are of different age at the end.
pub fn uptimes(input: &AuditInput) -> Vec<Finding> {
    let mut ages: Vec<(&str, f64)> = input
        .by_arm()
        .into_iter()
        .map(|(arm, ps)| {
            let each: Vec<f64> = ps.iter().filter_map(|p| age_s(input, p)).collect();
            (arm, median(&each))
        })
        .filter(|(_, age)| age.is_finite())
        .collect();
    ages.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(young), Some(old)) = (ages.first(), ages.last()) else {
        return Vec::new();
    };
    let unequal = old.1 - young.1 > UPTIME_SHARE * old.1;
    if !unequal || old.1 - young.1 < 2.0 * input.interval_s() {
        return Vec::new();
    }
    let bar = (1.0 - UPTIME_SHARE) * old.1;
    let younger: Vec<String> = ages
        .iter()
        .filter(|(_, age)| *age < bar)
        .map(|(arm, _)| (*arm).to_owned())
        .collect();
    let still = match equal_uptime_s(input) {
        Some(s) => format!(
            "arms are compared at equal uptime ({}), not at one date",
            span(s)
        ),
        None => "there is no age at which every arm was watched: levels are of one date".to_owned(),
    };
    vec![Finding {
        check: Check::Uptimes,
        severity: Severity::Weakens,
        what: format!(
            "arms are of different age at the end: {} {}, {} {}; younger: {}",
            young.0,
            span(young.1),
            old.0,
            span(old.1),
            younger.join(", ")
        ),
        arms: younger,
        processes: Vec::new(),
        since_s: None,
        effect: "at one date the younger arm looks better than it is".to_owned(),
        still,
    }]
}
