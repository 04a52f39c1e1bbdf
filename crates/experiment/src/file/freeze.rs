//! The experiment written back as a file: what is really run, with every default and override in it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::frozen_arm::{ArmTable, arm_table};
use super::redact::redact_experiment;
use super::signal::signal_name;
use super::{
    AttachGroup, BackingPlan, Check, Condition, Experiment, LoadPer, LoadPlan, Ready, Restart,
    Stop, SubjectKind, SubjectPlan, Trend,
};
use units::{write_bytes_exact, write_duration_exact};

/// The experiment as TOML that parses again to the same experiment; secrets are left out
/// ([`super::redact`]), so a variable that held one reads `[redacted]` after that.
pub fn freeze(experiment: &Experiment) -> String {
    let safe = redact_experiment(experiment);
    toml::to_string(&file(&safe)).expect("texts, numbers, lists and tables only")
}

/// The file's own shape, in the order in which a person would write it: plain values before tables.
#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hypothesis: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    evidence: &'a str,
    control: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    adopt: Option<&'a str>,
    replicas: u32,
    duration: String,
    interval: String,
    warmup: String,
    /// TOML's whole numbers end at 2^63; a seed beyond is written as a text.
    seed: Whole,
    #[serde(skip_serializing_if = "Option::is_none")]
    matters: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    probe: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stalls: bool,
    base: String,
    subject: Subject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backing: Option<Backing<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<Load<'a>>,
    arms: Vec<ArmTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verify: Vec<CheckTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guard: Vec<CheckTable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert: Option<RevertTable<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Whole {
    Number(i64),
    Text(String),
}

#[derive(Serialize)]
struct Subject<'a> {
    kind: SubjectKind,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    command: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart: Option<Restart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    managed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<ReadyTable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopTable>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attach: Vec<Attach<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prometheus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Backing<'a> {
    command: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<ReadyTable<'a>>,
    stop: StopTable,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct ReadyTable<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<&'a str>,
    timeout: String,
}

#[derive(Serialize)]
struct StopTable {
    signal: String,
    grace: String,
}

#[derive(Serialize)]
struct Attach<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    arm: &'a str,
    #[serde(skip_serializing_if = "<[i32]>::is_empty")]
    pids: &'a [i32],
    #[serde(skip_serializing_if = "Option::is_none")]
    exe: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unit: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environ: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Series<'a> {
    arm: &'a str,
    #[serde(rename = "match")]
    matching: &'a [String],
}

#[derive(Serialize)]
struct Load<'a> {
    command: &'a [String],
    per: LoadPer,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
}

#[derive(Serialize, Default)]
struct CheckTable<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_max: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_max: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pauses_per_minute_max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restarts_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trend: Option<&'a [Trend]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    arms: &'a [String],
}

#[derive(Serialize)]
struct RevertTable<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    words: &'a str,
    #[serde(skip_serializing_if = "<[Vec<String>]>::is_empty")]
    commands: &'a [Vec<String>],
}

fn file(experiment: &Experiment) -> File<'_> {
    let Experiment {
        subject, revert, ..
    } = experiment;
    File {
        name: &experiment.name,
        hypothesis: &experiment.hypothesis,
        why: &experiment.why,
        evidence: &experiment.evidence,
        control: &experiment.control,
        adopt: experiment.adopt.as_deref(),
        replicas: experiment.replicas,
        duration: write_duration_exact(experiment.duration),
        interval: write_duration_exact(experiment.interval),
        warmup: write_duration_exact(experiment.warmup),
        seed: i64::try_from(experiment.seed)
            .map_or_else(|_| Whole::Text(experiment.seed.to_string()), Whole::Number),
        matters: matters_text(experiment.matters),
        probe: experiment.probe,
        stalls: experiment.stalls,
        base: experiment.base.to_string_lossy().into_owned(),
        subject: subject_table(subject),
        backing: experiment.backing.as_ref().map(backing_table),
        load: experiment.load.as_ref().map(load_table),
        arms: experiment.arms.iter().map(arm_table).collect(),
        verify: experiment.verify.iter().map(check_table).collect(),
        guard: experiment.guard.iter().map(check_table).collect(),
        revert: (*revert != super::Revert::default()).then_some(RevertTable {
            words: &revert.words,
            commands: &revert.commands,
        }),
    }
}

/// Seven tenths of a share are 70 %, and not 70.00000000000001 %.
fn matters_text(share: f64) -> Option<String> {
    (share > 0.0).then(|| format!("{}%", (share * 1e8).round() / 1e6))
}

/// What cannot be set for a kind of subject is not written for it either.
fn subject_table(plan: &SubjectPlan) -> Subject<'_> {
    let owned = !matches!(plan.kind, SubjectKind::Attach | SubjectKind::Remote);
    let remote = plan.remote.as_ref();
    let series = remote.into_iter().flat_map(|remote| &remote.series);
    Subject {
        kind: plan.kind,
        command: &plan.command,
        directory: plan
            .directory
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        restart: owned.then_some(plan.restart),
        keep: owned.then_some(plan.keep),
        ends: plan.ends.then_some(true),
        memory_limit: plan.memory_limit.map(write_bytes_exact),
        metrics: plan.metrics.as_deref(),
        managed: plan.managed,
        ready: plan
            .ready
            .as_ref()
            .map(|ready| ready_table(ready, plan.ready_timeout)),
        stop: owned.then(|| stop_table(&plan.stop)),
        environment: &plan.environment,
        attach: plan.attach.iter().map(attach_table).collect(),
        prometheus: remote.map(|remote| remote.url.clone()),
        metric: remote.and_then(|remote| remote.metric.as_deref()),
        headers: remote
            .and_then(|remote| remote.headers.as_ref())
            .map(|path| path.to_string_lossy().into_owned()),
        series: series
            .map(|series| Series {
                arm: &series.arm,
                matching: &series.matching,
            })
            .collect(),
    }
}

fn stop_table(stop: &Stop) -> StopTable {
    StopTable {
        signal: signal_name(stop.signal),
        grace: write_duration_exact(stop.grace),
    }
}

fn backing_table(backing: &BackingPlan) -> Backing<'_> {
    Backing {
        command: &backing.command,
        directory: backing
            .directory
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        ready: backing
            .ready
            .as_ref()
            .map(|ready| ready_table(ready, backing.ready_timeout)),
        stop: stop_table(&backing.stop),
        environment: &backing.environment,
    }
}

fn ready_table(ready: &Ready, timeout: Duration) -> ReadyTable<'_> {
    let timeout = write_duration_exact(timeout);
    let none = ReadyTable {
        http: None,
        status: None,
        log: None,
        tcp: None,
        timeout,
    };
    match ready {
        Ready::Http { url, status } => ReadyTable {
            http: Some(url),
            status: Some(*status),
            ..none
        },
        Ready::Log { regex } => ReadyTable {
            log: Some(regex),
            ..none
        },
        Ready::Tcp { address } => ReadyTable {
            tcp: Some(address),
            ..none
        },
    }
}

fn attach_table(group: &AttachGroup) -> Attach<'_> {
    Attach {
        arm: &group.arm,
        pids: &group.pids,
        exe: group.exe.as_deref(),
        args: group.args.as_deref(),
        unit: &group.units,
        cgroup: group.cgroup.as_deref(),
        groups: group
            .groups
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        environ: &group.environ,
    }
}

fn load_table(load: &LoadPlan) -> Load<'_> {
    Load {
        command: &load.command,
        per: load.per,
        directory: load
            .directory
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        environment: &load.environment,
    }
}

fn check_table(check: &Check) -> CheckTable<'_> {
    let after = (!check.after.is_zero()).then(|| write_duration_exact(check.after));
    let table = CheckTable {
        after,
        arms: &check.arms,
        ..CheckTable::default()
    };
    match &check.condition {
        Condition::Http { url, status } => CheckTable {
            http: Some(url),
            status: Some(*status),
            ..table
        },
        Condition::Command { command, exit } => CheckTable {
            command: Some(command),
            exit: Some(*exit),
            ..table
        },
        Condition::Metric { name, min, max } => CheckTable {
            metric: Some(name),
            min: *min,
            max: *max,
            ..table
        },
        Condition::RssMax { bytes } => CheckTable {
            rss_max: Some(write_bytes_exact(*bytes)),
            ..table
        },
        Condition::P99Max { limit } => CheckTable {
            p99_max: Some(write_duration_exact(*limit)),
            ..table
        },
        Condition::PausesPerMinuteMax { max } => CheckTable {
            pauses_per_minute_max: Some(*max),
            ..table
        },
        Condition::RestartsMax { count, within } => CheckTable {
            restarts_max: Some(*count),
            within: within.map(write_duration_exact),
            ..table
        },
        Condition::Trend { any_of } => CheckTable {
            trend: Some(any_of),
            ..table
        },
    }
}
