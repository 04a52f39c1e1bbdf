//! The observer: one call, one look at everything.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::look::{EventKind, Look, ProcessId, Role, Target, TimeNs};
use super::metric;
use super::page::Page;
use super::proc::ProcRoot;
use super::proc::open::DESCRIPTORS;
use super::proc::process::{Ended, Loss, ProcessReader, Shares, Vital};

/// What a look may cost, and when a process counts as hung.
#[derive(Debug, Clone)]
pub struct Options {
    /// Part of one core that walking the threads of all processes may take together.
    pub share_tasks: f64,
    /// The same for smaps_rollup (PSS, LazyFree ...), which walks page tables.
    pub share_rollup: f64,
}

impl Default for Options {
    fn default() -> Self {
        // The bar is 2 % of one core for 200 processes once a second; stat and status of 200
        // processes take 0.3 to 0.4 %. bench/observe/README.md has what came out.
        Options {
            share_tasks: 0.004,
            share_rollup: 0.004,
        }
    }
}

/// Looks at processes and keeps what it must remember of each between two looks.
#[derive(Debug)]
pub struct Observer {
    root: ProcRoot,
    options: Options,
    watched: HashMap<ProcessId, Watched>,
    /// Descriptors that may stay open between looks, all processes together.
    descriptors: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Watched {
    pid: i32,
    start_ticks: u64,
    reader: ProcessReader,
    /// It ended: nothing more is read, nothing more is said.
    ended: bool,
    /// What was already said to be lost.
    said: HashSet<&'static str>,
}

impl Observer {
    pub fn new(root: ProcRoot, options: Options) -> Observer {
        Observer {
            root,
            options,
            watched: HashMap::new(),
            descriptors: descriptors_to_keep(),
            buffer: Vec::new(),
        }
    }

    /// Reads everything once. Never fails as a whole: what cannot be read is an event.
    pub fn look(&mut self, now: TimeNs, targets: &[Target]) -> Look {
        let begin = Instant::now();
        let mut look = Look {
            time: now,
            samples: Vec::with_capacity(targets.len() * 24),
            facts: Vec::new(),
            histograms: Vec::new(),
            events: Vec::new(),
        };
        self.forget(targets);
        let shares = self.shares(targets.len());
        for target in targets.iter().filter(|target| target.role != Role::Host) {
            self.look_at(target, shares, &mut look);
        }
        if let Some(own) = targets.iter().find(|target| target.role == Role::Highwater) {
            let cost = begin.elapsed().as_nanos() as u64;
            Page::new(&mut look, own.process).value(metric::LOOK_COST, cost);
        }
        look
    }

    fn shares(&self, processes: usize) -> Shares {
        let processes = processes.max(1) as f64;
        Shares {
            tasks: self.options.share_tasks / processes,
            rollup: self.options.share_rollup / processes,
        }
    }

    /// Lets go of processes that are no targets any more.
    fn forget(&mut self, targets: &[Target]) {
        let wanted: HashSet<ProcessId> = targets.iter().map(|target| target.process).collect();
        self.watched.retain(|process, _| wanted.contains(process));
    }

    fn look_at(&mut self, target: &Target, shares: Shares, look: &mut Look) {
        let mut page = Page::new(look, target.process);
        self.watch(target);
        let Some(watched) = self.watched.get_mut(&target.process) else {
            return;
        };
        if watched.ended {
            return;
        }
        let mut losses = Vec::new();
        let read = watched.reader.look(
            page.time(),
            shares,
            &mut self.buffer,
            &mut page,
            &mut losses,
        );
        match read {
            Ok(vital) => watched.follow(target, vital.as_ref(), &mut page),
            Err(ended) => {
                watched.ended = true;
                page.event(EventKind::Vanished, ended_words(target, &ended));
            }
        }
        watched.say(target, losses, &mut page);
        watched.reader.rest();
    }

    /// Starts to watch a target, or starts anew when its process changed.
    fn watch(&mut self, target: &Target) {
        let known = self.watched.get(&target.process);
        if known.is_some_and(|w| w.pid == target.pid && w.start_ticks == target.start_ticks) {
            return;
        }
        let kept = self
            .watched
            .values()
            .filter(|w| w.reader.keeps() && !w.ended)
            .count();
        let keep = (kept + 1) * DESCRIPTORS <= self.descriptors;
        let reader = ProcessReader::new(
            &self.root,
            target.pid,
            target.start_ticks,
            keep,
            target.process.0,
        );
        let (pid, start_ticks) = (target.pid, target.start_ticks);
        let said = HashSet::new();
        let watched = Watched {
            pid,
            start_ticks,
            reader,
            ended: false,
            said,
        };
        self.watched.insert(target.process, watched);
    }
}

impl Watched {
    fn follow(&mut self, _target: &Target, _vital: Option<&Vital>, _page: &mut Page<'_>) {}

    /// Says what is lost, each thing once.
    fn say(&mut self, target: &Target, losses: Vec<Loss>, page: &mut Page<'_>) {
        for loss in losses {
            if self.said.insert(loss.what) {
                page.event(
                    EventKind::Degraded,
                    format!(
                        "pid {}: {} cannot be read ({}); it is missing from the samples. \
                         `highwater doctor` says what this machine allows",
                        target.pid, loss.what, loss.why
                    ),
                );
            }
        }
    }
}

fn ended_words(target: &Target, ended: &Ended) -> String {
    let pid = target.pid;
    match ended {
        Ended::Gone => format!("pid {pid} is gone"),
        Ended::Zombie => format!("pid {pid} has ended; its parent has not asked for its exit code"),
        Ended::Reused { start_ticks } => format!(
            "pid {pid} belongs to another process now: it started {start_ticks} ticks after boot, \
             the one to look at {} ticks",
            target.start_ticks
        ),
    }
}

/// Half of the descriptors that this process may open; the rest is for pipes, logs and fetches.
fn descriptors_to_keep() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |soft| soft as usize) / 2
}
