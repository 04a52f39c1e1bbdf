//! `highwater stalls`: why requests stall, who held what, and what they were doing.

mod answer;
mod extras;
mod replayed;
pub mod series;
mod session;
mod start;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use self::extras::Extras;
use self::session::Session;
use self::start::Subject;
use super::exit;
use super::explain::parse_budget;
use super::out::say;
use crate::cli::signals;
use bpf::allowed::{Allowed, Mode};
use sched::recorded::Cost;
use sched::recording::RecordingError;
use sched::room::Room;
use sched::watch::Watch;
use units::{parse_duration, parse_seconds};

/// Find why requests stall: which lock or resource, which thread holds it, and in which function
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  sudo highwater stalls --pid 4242               watch a running service for 30 s
  highwater stalls --pid 4242 --mode rootless    without root: your own process
  highwater stalls --pid 4242 --duration 5m      longer: for stalls that come minutes apart
  highwater stalls --pid 4242 --requests r.csv   account for the time of each slow request
  highwater stalls --json -- ./service --port 0  start a program, watch it until it ends
  highwater stalls --pid 4242 --record w.hws     keep what was seen: send it, or analyse it again
  highwater stalls --replay w.hws --threshold 5ms", after_help = "\
Exit codes: 0 watched, with stalls or without; 2 usage; 4 no such process, or no permission.")]
pub struct StallsArgs {
    /// Attach to this running process; of a server whose first process only starts others, to the child that works most
    #[arg(
        long,
        value_name = "PID",
        required_unless_present_any = ["command", "replay"],
        conflicts_with = "command"
    )]
    pub pid: Option<u32>,
    /// Watch the process of --pid itself, also where it only starts others
    #[arg(long, requires = "pid")]
    pub exact: bool,
    /// Write everything that the watch sees to this file, for --replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Analyse a recording that --record made, instead of a process; --threshold, --requests, --folded, --flamegraph,
    /// --trace and --json apply to it
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["pid", "command", "record", "duration", "mode", "budget", "span"]
    )]
    pub replay: Option<PathBuf>,
    /// How long to watch [default: 30s; with a command, until it ends]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// Shortest stall to report [default: three times the usual work of such a thread, within 1 to 100 ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub threshold: Option<Duration>,
    /// Print one JSON object (highwater.stalls/1) instead of text
    #[arg(long)]
    pub json: bool,
    /// How to watch: ebpf and tracepoints need root, rootless does not [default: the first that is permitted]
    #[arg(long, value_enum)]
    pub mode: Option<ModeWord>,
    /// CPU time that watching may add, in percent of what the process uses, or of one core if that is more. Above it
    /// the probes of --span are removed if they cost most; otherwise the watch ends and reports what it saw
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = parse_budget)]
    pub budget: f64,
    #[command(flatten)]
    pub extras: Extras,
    /// Start this command and watch it; it gets SIGTERM when the watch ends
    #[arg(last = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ModeWord {
    Ebpf,
    Tracepoints,
    Rootless,
}

pub fn run(args: &StallsArgs) -> Result<u8> {
    if args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(exit::Usage("--duration must be longer than nothing".into()).into());
    }
    if let Some(recording) = &args.replay {
        return replayed::run(args, recording);
    }
    let mode = mode(args)?;
    args.extras.check()?;
    if let Some(path) = args.record.as_ref().filter(|path| path.exists()) {
        return Err(RecordingError::Exists { path: path.clone() }.into());
    }
    let mut subject = Subject::of(args)?;
    // The command is started already; the thread that looks up names goes as this one does.
    start::go_first();
    let watch = opened(subject.pid(), mode, args.mode.is_some())
        .with_context(|| format!("watching process {} in mode {}", subject.pid(), mode.word()));
    let (mut watch, record) = match watch {
        Ok(opened) => opened,
        Err(error) => {
            subject.end();
            return Err(error.context("run `highwater doctor` to see what this user may watch"));
        }
    };
    if let (Subject::Worker(worker), Some(named)) = (&subject, args.pid) {
        let words = worker.words(named);
        say!("highwater: {words}");
        watch.missing.push(words);
    }
    if let Some(function) = &args.extras.span
        && let Err(error) = watch.watch_calls(function)
    {
        subject.end();
        return Err(anyhow::anyhow!("--span {function}: {error}"));
    }
    if args.extras.want_connections() {
        watch.watch_requests();
    }
    watch.set_budget(args.budget, record);
    let stop = signals::flag(signals::ENDING)?;
    let ended = Session::new(args, watch).and_then(|session| session.run(&stop, &mut subject));
    subject.end();
    let (ended, answer) = ended?;
    let printed = answer.print();
    if let Some(status) = ended.filter(|status| !status.success()) {
        say!("highwater: the command ended with {status}; the findings stand");
    }
    printed.map(|()| exit::DONE)
}

/// A kernel that refuses our programs after all is watched by its tracepoints, unless the user named the mode.
/// What a record costs is tried before: an unprivileged user's rings are as large as the kernel allows all together.
fn opened(pid: u32, mode: Mode, named: bool) -> std::io::Result<(Watch, Option<Cost>)> {
    let open = |mode| {
        let record = Cost::measure(mode);
        Watch::open(pid, mode, Room::One).map(|watch| (watch, record))
    };
    let refused = match open(mode) {
        Err(error) if mode == Mode::Ebpf && !named => error,
        other => return other,
    };
    let (mut watch, record) = open(Mode::Tracepoints)?;
    watch.missing.push(format!("eBPF: {refused}"));
    Ok((watch, record))
}

fn saturated_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn mode(args: &StallsArgs) -> Result<Mode> {
    let mode = match args.mode {
        Some(ModeWord::Ebpf) => Mode::Ebpf,
        Some(ModeWord::Tracepoints) => Mode::Tracepoints,
        Some(ModeWord::Rootless) => Mode::Rootless,
        None => Allowed::try_all().mode(),
    };
    if mode == Mode::None {
        anyhow::bail!(
            "this user may not watch switches here: perf_event_open is refused; \
             `highwater doctor` says what would allow it"
        );
    }
    Ok(mode)
}
