//! What people and machines read: the answer first, then the evidence, never memory without its costs.
//!
//! In: a run and its verdict, or the findings of `explain` and `stalls`. Out: text for a terminal, HTML, Markdown,
//! JSON, CSV, JUnit, pictures. Called by: every verb, at its end.
//!
//! [`Report::build`] joins a run and its verdict into one value; every format renders that value and nothing else. All
//! of it is pure: no file, no process, no clock.
//!
//! Names of arms, commands, log lines and events were chosen by somebody else. They stay as they are in a [`Report`];
//! each format makes them harmless where it writes them (see [`visible`]).

pub mod adoption;
pub mod against;
pub mod charts;
pub mod column;
pub mod csv;
pub mod ended;
pub mod explain;
pub mod factors;
pub mod groups;
pub mod heap;
pub mod html;
pub mod incidents;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod oom;
pub mod openmetrics;
pub mod overhead;
pub mod pictures;
pub mod plot;
pub mod predictions;
pub mod stall;
pub mod text;
pub mod visible;
mod wrapped;

use jiff::Timestamp;

use adoption::Adoption;
use charts::Charts;
use experiment::file::{Experiment, SubjectKind};
use groups::Stretch;
use observe::snapshot::{EventKind, TimeNs};
use record::run::{Machine, Run};
use series::arms::{arm_names, replica_id, seconds_between, subjects};
use series::estimate::Estimate;
use series::shares;
use series::shares::ArmLevels;
use units::written;
use units::written::ByteScale;
use verdict::run::RunVerdict;
use verdict::run::recommend::{Recommendation, recommend};

/// Of text where no terminal says its width, and of the answers of `explain` everywhere.
pub const COLUMNS: usize = 80;

/// One run, ready to be rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub summary: Summary,
    pub arms: Vec<ArmPlan>,
    pub verdict: RunVerdict,
    pub events: Vec<EventLine>,
    pub charts: Charts,
    pub groups: Vec<Stretch>,
    pub growth: Vec<ArmLevels>,
    pub recommendation: Recommendation,
    /// How the recommended arm is put into service.
    pub adoption: Option<Adoption>,
    pub extras: Extras,
}

/// What the run itself does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extras {
    /// The ledger's entry on this run, plain text.
    pub ledger: Option<String>,
    /// How often predictions came true, over the whole ledger; `None` where this run had none.
    pub score: Option<String>,
    /// Command lines that repeat the experiment.
    pub reproduce: Vec<String>,
}

/// The experiment and its execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub run: String,
    pub experiment: String,
    pub hypothesis: String,
    pub why: String,
    pub evidence: String,
    pub control: String,
    /// Processes of each arm, as planned; of processes that ran before, as many as the largest arm ever had.
    pub replicas: u32,
    /// What highwater does to the processes, in a sentence; empty when it started them.
    pub manner: &'static str,
    /// Start of the run, UTC, ISO 8601 to the second.
    pub begun: String,
    /// From the start to the last snapshot.
    pub took_s: f64,
    pub planned_s: f64,
    pub interval_s: f64,
    pub warmup_s: f64,
    pub seed: u64,
    /// How it ended; `None` while it runs, or when nobody could write it down.
    pub end: Option<String>,
    pub load: Option<String>,
    pub revert: Vec<String>,
    pub machine: Machine,
    /// Of the tool that made this report.
    pub version: &'static str,
}

impl Summary {
    /// By more than a snapshot.
    pub fn ended_early(&self) -> bool {
        self.took_s + self.interval_s < self.planned_s
    }

    /// "1 process", of each arm.
    pub fn processes_counted(&self) -> String {
        written::counted(u64::from(self.replicas), "process", "processes")
    }
}

/// One arm as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmPlan {
    pub name: String,
    pub is_control: bool,
    pub allocator: String,
    /// `NAME=value`.
    pub environment: Vec<String>,
    pub command: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct EventLine {
    /// Seconds since the run began.
    pub t_s: f64,
    /// Empty for the run as a whole.
    pub arm: String,
    /// "glibc/2"; empty for the run as a whole.
    pub process: String,
    pub kind: EventKind,
    pub words: String,
}

impl Report {
    /// "1 arm", "8 arms".
    pub fn arms_counted(&self) -> String {
        written::counted(self.arms.len() as u64, "arm", "arms")
    }

    /// Everything that a reader may want to know, from a run and the verdict on it.
    pub fn build(run: &Run, verdict: &RunVerdict, extras: Extras) -> Report {
        let recommendation = recommend(run, verdict);
        Report {
            groups: groups::stretches(run),
            growth: shares::levels(run),
            adoption: adoption::adoption(run, &recommendation),
            recommendation,
            summary: summary(run),
            arms: arm_plans(run),
            events: event_lines(run),
            charts: Charts::build(run),
            verdict: verdict.clone(),
            extras,
        }
    }
}

/// The units of the columns of levels and of slopes, one each for all arms, so that a column compares by eye.
pub fn column_scales(verdict: &RunVerdict) -> (ByteScale, ByteScale) {
    let memory = || verdict.arms.iter().map(|row| &row.memory);
    let levels = memory().filter_map(|m| m.level).map(|level| level.value);
    // A slope of 0 with an interval of 3 MiB/h is written in MiB/h.
    let size = |slope: Estimate| slope.value.abs().max((slope.hi - slope.lo) / 2.0);
    let slopes = memory().filter_map(|m| m.slope_per_hour).map(size);
    (ByteScale::of_column(levels), ByteScale::of_column(slopes))
}

fn summary(run: &Run) -> Summary {
    let experiment = &run.experiment;
    let commands = experiment
        .revert
        .commands
        .iter()
        .map(|command| command.join(" "));
    let words = Some(experiment.revert.words.clone()).filter(|words| !words.is_empty());
    Summary {
        run: run.id.clone(),
        experiment: experiment.name.clone(),
        hypothesis: experiment.hypothesis.clone(),
        why: experiment.why.clone(),
        evidence: experiment.evidence.clone(),
        control: experiment.control.clone(),
        replicas: replicas(run),
        manner: manner(experiment),
        begun: iso(run.begun),
        took_s: seconds_between(run.begun, run.last),
        planned_s: experiment.duration.as_secs_f64(),
        interval_s: experiment.interval.as_secs_f64(),
        warmup_s: experiment.warmup.as_secs_f64(),
        seed: experiment.seed,
        end: run.end.as_ref().map(|end| end.words.clone()),
        load: experiment.load.as_ref().map(|load| load.command.join(" ")),
        revert: words.into_iter().chain(commands).collect(),
        machine: run.machine.clone(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn replicas(run: &Run) -> u32 {
    match run.experiment.subject.kind {
        SubjectKind::Attach => {
            let arms = arm_names(run).into_iter();
            arms.map(|arm| subjects(run, &arm).len() as u32)
                .max()
                .unwrap_or(0)
        }
        _ => run.experiment.replicas,
    }
}

fn manner(experiment: &Experiment) -> &'static str {
    match (experiment.subject.kind, experiment.subject.managed) {
        (SubjectKind::Attach, false) => {
            "Observed only: highwater started, restarted and signalled none of these processes."
        }
        (SubjectKind::Attach, true) => {
            "Managed: these processes ran before; highwater may run the commands that take an arm \
             back, and signals none."
        }
        _ => "",
    }
}

fn arm_plans(run: &Run) -> Vec<ArmPlan> {
    let experiment = &run.experiment;
    let plan = |arm: &experiment::file::Arm| {
        let own = arm.command.as_ref().unwrap_or(&experiment.subject.command);
        let environment = experiment
            .subject
            .environment
            .iter()
            .chain(&arm.environment);
        ArmPlan {
            name: arm.name.clone(),
            is_control: arm.name == experiment.control,
            allocator: arm.allocator.clone(),
            environment: environment
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            command: [own.as_slice(), &arm.arguments].concat().join(" "),
        }
    };
    experiment.arms.iter().map(plan).collect()
}

fn event_lines(run: &Run) -> Vec<EventLine> {
    let line = |event: &observe::snapshot::Event| {
        let process = run
            .processes
            .iter()
            .find(|process| Some(process.id) == event.process);
        EventLine {
            t_s: seconds_between(run.begun, event.time),
            arm: process
                .map(|process| process.arm.clone())
                .unwrap_or_default(),
            process: process.map(replica_id).unwrap_or_default(),
            kind: event.kind.clone(),
            words: event.words.clone(),
        }
    };
    run.events.iter().map(line).collect()
}

/// The word of an event, as it is recorded: "oom-killed".
pub fn event_word(kind: &EventKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.and_then(|word| word.as_str().map(str::to_string))
        .unwrap_or_default()
}

/// Whether an event deserves a mark on a chart: the ordinary life of a process does not.
pub fn is_incident(kind: &EventKind) -> bool {
    use EventKind::*;
    !matches!(
        kind,
        Started | Ready | Stopped | Exited | Note | LogTruncated
    )
}

fn iso(time: TimeNs) -> String {
    let seconds = Timestamp::from_second(time.0.div_euclid(1_000_000_000));
    seconds.map_or_else(|_| written::MISSING.to_string(), |stamp| stamp.to_string())
}
