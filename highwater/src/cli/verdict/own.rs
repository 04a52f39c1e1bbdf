//! A run of ours: judged by the code of `run` and `report`, said in their words.

use anyhow::{Context, Result};

use super::answer::{Answer, JudgedArm, of_backtest};
use super::given::{Given, Until};
use super::held::judge_parts;
use super::pairs;
use crate::cli::exit::Usage;
use observe::metric;
use observe::snapshot::TimeNs;
use record::run::{Process, Run};
use record::{Folder, ReadOptions, Reader};
use series::arms::{ArmSeries, arm_series, seconds_between};
use series::series::Series;
use verdict::arm::ArmVerdict;
use verdict::audit::{Finding, Severity, audit};
use verdict::pair::PairVerdict;
use verdict::run::judge::judge_run;
use verdict::run::{RunVerdict, audited};
use verdict::series::SeriesVerdict;

/// Reads and judges a run, whether it is over or not.
///
/// # Errors
/// The record cannot be read; the message says what is wrong with it and what to do.
pub fn judge(given: &Given, folder: &Folder) -> Result<Answer> {
    if given.args.meta.is_some() {
        let words = "--meta is for series from elsewhere; a run knows its restarts, and --limit sets a limit";
        return Err(Usage(words.to_owned()).into());
    }
    let reading = || format!("reading run {}", folder.id());
    let mut run = Reader::read(folder, &ReadOptions::default()).with_context(reading)?;
    if let Some(until) = given.until {
        cut(&mut run, until)?;
    }
    if let Some(limit) = given.args.limit {
        run.experiment.subject.memory_limit = Some(limit);
    }
    of_run(given, &run)
}

fn of_run(given: &Given, run: &Run) -> Result<Answer> {
    if let Some(hidden) = given.args.backtest {
        let arms = arm_series(run, metric::RSS.name, run.experiment.warmup);
        let series = arms.iter().flat_map(ArmSeries::joined);
        let series: Vec<Series> = series.filter(|s| given.wants(&s.id, &s.id)).collect();
        if series.is_empty() {
            let words = "--only: no process of this run is called so";
            return Err(Usage(words.to_owned()).into());
        }
        return Ok(of_backtest(given, &series, hidden));
    }
    let verdict = judge_run(run, &given.rules);
    let findings = audit(&audited::input(run));
    let arms: Vec<JudgedArm> = verdict
        .arms
        .iter()
        .filter(|row| !row.memory.processes.is_empty())
        .map(|row| JudgedArm {
            verdict: only(given, &row.memory),
            refused: is_refused(&findings, &row.arm),
        })
        .collect();
    let pairs = pairs_of(given, run, &verdict)?;
    check_only(given, &arms)?;
    Ok(Answer {
        headline: std::iter::once(verdict.headline)
            .chain(verdict.needs.map(|needs| format!("To decide it: {needs}.")))
            .collect(),
        series: parts(given, run),
        drawn: match given.args.draws() {
            true => drawn(given, run, &arms),
            false => Vec::new(),
        },
        findings,
        arms,
        pairs,
        ..Answer::default()
    })
}

fn is_refused(findings: &[Finding], arm: &str) -> bool {
    let refuses = |f: &&Finding| f.severity == Severity::Refuses;
    findings
        .iter()
        .filter(refuses)
        .any(|f| f.arms.iter().any(|a| a == arm))
}

/// The processes that `--only` leaves in are shown; the arm is judged with all of them.
fn only(given: &Given, arm: &ArmVerdict) -> ArmVerdict {
    let mut shown = arm.clone();
    shown.processes.retain(|p| given.wants(&p.id, &arm.arm));
    shown
}

fn check_only(given: &Given, arms: &[JudgedArm]) -> Result<()> {
    let known = |id: &&String| {
        let is = |a: &JudgedArm| {
            a.verdict.arm == **id || a.verdict.processes.iter().any(|p| p.id == **id)
        };
        arms.iter().any(is)
    };
    match given.args.only.iter().find(|id| !known(id)) {
        Some(id) => Err(Usage(format!(
            "--only {id}: no arm and no process of this run is called so"
        ))
        .into()),
        None => Ok(()),
    }
}

/// Those of the report, unless others are asked for.
fn pairs_of(given: &Given, run: &Run, verdict: &RunVerdict) -> Result<Vec<PairVerdict>> {
    let args = given.args;
    if args.pairs.is_empty() && !args.all_pairs && args.control.is_none() {
        return Ok(verdict.pairs.clone());
    }
    let arms: Vec<ArmVerdict> = verdict.arms.iter().map(|row| row.memory.clone()).collect();
    let names: Vec<&str> = arms.iter().map(|a| a.arm.as_str()).collect();
    let wanted = pairs::wanted(args, &names)?;
    let rules = given.rules.for_experiment(&run.experiment);
    Ok(pairs::compare(&arms, &wanted, &rules))
}

fn parts(given: &Given, run: &Run) -> Vec<SeriesVerdict> {
    if given.args.at.is_empty() {
        return Vec::new();
    }
    arm_series(run, metric::RSS.name, run.experiment.warmup)
        .iter()
        .flat_map(|arm| &arm.replicas)
        .filter(|replica| given.wants(&replica.id, &replica.id))
        .flat_map(|replica| judge_parts(&replica.joined, &given.args.at, &given.rules))
        .collect()
}

/// Every process as it was judged, for a picture.
fn drawn(given: &Given, run: &Run, arms: &[JudgedArm]) -> Vec<(Series, SeriesVerdict)> {
    let said = |id: &str| {
        let all = arms.iter().flat_map(|arm| &arm.verdict.processes);
        all.into_iter().find(|v| v.id == id).cloned()
    };
    arm_series(run, metric::RSS.name, run.experiment.warmup)
        .into_iter()
        .flat_map(|arm| arm.replicas)
        .filter(|replica| given.wants(&replica.id, &replica.id))
        .filter_map(|replica| Some((replica.joined, said(&replica.id)?)))
        .collect()
}

/// The run as it was at `until`: seconds since it began, or an instant.
fn cut(run: &mut Run, until: Until) -> Result<()> {
    let begun_s = run.begun.0 as f64 / 1e9;
    let since = until.end_s(begun_s) - begun_s;
    if since < 0.0 {
        return Err(Usage("--until lies before the run began".to_owned()).into());
    }
    let end = TimeNs(
        run.begun
            .0
            .saturating_add((since.clamp(0.0, 1e9) * 1e9) as i64),
    );
    if end >= run.last {
        return Ok(());
    }
    run.last = end;
    run.end = None;
    run.events.retain(|event| event.time <= end);
    run.processes.retain(|process| process.started <= end);
    run.processes.iter_mut().for_each(|p| cut_process(p, end));
    debug_assert!(seconds_between(run.begun, run.last) <= since + 1.0);
    Ok(())
}

fn cut_process(process: &mut Process, end: TimeNs) {
    if process.ended.is_some_and(|ended| ended > end) {
        (process.ended, process.exit) = (None, None);
    }
    for samples in process.samples.values_mut() {
        samples.retain(|(time, _)| *time <= end);
    }
    for facts in process.facts.values_mut() {
        facts.retain(|(time, _)| *time <= end);
    }
    process.histograms.retain(|row| row.end <= end);
}
