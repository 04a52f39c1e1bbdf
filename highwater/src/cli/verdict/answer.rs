//! What is said of all series together, in any form: findings, series, arms, pairs.

use std::collections::BTreeMap;

use anyhow::Result;

use super::cores;
use super::given::Given;
use super::held::{Held, audit_input, join_moved};
use super::pairs;
use super::picture;
use super::pile::Pile;
use crate::cli::exit::Usage;
use series::series::Series;
use verdict::arm;
use verdict::arm::ArmVerdict;
use verdict::audit::{
    AuditInput, Check, Finding, Severity, Survivor, audit, equal_uptime_s, survivors, survivors_at,
};
use verdict::backtest;
use verdict::backtest::Backtest;
use verdict::pair::PairVerdict;
use verdict::series::{SeriesVerdict, judge};

/// The answer, ready to be written.
#[derive(Default)]
pub struct Answer {
    /// In place of all others, where one was asked for.
    pub backtest: Option<Backtest>,
    /// Of a run: the sentences at the top of its report.
    pub headline: Vec<String>,
    pub findings: Vec<Finding>,
    /// Series that were not judged as they came, in order: those without arms, and parts of series.
    pub series: Vec<SeriesVerdict>,
    pub arms: Vec<JudgedArm>,
    pub pairs: Vec<PairVerdict>,
    /// Labels of a fleet's series, by id.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Series that were judged as they came.
    pub pile: Pile,
    /// For a picture: every series as it was judged.
    pub drawn: Vec<(Series, SeriesVerdict)>,
}

/// An arm, and whether the audit refuses it as it was meant.
pub struct JudgedArm {
    pub verdict: ArmVerdict,
    pub refused: bool,
}

impl Answer {
    /// Whether the audit refuses any arm.
    pub fn is_refused(&self) -> bool {
        let refuses = |f: &Finding| f.severity == Severity::Refuses;
        self.findings.iter().any(refuses)
    }
}

/// Judges what was held: audit, arms and pairs where there are arms, else each series.
///
/// # Errors
/// Arms or pairs were asked for that are not there.
pub fn of_held(given: &Given, held: Vec<Held>) -> Result<Answer> {
    let args = given.args;
    if let Some(hidden) = args.backtest {
        let series: Vec<Series> = held.iter().map(|h| h.series(given)).collect();
        return Ok(of_backtest(given, &series, hidden));
    }
    let has_arms = held
        .iter()
        .any(|h| h.arms.iter().any(|(_, a)| !a.is_empty()));
    let labels = labels_of(&held);
    if !has_arms {
        if args.wants_arms() {
            let words = "no series has an arm; name its column with --arm-column or its label with \
                         --arm-label, or give --groups";
            return Err(Usage(words.to_owned()).into());
        }
        check_room(given, held.len())?;
        let series = judge_all(given, &held);
        return Ok(Answer {
            drawn: match args.draws() {
                true => held
                    .iter()
                    .map(|h| h.series(given))
                    .zip(series.clone())
                    .collect(),
                false => Vec::new(),
            },
            series,
            labels,
            ..Answer::default()
        });
    }
    let mut held = join_moved(held);
    for h in &mut held {
        // What is told beside the readings is as good as a column of starts.
        h.starts_s.extend(given.restarts_s(&h.id));
        h.starts_s.sort_by(f64::total_cmp);
    }
    let input = audit_input(&held, args.control.clone(), given.until);
    let findings = audit(&input);
    let left = survivors(&input, &findings);
    check_room(given, left.iter().map(|s| s.processes.len()).sum())?;
    let (arms, drawn) = judge_arms(given, &held, left);
    let pairs = compare(given, &input, &findings, &arms)?;
    Ok(Answer {
        series: parts(given, &held),
        findings,
        arms,
        pairs,
        labels,
        drawn,
        ..Answer::default()
    })
}

/// Forecasts of these series, each with its last part hidden, and nothing else.
pub fn of_backtest(given: &Given, series: &[Series], hidden: f64) -> Answer {
    let tried = cores::on_all(series, |s| backtest::try_on(s, hidden, &given.rules));
    Answer {
        backtest: Some(Backtest::of(&tried)),
        ..Answer::default()
    }
}

/// Whether a picture can hold them, before the work is done.
fn check_room(given: &Given, count: usize) -> Result<()> {
    match given.args.draws() {
        true => picture::check_room(count),
        false => Ok(()),
    }
}

fn labels_of(held: &[Held]) -> BTreeMap<String, BTreeMap<String, String>> {
    held.iter()
        .filter(|h| !h.labels.is_empty())
        .map(|h| (h.id.clone(), h.labels.clone()))
        .collect()
}

fn judge_all(given: &Given, held: &[Held]) -> Vec<SeriesVerdict> {
    let each = cores::on_all(held, |h| h.judge(given));
    each.into_iter().flatten().collect()
}

/// The arms by their processes, which are judged on all cores.
fn judge_survivors(left: &[Survivor], given: &Given) -> Vec<ArmVerdict> {
    let all: Vec<&Series> = left.iter().flat_map(|s| &s.processes).collect();
    let mut each = cores::on_all(&all, |p| judge(p, &given.rules)).into_iter();
    let of = |s: &Survivor| {
        let own = each.by_ref().take(s.processes.len()).collect();
        arm::of_judged(&s.arm, own, &given.rules)
    };
    left.iter().map(of).collect()
}

/// The parts of each series that `--at` asks for; the arms are judged whole.
fn parts(given: &Given, held: &[Held]) -> Vec<SeriesVerdict> {
    match given.args.at.is_empty() {
        true => Vec::new(),
        false => judge_all(given, held),
    }
}

fn judge_arms(
    given: &Given,
    held: &[Held],
    mut left: Vec<Survivor>,
) -> (Vec<JudgedArm>, Vec<(Series, SeriesVerdict)>) {
    let known: BTreeMap<&str, &Held> = held.iter().map(|h| (h.id.as_str(), h)).collect();
    let mut drawn = Vec::new();
    for p in left.iter_mut().flat_map(|s| &mut s.processes) {
        let limit = known.get(p.id.as_str()).and_then(|h| h.limit);
        p.limit = given.limit(&p.id, limit);
    }
    let verdicts = judge_survivors(&left, given);
    for (s, verdict) in left
        .iter_mut()
        .zip(&verdicts)
        .filter(|_| given.args.draws())
    {
        let series = std::mem::take(&mut s.processes);
        drawn.extend(series.into_iter().zip(verdict.processes.clone()));
    }
    let judged = verdicts.into_iter().zip(left);
    let arms = judged.map(|(verdict, s)| JudgedArm {
        verdict,
        refused: s.refused,
    });
    (arms.collect(), drawn)
}

/// The pairs asked for; at equal uptime where the audit found unequal ones.
fn compare(
    given: &Given,
    input: &AuditInput,
    found: &[Finding],
    arms: &[JudgedArm],
) -> Result<Vec<PairVerdict>> {
    let names: Vec<&str> = arms.iter().map(|a| a.verdict.arm.as_str()).collect();
    let wanted = pairs::wanted(given.args, &names)?;
    let uneven = found.iter().any(|f| f.check == Check::Uptimes);
    let equal_s = equal_uptime_s(input).filter(|_| uneven && !wanted.is_empty());
    let young: Vec<ArmVerdict> = match equal_s {
        Some(equal_s) => judge_survivors(&survivors_at(input, found, equal_s), given),
        None => arms.iter().map(|a| a.verdict.clone()).collect(),
    };
    let mut pairs = pairs::compare(&young, &wanted, &given.rules);
    let ages = match equal_s {
        Some(s) => format!(", at equal uptime ({:.1} h)", s / 3600.0),
        None if uneven => {
            ", at one date: there is no age at which every arm was watched".to_owned()
        }
        None => String::new(),
    };
    pairs.iter_mut().for_each(|pair| pair.words += &ages);
    pairs.iter_mut().for_each(|pair| distrust(pair, found));
    Ok(pairs)
}

/// A ratio that the audit explains by the load, or by a unit, decides nothing.
fn distrust(pair: &mut PairVerdict, found: &[Finding]) {
    let of_pair = |f: &&Finding| f.arms.iter().any(|arm| *arm == pair.a || *arm == pair.b);
    let whole = |f: &&Finding| match f.check {
        Check::Load => true,
        Check::Units => f.processes.is_empty(),
        _ => false,
    };
    let refusing = found.iter().filter(|f| f.severity == Severity::Refuses);
    let Some(why) = refusing.filter(whole).find(of_pair) else {
        return;
    };
    pair.decided = false;
    pair.needs = Some(match why.check {
        Check::Load => "the same load on both arms".to_owned(),
        _ => "both arms in one unit".to_owned(),
    });
    pair.words += &format!("; the audit distrusts it: {}", why.what);
}
