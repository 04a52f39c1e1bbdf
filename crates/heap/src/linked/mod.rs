//! A sampled account of an allocator that the probe does not count: uprobes on its functions, as root. It is linked
//! into the program, or a library's that runs already.
//!
//! Nothing of it is in the process but the kernel's breakpoints, in no other process and only while this runs. What was
//! allocated before is not known, and what it was freed of is not seen either.

mod attach;
mod callers;
mod cost;
pub mod functions;
mod layout;
pub mod mapped;
pub mod pace;
pub mod place;
mod python;
mod regions;
mod table;
pub mod traps;
mod watcher;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::ClockId;

use attach::{Attached, Programs};
use callers::Callers;
use cost::measure_cost;
use functions::{Function, read_functions};
use layout::{LIVE_MAX, Maps, ROOM, Room};
use place::{On, Place};
use table::Table;
use traps::Traps;
use watcher::Watcher;

use super::probe::ProbeSnapshot;
use bpf::fdinfo;
use bpf::uprobes::{Target, Way};
use observe::clock::read_ns;
use observe::overhead::KERNEL_BYTES_MAX;
use symbols::frame::Frame;

/// Samples a second that are aimed at.
const SAMPLES_MIN: f64 = 250.0;
const SAMPLES_MAX: f64 = 1_000.0;
const MEAN_FIRST: u64 = 4_096;
const MEAN_MIN: u64 = 256;
const MEAN_MAX: u64 = 1 << 28;
/// From one emptying of the ring to the next, and from one change of the mean, or after so many samples.
const TURN: Duration = Duration::from_millis(20);
const ADAPTED: Duration = Duration::from_millis(100);
const ADAPTED_SAMPLES: u64 = 100;
/// Samples are no denser than this makes them: in 10 ms 200 records of 2 KiB, of the ring's 4 MiB.
const ON_SHARE_MIN: f64 = 0.05;

/// The probes on one process, which come off when it is dropped.
pub struct Linked {
    shared: Arc<Shared>,
    /// A function of the library's; 0 where the functions are the program's.
    answers: u64,
    /// Code of the allocator.
    code: Vec<Range<u64>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    table: Mutex<Table>,
    /// Blocks whose free was found out otherwise: nothing is to be told of them any more.
    forgotten: Mutex<Vec<u64>>,
    /// The last walk reached the end of glibc's heap: what is free by now is found out without frees.
    is_walked: AtomicBool,
    lost: AtomicU64,
    traps: Mutex<Traps>,
    /// Frames of Python that stacks refer to by their numbers.
    python: Mutex<Arc<Vec<Frame>>>,
}

impl Linked {
    /// Probes a file of `pid`, which has just started or not. `None`: there is no allocator in it that symbols tell of.
    ///
    /// `share`: the budget, of the subject's CPU time or of a core.
    ///
    /// # Errors
    /// No right, or a kernel that cannot.
    pub fn open(pid: u32, place: &Place, at_start: bool, share: f64) -> io::Result<Option<Linked>> {
        let target = Target::open(pid, &place.file)?;
        let functions = read_functions(target.file(), place.base)?;
        if functions.is_empty() {
            return Ok(None);
        }
        if functions.len() > layout::FUNCTIONS_MAX {
            let (found, most) = (functions.len(), layout::FUNCTIONS_MAX);
            return Err(io::Error::other(format!(
                "{found} functions of allocators in one program; {most} can be probed"
            )));
        }
        bpf::uprobes::prepare()?;
        let cost = measure_cost(&Callers::of(pid))?;
        let probed = attach(&target, &functions, ROOM, &|| Callers::of(pid))?;
        let kernel_bytes = fdinfo::kernel_bytes();
        if kernel_bytes > KERNEL_BYTES_MAX {
            let most = KERNEL_BYTES_MAX >> 20;
            return Err(io::Error::other(format!(
                "uprobes would take more than {most} MiB of the kernel's memory"
            )));
        }
        let shared = Arc::new(Shared::default());
        let traps = Traps {
            functions: functions.len(),
            places: places_of(&functions),
            kernel_bytes,
            at_start,
            on: place.on,
            cost,
            watched_share: 1.0,
            sees_frees: true,
            ..Traps::default()
        };
        *lock(&shared.traps) = traps;
        let mut watcher = Watcher::new(target, probed, (traps, share), shared.clone());
        let thread = std::thread::Builder::new().name("uprobes".into());
        let thread = thread.spawn(move || watcher.run())?;
        let of_library = functions
            .iter()
            .find(|function| place.on != On::Program && function.gives());
        Ok(Some(Linked {
            shared,
            answers: of_library.map_or(0, |function| function.code.start),
            code: functions
                .iter()
                .map(|function| function.code.clone())
                .collect(),
            thread: Some(thread),
        }))
    }

    /// Whether an address is in one of the allocator's functions that are probed.
    pub fn is_allocators(&self, address: u64) -> bool {
        self.code.iter().any(|code| code.contains(&address))
    }

    /// What it rests on and took so far.
    pub fn traps(&self) -> Traps {
        *lock(&self.shared.traps)
    }

    /// Takes out blocks that are free by now though nobody saw it: address, and when it was sampled. `is_walked`: it is
    /// known of all blocks whether they are.
    pub fn forget(&self, freed: &BTreeMap<u64, u64>, is_walked: bool) {
        self.shared.is_walked.store(is_walked, Ordering::Relaxed);
        let now_ns = read_ns(ClockId::Monotonic) as u64;
        let mut table = lock(&self.shared.table);
        for (&block, &sampled_ns) in freed {
            table.take_sampled(now_ns, block, sampled_ns);
        }
        lock(&self.shared.forgotten).extend(freed.keys());
    }

    /// The account so far, as a probe would give it.
    pub fn snapshot(&self) -> ProbeSnapshot {
        let table = lock(&self.shared.table);
        let traps = *lock(&self.shared.traps);
        ProbeSnapshot {
            allocs: traps.hits.max(table.samples),
            blocks: table.blocks(),
            stacks: table.sites(),
            samples: table.samples,
            dropped: self.shared.lost.load(Ordering::Relaxed),
            next_malloc: self.answers,
            traps: Some(traps),
            python: lock(&self.shared.python).clone(),
            ..ProbeSnapshot::default()
        }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process whose allocator is probed.
struct Probed {
    maps: Maps,
    programs: Programs,
    frees: Option<Attached>,
    allocations: Option<Attached>,
}

impl Probed {
    fn attach(
        target: &Target,
        functions: &[Function],
        way: Way,
        room: Room,
        callers: Callers,
    ) -> io::Result<Probed> {
        let (object, maps) = layout::open(functions, room, callers)?;
        maps.mean.write(0, MEAN_FIRST);
        maps.sampling.write(0, 1);
        let programs = Programs::load(&object, functions, way)?;
        Ok(Probed {
            frees: Some(programs.attach_frees(target)?),
            allocations: Some(programs.attach_allocations(target)?),
            maps,
            programs,
        })
    }

    /// Whether somebody took probes off that are to be on.
    fn has_lost_probes(&self) -> bool {
        let mut attached = self.frees.iter().chain(&self.allocations);
        attached.any(Attached::has_lost_some)
    }
}

/// By events where many probes at once cannot be.
fn attach(
    target: &Target,
    functions: &[Function],
    room: Room,
    callers: &dyn Fn() -> Callers,
) -> io::Result<Probed> {
    Probed::attach(target, functions, Way::Multi, room, callers())
        .or_else(|_| Probed::attach(target, functions, Way::Events, room, callers()))
}

/// Entries, and exits, of which functions may share some.
fn places_of(functions: &[Function]) -> usize {
    let exits = functions.iter().flat_map(|function| &function.exits);
    let exits: std::collections::BTreeSet<u64> = exits.map(|exit| exit.at).collect();
    functions.len() + exits.len()
}

#[cfg(test)]
mod tests;
