//! One process under observation: what was read of it so far.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::ClockId;

use super::heaps::{Heaps, Plan};
use super::spent::Spent;
use heap::family::Member;
use heap::graph::Survey;
use heap::memory_managers::MemoryManagers;
use heap::namer::Namer;
use heap::{HeapReader, HeapSnapshot, Uprobes};
use memory::growth::{SAMPLES_MIN, window_start};
use memory::history::History;
use memory::managed::ManagedGrowth;
use observe::clock::read_ns;
use observe::overhead::BUDGET_SHARE;
use observe::proc::ProcRoot;
use observe::proc::open::Lost;
use observe::proc::pid::is_stopped;
use symbols::frame::Frame;

/// A last snapshot that misses more than half of what was sampled and so much is made again.
const MISSED_BYTES: f64 = 2_097_152.0;

/// A process that was first seen so long after the observation began was started meanwhile.
const BEGAN_S: f64 = 2.0;

/// One process under observation.
pub struct Tracked {
    pub reader: HeapReader,
    pub namer: Namer,
    pub history: History,
    pub snapshot: HeapSnapshot,
    pub managers: MemoryManagers,
    pub command: String,
    pub exe: Option<PathBuf>,
    /// Of its LD_PRELOAD.
    pub preloads: Vec<String>,
    pub ended: bool,
    /// Frames of stacks, by their key, wrappers included.
    pub frames: BTreeMap<u64, Vec<Frame>>,
    /// (lost, asked) by stack.
    pub lost: BTreeMap<u64, (usize, usize)>,
    /// Of the lost ones by stack, those that something points to.
    pub pointed: BTreeMap<u64, usize>,
    /// Of the heap, and when (CLOCK_MONOTONIC).
    pub survey: Option<(u64, Survey)>,
    /// The last search for pointers had to be broken off.
    pub search_is_cut: bool,
    /// The probe, or the uprobes, ended over the budget: the answer is from what was seen until then.
    pub has_stopped: bool,
    /// Stacks that are shown without names, because those did not come in time.
    pub unnamed: usize,
    /// What observing took of it.
    pub spent: Spent,
    /// Of its CPU time, or of a core, that uprobes may take.
    pub budget_share: f64,
    /// Of its runtimes, and what grew in them.
    pub heaps: Heaps,
    pub managed: Option<ManagedGrowth>,
    begin_s: f64,
}

impl Tracked {
    pub fn new(root: &ProcRoot, member: Member, begin_s: f64) -> Result<Tracked, Lost> {
        Ok(Tracked {
            reader: HeapReader::open(root, member)?,
            namer: Namer::new(member.pid),
            history: History::default(),
            snapshot: HeapSnapshot::default(),
            managers: MemoryManagers::default(),
            command: String::new(),
            exe: None,
            preloads: Vec::new(),
            ended: false,
            frames: BTreeMap::new(),
            lost: BTreeMap::new(),
            pointed: BTreeMap::new(),
            survey: None,
            search_is_cut: false,
            has_stopped: false,
            unnamed: 0,
            spent: Spent::default(),
            budget_share: BUDGET_SHARE,
            heaps: Heaps::default(),
            managed: None,
            begin_s,
        })
    }

    pub fn is_stopped(&self) -> bool {
        is_stopped(&ProcRoot::default(), self.reader.member.pid)
    }

    /// One snapshot; its CPU time.
    pub fn snapshot(&mut self, root: &ProcRoot, at_s: f64) -> Result<Duration, Lost> {
        let before = read_ns(ClockId::ThreadCPUTime);
        let exe = std::fs::read_link(root.process(self.reader.member.pid).join("exe")).ok();
        if self.has_stopped && exe == self.exe {
            self.spent.add(self.reader.member.pid as u32, None);
            return Ok(Duration::ZERO);
        }
        let mut snapshot = self.reader.snapshot()?;
        if exe != self.exe {
            // exec: another program in the same process.
            if self.exe.is_some() && !matches!(self.reader.uprobes, Uprobes::NotAsked) {
                self.reader.uprobes = Uprobes::Wanted {
                    at_start: true,
                    share: self.budget_share,
                };
            }
            self.exe = exe;
            self.history = History::default();
            self.frames.clear();
            self.namer = Namer::new(self.reader.member.pid);
            self.lost.clear();
            self.pointed.clear();
            self.survey = None;
            self.spent = Spent::default();
            self.heaps = self.heaps.renewed();
            self.has_stopped = false;
            self.begin_s = at_s;
            self.command = self.reader.command();
            self.preloads = self.reader.preloads();
        }
        self.spent
            .add(self.reader.member.pid as u32, snapshot.probe.as_ref());
        self.has_stopped = self.is_enough_without(&mut snapshot);
        if self.has_stopped {
            // When and why they went off is told with what was seen until then.
            if let (Some(last), Some(now)) = (&mut self.snapshot.probe, &snapshot.probe) {
                last.traps = now.traps;
            }
        } else {
            if snapshot.watched_anew {
                (self.history, snapshot.probe) = (History::default(), None);
            } else {
                self.history.add(at_s - self.begin_s, &snapshot);
            }
            self.snapshot = snapshot;
        }
        let cost = read_ns(ClockId::ThreadCPUTime) - before;
        Ok(Duration::from_nanos(cost.max(0) as u64))
    }

    /// Whether the probe, or the uprobes, ended for good before this snapshot, and enough was seen until then to judge
    /// growth: what they counted stays as it was from then on, and looks like a heap that no longer grows. Where it was
    /// not enough, the process is looked at without the probe.
    fn is_enough_without(&mut self, snapshot: &mut HeapSnapshot) -> bool {
        let Some(probe) = &snapshot.probe else {
            return false;
        };
        let has_given_up = probe.traps.is_some_and(|traps| traps.stopped.is_some());
        if probe.off.is_none() && !has_given_up {
            return false;
        }
        if self.history.snapshots_judged() >= SAMPLES_MIN {
            return true;
        }
        if let Some(why) = probe.off {
            let why = format!("the probe went off too early to classify growth: {why}");
            (snapshot.probe, snapshot.probe_problem) = (None, Some(why));
            if self.snapshot.probe.is_some() {
                self.history = History::default();
            }
        }
        false
    }

    /// The process has ended: what is known of it stays, and what was put on it goes, before another process may have
    /// its number.
    pub fn end(&mut self) {
        self.ended = true;
        self.take_uprobes_off();
    }

    /// See [`super::follow::Follower::conclude_heaps`].
    pub fn conclude_heaps(&mut self, at_s: f64, plan: &Plan) {
        if !self.ended {
            self.heaps.read_last(at_s, plan);
        }
        // What its start takes is left out, also of a process that began meanwhile.
        let has_begun = plan.at_start || self.begin_s > BEGAN_S;
        let from_s = if has_begun {
            window_start(self.begin_s, at_s)
        } else {
            0.0
        };
        self.managed = self.heaps.growth(from_s, plan);
    }

    /// What they told stays.
    pub fn take_uprobes_off(&mut self) {
        if matches!(self.reader.uprobes, Uprobes::On(_)) {
            self.reader.uprobes = Uprobes::NotAsked;
        }
    }

    /// See [`HeapReader::class`].
    pub fn class(&self, table: u64) -> Option<String> {
        self.reader.class(&self.snapshot, table)
    }

    /// Whether the last snapshot misses much of what the counters know.
    pub fn misses_much(&self) -> bool {
        let Some(probe) = &self.snapshot.probe else {
            return false;
        };
        let sampled: f64 = probe
            .blocks
            .iter()
            .map(|b| b.weight * b.usable_bytes as f64)
            .sum();
        let counted = probe.live_bytes_exact.unwrap_or(0) as f64;
        counted > 1.5 * sampled + MISSED_BYTES
    }
}

/// Why a process could not be read, and what to do.
pub fn words_of(lost: &Lost) -> String {
    match lost {
        Lost::Denied => "it may not be read: it belongs to another user, or ptrace_scope forbids it; run highwater as \
                         that user, or as root"
            .to_owned(),
        Lost::Malformed(malformed) => {
            format!("its memory map is not as proc(5) says ({malformed}); please report this, with the file")
        }
        other => format!("it cannot be read: {other}"),
    }
}
