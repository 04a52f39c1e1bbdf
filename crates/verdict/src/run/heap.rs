//! Why an arm's memory is what it is: the parts of its heap as the probe read them, judged as resident memory is, and
//! the causes that were found in its processes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::steady::steady;
use crate::arm;
use crate::{Label, Rules};
use observe::member;
use observe::metric;
use observe::metric::Metric;
use record::run::{Process, Run};
use series::arms::{ArmSeries, arm_series, subjects};
use series::estimate::Estimate;

/// Fact: the cause that the probe's account of a process points to, a word of `highwater.explain/2`.
pub const CAUSE_FACT: &str = "heap.cause";
/// Fact: the same as a sentence, with rates and shares, and whether another allocator can help.
pub const SENTENCE_FACT: &str = "heap.sentence";
/// Fact: the function that the cause names, if it names one.
pub const PLACE_FACT: &str = "heap.place";
/// What these may take in all at the end of a run, behind its last snapshot: the processes are ended only afterwards.
pub const LAST_WORDS_MAX: Duration = Duration::from_secs(30);

/// The heap of an arm's processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmHeap {
    pub arm: String,
    /// Handed out to the program and resident.
    pub live: HeapPart,
    /// Free, in whole pages.
    pub held: HeapPart,
    /// Free, between live blocks.
    pub fragmentation: HeapPart,
    /// Of RSS, what the probe itself takes at the end, bytes: the most of any process.
    pub probe_bytes: Option<f64>,
    /// Each cause once, that of most processes first.
    pub causes: Vec<HeapCause>,
}

/// One part: level in bytes and growth in bytes per hour, mean over processes, 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeapPart {
    pub label: Label,
    pub level: Option<Estimate>,
    pub slope_per_hour: Option<Estimate>,
}

/// What the probe found in some processes of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeapCause {
    /// A word of `highwater.explain/2`: leak, filling, retention ...
    pub cause: String,
    /// Function.
    pub place: Option<String>,
    /// Of one of the processes.
    pub sentence: String,
    pub processes: u32,
}

/// Of every arm whose processes a probe was read in.
pub fn arm_heaps(run: &Run, rules: &Rules) -> Vec<ArmHeap> {
    let parts = [
        metric::LIVE_HEAP,
        metric::ALLOCATOR_HELD,
        metric::FRAGMENTATION,
    ];
    let [live, held, fragmentation] = parts.map(|part| series(run, part));
    let arms = live.iter().zip(&held).zip(&fragmentation);
    let heap = |((live, held), fragmentation): ((&ArmSeries, &ArmSeries), &ArmSeries)| {
        let is_read = live.replicas.iter().any(|r| !r.joined.points.is_empty());
        is_read.then(|| ArmHeap {
            arm: live.arm.clone(),
            live: part(run, live, rules),
            held: part(run, held, rules),
            fragmentation: part(run, fragmentation, rules),
            probe_bytes: probe_bytes(run, &live.arm),
            causes: causes(run, &live.arm),
        })
    };
    arms.filter_map(heap).collect()
}

fn series(run: &Run, part: Metric) -> Vec<ArmSeries> {
    arm_series(run, part.name, run.experiment.warmup)
}

fn part(run: &Run, series: &ArmSeries, rules: &Rules) -> HeapPart {
    let verdict = arm::judge(&series.arm, &steady(run, series), rules);
    HeapPart {
        label: verdict.label,
        level: verdict.level,
        slope_per_hour: verdict.slope_per_hour,
    }
}

fn probe_bytes(run: &Run, arm: &str) -> Option<f64> {
    let replicas = subjects(run, arm);
    let last = |process: &&Process| {
        let readings = process.samples.get(metric::PROBE_MEMORY.name)?;
        readings.last().map(|(_, bytes)| *bytes)
    };
    let lasts = replicas.values().filter_map(|all| all.last());
    lasts.filter_map(last).reduce(f64::max)
}

/// What was said last of each replica's last process.
fn causes(run: &Run, arm: &str) -> Vec<HeapCause> {
    let replicas = subjects(run, arm);
    let lasts = replicas.values().filter_map(|all| all.last());
    let mut found: BTreeMap<(String, Option<String>), HeapCause> = BTreeMap::new();
    for cause in lasts.filter_map(|process| cause(process)) {
        let key = (cause.cause.clone(), cause.place.clone());
        let known = found.entry(key).or_insert(HeapCause {
            processes: 0,
            ..cause
        });
        known.processes += 1;
    }
    let mut causes: Vec<HeapCause> = found.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.processes));
    causes
}

fn cause(process: &Process) -> Option<HeapCause> {
    let fact = |key| member::latest(&process.facts, key).map(str::to_owned);
    Some(HeapCause {
        cause: fact(CAUSE_FACT)?,
        place: fact(PLACE_FACT).filter(|place| !place.is_empty()),
        sentence: fact(SENTENCE_FACT)?,
        processes: 1,
    })
}
