//! The watch over one process: opens what the mode has, and gives the events of each turn, sorted.

mod admit;
mod answered;
mod at_place;
mod costs;
mod files;
mod goroutines;
mod holder;
mod opened;
mod python;
mod root;
mod rootless;
mod running;
mod sample;
mod seen;
mod short;
mod threads;

use std::io;
use std::time::Duration;

use super::answers::Answers;
use super::calls::Calls;
use super::ebpf::Ebpf;
use super::ebpf::record::Record;
use super::events::Events;
use super::gap::Gap;
use super::golang::{Goroutines, Probe};
use super::open_files::{raise_the_limit, spare_files};
use super::pace::Pace;
use super::places::Places;
use super::quota::{Quotas, Stretch};
use super::requests::{Answered, Reply, Request};
use super::room::Room;
use super::spans::Spans;
use super::time::now_ns;
use super::waits::Waits;
use crate::event::{Event, StackId, TextId, Tid, What};
use bpf::allowed::Mode;
use bpf::ring::Sample;
use observe::table::Table;
use symbols::python::threads::PythonThreads;
use symbols::unwind::Stacks;

use self::costs::Costs;
use self::files::Files;
use self::opened::Opened;
pub use self::threads::Known;
use self::threads::Threads;

/// Events newer than this are held back for the next turn: rings of different CPUs are read one
/// after the other.
const HOLD_BACK_NS: u64 = 3_000_000;
/// A record older than this is in its ring.
const IN_FLIGHT_NS: u64 = 200_000;
/// New libraries and threads are looked for this often.
const RESCAN_NS: u64 = 100_000_000;
/// And no more often than this for each thread.
const RESCAN_EACH_NS: u64 = 100_000;
/// Samples whose stack is unwound in one turn.
const UNWOUND_PER_TURN: u32 = 64;
/// `cpu.stat` is read this often.
const QUOTA_NS: u64 = 20_000_000;

/// In the list of who ran instead.
pub const OWN_THREADS: &str = "its own threads";
pub const OURSELVES: &str = "highwater itself";

pub struct Watch {
    pub pid: u32,
    own_pid: u32,
    pub mode: Mode,
    pub places: Places,
    /// Why parts of the mode are missing, in words.
    pub missing: Vec<String>,
    source: Source,
    samples: Option<Events>,
    stacks: Stacks,
    waits: Waits,
    quotas: Quotas,
    threads: Threads,
    go: Option<Goroutines>,
    spans: Option<Spans>,
    answers: Option<Answers>,
    groups: Vec<(Tid, Option<u64>)>,
    held: Vec<Event>,
    rescanned_ns: u64,
    quota_ns: u64,
    wait_samples: u64,
    unwound: u32,
    missed_switches: u64,
    /// Records lost up to the last turn.
    lost_seen: u64,
    /// Of which time the last reading had not all records, without eBPF.
    gap: Option<Gap>,
    /// Without privileges; as root the kernel leaves out what is too much.
    pace: Pace,
    /// Where in a sample of a waking the woken thread stands; with perf's tracepoints only.
    woken_at: Option<i16>,
    /// Resident pages, and when they were read; without privileges only.
    size: (u64, u64),
    /// Where among the threads the next turn begins to ask.
    asked: usize,
    /// Code was seen that is in no known mapping.
    stale: bool,
    /// Stacks of wakers by their fingerprints.
    releases: Table<u64, StackId>,
    /// By the place of a wait for a device, its stack without functions of Python and with; none where two were seen.
    at_places: Table<u32, Option<(StackId, StackId)>>,
    /// The group of goroutines by where their stacks begin.
    of_stacks: Table<StackId, Option<u64>>,
    /// Room for one turn's records; of a Go program, what came after the last turn's cut.
    records: Vec<Record>,
    probes: Vec<Probe>,
    calls: Calls,
    python: Option<PythonThreads>,
    python_sought: u32,
    files: Files,
    /// Who had a CPU before one of ours, by process and name.
    programs: Table<(u32, [u8; 16]), TextId>,
    costs: Costs,
    /// By the stacks of a waiter and of a holder, the function that took the lock.
    holders: Table<(StackId, StackId), Option<String>>,
}

enum Source {
    Ebpf(Ebpf),
    Threads,
}

/// What one turn brought.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Turn {
    pub events: Vec<Event>,
    /// All events up to then have been told: since then nothing is known of any thread.
    pub told_ns: u64,
    pub throttled: Vec<Stretch>,
    /// Threads whose entry function became known: (thread, its hash); `None` is a goroutine that
    /// runs nothing of the program's own.
    pub groups: Vec<(Tid, Option<u64>)>,
    /// Requests on its connections that were answered.
    pub answered: Vec<Answered>,
    /// Replies that it waited for on those that it opened.
    pub replies: Vec<Reply>,
    /// The process is gone, or the watch over its budget.
    pub ended: bool,
}

/// Counts for the self-checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Losses {
    pub lost_records: u64,
    /// Switches that must have been, for another followed that makes no sense without.
    pub missed_switches: u64,
    pub lost_samples: u64,
    pub unresolved_stacks: u64,
    pub refused_stacks: u64,
    pub wait_samples: u64,
    /// Threads that could not be watched.
    pub unwatched_threads: u64,
    /// Waits shorter than this were left out while there were too many; 0: none.
    pub left_out_below_ns: u64,
}

impl Watch {
    /// Starts to watch `pid` in `mode`, with rings of the size that `room` says.
    ///
    /// # Errors
    /// The process is not there, or the kernel refuses what the mode needs.
    pub fn open(pid: u32, mode: Mode, room: Room) -> io::Result<Watch> {
        let now = now_ns();
        let tids = threads::busiest_first(pid, threads::list(pid)?);
        let Opened {
            source,
            samples,
            missing,
            woken_at,
        } = Opened::of(pid, mode, &tids, room)?;
        let mut watch = Watch {
            pid,
            own_pid: std::process::id(),
            mode,
            places: Places::new(pid),
            missing,
            source,
            samples,
            stacks: Stacks::new(pid),
            waits: Waits::of(pid),
            quotas: Quotas::of(pid, now),
            threads: Threads::new(pid),
            go: None,
            spans: None,
            answers: None,
            groups: Vec::new(),
            held: Vec::new(),
            rescanned_ns: 0,
            quota_ns: now,
            wait_samples: 0,
            unwound: 0,
            missed_switches: 0,
            lost_seen: 0,
            gap: None,
            pace: Pace::default(),
            woken_at,
            size: (0, 0),
            asked: 0,
            stale: true,
            releases: Table::default(),
            at_places: Table::default(),
            of_stacks: Table::default(),
            records: Vec::new(),
            probes: Vec::new(),
            calls: Calls::of(pid),
            python: None,
            python_sought: 0,
            files: Files::of(pid),
            programs: Table::default(),
            costs: Costs::of(pid),
            holders: Table::default(),
        };
        watch.open_go();
        watch.find_runtimes();
        raise_the_limit();
        let spare = spare_files();
        for tid in &tids {
            watch.admit(*tid)?;
        }
        drop(spare);
        if watch.threads.unwatched() > 0 {
            watch.missing.push(format!(
                "{} of {} threads, beyond the limit of open files (`ulimit -n`)",
                watch.threads.unwatched(),
                tids.len()
            ));
        }
        watch.hold_kernel_memory(room)?;
        Ok(watch)
    }

    /// Calls of `function` are timed from now on.
    ///
    /// # Errors
    /// See [`Spans::watch`].
    pub fn watch_calls(&mut self, function: &str) -> io::Result<()> {
        self.spans = Some(Spans::watch(self.pid, function)?);
        Ok(())
    }

    /// The timed calls so far.
    pub fn spans(&self) -> Option<&[Request]> {
        self.spans.as_ref().map(|spans| spans.calls.as_slice())
    }

    /// Nobody tells who woke whom.
    pub fn wakers_are_unseen(&self) -> bool {
        self.mode == Mode::Rootless
    }

    /// The clock's samples come from within the kernel too, and none is left out. Those of a Go program belong to
    /// goroutines, and its threads' times do not.
    pub fn samples_the_kernel(&self) -> bool {
        self.mode == Mode::Ebpf && self.go.is_none()
    }

    /// Threads watched so far, living or not.
    pub fn known(&self) -> impl Iterator<Item = (&u32, &Known)> {
        self.threads.iter()
    }

    /// Those that may serve a request: threads, or goroutines where there are any.
    pub fn requesters(&self) -> Vec<Tid> {
        match self.goroutines() {
            seen if seen.is_empty() => self.known().map(|(tid, _)| Tid::from(*tid)).collect(),
            seen => seen,
        }
    }

    pub fn name(&self, tid: Tid) -> String {
        if tid >= crate::event::GOROUTINES {
            return "goroutine".to_string();
        }
        self.threads.name(tid)
    }

    pub fn quota_groups(&self) -> Vec<String> {
        self.quotas.names().map(str::to_string).collect()
    }

    pub fn losses(&self) -> Losses {
        let ring = match &self.source {
            Source::Ebpf(ebpf) => ebpf.lost(),
            Source::Threads => 0,
        };
        let left_out_below_ns = match &self.source {
            Source::Ebpf(ebpf) => ebpf.left_out_below_ns(),
            Source::Threads => self.pace.highest_ns,
        };
        Losses {
            left_out_below_ns,
            lost_records: ring
                + self.go.as_ref().map_or(0, |go| go.hits.counted().lost)
                + self.spans.as_ref().map_or(0, Spans::missing),
            missed_switches: self.missed_switches,
            lost_samples: self.samples.as_ref().map_or(0, |samples| samples.lost),
            unresolved_stacks: self.places.unresolved,
            refused_stacks: self.places.refused,
            wait_samples: self.wait_samples,
            unwatched_threads: self.threads.unwatched(),
        }
    }

    /// From one turn to the next; what comes meanwhile fits the rings many times over at 50,000 switches a second.
    /// Turns are most of what a quiet subject costs (100 us each, as root, of which its sleep is 30). As root the
    /// kernel tells what a wait was; without, the stack that each turn samples tells.
    pub fn rest(&self) -> Duration {
        match self.mode {
            Mode::Ebpf => Duration::from_millis(40),
            _ => Duration::from_millis(10),
        }
    }

    /// Everything since the last turn.
    pub fn turn(&mut self) -> Turn {
        let mut turn = Turn::default();
        self.unwound = 0;
        let now = now_ns();
        // The list of ten thousand threads takes milliseconds.
        if now - self.rescanned_ns >= RESCAN_NS.max(self.threads.len() as u64 * RESCAN_EACH_NS) {
            self.rescanned_ns = now;
            turn.ended = !self.rescan();
        }
        self.drain(now.saturating_sub(IN_FLIGHT_NS));
        turn.groups = std::mem::take(&mut self.groups);
        self.sample_waits(now, &mut turn.groups);
        self.name_stacks();
        self.doubt(now);
        if now - self.quota_ns >= QUOTA_NS {
            self.quota_ns = now;
            turn.throttled = self.quotas.poll(now);
        }
        turn.ended |= self.is_over_budget(now);
        turn.answered = self.answered(now, now.saturating_sub(IN_FLIGHT_NS));
        turn.replies = self.replies(now.saturating_sub(IN_FLIGHT_NS));
        turn.events = self.release(now);
        turn.told_ns = now.saturating_sub(HOLD_BACK_NS);
        turn
    }

    /// What was held back; the watch is over.
    pub fn finish(&mut self) -> Vec<Event> {
        self.drain(u64::MAX);
        self.places.name_all();
        self.release(u64::MAX)
    }

    fn drain(&mut self, cut_ns: u64) {
        if let Some(spans) = &mut self.spans {
            spans.drain();
        }
        match self.source {
            Source::Ebpf(_) => self.drain_ebpf(cut_ns),
            Source::Threads => self.drain_threads(),
        }
    }

    fn release(&mut self, now: u64) -> Vec<Event> {
        self.held.sort_by_key(|event| event.at_ns);
        let limit = now.saturating_sub(HOLD_BACK_NS);
        let ready = self.held.partition_point(|event| event.at_ns <= limit);
        self.held.drain(..ready).collect()
    }

    /// In a Go program a thread stands for the goroutine that is on it.
    fn tell(&mut self, at_ns: u64, tid: u32, what: What) {
        let tid = match &self.go {
            Some(go) => match go.on_thread(tid, at_ns) {
                Some(goroutine) => goroutine,
                None => return self.without_goroutine(at_ns, tid, what),
            },
            None => Tid::from(tid),
        };
        self.held.push(Event { at_ns, tid, what });
    }

    /// A sample of the clock, or a major fault, of one of our threads.
    fn sampled(&mut self, sample: &Sample) {
        let Some(user) = sample.user.filter(|_| sample.pid == self.pid) else {
            return;
        };
        self.stale |= !self.stacks.is_code(user.pc);
        if let Some(known) = self.threads.get(sample.tid) {
            known.sampled_ns = sample.at_ns;
        }
        // A storm of faults has the same few stacks: some of each turn are enough.
        self.unwound += 1;
        let mut addresses = match self.unwound <= UNWOUND_PER_TURN {
            true => self.stacks.of_bytes(user, sample.stack),
            false => Vec::new(),
        };
        if sample.address == 0 {
            self.add_walked_python((sample.tid, sample.at_ns), &mut addresses);
        }
        let stack = self.places.stack(&addresses);
        let what = if sample.address == 0 {
            What::OnCpu {
                stack,
                activity: 0,
                allocator: self.places.stack_of(stack).allocator,
            }
        } else {
            let words = match self.stacks.file_at(sample.address) {
                Some(file) => format!("major faults on {file}"),
                None => "major faults on anonymous memory".to_string(),
            };
            What::Faulted {
                activity: self.places.text(&words),
                stack,
            }
        };
        self.tell(sample.at_ns, sample.tid, what);
    }
}
