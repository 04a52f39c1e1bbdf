//! `highwater stalls`: why requests stall, who held what, and what they were doing.

mod extras;
pub mod series;
mod start;

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use self::extras::Extras;
use self::start::Subject;
use super::explain::parse_budget;
use super::out::{self, say};
use super::{conclude, exit};
use crate::cli::signals;
use bpf::allowed::{Allowed, Mode};
use observe::host::{Cpu, read_cpu};
use observe::proc::ProcRoot;
use report::overhead;
use report::stall::{SelfChecks, json, requests, text};
use sched::recorded::Cost;
use sched::room::Room;
use sched::time::now_ns;
use sched::watch::Watch;
use stalls::analyser::{Analyser, SETTLE_NS};
use stalls::event::Tid;
use stalls::finding::summarise;
use stalls::naming::{NamedFinding, named};
use stalls::stalled::Stall;
use units::{parse_duration, parse_seconds};
use verdict::stall::{is_worth_a_row, worth_a_row};

/// Find why requests stall: which lock or resource, which thread holds it, and in which function
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  sudo highwater stalls --pid 4242               watch a running service for 30 s
  highwater stalls --pid 4242 --mode rootless    without root: your own process
  highwater stalls --pid 4242 --duration 5m      longer: for stalls that come minutes apart
  highwater stalls --pid 4242 --requests r.csv   account for the time of each slow request
  highwater stalls --json -- ./service --port 0  start a program, watch it until it ends", after_help = "\
Exit codes: 0 watched, with stalls or without; 2 usage; 4 no such process, or no permission.")]
pub struct StallsArgs {
    /// Attach to this running process
    #[arg(
        long,
        value_name = "PID",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub pid: Option<u32>,
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

const ADVANCE_NS: u64 = 250_000_000;
const DURATION: Duration = Duration::from_secs(30);
/// A line of the live table. Where it cannot be written the watch goes on: the summary will say so.
fn show(line: &str) {
    let _ = out::print(&format!("{line}\n"));
}

/// Stalls still open are shown when this old, and again each time that long after.
const OPEN_SHOWN_NS: u64 = 5_000_000_000;
/// The time for them in each [`ADVANCE_NS`]: thousands that wait for one lock are walked for seconds, and records lost.
const OPEN_WORK_NS: u64 = 40_000_000;

pub fn run(args: &StallsArgs) -> Result<u8> {
    if args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(exit::Usage("--duration must be longer than nothing".into()).into());
    }
    let mode = mode(args)?;
    args.extras.check()?;
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
    if let Some(function) = &args.extras.span
        && let Err(error) = watch.watch_calls(function)
    {
        subject.end();
        return Err(anyhow::anyhow!("--span {function}: {error}"));
    }
    watch.set_budget(args.budget, record);
    let stop = signals::flag(signals::ENDING)?;
    let mut session = Session::new(args, watch);
    let ended = session.follow(&stop, &mut subject);
    let words = session.conclude();
    let written = args.extras.write(&session.analyser, &session.watch);
    subject.end();
    conclude::print(&words?)?;
    written?;
    if let Some(status) = ended.filter(|status| !status.success()) {
        say!("highwater: the command ended with {status}; the findings stand");
    }
    Ok(exit::DONE)
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

/// Of holders that nobody saw let go: which of their functions took the lock.
fn learn_holders(watch: &mut Watch, stalls: &[Stall]) {
    for stall in stalls {
        let leaf = &stall.leaf;
        if leaf.release != 0 || leaf.tid == stall.tid {
            continue;
        }
        for during in [leaf.stack, leaf.held] {
            watch.learn_holder(stall.waiter_stack, during);
        }
    }
}

struct Session<'a> {
    args: &'a StallsArgs,
    watch: Watch,
    analyser: Analyser,
    started_ns: u64,
    advanced_ns: u64,
    open_shown: HashMap<Tid, u64>,
    /// The last that was asked: the next turn goes on behind it.
    open_last: Tid,
    run_delay_start: HashMap<u32, u64>,
    run_delay_ns: u64,
    cpu_start: Option<Cpu>,
    others: HashMap<u32, (String, u64)>,
}

impl<'a> Session<'a> {
    fn new(args: &'a StallsArgs, watch: Watch) -> Session<'a> {
        let started_ns = now_ns();
        let living: Vec<Tid> = match args.pid {
            Some(_) => watch.known().map(|(tid, _)| Tid::from(*tid)).collect(),
            None => Vec::new(),
        };
        let mut analyser = Analyser::new(started_ns, living);
        analyser.lines.wakers_unseen = watch.wakers_are_unseen();
        analyser.lines.sampled = watch.samples_the_kernel();
        analyser.groups.carriers = watch.goroutines_are_unseen();
        analyser.pieces.wanted = args.extras.want_pieces();
        analyser.groups.fixed_ns = args.threshold.map(saturated_ns);
        Session {
            args,
            run_delay_start: start::run_delays(watch.pid),
            cpu_start: read_cpu(&ProcRoot::default()),
            others: start::cpu_times(),
            watch,
            analyser,
            started_ns,
            advanced_ns: started_ns,
            open_shown: HashMap::new(),
            open_last: 0,
            run_delay_ns: 0,
        }
    }

    /// Turn after turn until the time is up, the subject is gone or somebody interrupts.
    fn follow(&mut self, stop: &AtomicBool, subject: &mut Subject) -> Option<ExitStatus> {
        let duration = match (self.args.duration, self.args.command.is_empty()) {
            (Some(duration), _) => Some(duration),
            (None, true) => Some(DURATION),
            (None, false) => None,
        };
        let limit = duration.map(|time| self.started_ns.saturating_add(saturated_ns(time)));
        loop {
            sleep(self.watch.rest());
            let now = now_ns();
            let turn = self.watch.turn();
            let ended = turn.ended;
            self.analyser.take_turn(turn);
            if now - self.advanced_ns >= ADVANCE_NS {
                self.advanced_ns = now;
                self.advance(now);
            }
            let over = limit.is_some_and(|limit| now >= limit);
            if ended || over || stop.load(Ordering::Relaxed) {
                return subject.status();
            }
            if let Some(status) = subject.status() {
                return Some(status);
            }
        }
    }

    fn advance(&mut self, now: u64) {
        let ended = self
            .analyser
            .advance(now.saturating_sub(SETTLE_NS))
            .to_vec();
        learn_holders(&mut self.watch, &ended);
        if self.args.json {
            return;
        }
        let watched = self.watch.requesters();
        let findings = summarise(&ended, &self.analyser.groups, &watched);
        let asked = self.args.threshold.is_some();
        for finding in findings {
            // As the rule for a second's watch: what adds up only over the whole one comes there.
            if is_worth_a_row(&finding, 1_000_000_000, asked) {
                let row = named(&finding, &self.watch, &self.others_since());
                let line = text::line(finding.last_ns.saturating_sub(self.started_ns), &row);
                show(&line);
            }
        }
        self.show_open(now, &watched);
    }

    fn show_open(&mut self, now: u64, watched: &[Tid]) {
        let fresh = self.fresh_open(now);
        for stall in &fresh {
            self.open_shown.insert(stall.tid, now);
        }
        for finding in summarise(&fresh, &self.analyser.groups, watched) {
            let row = named(&finding, &self.watch, &[]);
            let line = text::line(now.saturating_sub(self.started_ns), &row);
            show(&line);
        }
    }

    /// Stalls of threads that have been stalled for long and were not shown lately, as many as the time for it allows:
    /// the rest comes next time.
    fn fresh_open(&mut self, now: u64) -> Vec<Stall> {
        let shown_ns = |tid| self.open_shown.get(&tid).copied().unwrap_or(0);
        let mut due: Vec<_> = self.analyser.busy_since().collect();
        due.retain(|(tid, since_ns)| {
            let long = now.saturating_sub(*since_ns) > OPEN_SHOWN_NS / 5;
            long && now.saturating_sub(shown_ns(*tid)) >= OPEN_SHOWN_NS
        });
        due.sort_unstable_by_key(|(tid, _)| (*tid <= self.open_last, *tid));
        let until_ns = now_ns() + OPEN_WORK_NS;
        let mut fresh = Vec::new();
        for (tid, since_ns) in due {
            if now_ns() > until_ns {
                break;
            }
            let open = self.analyser.open(tid, since_ns).into_iter();
            fresh.extend(open.filter(|stall| stall.open && stall.ns > OPEN_SHOWN_NS / 5));
            self.open_last = tid;
        }
        fresh
    }

    fn others_since(&self) -> Vec<(String, u64)> {
        match self.watch.mode {
            Mode::Ebpf => Vec::new(),
            _ => start::most_cpu_since(&self.others, self.watch.pid),
        }
    }

    fn conclude(&mut self) -> Result<String> {
        for event in self.watch.finish() {
            self.analyser.push(&event);
        }
        let ended_ns = now_ns();
        self.analyser.told_until(ended_ns);
        let watched_ns = ended_ns - self.started_ns;
        self.run_delay_ns = start::run_delay_since(self.watch.pid, &self.run_delay_start);
        self.analyser.finish();
        learn_holders(&mut self.watch, &self.analyser.stalls);
        let findings = summarise(
            &self.analyser.stalls,
            &self.analyser.groups,
            &self.watch.requesters(),
        );
        let asked = self.args.threshold.is_some();
        let all = findings.len();
        let others = self.others_since();
        let rows: Vec<NamedFinding> = worth_a_row(findings, watched_ns, asked)
            .iter()
            .map(|finding| named(finding, &self.watch, &others))
            .collect();
        let checks = self.checks(watched_ns, all - rows.len());
        let mode = self.watch.mode.word();
        let watched = (self.started_ns, now_ns());
        let extras = &self.args.extras;
        let overhead = self.watch.overhead(watched_ns as f64 / 1e9);
        let slow = extras.requests(self.args, &self.analyser, &self.watch, watched)?;
        if self.args.json {
            let mut value = json::render(&rows, mode, self.watch.pid, &checks);
            value["overhead"] = overhead::json(&overhead);
            if let Some(slow) = slow {
                value["requests"] = requests::json(&slow);
            }
            return Ok(format!("{value}\n"));
        }
        let mut words = text::summary(&rows, mode, &checks, conclude::terminal_width());
        words.push_str(&overhead::text(&overhead, conclude::terminal_width()));
        if let Some(slow) = slow {
            words.push_str(&requests::text(&slow));
        }
        Ok(words)
    }

    fn checks(&self, watched_ns: u64, below_the_rule: usize) -> SelfChecks {
        let losses = self.watch.losses();
        SelfChecks {
            watched_ns,
            threads: self.watch.known().count(),
            lost_records: losses.lost_records,
            lost_samples: losses.lost_samples,
            missed_switches: losses.missed_switches,
            unresolved_stacks: losses.unresolved_stacks,
            dropped_segments: self.analyser.lines.dropped,
            dropped_stalls: self.analyser.dropped_stalls,
            unwatched_threads: losses.unwatched_threads,
            left_out_below_ns: losses.left_out_below_ns,
            below_the_rule,
            run_delay_difference: start::difference(
                self.run_delay_ns,
                self.analyser.lines.runnable_ns,
            ),
            stolen_share: self
                .cpu_start
                .zip(read_cpu(&ProcRoot::default()))
                .and_then(|(before, now)| now.stolen_share_since(&before)),
            cpu_ns: start::own_cpu_ns(),
            missing: self.watch.all_missing(),
        }
    }
}
