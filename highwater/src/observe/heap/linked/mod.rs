//! A sampled account of an allocator that is linked into the program, or of musl's: uprobes on its functions, as root.
//!
//! Nothing of it is in the process but the kernel's breakpoints, in no other process and only while this runs. What was
//! allocated before is not known, and what it was freed of is not seen either.

mod attach;
mod cost;
mod entry;
pub mod functions;
pub mod pace;
pub mod place;
mod program;
mod table;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use attach::{Attached, Programs, Target, Way};
use cost::measure_cost;
use functions::{Function, read_functions};
use pace::{Budget, Cost, Counted};
use place::Place;
use program::{DRAW_BITS, DRAWS, Maps, cpu, open};
use table::{Record, Table};

use super::probe::ProbeLook;
use crate::observe::clock::read_ns;
use crate::observe::foreign::open_file;
use crate::observe::overhead::own;
use crate::observe::switches::ebpf::map::{Addresses, ByThread, Counter, PerCpu, Ring};
use crate::observe::switches::unwind::Stacks;

/// Live samples; from three quarters of it on they are thinned.
const LIVE_MAX: u32 = 32_768;
/// Threads with a sampled call at a time.
const OPEN_MAX: u32 = 16_384;
/// 100 ms of samples at ten times the rate that is aimed at.
const RING_BYTES: u32 = 4 << 20;
/// Samples a second that are aimed at.
const SAMPLES_MIN: f64 = 250.0;
const SAMPLES_MAX: f64 = 1_000.0;
const MEAN_FIRST: u64 = 4_096;
const MEAN_MIN: u64 = 256;
const MEAN_MAX: u64 = 1 << 28;
/// From one emptying of the ring to the next, and from one change of the mean.
const TURN: Duration = Duration::from_millis(20);
const ADAPTED: Duration = Duration::from_millis(100);

/// What the account rests on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traps {
    pub functions: usize,
    /// They were put on when the program began.
    pub at_start: bool,
    /// They are on musl's own allocator, and not on one in the program.
    pub on_libc: bool,
    pub hits: u64,
    /// Of them, those for which the kernel made a step of its own.
    pub stepped: u64,
    pub samples: u64,
    /// Of them, those whose result is not known: left by an exception or a `longjmp`, or by an exit without a probe.
    pub without_result: u64,
    /// Measured on functions of our own.
    pub cost: Cost,
    /// While the probes were on.
    pub hits_per_second: f64,
    /// Of one core, taken by the traps over all the time.
    pub core_share: f64,
    /// Of the time, how much the probes were on; 1: all.
    pub watched_share: f64,
    /// Of the blocks whose end is known, those that were given anew while nobody had seen them freed: their frees are
    /// inlined, or pass by the functions that have names.
    pub unseen_share: f64,
    /// Instructions that are breakpoints while the probes are on.
    pub places: usize,
    /// Kernel memory of maps and programs.
    pub kernel_bytes: u64,
    /// They came off for good after so many seconds: no rest would have kept the budget.
    pub stopped_s: Option<f64>,
}

/// Frees that may pass by unseen. An address may come back after an unmapping, or on a thread that was between two
/// probes.
const UNSEEN_MAX: f64 = 0.02;

impl Traps {
    /// CPU time of a hit, nanoseconds: their mean.
    pub fn hit_ns(&self) -> f64 {
        let stepped = self.stepped as f64 / self.hits.max(1) as f64;
        self.cost.hit_ns + stepped * self.cost.step_ns
    }

    /// CPU time that they took of the subject, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cost.seconds(Counted {
            hits: self.hits,
            stepped: self.stepped,
            samples: self.samples,
        })
    }

    /// Whether every block's end is seen.
    pub fn sees_all(&self) -> bool {
        self.watched_share >= 1.0 && self.unseen_share <= UNSEEN_MAX
    }
}

/// The probes on one process, which come off when it is dropped.
pub struct Linked {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    table: Mutex<Table>,
    lost: AtomicU64,
    traps: Mutex<Traps>,
}

impl Linked {
    /// Probes a file of `pid`, which has just started or not. `None`: there is no allocator in it that symbols tell of.
    ///
    /// # Errors
    /// No right, or a kernel that cannot.
    /// `share`: the budget, of the subject's CPU time or of a core.
    pub fn open(pid: u32, place: &Place, at_start: bool, share: f64) -> io::Result<Option<Linked>> {
        let functions = read_functions(&open_file(&place.file)?, place.base)?;
        if functions.is_empty() {
            return Ok(None);
        }
        let cost = measure_cost()?;
        let target = Target::new(pid, &place.file);
        let (maps, programs, attached) = attach(&target, &functions)?;
        let shared = Arc::new(Shared::default());
        let mut watcher = Watcher {
            target,
            stacks: Stacks::new(pid),
            shared: shared.clone(),
            maps,
            programs,
            attached: Some(attached),
            begin: Instant::now(),
            on: Duration::ZERO,
            has_rested: false,
            since_ns: 0,
            since: Instant::now(),
            looked_at: 1.0,
            budget: Budget::new(cost, share, cpu_s(pid)),
            traps: Traps {
                functions: functions.len(),
                places: places_of(&functions),
                kernel_bytes: own::kernel_bytes(),
                at_start,
                on_libc: place.is_libc,
                cost,
                watched_share: 1.0,
                ..Traps::default()
            },
            lost: 0,
        };
        let thread = std::thread::Builder::new().name("uprobes".into());
        let thread = thread.spawn(move || watcher.run())?;
        Ok(Some(Linked {
            shared,
            thread: Some(thread),
        }))
    }

    /// The account so far, as a probe would give it.
    pub fn look(&self) -> ProbeLook {
        let table = lock(&self.shared.table);
        let traps = *lock(&self.shared.traps);
        ProbeLook {
            allocs: traps.hits.max(table.samples),
            blocks: table.blocks(),
            stacks: table.sites(),
            samples: table.samples,
            dropped: self.shared.lost.load(Ordering::Relaxed),
            traps: Some(traps),
            ..ProbeLook::default()
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

/// By events where many probes at once cannot be.
fn attach(target: &Target, functions: &[Function]) -> io::Result<(Maps, Programs, Attached)> {
    let family = functions.iter().map(|function| function.code.clone());
    let maps = new_maps(family.collect())?;
    let tried = Programs::load(&maps, functions, Way::Multi)
        .and_then(|programs| Ok((programs.attach(target)?, programs)));
    let (attached, programs) = match tried {
        Ok(found) => found,
        Err(_) => {
            let programs = Programs::load(&maps, functions, Way::Events)?;
            (programs.attach(target)?, programs)
        }
    };
    Ok((maps, programs, attached))
}

fn new_maps(family: Vec<std::ops::Range<u64>>) -> io::Result<Maps> {
    let maps = Maps {
        cpus: PerCpu::create()?,
        draws: Counter::create(DRAWS)?,
        mean: Counter::create(1)?,
        open: ByThread::create(open::BYTES_ALL, OPEN_MAX)?,
        live: Addresses::create(LIVE_MAX)?,
        ring: Ring::create(RING_BYTES)?,
        lost: Counter::create(1)?,
        family,
    };
    for draw in 0..DRAWS {
        let even = (f64::from(draw) + 0.5) / f64::from(DRAWS);
        let far = -even.ln() * f64::from(1u32 << DRAW_BITS);
        maps.draws.write(draw, far as u64);
    }
    maps.mean.write(0, MEAN_FIRST);
    Ok(maps)
}

/// Reads the ring until it is told to stop.
struct Watcher {
    target: Target,
    stacks: Stacks,
    shared: Arc<Shared>,
    maps: Maps,
    programs: Programs,
    attached: Option<Attached>,
    begin: Instant,
    /// For how long the probes were on.
    on: Duration,
    /// They were off in between.
    has_rested: bool,
    /// When they were put on for the last time, and how much of what happens is looked at since.
    since_ns: i64,
    since: Instant,
    looked_at: f64,
    budget: Budget,
    traps: Traps,
    lost: u64,
}

impl Watcher {
    fn run(&mut self) {
        while !self.stops() {
            self.watch();
            if self.budget.is_spent() {
                if self.budget.is_hopeless() {
                    return self.give_up();
                }
                self.rest();
            }
        }
        self.attached = None;
    }

    /// Takes the probes off for good.
    fn give_up(&mut self) {
        self.attached = None;
        self.drain();
        self.forget_young();
        self.has_rested = true;
        self.traps.stopped_s = Some(self.begin.elapsed().as_secs_f64());
        self.tell();
    }

    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Takes in what comes for a while, or, as long as the probes never came off, until the budget is spent. After a
    /// rest the time is kept to its end: what was allocated in its first half must be followed.
    fn watch(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < pace::ON
            && !self.stops()
            && (self.has_rested || !self.budget.is_spent())
        {
            let (turn, samples) = (Instant::now(), self.samples());
            while turn.elapsed() < ADAPTED {
                std::thread::sleep(TURN);
                self.drain();
            }
            self.adapt((self.samples() - samples) as f64 / turn.elapsed().as_secs_f64());
            self.on += turn.elapsed();
            self.budget.cores = cores(self.target.pid);
            self.budget
                .read(self.counted(), cpu_s(self.target.pid), turn.elapsed(), true);
            self.tell();
        }
        // Of threads that ended, or whose call was left for a deeper place of the stack.
        self.maps.open.clear();
    }

    /// Takes the probes off until there is budget for them again.
    fn rest(&mut self) {
        // Taking the probes off and putting them on takes the kernel some tens of milliseconds each.
        let begin = Instant::now();
        let on = match self.has_rested {
            true => begin - self.since,
            false => pace::ON,
        };
        self.attached = None;
        // Of a call that was sampled and then ended unseen all later ones would look like part.
        self.maps.open.clear();
        self.drain();
        if !self.has_rested {
            self.forget_young();
            self.has_rested = true;
            self.tell();
        }
        let time = self.budget.rest();
        while begin.elapsed() < time && !self.stops() {
            std::thread::sleep(TURN);
            self.tell();
        }
        if !self.stops() {
            self.stacks.reload();
            // The process may have ended.
            self.attached = self.programs.attach(&self.target).ok();
            self.since_ns = read_ns(ClockId::Monotonic);
            self.since = Instant::now();
        }
        let rested = begin.elapsed();
        self.budget
            .read(self.counted(), cpu_s(self.target.pid), rested, false);
        self.looked_at = self.budget.looked_at(on, rested);
        self.tell();
    }

    /// What was allocated just before the probes come off first was not followed.
    fn forget_young(&mut self) {
        let from_ns = read_ns(ClockId::Monotonic) - pace::FOLLOWED.as_nanos() as i64;
        let live = &self.maps.live;
        for block in lock(&self.shared.table).forget_since(from_ns as u64) {
            live.remove(block);
        }
    }

    /// From then on what is allocated could not be followed for long enough to tell what stays.
    fn late_from_ns(&self) -> u64 {
        match self.has_rested {
            true => (self.since_ns + pace::FOLLOWED.as_nanos() as i64) as u64,
            false => u64::MAX,
        }
    }

    fn samples(&self) -> u64 {
        lock(&self.shared.table).samples
    }

    fn counted(&self) -> Counted {
        Counted {
            hits: self.maps.cpus.sum(cpu::HITS),
            stepped: self.maps.cpus.sum(cpu::STEPPED),
            samples: self.maps.cpus.sum(cpu::SAMPLES),
        }
    }

    /// Of what is allocated late, or while the probes were put on one by one, nothing is taken in.
    fn drain(&mut self) {
        let looked_at = self.looked_at;
        let times = self.since_ns as u64..self.late_from_ns();
        let mut table = lock(&self.shared.table);
        let (stacks, live) = (&mut self.stacks, &self.maps.live);
        self.maps.ring.drain(|bytes| match table::parse(bytes) {
            Some(Record::Given(given)) if !times.contains(&given.time_ns) => {
                live.remove(given.block)
            }
            Some(Record::Given(given)) => {
                let frames = stacks.of_bytes_called(given.registers, given.stack);
                let addresses = returns(given.function, &frames);
                table.give(&given, looked_at, &addresses);
            }
            Some(Record::Taken { time_ns, block }) => table.take(time_ns, block),
            None => {}
        });
        let lost = self.maps.lost.read();
        if lost != self.lost {
            table.keep(|block| live.has(block));
            self.lost = lost;
            self.shared.lost.store(lost, Ordering::Relaxed);
        }
        if table.len() > LIVE_MAX as usize / 4 * 3 {
            for block in table.thin() {
                live.remove(block);
            }
            let mean = self.maps.mean.read();
            self.maps.mean.write(0, (2 * mean).min(MEAN_MAX));
        }
    }

    fn adapt(&mut self, samples_per_second: f64) {
        let mean = self.maps.mean.read();
        let wanted = match samples_per_second {
            rate if rate > SAMPLES_MAX => mean * 2,
            rate if rate < SAMPLES_MIN => mean / 2,
            _ => mean,
        };
        // What is live must fit: it does not become finer again once it was thinned.
        let is_fuller = lock(&self.shared.table).len() > LIVE_MAX as usize / 3;
        let wanted = if is_fuller { wanted.max(mean) } else { wanted };
        self.maps.mean.write(0, wanted.clamp(MEAN_MIN, MEAN_MAX));
    }

    fn tell(&mut self) {
        let counted = self.counted();
        let all_s = self.begin.elapsed().as_secs_f64();
        let traps = &mut self.traps;
        traps.hits = counted.hits;
        (traps.stepped, traps.samples) = (counted.stepped, counted.samples);
        let returned = self.maps.cpus.sum(cpu::RETURNED);
        traps.without_result = counted.samples.saturating_sub(returned);
        traps.hits_per_second = counted.hits as f64 / self.on.as_secs_f64().max(1e-9);
        traps.core_share = traps.cost.seconds(counted) / all_s;
        if self.has_rested {
            traps.watched_share = (self.on.as_secs_f64() / all_s).min(0.999);
        }
        traps.unseen_share = lock(&self.shared.table).unseen_share();
        *lock(&self.shared.traps) = *traps;
    }
}

/// Entries, and exits, of which functions may share some.
fn places_of(functions: &[Function]) -> usize {
    let exits = functions.iter().flat_map(|function| &function.exits);
    let exits: std::collections::BTreeSet<u64> = exits.map(|exit| exit.at).collect();
    functions.len() + exits.len()
}

/// CPU time of all threads of a process.
fn cpu_s(pid: u32) -> f64 {
    let stat = procfs::process::Process::new(pid as i32).and_then(|own| own.stat());
    let ticks = stat.map_or(0, |stat| stat.utime + stat.stime);
    ticks as f64 / procfs::ticks_per_second() as f64
}

/// CPUs that a process can use at once.
fn cores(pid: u32) -> f64 {
    let stat = procfs::process::Process::new(pid as i32).and_then(|own| own.stat());
    let threads = stat.map_or(1, |stat| stat.num_threads.max(1) as usize);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    threads.min(cpus) as f64
}

/// Return addresses, the first within the allocator's function. The walk gives where it is, and of the calls further
/// out the byte before their return addresses.
fn returns(function: u64, frames: &[u64]) -> Vec<u64> {
    let first = frames.first().copied();
    let rest = frames.iter().skip(1).map(|address| address + 1);
    let own = std::iter::once(function + 1);
    own.chain(first).chain(rest).collect()
}

#[cfg(test)]
mod tests;
