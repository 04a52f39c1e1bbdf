//! Where the memory of one process is: all that one snapshot reads of it.
//!
//! In: a pid. Out: a [`HeapSnapshot`]: its areas with what is resident, glibc's heap walked, the blocks and stacks that
//! the probe or uprobes counted; and, asked for apart, which blocks nothing points to ([`graph`]). Called by:
//! `highwater explain`; `memory` makes an account of the snapshots.
//!
//! ```text
//! HeapReader -- snapshot --> HeapSnapshot { areas, walk, probe: ProbeSnapshot }
//!                                             ^
//!      Linked (uprobes on an allocator) gives the same ProbeSnapshot as the preloaded probe
//! ```

pub mod calls;
pub mod corefile;
mod data_symbols;
pub mod family;
pub mod glibc;
pub mod graph;
pub mod huge;
pub mod kernel;
pub mod linked;
pub mod memory_managers;
pub mod namer;
pub mod outside;
pub mod pages;
mod past;
mod places;
pub mod probe;
pub mod reach;
mod search;
pub mod slabs;
pub mod smaps;
pub mod stacks;
pub mod symbols;
pub mod types;
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::time::ClockId;

use family::Member;
use glibc::sampled::Sampled;
use kernel::read_kernel_held;
use linked::place::Process;
use memory_managers::{MemoryManagers, Subject, read_managers};
use observe::clock::read_ns;
use observe::fact::library::Libraries;
use observe::fact::maps::Maps;
use observe::fact::memory::{Memory, ProcessMemory};
use observe::overhead::Times;
use observe::proc::ProcRoot;
use observe::proc::identity::parse_identity;
use observe::proc::open::{Folder, Lost};
use observe::proc::pagemap::Pagemap;
use outside::Outside;
use pages::PageBits;
use probe::ProbeSnapshot;
use smaps::Area;
use stacks::{Scene, StackArea, Stacks};
use types::Census;
pub use watch::Uprobes;
use watch::Watch;

/// All that one snapshot brings. Bytes; times in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default)]
pub struct HeapSnapshot {
    pub time_ns: u64,
    pub areas: Vec<Area>,
    /// Present pages of private anonymous areas and of `[heap]`, by their start.
    pub present: HashMap<u64, PageBits>,
    /// The areas that are stacks of threads, ordered by address.
    pub stacks: Vec<StackArea>,
    pub threads: usize,
    /// glibc's heap; `None` when memory may not be read.
    pub walk: Option<glibc::Walk>,
    /// Of the blocks in it, the objects.
    pub types: Census,
    pub probe: Option<ProbeSnapshot>,
    /// Why the probe's account could not be read, though one is there.
    pub probe_problem: Option<String>,
    /// What the kernel holds outside of the mappings, where it was read this time.
    pub outside: Option<Outside>,
    /// Bytes in huge pages that were never written.
    pub huge_untouched_bytes: u64,
    /// Memory may not be read (another user's process, or ptrace_scope).
    pub memory_denied: bool,
    /// From now on uprobes are on the allocator of another heap: what they told until now is of no use with what they
    /// tell from now on.
    pub watched_anew: bool,
}

impl HeapSnapshot {
    /// glibc's heap changed under the walk, and nobody else tells what of it is live.
    fn is_torn(&self) -> bool {
        let counts = |probe: &ProbeSnapshot| probe.traps.is_none_or(|traps| !traps.has_headers());
        let is_counted = self.probe.as_ref().is_some_and(counts);
        let walk = self.walk.as_ref().filter(|_| !is_counted);
        walk.is_some_and(|walk| !walk.complete && walk.unread_bytes == 0)
    }
}

/// A snapshot whose walk was torn is made again so often; where so many snapshots in a row remained torn, it is no heap
/// of glibc's, and one snapshot is enough.
const REREADS_MAX: usize = 3;
const TORN_IN_A_ROW_MAX: usize = 3;

/// Reads one process again and again.
pub struct HeapReader {
    pub member: Member,
    path: PathBuf,
    folder: Folder,
    stacks: Stacks,
    torn_in_a_row: usize,
    outside: outside::Reader,
    /// On the allocator, where the probe does not count its calls.
    pub uprobes: Uprobes,
    /// Of its memory map.
    pub map_readings: Times,
    /// When searches for pointers end, whatever they have found by then.
    pub search_until: Option<Instant>,
}

impl HeapReader {
    pub fn open(root: &ProcRoot, member: Member) -> Result<HeapReader, Lost> {
        let path = root.process(member.pid);
        let folder = Folder::open(&path)?;
        Ok(HeapReader {
            member,
            path,
            folder,
            stacks: Stacks::default(),
            torn_in_a_row: 0,
            outside: outside::Reader::new(member.pid),
            uprobes: Uprobes::NotAsked,
            map_readings: Times::default(),
            search_until: None,
        })
    }

    /// One snapshot.
    ///
    /// # Errors
    /// The process is gone, its areas may not be read, or are not what the kernel's documentation says.
    pub fn snapshot(&mut self) -> Result<HeapSnapshot, Lost> {
        let mut snapshot = self.snapshot_once()?;
        for _ in 0..REREADS_MAX {
            if !snapshot.is_torn() || self.torn_in_a_row >= TORN_IN_A_ROW_MAX {
                break;
            }
            snapshot = self.snapshot_once()?;
        }
        self.torn_in_a_row = match snapshot.is_torn() {
            true => self.torn_in_a_row + 1,
            false => 0,
        };
        snapshot.outside = self.outside.read(&snapshot.areas);
        Ok(snapshot)
    }

    fn snapshot_once(&mut self) -> Result<HeapSnapshot, Lost> {
        let mut text = Vec::new();
        let begin = Instant::now();
        let begin_ns = read_ns(ClockId::Monotonic) as u64;
        self.folder.read_long("smaps", &mut text)?;
        self.map_readings.add(begin.elapsed().as_nanos() as u64);
        let areas = smaps::parse_smaps(&text)?;
        // A process without areas has ended and waits to be collected.
        if areas.is_empty() {
            return Err(Lost::Gone);
        }
        let memory = self.open_memory();
        let mut snapshot = HeapSnapshot {
            time_ns: read_ns(ClockId::Monotonic) as u64,
            memory_denied: memory.is_none(),
            ..HeapSnapshot::default()
        };
        // What must be of one moment comes first: a heap may grow by megabytes during a walk.
        if let Some(memory) = &memory {
            match probe::read_probe(memory, &maps_text(&areas)) {
                Ok(found) => snapshot.probe = found,
                Err(problem) => snapshot.probe_problem = Some(problem),
            }
        }
        self.add_watched(&areas, &mut snapshot, begin_ns);
        let present = self.read_present(&areas);
        let mut status = Vec::new();
        let _ = self.folder.read("status", &mut status);
        let scene = Scene {
            own_pid: parse_identity(&status).own_pid.unwrap_or(0),
            folder: &self.folder,
            areas: &areas,
            present: &present,
            memory: memory.as_ref().map(|memory| memory as &dyn Memory),
        };
        snapshot.stacks = self.stacks.read(&scene)?;
        snapshot.threads = self.folder.threads()?.len();
        if let Some(memory) = &memory {
            snapshot.huge_untouched_bytes = huge::read_untouched_bytes(memory, &areas, &present);
        }
        (snapshot.areas, snapshot.present) = (areas, present);
        if let Some(memory) = &memory {
            self.walk(memory, &mut snapshot, begin_ns);
        }
        snapshot.watched_anew = self.changes_over(&snapshot);
        Ok(snapshot)
    }

    /// Adds what uprobes tell of the allocator and of mappings; puts them on where they are wanted.
    /// `areas` were read at `since_ns` or later.
    fn add_watched(&mut self, areas: &[Area], snapshot: &mut HeapSnapshot, since_ns: u64) {
        if let Uprobes::Wanted { at_start, share } = self.uprobes {
            let pid = self.member.pid as u32;
            let process = Process {
                path: &self.path,
                folder: &self.folder,
                areas,
            };
            let by_probe = snapshot.probe.is_some();
            let Some(opened) = Watch::open(pid, &process, (at_start, share), by_probe) else {
                return;
            };
            self.uprobes = opened;
        }
        if let Uprobes::On(watch) = &self.uprobes {
            let own = watch.snapshot(areas, since_ns);
            snapshot.probe = Some(match snapshot.probe.take() {
                Some(probe) => probe::joined(probe, own),
                None => own,
            });
        }
    }

    /// Puts the uprobes on the allocator of another heap, once that is the one that grows; whether that was now.
    fn changes_over(&mut self, snapshot: &HeapSnapshot) -> bool {
        let (Uprobes::On(watch), Some(walk)) = (&mut self.uprobes, &snapshot.walk) else {
            return false;
        };
        let changes = watch.grows_beside(walk, &snapshot.areas);
        if changes && let Uprobes::On(watch) = std::mem::take(&mut self.uprobes) {
            self.uprobes = watch.changed_over();
        }
        changes
    }

    /// Walks glibc's heap and counts its objects. Of the blocks that uprobes sampled there, those that it shows to be
    /// free by now go out of the account: where each call is too dear to probe, their frees went unseen.
    /// `until_ns`: when the areas were read.
    fn walk(&self, memory: &dyn Memory, snapshot: &mut HeapSnapshot, until_ns: u64) {
        let (areas, present) = (&snapshot.areas, &snapshot.present);
        let is_part =
            |probe: &&mut ProbeSnapshot| probe.traps.is_some_and(|traps| traps.has_headers());
        let attached = snapshot.probe.as_mut().filter(is_part);
        let mut types = Census::new(areas);
        let blocks = attached.as_ref().map_or(&[][..], |probe| &probe.blocks);
        let mut sampled = Sampled::new(blocks, until_ns);
        let most = glibc::WALK_BYTES_MAX;
        let walk = glibc::walk_with(memory, areas, present, most, &mut |chunk, first| {
            types.note(chunk, first);
            sampled.note(chunk);
        });
        let freed = sampled.freed(&walk, areas);
        if let (Uprobes::On(watch), Some(probe)) = (&self.uprobes, attached) {
            watch.linked.forget(&freed, walk.complete);
            probe
                .blocks
                .retain(|block| !freed.contains_key(&block.address));
        }
        (snapshot.walk, snapshot.types) = (Some(walk), types);
    }

    /// What the objects are called that point to a table of virtual functions ([`Census::by_table`]).
    pub fn class(&self, snapshot: &HeapSnapshot, table: u64) -> Option<String> {
        snapshot.types.class(&self.open_memory()?, table)
    }

    /// Allocators and runtimes, of the program `exe` and the libraries in `areas`.
    pub fn managers(
        &self,
        exe: &Path,
        preloads: &[String],
        areas: &[Area],
        libraries: &mut Libraries,
    ) -> MemoryManagers {
        let process = &self.path;
        read_managers(
            &Subject {
                process,
                exe,
                preloads,
            },
            areas,
            libraries,
        )
    }

    /// Names in LD_PRELOAD, as the process was started with it.
    pub fn preloads(&self) -> Vec<String> {
        memory_managers::read_preloads(&self.path)
    }

    /// The command line, words joined.
    pub fn command(&self) -> String {
        let mut text = Vec::new();
        let _ = self.folder.read("cmdline", &mut text);
        let words: Vec<_> = text
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .map(String::from_utf8_lossy)
            .collect();
        words.join(" ")
    }

    /// Libraries that call the C library's malloc past the probe.
    pub fn allocates_past(&self) -> Vec<String> {
        self.past_the_probe(past::ALLOCATES)
    }

    /// Libraries that call the C library's free past the probe.
    pub fn frees_past(&self) -> Vec<String> {
        self.past_the_probe(past::FREES)
    }

    fn past_the_probe(&self, family: &[&str]) -> Vec<String> {
        let (mut auxv, mut text) = (Vec::new(), Vec::new());
        let read = self.folder.read("auxv", &mut auxv);
        let read = read.and_then(|_| self.folder.read_long("maps", &mut text));
        let (Ok(_), Ok(maps)) = (read, Maps::parse(&text)) else {
            return Vec::new();
        };
        let memory = self.open_memory();
        memory.map_or(Vec::new(), |memory| {
            past::past_the_probe(&memory, &auxv, &maps, family)
        })
    }

    /// Whether pointers may be with an io_uring, where they cannot be seen.
    pub fn has_uring(&self) -> bool {
        read_kernel_held(&self.path).has_uring
    }

    fn present_runs(&self, area: &Area) -> Vec<(u64, u64)> {
        let bits = self
            .open_pagemap()
            .and_then(|map| pages::read_present(&map, area.start, area.end));
        bits.map(|bits| bits.runs()).unwrap_or_default()
    }

    fn open_memory(&self) -> Option<ProcessMemory> {
        let memory = ProcessMemory::new(self.folder.open_file("mem").ok()?);
        Some(memory.with_pagemap(self.open_pagemap()))
    }

    fn open_pagemap(&self) -> Option<Pagemap> {
        let file = self.folder.open_file("pagemap").ok()?;
        Some(Pagemap::of(file.into()))
    }

    fn read_present(&self, areas: &[Area]) -> HashMap<u64, PageBits> {
        let Some(pagemap) = self.open_pagemap() else {
            return HashMap::new();
        };
        let wanted = areas.iter().filter(|area| {
            area.writable && area.rss_bytes > 0 && (area.is_anonymous() || area.name == "[heap]")
        });
        let present = |area: &Area| match area.rss_bytes == area.bytes() {
            true => Some(PageBits::all(area.start, area.end)),
            false => pages::read_present(&pagemap, area.start, area.end),
        };
        wanted
            .filter_map(|area| Some((area.start, present(area)?)))
            .collect()
    }
}

/// The lines of maps, from what was read already: one file less, and one moment for both.
fn maps_text(areas: &[Area]) -> Vec<u8> {
    use std::fmt::Write;
    let mut text = String::new();
    for area in areas {
        let right = |has: bool, letter: char| if has { letter } else { '-' };
        let _ = writeln!(
            text,
            "{:x}-{:x} {}{}{}{} {:x} 00:00 {} {}",
            area.start,
            area.end,
            right(area.readable, 'r'),
            right(area.writable, 'w'),
            right(area.executable, 'x'),
            if area.shared { 's' } else { 'p' },
            area.offset,
            area.inode,
            area.name
        );
    }
    text.into_bytes()
}
