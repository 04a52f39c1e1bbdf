//! What the experiment taught beside its answer: a sentence each, only where the numbers carry it.

use super::Adopt;
use super::heap::HeapCause;
use super::phrases::{costs, cpu, level, lowest, name, slope};
use super::standing::{Change, Class, Standing};
use crate::Label;
use crate::check::CheckOutcome;
use record::run::Run;
use series::estimate::Estimate;
use units::written;

/// A cost counts as higher from this ratio on, and only when the intervals do not touch.
const COSTLIER: f64 = 1.2;
/// Share of RSS from which LazyFree or huge pages are worth a sentence.
const SHARE_MIN: f64 = 0.05;

pub fn learnings(all: &[Standing], adopt: Option<&Adopt>) -> Vec<String> {
    let control = all
        .iter()
        .find(|standing| standing.change == Change::Control);
    let mut sentences = Vec::new();
    sentences.extend(least_memory(all, control));
    sentences.extend(limits(all));
    sentences.extend(control.and_then(|control| probed(control, all)));
    for (at, standing) in all.iter().enumerate() {
        sentences.extend(probed_elsewhere(all, at));
        sentences.extend(growth(standing));
        sentences.extend(control.and_then(|control| costlier(standing, control)));
        sentences.extend(shares(standing));
        sentences.extend(accidents(standing));
        sentences.extend(differing(standing));
    }
    sentences.extend(adopt.map(|adopt| adopt.words.clone()));
    if all.iter().all(|standing| standing.row.started < 2) {
        sentences.push(
            "One process per arm: the intervals hold the noise within a process, not the differences \
             between processes; two or more replicas would show them."
                .to_string(),
        );
    }
    sentences
}

/// When growing arms reach their memory limit, in one sentence: the soonest and the latest.
fn limits(all: &[Standing]) -> Option<String> {
    let growing = all
        .iter()
        .filter(|standing| standing.row.memory.label == Label::Growing);
    let mut times: Vec<(f64, &Standing)> = growing
        .filter_map(|standing| Some((standing.row.memory.time_to_limit_s?.value, standing)))
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (soonest, first) = times.first()?;
    let mut words = format!(
        "At this rate {} reaches its memory limit in {}",
        name(first),
        written::seconds(*soonest)
    );
    if let Some((latest, last)) = times.last().filter(|_| times.len() > 1) {
        let time = written::seconds(*latest);
        words.push_str(&format!(
            ", {} as the last of {} in {time}",
            name(last),
            times.len()
        ));
    }
    Some(words + ".")
}

/// What the heap probe found in most processes of an arm.
fn found_in<'a>(standing: &Standing<'a>) -> Option<&'a HeapCause> {
    standing.row.heap.as_ref()?.causes.first()
}

fn is_same(one: &HeapCause, other: &HeapCause) -> bool {
    (&one.cause, &one.place) == (&other.cause, &other.place)
}

/// What it found in the control, and in how many other arms the same.
fn probed(control: &Standing, all: &[Standing]) -> Option<String> {
    let found = found_in(control)?;
    let others = all.iter().filter(|s| s.change != Change::Control);
    let told: Vec<&HeapCause> = others.filter_map(found_in).collect();
    let same = told.iter().filter(|one| is_same(one, found)).count();
    let beside = match (told.len(), same) {
        (0, _) => String::new(),
        (told, same) => format!(" The same in {same} of {told} other arms."),
    };
    let (control, sentence) = (name(control), &found.sentence);
    Some(format!("Heap probe in {control}: {sentence}.{beside}"))
}

/// What it found in an arm that grows, where that is another thing than in the control and the arms before.
fn probed_elsewhere(all: &[Standing], at: usize) -> Option<String> {
    let found = found_in(&all[at])?;
    let is_told = |one: &Standing| found_in(one).is_some_and(|one| is_same(one, found));
    let control = all.iter().filter(|s| s.change == Change::Control);
    let mut told = control.chain(&all[..at]);
    let is_one =
        all[at].class == Class::Growing && !matches!(found.cause.as_str(), "blind" | "flat");
    (is_one && !told.any(is_told))
        .then(|| format!("Heap probe in {}: {}.", name(&all[at]), found.sentence))
}

/// How the arm to adopt came out against `verify`.
pub fn adopt(run: &Run, all: &[Standing], checks: &[CheckOutcome]) -> Option<Adopt> {
    let arm = run.experiment.adopt.clone()?;
    let standing = all.iter().find(|standing| standing.row.arm == arm);
    let own: Vec<&CheckOutcome> = checks.iter().filter(|check| check.arm == arm).collect();
    let failed = own.iter().find(|check| check.passed == Some(false));
    let open = own.iter().find(|check| check.passed.is_none());
    let ended = standing.and_then(|standing| standing.row.aborted.as_deref());
    let (passed, words) = match (standing, failed, ended, open) {
        (None, ..) => (Some(false), "is not an arm of this run".to_string()),
        (_, Some(check), ..) => (
            Some(false),
            format!("fails its check {}: {}", check.check, check.observed),
        ),
        (_, None, Some(why), _) => (Some(false), format!("ended early: {why}")),
        (_, None, None, Some(check)) => (
            None,
            format!("cannot be checked for {}: {}", check.check, check.observed),
        ),
        (_, None, None, None) if own.is_empty() => {
            (Some(true), "has no checks to pass".to_string())
        }
        _ => (Some(true), format!("passes its checks ({})", own.len())),
    };
    let quoted = arm.replace('`', "'");
    Some(Adopt {
        words: format!("`{quoted}`, the arm to adopt, {words}."),
        arm,
        passed,
    })
}

/// The lowest level among arms that do not grow (of a growing one it is a matter of time), when it
/// is clearly the lowest.
fn least_memory(all: &[Standing], control: Option<&Standing>) -> Option<String> {
    let bounded: Vec<&Standing> = all.iter().filter(|s| s.class == Class::Bounded).collect();
    let best = lowest(&bounded).filter(|_| bounded.len() > 1)?;
    let ratio = |s: &Standing| {
        let decided = s.pair.filter(|pair| pair.decided);
        decided.and_then(|pair| pair.ratio)
    };
    let against = match best.change {
        Change::Control => {
            let is_above = |s: &&&Standing| ratio(s).is_some_and(|ratio| ratio.lo > 1.0);
            let above = bounded.iter().filter(is_above).count();
            (above + 1 == bounded.len()).then(|| ", and it is the control".to_string())?
        }
        _ => {
            let r = ratio(best).filter(|ratio| ratio.hi < 1.0)?;
            format!(
                ", {} of the control's memory",
                written::ratio(r.value, r.lo, r.hi)
            )
        }
    };
    let beside = control
        .map(|control| costs(best, control))
        .unwrap_or_default();
    Some(format!(
        "{} needs least of the arms that do not grow: {}{against}{beside}.",
        name(best),
        level(best)
    ))
}

fn growth(standing: &Standing) -> Option<String> {
    let memory = &standing.row.memory;
    if let Some(ratio) = standing.slope_ratio.filter(|_| !standing.is_alike) {
        let ratio = written::digits(ratio);
        return Some(format!(
            "{} grows {ratio}x as fast as the control ({}).",
            name(standing),
            slope(standing)
        ));
    }
    let asymptote = memory
        .asymptote
        .filter(|_| memory.label == Label::Plateauing)?;
    let heading = written::bytes_interval(asymptote.value, asymptote.lo, asymptote.hi);
    Some(format!(
        "{} is still filling and heads for {heading}.",
        name(standing)
    ))
}

fn costlier(standing: &Standing, control: &Standing) -> Option<String> {
    if standing.change == Change::Control {
        return None;
    }
    let (own, other) = (&standing.row.cost, &control.row.cost);
    let mut words = Vec::new();
    if let (Some(a), Some(b)) = (cpu(standing), cpu(control)) {
        let apart = |a: Option<Estimate>, b: Option<Estimate>| is_above(a, b);
        let system = apart(own.cpu_system, other.cpu_system);
        if a > COSTLIER * b && (system || apart(own.cpu_user, other.cpu_user)) {
            let most = if system {
                ", system time above all"
            } else {
                ""
            };
            words.push(format!("{}x the CPU{most}", written::digits(a / b)));
        }
    }
    if is_above(own.minor_faults_per_second, other.minor_faults_per_second) {
        let of = |e: Option<Estimate>| e.map_or(0.0, |e| e.value);
        let (a, b) = (
            of(own.minor_faults_per_second),
            of(other.minor_faults_per_second),
        );
        words.push(format!(
            "{} minor faults a second against {}",
            written::count(a),
            written::count(b)
        ));
    }
    (!words.is_empty()).then(|| format!("{} costs {}.", name(standing), words.join(" and ")))
}

/// Clearly more: by [`COSTLIER`], and the intervals do not touch.
fn is_above(own: Option<Estimate>, other: Option<Estimate>) -> bool {
    let (Some(own), Some(other)) = (own, other) else {
        return false;
    };
    own.value > COSTLIER * other.value && own.lo > other.hi
}

fn shares(standing: &Standing) -> Option<String> {
    let lazy = standing
        .row
        .cost
        .lazy_free_share
        .filter(|share| *share >= SHARE_MIN)?;
    Some(format!(
        "{} of the resident set of {} is LazyFree: given back, and taken by the kernel only when it \
         needs it.",
        written::percent(lazy),
        name(standing)
    ))
}

fn accidents(standing: &Standing) -> Option<String> {
    let row = standing.row;
    let name = name(standing);
    if let Some(why) = &row.aborted {
        return Some(format!(
            "{name} ended early: {}.",
            why.trim_end_matches('.')
        ));
    }
    let times = |n: u32| {
        if n == 1 {
            "once".to_string()
        } else {
            format!("{n} times")
        }
    };
    match (row.crashed, row.restarted) {
        (0, 0) => None,
        (0, restarted) => Some(format!(
            "Processes of {name} were restarted {}.",
            times(restarted)
        )),
        (crashed, 0) => Some(format!(
            "Processes of {name} ended unexpectedly {}.",
            times(crashed)
        )),
        (crashed, restarted) => Some(format!(
            "Processes of {name} ended unexpectedly {} and were restarted {}.",
            times(crashed),
            times(restarted)
        )),
    }
}

fn differing(standing: &Standing) -> Option<String> {
    let outliers = &standing.row.memory.outliers;
    let who: Vec<String> = outliers
        .iter()
        .map(|o| format!("`{}` ({})", o.id, o.why))
        .collect();
    let differ = if who.len() == 1 { "differs" } else { "differ" };
    (!who.is_empty()).then(|| {
        format!(
            "In {}, {} {differ} from the others.",
            name(standing),
            who.join(", ")
        )
    })
}
