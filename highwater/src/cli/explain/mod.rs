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
use observe::proc::pid::why_not;

/// Snapshots that a duration is divided into, when `--every` does not say otherwise.
const SNAPSHOTS: u32 = 60;
const EVERY_MIN: Duration = Duration::from_millis(200);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// Find why a program's memory grows: a leak, a cache, free memory kept by the allocator, threads,
/// mappings, a managed heap; and name the function
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP,
    before_help = EXAMPLES,
    after_help = ENDS,
    override_usage = USAGE,
    group = clap::ArgGroup::new("subject").args(["command", "pid", "core", "oom"]).required(true)
)]
pub struct ExplainArgs {
    /// Start this program, with its arguments, and with the heap probe in front of its allocator
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,

    /// Attach to a running process and its descendants; nothing is restarted. As root, uprobes on its allocator name
    /// the functions; without root memory is only read: types of managed heaps and what holds them are named, and no
    /// native function
    #[arg(long)]
    pub pid: Option<i32>,

    /// Read the core file of a process that has ended, from the kernel, gcore or systemd-coredump
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_A_RUNNING_ONE)]
    pub core: Option<PathBuf>,

    /// The program that made the core, if it has moved since
    #[arg(long, value_name = "FILE", requires = "core", conflicts_with_all = ["command", "pid", "oom"])]
    pub exe: Option<PathBuf>,

    /// Why the OOM killer came: from the kernel's log, who was killed by which limit and what the memory was made of
    #[arg(long, conflicts_with_all = OF_A_RUNNING_ONE)]
    pub oom: bool,

    /// Only kills of the last so much time, such as 1h; all that the log has unless given
    #[arg(
        long,
        value_name = "DURATION",
        requires = "oom",
        conflicts_with_all = NOT_A_LOG,
        value_parser = units::parse_seconds
    )]
    pub since: Option<Duration>,

    /// A log instead of this machine's /dev/kmsg: a file or `-`, as dmesg, journalctl (-o short, short-iso, json) or
    /// syslog write it
    #[arg(long, value_name = "FILE", requires = "oom", conflicts_with_all = NOT_A_LOG)]
    pub kernel_log: Option<PathBuf>,

    /// How long to observe; Ctrl-C ends early with an answer from what was seen so far
    #[arg(long, default_value = "60s", value_parser = units::parse_seconds)]
    pub duration: Duration,

    /// Time between samples [default: a sixtieth of --duration, 0.2s to 10s]
    #[arg(long, value_parser = units::parse_seconds)]
    pub every: Option<Duration>,

    /// Print JSON (highwater.explain/2, with --core highwater.core/1) instead of text
    #[arg(long)]
    pub json: bool,

    /// Write the live heap as a pprof profile, gzipped; needs the probe
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write the live heap as folded stacks; needs the probe
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// Write the live heap as a flame graph; needs the probe
    #[arg(long, value_name = "FILE.svg|html")]
    pub flamegraph: Option<PathBuf>,

    /// Compare two moments of the observation, such as 20s,50s
    #[arg(long, value_name = "FROM,TO", value_parser = parse_moments)]
    pub diff: Option<(f64, f64)>,

    /// CPU time that observing may add to the program, in percent of what it uses itself (uprobes: or of one core, if
    /// that is more). Above it the probe samples less, then stops; uprobes are removed
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = parse_budget)]
    pub budget: f64,

    /// With --pid: read only, set no uprobes, even as root
    #[arg(long, requires = "pid")]
    pub read_only: bool,

    /// Longest pause allowed for sampling the allocations of a JVM or of Node, or for counting the objects of a JVM
    /// that cannot be read from outside (ZGC); 0s allows none. Other objects are read without one
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        value_parser = parse_pause,
        conflicts_with = "read_only"
    )]
    pub allow_pause: Duration,

    /// Print no progress on stderr
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
  sudo highwater explain --pid 4242                 attach to a running process: which function?
  highwater explain --pid 4242 --read-only          the same, but set nothing in the process
  highwater explain -- ./server --port 8080         start a program with the heap probe
  highwater explain --duration 5m -- ./server       observe longer: for slow growth
  highwater explain --flamegraph heap.svg -- ./job  also write a flame graph of the live heap
  highwater explain --core core.4242                a process that has ended
  highwater explain --oom --since 1h                why the OOM killer came";

const ENDS: &str = "\
A program started after -- prints to stderr and gets SIGTERM after the observation.
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
        text => Ok(units::parse_seconds(text)?),
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
    if let Some(why) = args.pid.and_then(|pid| why_not(&root, pid)) {
        anyhow::bail!(why);
    }
    let mut launched = match args.pid {
        Some(_) => None,
        None => Some(Launched::start(&args.command, args.budget)?),
    };
    let first = args
        .pid
        .unwrap_or_else(|| launched.as_ref().map_or(0, Launched::pid));
    let every = args
        .every
        .unwrap_or(args.duration / SNAPSHOTS)
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
