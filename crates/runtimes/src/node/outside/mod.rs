//! The objects of a running V8, read from outside while the program goes on: no inspector, no pause.
//!
//! ```text
//! v8dbg_* numbers of the program's file --> Layout
//! [heap], stack, variables of Node.js   --> roots: all words that point to an object (conservative)
//!                                              |
//!                 build: every object that they hold, once --> the Graph of a heap snapshot
//!                    shapes: a Map --> form, constructor, names of fields     edges: what an object refers to
//! ```
//!
//! The program changes what is read meanwhile: a word counts as a reference only where an object with a Map is. An
//! object that moved during the reading may be missing.

mod build;
mod edges;
mod freed;
mod heap;
#[cfg(test)]
mod hostile;
mod layout;
mod nodes;
mod roots;
mod shapes;
mod weak;

use std::cell::Cell;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use observe::fact::memory::ProcessMemory;
use observe::proc::area::parse_area;
use observe::proc::pagemap::Pagemap;
use symbols::v8::{Functions, Numbers};

use super::graph::Graph;
use crate::memory::areas::Areas;
use crate::memory::pages::Pages;
use crate::memory::source::{PageStates, Source};
use build::{Builder, Built, Stop};
use heap::Heap;
use layout::Layout;

/// Of the memory that may be used, one part in so many is for what was read of the process.
const CACHE_PART: usize = 2;
/// Pages of V8 start at a multiple of this.
const PAGE_OF_HEAP: u64 = 256 << 10;
const CHUNK_BYTES: u64 = 64 << 10;

/// Readings of one snapshot. A program that allocated 50 MB a second took one to three.
const ATTEMPTS: usize = 8;
/// After so many one counts that has about as many objects as the largest: temporary objects are always lost.
const ATTEMPTS_MIN: usize = 3;
const WHOLE_PERCENT: u64 = 97;

/// Reads the heap of one process.
pub struct Outside {
    pid: u32,
    memory: ProcessMemory,
    numbers: Numbers,
    layout: Layout,
    /// By the last reading.
    lost_before: Cell<u64>,
}

impl Outside {
    /// An error says in words why its heap cannot be read from outside.
    pub fn open(pid: u32) -> Result<Outside, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the heap is read from outside on x86-64 only".to_owned());
        }
        let memory = File::open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|error| format!("its memory may not be read ({error})"))?;
        let numbers = files(pid).into_iter().find_map(|file| Numbers::read(&file));
        let numbers =
            numbers.ok_or("its program does not publish the layout of its objects (v8dbg_*)")?;
        let layout = Layout::of(&numbers).ok_or("the layout of its objects is not known")?;
        Ok(Outside {
            pid,
            memory: ProcessMemory::new(memory.into()),
            numbers,
            layout,
            lost_before: Cell::new(0),
        })
    }

    /// The functions of the program, one by one; `None`: how they are described is not known.
    pub fn functions(&self) -> Option<Functions> {
        Functions::of(self.pid, &self.numbers)
    }

    /// Of V8: 11.3.
    pub fn version(&self) -> Option<(i32, i32)> {
        self.numbers.version()
    }

    /// Everything that is held in the heap now, in so many bytes of our memory. Read again where objects moved
    /// meanwhile.
    pub fn read(&self, bytes: usize, deadline: Instant) -> Result<Graph, String> {
        let mut most = 0;
        for attempt in 0..ATTEMPTS {
            let start = Instant::now();
            let built = self.read_once(bytes, deadline)?;
            let count = built.graph.len();
            let is_most = u64::from(count) * 100 >= u64::from(most) * WHOLE_PERCENT;
            // What was lost before as well has not moved: a dead object that a root seems to hold.
            let is_known = self.lost_before.replace(built.lost) == built.lost;
            if built.lost == 0 || is_known || (attempt + 1 >= ATTEMPTS_MIN && is_most) {
                return Ok(built.graph);
            }
            most = most.max(count);
            if Instant::now() + start.elapsed() > deadline {
                break;
            }
        }
        Err("its objects moved during every reading".to_owned())
    }

    fn read_once(&self, bytes: usize, deadline: Instant) -> Result<Built, String> {
        let maps = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let pagemap = Pagemap::open(self.pid);
        let states = pagemap.as_ref().map(|pagemap| pagemap as &dyn PageStates);
        let source = Source::new(&self.memory, Areas::parse(&maps), states);
        let pages = Pages::new(&source, bytes / CACHE_PART, deadline);
        let heap = Heap {
            pages,
            layout: &self.layout,
        };
        let maps = String::from_utf8_lossy(&maps);
        read_ahead(&heap, &maps, bytes / CACHE_PART);
        let Some(roots) = roots::roots(&heap, &maps, stack_top(self.pid)) else {
            return Err(reason(Stop::Late).to_owned());
        };
        if roots.globals.is_empty() {
            return Err("the global object of JavaScript was not found".to_owned());
        }
        let functions = Functions::of(self.pid, &self.numbers);
        let builder = Builder::new(heap, functions, bytes - bytes / CACHE_PART);
        builder
            .build(&roots)
            .map_err(|stop| reason(stop).to_owned())
    }
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::TooLarge => "the heap has more objects than highwater may take memory for",
        Stop::Late => "the time for this reading was over before the whole heap was read",
    }
}

/// Files that V8 may be in: the program, or the library.
fn files(pid: u32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let library = maps
        .lines()
        .filter_map(parse_area)
        .find(|line| line.name.contains("/libnode.so"));
    let library = library.map(|line| format!("/proc/{pid}/root{}", line.name));
    let files = [Some(format!("/proc/{pid}/exe")), library];
    files.into_iter().flatten().map(PathBuf::from).collect()
}

/// Of the main thread's stack, where the kernel says it: while the thread waits. What lies above is in use.
fn stack_top(pid: u32) -> Option<u64> {
    const RED_ZONE: u64 = 128;
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace().rev();
    let (_, top) = (words.next()?, words.next()?);
    u64::from_str_radix(top.strip_prefix("0x")?, 16)
        .ok()?
        .checked_sub(RED_ZONE)
}

/// Reads the pages that V8 may have its objects in, one after the other: the less time passes, the fewer objects move
/// meanwhile.
fn read_ahead(heap: &Heap, maps: &str, bytes: usize) {
    let mut left = bytes as u64 / CHUNK_BYTES;
    for line in maps.lines().filter_map(parse_area) {
        let is_anonymous = line.inode == 0 && line.name.is_empty() && line.rights == *b"rw-p";
        if !is_anonymous || !line.start.is_multiple_of(PAGE_OF_HEAP) {
            continue;
        }
        for address in (line.start..line.end).step_by(CHUNK_BYTES as usize) {
            if left == 0 || heap.pages.is_late() {
                return;
            }
            left -= 1;
            heap.pages.word(address);
        }
    }
}
