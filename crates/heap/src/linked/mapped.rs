//! Who maps memory in a process that runs already: uprobes on the C library's mmap and mremap, at every call.
//!
//! What was mapped before is not known, nor what is mapped past the C library. What is unmapped shows in the process's
//! maps.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use super::callers::Callers;
use super::functions::read_mappers;
use super::layout::Room;
use super::pace::{Cost, Counted};
use super::place::Place;
use super::regions::{Made, Regions};
use super::table::{self, Given, Record};
use super::traps::Calls;
use super::watcher::returns;
use super::{Probed, attach, lock};
use crate::probe::{ProbeSnapshot, Region, Site};
use crate::smaps::Area;
use bpf::fdinfo;
use bpf::uprobes::Target;
use observe::overhead::KERNEL_BYTES_MAX;
use observe::overhead::own::cpu_s_of;
use symbols::unwind::Stacks;

/// From one emptying of the ring to the next.
const TURN: Duration = Duration::from_millis(20);
/// The process's map is read no more often than this: an mmap waits meanwhile.
const RELOADED: Duration = Duration::from_secs(1);
/// Of the kernel's memory: a mapping is rare.
const ROOM: Room = Room {
    live: 4_096,
    calls: 1_024,
    ring_bytes: 512 << 10,
};
/// Stacks that are kept apart; further ones have no addresses.
const STACKS_MAX: usize = 4_096;
/// Of the budget, what these probes may take.
const BUDGET_SHARE: f64 = 0.2;
/// CPU time that they may take at once.
const AT_ONCE_S: f64 = 0.05;
/// The result of a call that failed is an error's number, below zero.
const ERRORS: u64 = 4_095;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    table: Mutex<Table>,
}

/// The probes, which come off when it is dropped.
pub struct Mapped {
    shared: Arc<Shared>,
    /// Instructions that are breakpoints.
    pub places: usize,
    /// Of all maps and programs, these included.
    pub kernel_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

impl Mapped {
    /// Probes mmap and mremap of a file of `pid`. `None`: it has none by these names, or all probes together would take
    /// too much of the kernel's memory. `share`: the budget of all probes, of the process's CPU time or of a core;
    /// `cost`: what a hit takes.
    ///
    /// # Errors
    /// No right, or a kernel that cannot.
    pub fn open(pid: u32, place: &Place, share: f64, cost: Cost) -> io::Result<Option<Mapped>> {
        let target = Target::open(pid, &place.file)?;
        let functions = read_mappers(target.file(), place.base)?;
        if functions.is_empty() {
            return Ok(None);
        }
        let probed = attach(&target, &functions, ROOM, &Callers::default)?;
        let kernel_bytes = fdinfo::kernel_bytes();
        if kernel_bytes > KERNEL_BYTES_MAX {
            return Ok(None);
        }
        // Each byte is a sample: every call is taken.
        probed.maps.mean.write(0, 1);
        let shared = Arc::new(Shared::default());
        let mut watcher = Watcher {
            pid,
            stacks: Stacks::new(pid),
            shared: shared.clone(),
            probed: Some(probed),
            cost,
            share: BUDGET_SHARE * share,
            begin: (Instant::now(), cpu_s_of(pid)),
            reloaded: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("mappings".into());
        let thread = thread.spawn(move || watcher.run())?;
        Ok(Some(Mapped {
            shared,
            places: super::places_of(&functions),
            kernel_bytes,
            thread: Some(thread),
        }))
    }

    /// Adds what is still mapped to an account. `areas` were read at `since_ns` or later; `is_allocators`: whether code
    /// belongs to the allocator that is counted.
    pub fn add_to(
        &self,
        snapshot: &mut ProbeSnapshot,
        (areas, since_ns): (&[Area], u64),
        is_allocators: impl Fn(u64) -> bool,
    ) {
        let mut table = lock(&self.shared.table);
        table.regions.keep_mapped(areas, since_ns);
        let calls_allocator =
            |addresses: &[u64]| addresses.iter().any(|&address| is_allocators(address));
        let stacks = table.stacks.iter();
        let of_allocator = stacks.filter(|(_, addresses)| calls_allocator(addresses));
        let of_allocator: BTreeSet<u64> = of_allocator.map(|(&stack, _)| stack).collect();
        let region = |(start, made): (u64, Made)| Region {
            start,
            end: made.end,
            time_ns: made.time_ns,
            stack: made.stack,
            // What is a file's or shared the areas say.
            anonymous: true,
            shared: false,
            by_allocator: of_allocator.contains(&made.stack),
            by_break: false,
        };
        snapshot.regions.extend(table.regions.all().map(region));
        snapshot.regions.sort_by_key(|region| region.start);
        snapshot.regions_dropped += table.unkept;
        snapshot.mapping_calls = Some(table.calls);
        for (&stack, addresses) in &table.stacks {
            snapshot.stacks.entry(stack).or_insert_with(|| Site {
                addresses: addresses.clone(),
                why: addresses
                    .is_empty()
                    .then_some("the table of stacks was full"),
                lifetimes: vec![0; abi::LIFETIMES],
                ..Site::default()
            });
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Table {
    regions: Regions,
    /// Return addresses, innermost first, by their hash.
    stacks: BTreeMap<u64, Vec<u64>>,
    calls: Calls,
    /// Those for which there was no room among the ranges.
    unkept: u64,
}

impl Table {
    fn give(&mut self, given: &Given<'_>, addresses: Vec<u64>) {
        if given.block >= ERRORS.wrapping_neg() {
            return;
        }
        let stack = self.stack_of(addresses);
        let made = Made {
            end: given.block.saturating_add(given.bytes),
            time_ns: given.time_ns,
            stack,
        };
        let has_room = self.regions.add(given.block, made);
        self.calls.seen += 1;
        self.unkept += u64::from(!has_room);
    }

    fn stack_of(&mut self, addresses: Vec<u64>) -> u64 {
        let stack = FixedState::with_seed(0).hash_one(&addresses[..]);
        if self.stacks.contains_key(&stack) {
            return stack;
        }
        let (stack, addresses) = match self.stacks.len() < STACKS_MAX {
            true => (stack, addresses),
            // 0 would mean that it is not known who made it.
            false => (1, Vec::new()),
        };
        self.stacks.entry(stack).or_insert(addresses);
        stack
    }
}

struct Watcher {
    pid: u32,
    stacks: Stacks,
    shared: Arc<Shared>,
    /// `None`: they came off over the budget.
    probed: Option<Probed>,
    cost: Cost,
    share: f64,
    /// And the process's CPU time then.
    begin: (Instant, f64),
    /// When the process's map was last read for its code.
    reloaded: Instant,
}

impl Watcher {
    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            std::thread::sleep(TURN);
            self.drain();
        }
        self.probed = None;
    }

    fn drain(&mut self) {
        let Some(probed) = &mut self.probed else {
            return;
        };
        let mut table = lock(&self.shared.table);
        let (stacks, maps) = (&mut self.stacks, &mut probed.maps);
        let live = &maps.live;
        let mut is_new = false;
        maps.ring.drain(|bytes| {
            let Some(Record::Given(given)) = table::parse(bytes) else {
                return;
            };
            live.remove(given.block);
            let frames = stacks.of_bytes_called(given.registers, given.stack);
            is_new |= frames.len() < 2;
            table.give(&given, returns(given.function, &frames));
        });
        // Perhaps through a library that was loaded since.
        if is_new && self.reloaded.elapsed() >= RELOADED {
            stacks.reload();
            self.reloaded = Instant::now();
        }
        let counted = Counted {
            hits: maps.cpus.sum(|cpu| cpu.hits),
            stepped: maps.cpus.sum(|cpu| cpu.stepped),
            samples: maps.cpus.sum(|cpu| cpu.samples),
            ..Counted::default()
        };
        let cpu_s = self.cost.seconds(counted);
        let of_process = cpu_s_of(self.pid) - self.begin.1;
        let base_s = of_process.max(self.begin.0.elapsed().as_secs_f64());
        let is_over = cpu_s > AT_ONCE_S + self.share * base_s;
        let dropped = maps.lost.read(0) + table.unkept;
        table.calls = Calls {
            cpu_s,
            dropped,
            came_off: is_over || probed.has_lost_probes(),
            ..table.calls
        };
        if table.calls.came_off {
            self.probed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(block: u64, bytes: u64) -> Given<'static> {
        Given {
            time_ns: 5,
            block,
            bytes,
            ..Given::default()
        }
    }

    #[test]
    fn ranges_belong_to_their_callers_and_failed_calls_give_none() {
        let mut table = Table::default();
        table.give(&given(0x10_0000, 0x2000), vec![1, 2]);
        table.give(&given(u64::MAX, 0x2000), vec![4]);
        table.give(&given(0x20_0000, 0x6000), vec![3]);
        let ranges: Vec<(u64, u64, &[u64])> = table
            .regions
            .all()
            .map(|(start, made)| (start, made.end, &table.stacks[&made.stack][..]))
            .collect();
        let expected: [(u64, u64, &[u64]); 2] = [
            (0x10_0000, 0x10_2000, &[1, 2]),
            (0x20_0000, 0x20_6000, &[3]),
        ];
        assert_eq!((ranges.as_slice(), table.calls.seen), (&expected[..], 2));
    }

    #[test]
    fn more_stacks_than_are_kept_have_no_addresses() {
        let mut table = Table::default();
        let stacks: Vec<u64> = (0..STACKS_MAX as u64 + 9)
            .map(|at| table.stack_of(vec![at]))
            .collect();
        assert!(table.stacks.len() <= STACKS_MAX + 1);
        assert!(table.stacks[stacks.last().unwrap()].is_empty());
    }
}
