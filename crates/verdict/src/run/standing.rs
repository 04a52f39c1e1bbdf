//! Where each arm stands against the control: what it changes, and how its memory behaves.

use super::ArmRow;
use crate::Label;
use crate::pair::PairVerdict;
use experiment::file::{Arm, Experiment, SubjectKind};
use record::run::Run;
use series::estimate::Estimate;

/// What an arm changes against the control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is the control.
    Control,
    /// The allocator or its settings; the program does the same work.
    Allocator,
    /// The program: its command, its arguments or its environment.
    Program,
}

/// How the memory of an arm behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Growing,
    /// Flat, plateauing or sawtooth.
    Bounded,
    /// Stepped, or its processes disagree: neither stops growth nor shows it.
    Unclear,
    /// Not to be told yet.
    Undecided,
    /// It ended before the run did, and did not grow until then.
    Ended,
}

/// One arm.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    pub row: &'a ArmRow,
    pub pair: Option<&'a PairVerdict>,
    pub change: Change,
    pub class: Class,
    /// Slope over that of the control, when both grow.
    pub slope_ratio: Option<f64>,
    /// Whether its growth is as fast as the control's: the growth of the difference may be zero, or
    /// the slopes are within [`ALIKE`] of each other (a difference that a long run makes
    /// significant may still not matter).
    pub is_alike: bool,
}

/// Slopes within this share of each other count as alike: allocators round the same blocks up
/// differently.
const ALIKE: f64 = 0.2;

/// Beginnings of environment names that tune an allocator and nothing else.
const ALLOCATOR_ENVIRONMENT: &[&str] = &[
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "MIMALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "TCMALLOC_",
    "SNMALLOC_",
    "RPMALLOC_",
    "HARDENED_MALLOC_",
];

/// All arms, in the order of their rows.
pub fn standings<'a>(run: &Run, rows: &'a [ArmRow], pairs: &'a [PairVerdict]) -> Vec<Standing<'a>> {
    let control = rows.iter().find(|row| row.is_control);
    rows.iter()
        .map(|row| standing(run, row, control, pairs))
        .collect()
}

fn standing<'a>(
    run: &Run,
    row: &'a ArmRow,
    control: Option<&ArmRow>,
    pairs: &'a [PairVerdict],
) -> Standing<'a> {
    let class = match class(row) {
        Class::Bounded if control.is_some_and(|control| may_grow_alike(row, control)) => {
            Class::Undecided
        }
        class => class,
    };
    let is_pair = |p: &&PairVerdict| p.a == row.arm && p.b == run.experiment.control && p.a != p.b;
    let pair = pairs.iter().find(is_pair);
    let slopes = (
        row.memory.slope_per_hour,
        control.and_then(|c| c.memory.slope_per_hour),
    );
    let slope_ratio = match (class, control.map(self::class), slopes) {
        (Class::Growing, Some(Class::Growing), (Some(own), Some(other))) if other.value > 0.0 => {
            Some(own.value / other.value)
        }
        _ => None,
    };
    let is_alike = slope_ratio.is_some_and(|ratio| is_alike(ratio, pair, slopes));
    Standing {
        row,
        pair,
        change: change(&run.experiment, row),
        class,
        slope_ratio,
        is_alike,
    }
}

fn is_alike(
    ratio: f64,
    pair: Option<&PairVerdict>,
    slopes: (Option<Estimate>, Option<Estimate>),
) -> bool {
    if (1.0 - ALIKE..=1.0 + ALIKE).contains(&ratio) {
        return true;
    }
    match (pair.and_then(|pair| pair.difference_slope_per_hour), slopes) {
        (Some(difference), _) => difference.lo <= 0.0 && 0.0 <= difference.hi,
        (None, (Some(a), Some(b))) => a.lo <= b.hi && b.lo <= a.hi,
        _ => false,
    }
}

/// Whether an arm that looks bounded may grow as fast as a control that grows: in a short run growth of a few
/// per cent is flat, and flat is then no proof that the arm stops what the control does.
fn may_grow_alike(row: &ArmRow, control: &ArmRow) -> bool {
    let (own, other) = (row.memory.slope_per_hour, control.memory.slope_per_hour);
    let (Some(own), Some(other)) = (own, other) else {
        return false;
    };
    !row.is_control && class(control) == Class::Growing && own.hi >= other.value
}

/// Growth that was seen stands even when the arm ended early; that it would have stayed bounded
/// does not.
fn class(row: &ArmRow) -> Class {
    match row.memory.label {
        label if row.aborted.is_some() && label != Label::Growing => Class::Ended,
        Label::Growing => Class::Growing,
        Label::Flat | Label::Plateauing | Label::Sawtooth => Class::Bounded,
        Label::Stepped | Label::Variable => Class::Unclear,
        Label::Insufficient => Class::Undecided,
    }
}

fn change(experiment: &Experiment, row: &ArmRow) -> Change {
    if row.is_control {
        return Change::Control;
    }
    let plan = |name: &str| experiment.arms.iter().find(|arm| arm.name == name);
    // Processes that ran before differ in what nobody wrote down; only another allocator is known to be one.
    let is_unknown = |arm: &Arm, control: &Arm| {
        experiment.subject.kind == SubjectKind::Attach && arm.allocator == control.allocator
    };
    match (plan(&row.arm), plan(&experiment.control)) {
        (Some(arm), Some(control)) if is_unknown(arm, control) => Change::Program,
        (Some(arm), Some(control)) if is_same_program(experiment, arm, control) => {
            Change::Allocator
        }
        _ => Change::Program,
    }
}

/// Same command, arguments and environment, but for what chooses or tunes an allocator: known
/// environment names, and options whose name has "alloc" in it (`--allocator smp`), for programs
/// that bring their own.
fn is_same_program(experiment: &Experiment, a: &Arm, b: &Arm) -> bool {
    let command = |arm: &Arm| {
        let own = arm.command.as_ref().unwrap_or(&experiment.subject.command);
        without_allocator_options(&[own.as_slice(), &arm.arguments].concat())
    };
    let environment = |arm: &Arm| {
        let other = |(name, _): &(&String, &String)| !tunes_allocator(name);
        arm.environment
            .iter()
            .filter(other)
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    command(a) == command(b) && environment(a) == environment(b)
}

fn tunes_allocator(name: &str) -> bool {
    ALLOCATOR_ENVIRONMENT
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

fn without_allocator_options(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let name = argument.split('=').next().unwrap_or(argument);
        if !(name.starts_with('-') && name.contains("alloc")) {
            kept.push(argument.clone());
        } else if name == argument {
            rest.next_if(|value| !value.starts_with('-'));
        }
    }
    kept
}
