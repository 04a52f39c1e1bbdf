//! A watch of a live process: turn after turn, a line for each stall that ends, then the answer.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::answer::Answer;
use super::start::{self, Subject};
use super::{StallsArgs, saturated_ns};
use crate::cli::out::say;
use crate::cli::{conclude, out};
use bpf::allowed::Mode;
use observe::host::{Cpu, read_cpu};
use observe::proc::ProcRoot;
use report::overhead;
use report::stall::text;
use report::visible::visible;
use sched::listen;
use sched::recording::{Closing, End, Facts, Recorder, Written};
use sched::time::now_ns;
use sched::watch::{Turn, Watch};
use stalls::analyser::Analyser;
use stalls::event::Tid;
use stalls::felt::Felt;
use stalls::finding::summarise;
use stalls::naming::named;
use stalls::pieces::Keep;
use stalls::stalled::Stall;
use units::written::{bytes, counted};
use verdict::stall::is_worth_a_row;

const DURATION: Duration = Duration::from_secs(30);
/// Stalls still open are shown when this old, and again each time that long after.
const OPEN_SHOWN_NS: u64 = 5_000_000_000;
/// The time for them each time that stalls are shown: thousands that wait for one lock are walked for seconds, and
/// records lost.
const OPEN_WORK_NS: u64 = 40_000_000;

pub struct Session<'a> {
    args: &'a StallsArgs,
    watch: Watch,
    facts: Facts,
    analyser: Analyser,
    recorder: Option<Recorder>,
    open_shown: HashMap<Tid, u64>,
    /// The last that was asked: the next turn goes on behind it.
    open_last: Tid,
    run_delay_start: HashMap<u32, u64>,
    cpu_start: Option<Cpu>,
    others: HashMap<u32, (String, u64)>,
    overflows_start: Option<u64>,
}

impl<'a> Session<'a> {
    /// # Errors
    /// The recording cannot be made.
    pub fn new(args: &'a StallsArgs, watch: Watch) -> Result<Session<'a>> {
        let living: Vec<Tid> = match args.pid {
            Some(_) => watch.known().map(|(tid, _)| Tid::from(*tid)).collect(),
            None => Vec::new(),
        };
        let facts = Facts::of(&watch, now_ns(), living, env!("CARGO_PKG_VERSION"));
        let create = |path| Recorder::create(path, &facts);
        let recorder = args.record.as_deref().map(create).transpose()?;
        let mut analyser = Analyser::of(&facts);
        analyser.pieces.keep = match args.extras.pieces() {
            Keep::Newest if watch.unseen_requests(now_ns()).is_none() => Keep::None,
            keep => keep,
        };
        analyser.groups.fixed_ns = args.threshold.map(saturated_ns);
        analyser.connections.asked_ns = analyser.groups.fixed_ns;
        Ok(Session {
            args,
            run_delay_start: start::run_delays(watch.pid),
            cpu_start: read_cpu(&ProcRoot::default()),
            others: start::cpu_times(),
            overflows_start: listen::overflows(watch.pid),
            watch,
            facts,
            analyser,
            recorder,
            open_shown: HashMap::new(),
            open_last: 0,
        })
    }

    /// Until the time is up, the subject is gone or somebody interrupts; how a command ended, and the answer.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        subject: &mut Subject,
    ) -> Result<(Option<ExitStatus>, Answer)> {
        let ended = self.follow(stop, subject);
        let (closing, recorded) = self.conclude();
        let answer = Answer::of(
            self.args,
            &mut self.analyser,
            &self.watch,
            &self.facts,
            &closing,
        )?;
        Ok((ended, answer.and(recorded)))
    }

    fn follow(&mut self, stop: &AtomicBool, subject: &mut Subject) -> Option<ExitStatus> {
        let duration = match (self.args.duration, self.args.command.is_empty()) {
            (Some(duration), _) => Some(duration),
            (None, true) => Some(DURATION),
            (None, false) => None,
        };
        let started_ns = self.facts.started_ns;
        let limit = duration.map(|time| started_ns.saturating_add(saturated_ns(time)));
        loop {
            sleep(self.watch.rest());
            let now = now_ns();
            let turn = self.watch.turn();
            let ended = turn.ended;
            if let Some(recorder) = &mut self.recorder {
                recorder.turn(&turn, now, &mut self.watch);
            }
            if let Some(stalls) = self.analyser.follow(turn, now).map(<[Stall]>::to_vec) {
                self.show_ended(&stalls, now);
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

    fn show_ended(&mut self, ended: &[Stall], now: u64) {
        learn_holders(&mut self.watch, ended);
        if self.args.json {
            return;
        }
        let watched = self.watch.requesters();
        let felt = self.analyser.connections.felt();
        let findings = summarise(ended, &self.analyser.groups, &felt, &watched);
        let asked = self.args.threshold.is_some();
        for finding in findings {
            // As the rule for a second's watch: what adds up only over the whole one comes there.
            if is_worth_a_row(&finding, 1_000_000_000, asked) {
                let row = named(&finding, &self.watch, &self.others_since());
                let line = text::line(finding.last_ns.saturating_sub(self.facts.started_ns), &row);
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
        for finding in summarise(&fresh, &self.analyser.groups, &Felt::default(), watched) {
            let row = named(&finding, &self.watch, &[]);
            let line = text::line(now.saturating_sub(self.facts.started_ns), &row);
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

    /// The end of the watch, of the analysis and of the recording.
    fn conclude(&mut self) -> (Closing, Result<()>) {
        let rest = self.watch.finish();
        let ended_ns = now_ns();
        let rest = Turn {
            answered: self.watch.answered(ended_ns, u64::MAX),
            replies: self.watch.replies(u64::MAX),
            events: rest,
            told_ns: ended_ns,
            ..Turn::default()
        };
        self.analyser.take_turn(rest.clone());
        self.analyser.finish();
        learn_holders(&mut self.watch, &self.analyser.stalls);
        let closing = self.closing(ended_ns);
        let recorder = self.recorder.take();
        let written = recorder.map(|recorder| recorder.finish(&rest, &closing, &mut self.watch));
        (closing, written.as_ref().map_or(Ok(()), tell))
    }

    fn closing(&mut self, ended_ns: u64) -> Closing {
        let watched_ns = ended_ns - self.facts.started_ns;
        let cost = self.watch.overhead(watched_ns as f64 / 1e9);
        let stolen = self.cpu_start.zip(read_cpu(&ProcRoot::default()));
        let mut missing = self.watch.all_missing();
        let overflows = listen::overflows(self.watch.pid).zip(self.overflows_start);
        let overflows = overflows.map_or(0, |(now, before)| now.saturating_sub(before));
        if overflows > 0 {
            missing.push(listen::sentence(overflows));
        }
        Closing {
            ended_ns,
            requesters: self.watch.requesters(),
            threads: self.watch.known().count() as u64,
            losses: self.watch.losses(),
            quota_groups: self.watch.quota_groups(),
            missing,
            others: self.others_since(),
            run_delay_ns: start::run_delay_since(self.watch.pid, &self.run_delay_start),
            stolen_share: stolen.and_then(|(before, now)| now.stolen_share_since(&before)),
            calls: self.watch.spans().map(<[_]>::to_vec),
            unseen_requests: self.watch.unseen_requests(ended_ns),
            own_cpu_ns: start::own_cpu_ns(),
            cost_text: overhead::text(&cost, conclude::terminal_width()),
            cost_json: overhead::json(&cost).to_string(),
        }
    }
}

/// A line of the live table. Where it cannot be written the watch goes on: the summary will say so.
fn show(line: &str) {
    let _ = out::print(&format!("{}\n", visible(line)));
}

/// # Errors
/// It was to be longer.
fn tell(written: &Written) -> Result<()> {
    let path = written.path.display();
    let events = counted(written.events, "event", "events");
    let size = bytes(written.bytes as f64);
    match &written.ended {
        None => say!("highwater: recorded {events}, {size}: highwater stalls --replay {path}"),
        Some(End::Failed(why)) => anyhow::bail!(
            "{path} ends before the watch: {why}; what is in it can be read with --replay"
        ),
        Some(full) => say!(
            "highwater: {path} ends before the watch: {full}; what is in it can be read with --replay"
        ),
    }
    Ok(())
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
