//! A process that has ended, from its ELF core: the same snapshot as of a running one, and what its blocks are held by.
//!
//! In: a core file (the kernel's, gcore's, systemd-coredump's), and the files that the process had mapped, for what the
//! core leaves out. Out: a [`HeapSnapshot`] of the moment of death, and which blocks the program could still reach:
//! from its data, its stacks and, unlike of a running process, its registers. Called by: `highwater explain --core`.

mod elf;
mod memory;
mod unpacked;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::glibc::{self, Chunk};
use crate::graph::{self, Reached};
use crate::places::{Places, Thread, is_stack};
use crate::reach::ScanTime;
use crate::smaps::Area;
use crate::stacks::StackArea;
use crate::types::Census;
use crate::{HeapSnapshot, huge};
use elf::{Headers, Segment, read_headers};
use memory::CoreMemory;

/// Of the auxiliary vector: where the program's headers are, 16 bytes at the end of the main stack, and the kernel's
/// page of code.
const AT_PHDR: u64 = 3;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// What a function may use below its stack pointer (System V ABI for x86-64, 3.2.2).
const RED_ZONE_BYTES: u64 = 128;

/// Why a file is not read as a core.
#[derive(Debug, thiserror::Error)]
pub enum NoCore {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("it has {0} bytes, too few for a core")]
    Short(u64),
    #[error(
        "it is a program or a library, not a core of one; pass the core with --core and the program with --exe"
    )]
    Program,
    #[error("it is not an ELF core")]
    Foreign,
    #[error("it is a core of another kind of machine ({0}); 64-bit x86 and Arm are read")]
    Machine(u16),
    #[error("its table of areas is damaged or cut off")]
    Headers,
    #[error("it cannot be unpacked: {0}")]
    Unpacking(String),
}

/// A block in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    pub chunk: Chunk,
    /// Its first word.
    pub first: u64,
}

/// Of all blocks in use, which the program could reach, and by what.
#[derive(Debug)]
pub struct Holders {
    pub blocks: Vec<Used>,
    pub reached: Reached,
}

/// Why it is not told which blocks the program could reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsearched {
    NoBlocks,
    TooMany,
    /// A part of the memory is not in the core: what holds a block might be in it.
    Incomplete,
    /// Time or bytes were used up.
    Limits,
}

/// An open core.
pub struct CoreFile {
    headers: Headers,
    memory: CoreMemory,
    /// The program, by what it was called in the process.
    exe: Option<String>,
    cut_by: Option<String>,
    places: Places,
}

impl CoreFile {
    /// `exe`: the program's file, where it lies elsewhere now.
    ///
    /// # Errors
    /// It is no core that can be read.
    pub fn open(path: &Path, exe: Option<&Path>) -> Result<CoreFile, NoCore> {
        let unpacked::Unpacked { file, cut_by } = unpacked::open(path)?;
        let headers = read_headers(&file)?;
        let own = exe_of(&headers).map(str::to_owned);
        let found = |mapped: &str| match exe {
            Some(exe) if own.as_deref() == Some(mapped) => exe.to_owned(),
            _ => PathBuf::from(mapped),
        };
        let memory = CoreMemory::new(file, &headers, found);
        Ok(CoreFile {
            headers,
            memory,
            exe: own,
            cut_by,
            places: Places::default(),
        })
    }

    pub fn pid(&self) -> i32 {
        self.headers.pid
    }

    /// The signal that ended it; `None`: it was copied alive.
    pub fn signal(&self) -> Option<i32> {
        (self.headers.signal != 0).then_some(self.headers.signal)
    }

    pub fn command(&self) -> &str {
        &self.headers.command
    }

    /// Bytes that the headers promise and the file does not have.
    pub fn missing_bytes(&self) -> u64 {
        self.memory.missing_bytes()
    }

    /// Why the rest of a packed file could not be unpacked.
    pub fn cut_by(&self) -> Option<&str> {
        self.cut_by.as_deref()
    }

    /// Memory of its own is not in the core (core(5), coredump_filter): stacks are always written to, and of areas that
    /// never were the kernel writes nothing.
    pub fn leaves_out_memory(&self) -> bool {
        let segments = &self.headers.segments;
        let is_left_out = |thread: &Thread| {
            let next = segments.partition_point(|segment| segment.end <= thread.stack_pointer);
            segments
                .get(next)
                .is_some_and(|segment| segment.file_bytes == 0)
        };
        self.headers.threads.iter().any(is_left_out)
    }

    /// Shared memory, in which pointers may be, is not in the core.
    pub fn leaves_out_shared(&self) -> bool {
        let mut segments = self.headers.segments.iter();
        segments.any(|segment| segment.file_bytes == 0 && self.is_shared(segment))
    }

    /// Files that are not there, or are others now.
    pub fn absent_files(&self) -> &[String] {
        &self.memory.absent
    }

    /// Notes that were cut off: threads may be missing.
    pub fn is_cut(&self) -> bool {
        self.headers.is_cut
    }

    fn is_shared(&self, segment: &Segment) -> bool {
        let part = self.memory.part_at(segment.start);
        part.is_some_and(|part| is_in_memory(&part.path))
    }

    /// All of it at the moment of death.
    pub fn snapshot(&self) -> HeapSnapshot {
        let mut snapshot = HeapSnapshot::default();
        let heap = self.main_heap();
        for segment in &self.headers.segments {
            let pages = self.memory.pages(segment);
            let part = self.memory.part_at(segment.start);
            let rss_bytes = pages.bytes();
            snapshot.areas.push(Area {
                start: segment.start,
                end: segment.end,
                readable: segment.readable,
                writable: segment.writable,
                executable: segment.executable,
                offset: part.map_or(0, |part| part.offset),
                inode: u64::from(part.is_some()),
                name: match part {
                    Some(part) => part.path.clone(),
                    None if Some(segment.start) == heap => "[heap]".to_owned(),
                    None => self.name_of(segment).to_owned(),
                },
                rss_bytes,
                pss_bytes: rss_bytes,
                anonymous_bytes: if segment.writable { rss_bytes } else { 0 },
                ..Area::default()
            });
            if rss_bytes > 0 {
                snapshot.present.insert(segment.start, pages);
            }
        }
        snapshot
            .areas
            .extend(self.parts_without_area(&snapshot.areas));
        snapshot.areas.sort_by_key(|area| area.start);
        snapshot.threads = self.headers.threads.len();
        snapshot.stacks = self.stacks(&snapshot.areas);
        snapshot.huge_untouched_bytes =
            huge::read_untouched_bytes(&self.memory, &snapshot.areas, &snapshot.present);
        let mut types = Census::new(&snapshot.areas);
        let walk = self.walk(&snapshot, &mut |chunk, first| types.note(chunk, first));
        (snapshot.walk, snapshot.types) = (Some(walk), types);
        snapshot
    }

    /// Of glibc's heap, all that is in the core.
    fn walk(&self, snapshot: &HeapSnapshot, note: glibc::Note<'_>) -> glibc::Walk {
        let (areas, present) = (&snapshot.areas, &snapshot.present);
        glibc::walk_with(&self.memory, areas, present, u64::MAX, note)
    }

    /// gcore leaves out what files have.
    fn parts_without_area(&self, areas: &[Area]) -> Vec<Area> {
        let has_none = |part: &&elf::MappedPart| {
            let next = areas.partition_point(|area| area.end <= part.start);
            areas.get(next).is_none_or(|area| area.start >= part.end)
        };
        let area = |part: &elf::MappedPart| Area {
            start: part.start,
            end: part.end,
            readable: true,
            offset: part.offset,
            inode: 1,
            name: part.path.clone(),
            ..Area::default()
        };
        self.memory.parts().filter(has_none).map(area).collect()
    }

    fn name_of(&self, segment: &Segment) -> &'static str {
        let holds = |address: u64| (segment.start..segment.end).contains(&address);
        let holds_auxiliary = |kind: u64| {
            let mut pairs = self.headers.auxiliary.iter();
            pairs.any(|pair| pair.0 == kind && holds(pair.1))
        };
        let holds_main = self
            .main_thread()
            .is_some_and(|main| holds(main.stack_pointer));
        if holds_auxiliary(AT_RANDOM) || holds_main {
            "[stack]"
        } else if holds_auxiliary(AT_SYSINFO_EHDR) {
            "[vdso]"
        } else {
            ""
        }
    }

    fn main_thread(&self) -> Option<&Thread> {
        let mut threads = self.headers.threads.iter();
        threads.find(|thread| thread.tid == self.headers.pid)
    }

    /// Start of the heap that grows by brk: behind the program and its zero-initialised data, and below all that the
    /// kernel chose a place for. Where it follows that data at once, both may be one area.
    fn main_heap(&self) -> Option<u64> {
        let of_exe = self
            .headers
            .mapped
            .iter()
            .filter(|part| Some(&part.path) == self.exe.as_ref());
        let end = of_exe.map(|part| part.end).max()?;
        let above = self.headers.mapped.iter().find(|part| part.start >= end);
        let above = above.map_or(u64::MAX, |part| part.start);
        let between = |segment: &&Segment| {
            segment.writable && segment.file_bytes > 0 && (end..above).contains(&segment.start)
        };
        let found: Vec<&Segment> = self.headers.segments.iter().filter(between).collect();
        let apart = found.iter().find(|segment| segment.start != end);
        apart.or(found.first()).map(|segment| segment.start)
    }

    /// As of a running process: one thread alone has its stack pointer in it.
    fn stacks(&self, areas: &[Area]) -> Vec<StackArea> {
        // Start of an area, with the stack pointers in it.
        let mut pointers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for thread in &self.headers.threads {
            let pointer = thread.stack_pointer;
            let next = areas.partition_point(|area| area.end <= pointer);
            let is_stack =
                |area: &&Area| area.holds(pointer) && area.writable && area.is_anonymous();
            if let Some(area) = areas.get(next).filter(is_stack) {
                pointers.entry(area.start).or_default().push(pointer);
            }
        }
        let alone = pointers.into_iter().filter(|(_, inside)| inside.len() == 1);
        alone
            .map(|(start, inside)| StackArea {
                start,
                proof: inside[0],
            })
            .collect()
    }

    /// What the objects are called that point to a table of virtual functions ([`Census::by_table`]).
    pub fn class(&self, snapshot: &HeapSnapshot, table: u64) -> Option<String> {
        snapshot.types.class(&self.memory, table)
    }

    /// Every block in use, and which of them the program could reach.
    pub fn holders(&self, snapshot: &HeapSnapshot) -> Result<Holders, Unsearched> {
        if self.missing_bytes() > 0 || self.leaves_out_memory() {
            return Err(Unsearched::Incomplete);
        }
        let (mut chunks, mut used) = (Vec::new(), Vec::new());
        let mut note = |chunk: Chunk, first: Option<u64>| {
            if chunks.len() <= glibc::BLOCKS_MAX {
                chunks.push(chunk);
                used.extend(first.map(|first| Used { chunk, first }));
            }
        };
        let walk = self.walk(snapshot, &mut note);
        match chunks.len() {
            0 => return Err(Unsearched::NoBlocks),
            count if count > glibc::BLOCKS_MAX => return Err(Unsearched::TooMany),
            _ => {}
        }
        chunks.sort_unstable();
        let mut scope = graph::Scope::new(self.runs(snapshot), &walk, chunks, Vec::new());
        scope.passing = self.passing(snapshot);
        let reached = graph::reached_at_rest(&self.memory, scope, &ScanTime::of_file());
        reached
            .map(|reached| Holders {
                blocks: used,
                reached,
            })
            .ok_or(Unsearched::Limits)
    }

    /// All that was written, and the registers behind it. Of the main stack not what is below its pointer: remains of
    /// calls that are over hold nothing. (Below that of another thread may lie other memory, in the same area.)
    fn runs(&self, snapshot: &HeapSnapshot) -> Vec<(u64, u64)> {
        let main = self.main_thread().map_or(0, |main| main.stack_pointer);
        let live_from = |area: &Area| match area.name == "[stack]" && area.holds(main) {
            true => main.saturating_sub(RED_ZONE_BYTES) & !7,
            false => area.start,
        };
        let areas = snapshot.areas.iter().filter(|area| !area.executable);
        let with_pages =
            areas.filter_map(|area| Some((live_from(area), snapshot.present.get(&area.start)?)));
        let runs = with_pages.flat_map(|(from, pages)| {
            let runs = pages.runs().into_iter();
            runs.map(move |run| (run.0.max(from), run.1))
        });
        let mut runs: Vec<(u64, u64)> = runs.filter(|run| run.0 < run.1).collect();
        runs.push(self.memory.registers());
        runs
    }

    fn passing(&self, snapshot: &HeapSnapshot) -> Vec<(u64, u64)> {
        let stacks = snapshot
            .areas
            .iter()
            .filter(|area| is_stack(snapshot, area));
        let mut passing: Vec<(u64, u64)> = stacks.map(|area| (area.start, area.end)).collect();
        passing.push(self.memory.registers());
        passing
    }

    /// What lies at an address that holds a block: a variable of the program, a stack, and so on.
    pub fn place_of(&mut self, snapshot: &HeapSnapshot, address: u64) -> String {
        let memory = &self.memory;
        let open = |area: &Area| memory.file_of(&area.name)?.try_clone().ok();
        self.places
            .name(snapshot, &self.headers.threads, open, address)
    }
}

/// Paths of memory that several processes may share.
fn is_in_memory(path: &str) -> bool {
    ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"]
        .iter()
        .any(|start| path.starts_with(start))
}

/// The program's own file: where its headers lie, or the first of all.
fn exe_of(headers: &Headers) -> Option<&str> {
    let at = headers
        .auxiliary
        .iter()
        .find(|pair| pair.0 == AT_PHDR)
        .map(|pair| pair.1);
    let holds = |part: &&elf::MappedPart| at.is_some_and(|at| (part.start..part.end).contains(&at));
    let part = headers.mapped.iter().find(holds);
    part.or(headers.mapped.first())
        .map(|part| part.path.as_str())
}

#[cfg(test)]
mod tests;
