//! What is said of all series together, in any form: findings, series, arms, pairs.

use std::collections::BTreeMap;

use anyhow::Result;

use super::given::Given;
use super::held::{Held, audit_input, join_moved};
use super::pairs;
use super::picture;
use super::pile::Pile;
use crate::analyse::series::Series;
use crate::cli::exit::Usage;
use crate::verdict::arm::{self, ArmVerdict, PairVerdict};
use crate::verdict::audit::{
    AuditInput, Check, Finding, Severity, at_uptime, audit, equal_uptime_s, survivors,
};
use crate::verdict::series::SeriesVerdict;

/// The answer, ready to be written.
#[derive(Default)]
pub struct Answer {
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
    let held = join_moved(held);
    let input = audit_input(&held, args.control.clone(), given.until);
    let findings = audit(&input);
    check_room(given, held.len())?;
    let (arms, drawn) = judge_arms(given, &held, &input, &findings);
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

/// On all cores, in order.
fn judge_all(given: &Given, held: &[Held]) -> Vec<SeriesVerdict> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = held.len().div_ceil(cores).max(1);
    let of = |h: &Held| h.judge(given);
    std::thread::scope(|scope| {
        let parts: Vec<_> = held
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().flat_map(of).collect::<Vec<_>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_default())
            .collect()
    })
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
    input: &AuditInput,
    found: &[Finding],
) -> (Vec<JudgedArm>, Vec<(Series, SeriesVerdict)>) {
    let known: BTreeMap<&str, &Held> = held.iter().map(|h| (h.id.as_str(), h)).collect();
    let mut drawn = Vec::new();
    let left = survivors(input, found);
    let arms = left
        .into_iter()
        .map(|mut s| {
            for p in &mut s.processes {
                let limit = known.get(p.id.as_str()).and_then(|h| h.limit);
                p.limit = given.limit(&p.id, limit);
                p.restarts_s.extend(given.restarts_s(&p.id));
                p.restarts_s.sort_by(f64::total_cmp);
                p.restarts_s.dedup();
            }
            let verdict = arm::judge(&s.arm, &s.processes, &given.rules);
            if given.args.draws() {
                drawn.extend(s.processes.into_iter().zip(verdict.processes.clone()));
            }
            JudgedArm {
                verdict,
                refused: s.refused,
            }
        })
        .collect();
    (arms, drawn)
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
        Some(equal_s) => at_equal_uptime(given, input, found, equal_s),
        None => arms.iter().map(|a| a.verdict.clone()).collect(),
    };
    let mut pairs = pairs::compare(&young, &wanted, &given.rules);
    if let Some(s) = equal_s {
        for pair in &mut pairs {
            pair.words += &format!(", at equal uptime ({:.1} h)", s / 3600.0);
        }
    }
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

fn at_equal_uptime(
    given: &Given,
    input: &AuditInput,
    found: &[Finding],
    equal_s: f64,
) -> Vec<ArmVerdict> {
    let cut = |p: &Series| at_uptime(p, equal_s);
    survivors(input, found)
        .iter()
        .map(|s| {
            let young: Vec<Series> = s.processes.iter().map(cut).collect();
            arm::judge(&s.arm, &young, &given.rules)
        })
        .collect()
}
