//! One snapshot of a Go program, put together.

use std::cell::RefCell;
use std::collections::HashMap;

use observe::fact::memory::{Memory, ProcessMemory};

use super::budget::Budget;
use super::goroutines::{Count, Groups, Key, Reader, State, is_system};
use super::names::{Names, is_runtime};
use super::profile::{self, Reading, Sites, Sums};
use super::{Go, gone_or, search, sizes};
use crate::{Error, Frame, Limits, SiteCount, Snapshot, TaskGroup};
use symbols::golang::binary::{Binary, Mapped, read_text};
use symbols::golang::paged::Paged;
use symbols::golang::pclntab::Table;
use symbols::golang::reasons;

/// Go's default, in bytes.
const RATE: u64 = 512 << 10;
/// Of a frame with its names, at most usually.
const FRAME_BYTES: usize = 300;

/// Variables that were found without symbols, from the first snapshot on.
#[derive(Debug, Default)]
pub(super) struct Found {
    buckets: Option<u64>,
    goroutines: Option<u64>,
    reasons: Vec<String>,
    /// Snapshots until a search that failed is repeated, and how many it was the last time.
    wait: u32,
    pause: u32,
}

/// A search that failed is repeated after 1, 2, 4 and so on snapshots, and at most so many.
const PAUSE_MAX: u32 = 64;
/// Of the time of a snapshot, one part in so many is for searches.
const SEARCH_PART: u32 = 4;

type Named<'a> = Names<'a, Paged<'a>>;

impl Go {
    pub(super) fn read(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        // It tells a process that has ended, whose memory reads as nothing.
        let first = self.memory.u32(self.module.data.start);
        first.ok_or_else(|| gone_or(self.pid, "its data"))?;
        self.find(limits);
        let mut budget = Budget::new(limits);
        let mut snapshot = Snapshot::default();
        let file = Mapped(&self.binary);
        let table = Table::new(Paged::new(&file), self.module.clone());
        let names = Names::new(table, &self.binary);
        snapshot.heap = self.heap(&mut snapshot.missing);
        self.tasks(&names, &mut budget, &mut snapshot);
        self.sites(&names, &mut budget, &mut snapshot);
        snapshot.is_partial = budget.spent().is_some();
        Ok(snapshot)
    }

    /// Variables without symbols. The profile may be empty at first: a search that fails is repeated, but ever less
    /// often.
    fn find(&mut self, limits: &Limits) {
        if self.found.wait > 0 {
            self.found.wait -= 1;
            return;
        }
        let mut budget = Budget::new(&Limits {
            time: limits.time / SEARCH_PART,
            ..*limits
        });
        let is_whole = self.search(&mut budget);
        if !is_whole {
            self.found.pause = (self.found.pause * 2).clamp(1, PAUSE_MAX);
            self.found.wait = self.found.pause;
        }
    }

    /// Whether nothing is left to search.
    fn search(&mut self, budget: &mut Budget) -> bool {
        let (memory, module, layout) = (&self.memory, &self.module, &self.layout);
        let found = &mut self.found;
        let has_buckets = self.binary.variable("runtime.mbuckets").is_some();
        let has_goroutines = self.binary.variable("runtime.allgptr").is_some();
        if !has_goroutines && found.goroutines.is_none() {
            found.goroutines = search::goroutines(memory, module, layout, budget);
        }
        if found.reasons.is_empty() {
            found.reasons = reasons::read(memory, &self.binary, module, &mut || budget.step());
        }
        if !has_buckets && found.buckets.is_none() {
            found.buckets = search::buckets(memory, module, layout, budget);
        }
        (has_buckets || found.buckets.is_some())
            && (has_goroutines || found.goroutines.is_some())
            && !found.reasons.is_empty()
    }

    fn heap(&self, missing: &mut Vec<String>) -> Option<crate::HeapSize> {
        let Some(controller) = self.binary.variable("runtime.gcController") else {
            missing.push(
                "The sizes of the heap are not known: the program has no symbols (-ldflags=-s)."
                    .to_owned(),
            );
            return None;
        };
        let stats = self.binary.variable("runtime.memstats");
        sizes::read(&self.memory, controller, stats, &self.layout)
    }

    fn sites(&self, names: &Named, budget: &mut Budget, snapshot: &mut Snapshot) {
        let Some((head, reading)) = self.profile(&mut snapshot.missing) else {
            return;
        };
        let memory = Paged::new(&self.memory);
        let (sites, walked) = profile::read(&memory, head, &reading, budget);
        snapshot.missing.extend(walked.err());
        let is_stripped = self.binary.variable("runtime.MemProfileRate").is_none();
        let count = sites.len();
        let (sites, read) = site_counts(sites, names, budget);
        if read < count {
            let why = budget.spent().unwrap_or_default();
            let cut = format!("Of {count} allocation stacks {read} were named: {why}.");
            snapshot.missing.push(cut);
        }
        // A program without a profile may have sampled one of the runtime's first allocations.
        let is_profile = !is_stripped || sites.iter().any(|site| is_of_program(&site.frames));
        match is_profile {
            true => snapshot.sites = sites,
            false => snapshot.missing.push(NOT_FOUND.to_owned()),
        }
        if is_profile && is_stripped {
            snapshot.missing.push(RATE_NOT_KNOWN.to_owned());
        }
    }

    /// The head of the heap profile and how to read it; what is in the way otherwise.
    fn profile(&self, missing: &mut Vec<String>) -> Option<(u64, Reading)> {
        let memory = &self.memory;
        let variable = |name: &str| self.binary.variable(name);
        let is_left_out = variable("runtime.disableMemoryProfiling").and_then(|at| {
            let mut byte = [0];
            memory.read(at, &mut byte).map(|()| byte[0] != 0)
        });
        if is_left_out == Some(true) {
            missing.push(LEFT_OUT.to_owned());
            return None;
        }
        let rate = variable("runtime.MemProfileRate").and_then(|at| memory.u64(at));
        if rate.is_some_and(|rate| rate == 0 || rate > i64::MAX as u64) {
            missing.push(SWITCHED_OFF.to_owned());
            return None;
        }
        let Some(head) = variable("runtime.mbuckets").or(self.found.buckets) else {
            missing.push(NOT_FOUND.to_owned());
            return None;
        };
        let reading = Reading {
            cycle_bytes: self.layout.cycle_bytes,
            rate: rate.unwrap_or(RATE),
            cycle: variable("runtime.mProfCycle").and_then(|at| memory.u32(at)),
        };
        Some((memory.u64(head)?, reading))
    }

    fn tasks(&self, names: &Named, budget: &mut Budget, snapshot: &mut Snapshot) {
        let Some((all, count)) = self.all_goroutines() else {
            snapshot.missing.push(NO_GOROUTINES.to_owned());
            return;
        };
        let reader = Reader {
            memory: &self.memory,
            table: &names.table,
            layout: self.layout,
            machine: self.machine,
            steps: RefCell::default(),
        };
        let (groups, missing) = reader.read(all, count, budget);
        snapshot.missing.extend(missing);
        snapshot.tasks = self.task_groups(groups, names, budget);
        if let Some(why) = budget.spent() {
            let cut = format!("Not all goroutines were read and named: {why}.");
            snapshot.missing.push(cut);
        }
    }

    /// The address of the pointers to all goroutines, and their number.
    pub(super) fn all_goroutines(&self) -> Option<(u64, u64)> {
        let word = |at: u64| self.memory.u64(at);
        let named = ["runtime.allgptr", "runtime.allglen"].map(|name| self.binary.variable(name));
        match (named, self.found.goroutines) {
            // The count first: the array is replaced by a longer one before the count grows.
            ([Some(all), Some(count)], _) => {
                let count = word(count)?;
                Some((word(all)?, count))
            }
            (_, Some(slice)) => {
                let count = word(slice.checked_add(8)?)?;
                Some((word(slice)?, count))
            }
            _ => None,
        }
    }

    /// Groups that differ only in addresses on the same lines are one.
    fn task_groups(&self, groups: Groups, names: &Named, budget: &mut Budget) -> Vec<TaskGroup> {
        let mut merged: HashMap<(Option<String>, Lines, Lines), TaskGroup> = HashMap::new();
        let mut groups: Vec<(Key, Count)> = groups.into_iter().collect();
        // The largest first: the time may not be enough for all of them.
        groups.sort_unstable_by(|(a, left), (b, right)| {
            (right.goroutines.cmp(&left.goroutines)).then_with(|| a.stack.cmp(&b.stack))
        });
        for (key, count) in groups {
            if !budget.step() {
                break;
            }
            let start = names.table.function(key.start);
            let start = start.and_then(|function| names.table.name_of(&function));
            if start.is_some_and(|start| is_system(&start)) {
                continue;
            }
            let waits_for = self.waits_for(&key);
            let created_by = names.frame(key.created_at);
            let frames = names.frames(&key.stack, budget);
            let alike = (
                waits_for.clone(),
                lines(created_by.as_slice()),
                lines(&frames),
            );
            let group = merged.entry(alike).or_insert_with(|| TaskGroup {
                waits_for,
                frames,
                created_by,
                ..TaskGroup::default()
            });
            group.tasks = group.tasks.saturating_add(count.goroutines);
            group.bytes = group.bytes.saturating_add(count.bytes);
        }
        let mut tasks: Vec<TaskGroup> = merged.into_values().collect();
        tasks.sort_by(|a, b| b.tasks.cmp(&a.tasks).then_with(|| b.bytes.cmp(&a.bytes)));
        tasks
    }

    fn waits_for(&self, key: &Key) -> Option<String> {
        match key.state {
            State::Runnable | State::Running => None,
            State::Syscall => Some("syscall".to_owned()),
            State::Waiting(reason) => {
                let words = self.found.reasons.get(usize::from(reason));
                Some(
                    words
                        .filter(|words| !words.is_empty())
                        .cloned()
                        .unwrap_or_else(|| "waiting".to_owned()),
                )
            }
        }
    }
}

const LEFT_OUT: &str = "No allocation sites: the program has no heap profile, since nothing in it reads one. \
    Import net/http/pprof or runtime/pprof in it and build it again.";
const SWITCHED_OFF: &str = "No allocation sites: the program has switched its heap profile off. \
    Leave runtime.MemProfileRate (and GODEBUG=memprofilerate) at its default.";
const NOT_FOUND: &str = "No allocation sites: no heap profile was found in this stripped program. \
    Build it without -ldflags=-s, and with net/http/pprof or runtime/pprof imported.";
const RATE_NOT_KNOWN: &str = "The sampling rate of the heap profile is taken to be Go's default, 512 KiB: \
    the program has no symbols (-ldflags=-s).";
const NO_GOROUTINES: &str = "No goroutines: their list was not found in this stripped program. \
    Build it without -ldflags=-s.";

fn is_of_program(frames: &[Frame]) -> bool {
    let mut functions = frames.iter().filter_map(|frame| frame.function.as_deref());
    functions.any(|function| !is_runtime(function))
}

/// What tells stacks apart: two allocations on one line are one site. An address only where nothing is known of it.
type Lines = Vec<(Option<String>, Option<String>, Option<u32>, u64)>;

fn lines(frames: &[Frame]) -> Lines {
    let line = |frame: &Frame| {
        let address = if frame.function.is_some() {
            0
        } else {
            frame.offset
        };
        (
            frame.function.clone(),
            frame.file.clone(),
            frame.line,
            address,
        )
    };
    frames.iter().map(line).collect()
}

/// Sites by function, file and line, and of how many stacks.
fn site_counts(sites: Sites, names: &Named, budget: &mut Budget) -> (Vec<SiteCount>, usize) {
    let mut read = 0;
    let mut merged: HashMap<Lines, SiteCount> = HashMap::new();
    let mut sites: Vec<(Vec<u64>, Sums)> = sites.into_iter().collect();
    // The largest first: the time may not be enough for all of them.
    sites.sort_unstable_by(|(a, left), (b, right)| {
        (right.bytes.total_cmp(&left.bytes)).then_with(|| a.cmp(b))
    });
    for (stack, sums) in sites {
        let frames = names.frames(&stack, budget);
        if !budget.step() || !budget.keep(FRAME_BYTES * frames.len()) {
            break;
        }
        read += 1;
        let site = merged.entry(lines(&frames)).or_insert_with(|| SiteCount {
            frames,
            ..SiteCount::default()
        });
        site.objects += sums.objects;
        site.bytes += sums.bytes;
        site.allocated_bytes += sums.allocated_bytes;
    }
    let mut counts: Vec<SiteCount> = merged.into_values().collect();
    counts.sort_by(|a, b| {
        b.bytes
            .total_cmp(&a.bytes)
            .then(b.allocated_bytes.total_cmp(&a.allocated_bytes))
    });
    (counts, read)
}

/// `runtime.buildVersion`, for a program without build information.
pub(super) fn version(memory: &ProcessMemory, binary: &Binary) -> Option<String> {
    let at = binary.variable("runtime.buildVersion")?;
    read_text(memory, memory.u64(at)?, memory.u64(at.checked_add(8)?)?)
}
