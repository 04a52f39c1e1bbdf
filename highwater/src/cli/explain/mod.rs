//! `highwater explain`: where the memory of one program is, and why it grows.

mod conclude;
mod cost;
mod ended;
mod follow;
mod heaps;
pub mod launch;
mod lost;
mod names;
mod notes;
mod oom;
mod output;
pub mod series;
mod sight;
mod spent;
mod tracked;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::exit;
use crate::cli::signals;
use follow::Follower;
use heaps::Plan;
use launch::Launched;
use observe::proc::ProcRoot;

/// Looks that a duration is divided into, when `--every` does not say otherwise.
const LOOKS: u32 = 60;
const EVERY_MIN: Duration = Duration::from_millis(200);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// Say where a program's memory is and why it grows: leak, retention, a filling cache, mappings,
/// stacks, files, huge pages, with the sites in the code.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = USAGE,
    group = clap::ArgGroup::new("subject").args(["command", "pid", "core", "oom"]).required(true)
)]
pub struct ExplainArgs {
    /// The program to start with the probe, and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,

    /// A process that runs already, with its descendants. As root, uprobes on its allocator name the sites; else it is
    /// from what can be read alone.
    #[arg(long)]
    pub pid: Option<i32>,

    /// A process that has ended: its core file, from the kernel, gcore or systemd-coredump.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_A_RUNNING_ONE)]
    pub core: Option<PathBuf>,

    /// The program that the core is of, where it lies elsewhere now.
    #[arg(long, value_name = "FILE", requires = "core", conflicts_with_all = ["command", "pid", "oom"])]
    pub exe: Option<PathBuf>,

    /// Why the OOM killer came: from the kernel's log, who was killed by which limit and what the memory was made of.
    #[arg(long, conflicts_with_all = OF_A_RUNNING_ONE)]
    pub oom: bool,

    /// Only kills of the last so much time, such as 1h; all that the log has unless given.
    #[arg(
        long,
        value_name = "DURATION",
        requires = "oom",
        conflicts_with_all = NOT_A_LOG,
        value_parser = units::parse_seconds
    )]
    pub since: Option<Duration>,

    /// A log instead of this machine's /dev/kmsg: a file or `-`, as dmesg, journalctl (-o short, short-iso, json) or
    /// syslog write it.
    #[arg(long, value_name = "FILE", requires = "oom", conflicts_with_all = NOT_A_LOG)]
    pub kernel_log: Option<PathBuf>,

    /// How long to observe; Ctrl-C ends early with what is known.
    #[arg(long, default_value = "60s", value_parser = units::parse_seconds)]
    pub duration: Duration,

    /// From one look to the next; a sixtieth of the duration unless given.
    #[arg(long, value_parser = units::parse_seconds)]
    pub every: Option<Duration>,

    /// Print JSON (highwater.explain/1) instead of text.
    #[arg(long)]
    pub json: bool,

    /// Write the live heap as a pprof profile (gzip).
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write the live heap as folded stacks.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// Write a flame graph of the live heap.
    #[arg(long, value_name = "FILE.svg|html")]
    pub flamegraph: Option<PathBuf>,

    /// Compare two moments of the observation: `--diff 20s,50s`.
    #[arg(long, value_name = "FROM,TO", value_parser = parse_moments)]
    pub diff: Option<(f64, f64)>,

    /// Most CPU time that observing may take of the program, percent of what it uses itself (uprobes: or of one core,
    /// if that is more). Over it the probe samples less and at last switches itself off, and uprobes come off
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = parse_budget)]
    pub budget: f64,

    /// Put nothing on a running process, not even as root: no uprobes, only what can be read of it
    #[arg(long, requires = "pid")]
    pub read_only: bool,

    /// Longest time for which a managed runtime may be stopped at once, to count the objects in its heap (JVM, Node).
    /// CPython and Go are read from outside and never stopped
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        value_parser = parse_pause,
        conflicts_with = "read_only"
    )]
    pub allow_pause: Duration,

    /// No progress on stderr.
    #[arg(long, short)]
    pub quiet: bool,
}

/// What a core or a log has no use for.
const OF_A_RUNNING_ONE: [&str; 9] = [
    "duration",
    "every",
    "pprof",
    "folded",
    "flamegraph",
    "diff",
    "budget",
    "read_only",
    "allow_pause",
];

/// Subjects that are no log. That an option requires `--oom` is not checked where one of these excludes it.
const NOT_A_LOG: [&str; 3] = ["command", "pid", "core"];

const USAGE: &str = "highwater explain [OPTIONS] -- CMD...
       highwater explain [OPTIONS] --pid PID
       highwater explain [--json] --core FILE [--exe FILE]
       highwater explain [--json] --oom [--since DURATION] [--kernel-log FILE]";

const EXAMPLES: &str = "\
Examples:
  highwater explain -- ./server --port 8080         start it with the probe, observe for a minute
  highwater explain --duration 5m -- ./server       longer: slower growth, slower caches
  highwater explain --pid 4242                      a process that runs already; as root, with the sites in its code
  highwater explain --core core.4242                what the memory of a process that ended was made of
  highwater explain --oom --since 1h                why the OOM killer came
  highwater explain --flamegraph heap.svg -- ./job  and a flame graph of the live heap

The program's own output goes to stderr. It is ended with SIGTERM after the observation.
Exit codes: 0 explained, 2 usage, 3 undecided, 4 could not run.";

/// "2" or "0.5%" as a share.
pub fn parse_budget(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').parse::<f64>();
    match percent {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a budget is a percentage above 0 and at most 100, such as 2 or 0.5%".to_owned()),
    }
}

/// "0" or "200ms".
fn parse_pause(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" | "0s" => Ok(Duration::ZERO),
        text => units::parse_seconds(text),
    }
}

/// "20s,50s" in seconds.
fn parse_moments(text: &str) -> Result<(f64, f64), String> {
    let wrong = || "two moments are written FROM,TO, such as 20s,50s".to_owned();
    let (from, to) = text.split_once(',').ok_or_else(wrong)?;
    let seconds = |text: &str| units::parse_seconds(text).map(|moment| moment.as_secs_f64());
    let (from, to) = (seconds(from)?, seconds(to)?);
    if from < to {
        Ok((from, to))
    } else {
        Err(wrong())
    }
}

/// Observes, judges, prints; the value is the exit code.
pub fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    if let Some(core) = &args.core {
        return ended::run(core, args);
    }
    if args.oom {
        return oom::run(args);
    }
    output::check(args)?;
    let interrupted = signals::flag(signals::ENDING)?;
    let root = ProcRoot::default();
    let mut launched = match args.pid {
        Some(_) => None,
        None => Some(Launched::start(&args.command, args.budget)?),
    };
    let first = args
        .pid
        .unwrap_or_else(|| launched.as_ref().map_or(0, Launched::pid));
    let every = args
        .every
        .unwrap_or(args.duration / LOOKS)
        .clamp(EVERY_MIN, EVERY_MAX);
    let every = args.every.unwrap_or(every);
    let plan = Plan {
        duration: args.duration,
        pause: args.allow_pause,
        at_start: args.pid.is_none(),
        is_hurried: false,
    };
    let mut follower = Follower::new(root, first, args.quiet, plan);
    follower.budget_share = args.budget;
    follower.reads_only = args.read_only;
    let followed = follower.follow(args.duration, every, &interrupted, launched.as_mut());
    // Symbols and references need the process alive: it is ended only after the conclusion.
    let concluded =
        followed.and_then(|()| conclude::conclude(&mut follower, launched.as_ref(), args));
    // The answer does not wait for a program that takes its time to end.
    let written = concluded.and_then(|explained| {
        output::write(args, &explained)?;
        Ok(explained)
    });
    if let Some(launched) = &mut launched {
        launched.end();
    }
    let explained = written?;
    Ok(match explained.case.rss {
        Some(_) if !explained.verdict.undecided => exit::DONE,
        _ => exit::UNDECIDED,
    })
}
