//! A sampled account of an allocator that is linked into the program: uprobes on its functions, as root.
//!
//! Nothing of it is in the process but the kernel's breakpoints, in no other process and only while this runs. What was
//! allocated before is not known, and what it was freed of is not seen either.

mod attach;
mod functions;
mod pace;
mod program;
mod table;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attach::{Attached, Programs, Way};
use functions::{Function, Role, read_functions};
use pace::Counted;
use program::{DRAW_BITS, DRAWS, Maps, cpu, open};
use table::{Record, Table};

use super::probe::ProbeLook;
use crate::observe::switches::ebpf::map::{Addresses, Counter, PerCpu, Ring, by_key};
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
const MEAN_MIN: u64 = 64;
const MEAN_MAX: u64 = 1 << 28;
/// From one emptying of the ring to the next, and from one change of the mean.
const TURN: Duration = Duration::from_millis(20);
const ADAPTED: Duration = Duration::from_millis(200);
/// The budget is looked after so often.
const JUDGED: Duration = Duration::from_secs(1);
/// Calls that tell what a trap costs.
const CALLS: u32 = 2_000;

/// What the account rests on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traps {
    pub functions: usize,
    pub hits: u64,
    /// A hit's cost, measured on a function of our own.
    pub ns_per_hit: f64,
    /// While the probes were on.
    pub hits_per_second: f64,
    /// Of one core, taken by the traps over all the time.
    pub core_share: f64,
    /// Of the time, how much the probes were on; 1: all.
    pub watched_share: f64,
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
    /// Probes the program of `pid`, mapped from `base` on. `None`: it has no allocator of its own that symbols tell of.
    ///
    /// # Errors
    /// No right, or a kernel that cannot.
    pub fn open(pid: u32, base: u64) -> io::Result<Option<Linked>> {
        let functions = read_functions(&File::open(format!("/proc/{pid}/exe"))?, base)?;
        if functions.is_empty() {
            return Ok(None);
        }
        let ns_per_hit = ns_per_hit()?;
        let (maps, programs, attached) = attach(pid, &functions)?;
        let shared = Arc::new(Shared::default());
        let mut watcher = Watcher {
            pid,
            stacks: Stacks::new(pid),
            shared: shared.clone(),
            maps,
            programs,
            attached: Some(attached),
            begin: Instant::now(),
            on: Duration::ZERO,
            share: 1.0,
            traps: Traps {
                functions: functions.len(),
                ns_per_hit,
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

/// On a kernel without session probes by events.
fn attach(pid: u32, functions: &[Function]) -> io::Result<(Maps, Programs, Attached)> {
    let family = functions.iter().map(|function| function.code.clone());
    let maps = new_maps(family.collect())?;
    let tried = Programs::load(&maps, functions, Way::Session)
        .and_then(|programs| Ok((programs.attach(pid)?, programs)));
    let (attached, programs) = match tried {
        Ok(found) => found,
        Err(_) => {
            let programs = Programs::load(&maps, functions, Way::Events)?;
            (programs.attach(pid)?, programs)
        }
    };
    Ok((maps, programs, attached))
}

fn new_maps(family: Vec<std::ops::Range<u64>>) -> io::Result<Maps> {
    let maps = Maps {
        cpus: PerCpu::create()?,
        draws: Counter::create(DRAWS)?,
        mean: Counter::create(1)?,
        open: by_key(4, open::BYTES_ALL, OPEN_MAX)?,
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

/// Nobody's allocator: probed to learn what a trap costs here.
#[inline(never)]
extern "C" fn probed(bytes: usize) -> usize {
    std::hint::black_box(bytes)
}

/// CPU time of a hit, nanoseconds.
fn ns_per_hit() -> io::Result<f64> {
    let address = probed as *const () as u64;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let maps = maps.map_err(io::Error::other)?;
    let map = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address));
    let map = map.ok_or_else(|| io::Error::other("own code is not mapped"))?;
    let function = Function {
        name: "probed".to_owned(),
        role: Role::Give { bytes: 0 },
        throws: false,
        file_offset: address - map.address.0 + map.offset,
        code: address..address + 1,
    };
    let plain = calls_ns();
    let _probed = attach(std::process::id(), &[function])?;
    Ok((calls_ns() - plain).max(0.0) / f64::from(CALLS))
}

fn calls_ns() -> f64 {
    let cpu = || crate::observe::clock::read_ns(rustix::time::ClockId::ThreadCPUTime);
    let begin = cpu();
    for _ in 0..CALLS {
        std::hint::black_box(probed(std::hint::black_box(1)));
    }
    (cpu() - begin) as f64
}

/// Reads the ring until it is told to stop.
struct Watcher {
    pid: u32,
    stacks: Stacks,
    shared: Arc<Shared>,
    maps: Maps,
    programs: Programs,
    attached: Option<Attached>,
    begin: Instant,
    /// For how long the probes were on, the present time left out.
    on: Duration,
    share: f64,
    traps: Traps,
    lost: u64,
}

impl Watcher {
    fn run(&mut self) {
        while !self.stops() {
            match self.attached.is_some() {
                true if self.share < 1.0 => self.watch(pace::ON),
                true => self.watch(JUDGED),
                false => self.rest(),
            }
        }
        self.attached = None;
    }

    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Takes in what comes for so long, and judges what that cost.
    fn watch(&mut self, time: Duration) {
        let begin = Instant::now();
        let (hits, cpu_s) = (self.hits(), self.cpu_s());
        let (mut adapted, mut samples) = (begin, self.samples());
        while begin.elapsed() < time && !self.stops() {
            std::thread::sleep(TURN);
            // What lives shorter than half the time could not be told from what stays.
            let is_late = self.share < 1.0 && begin.elapsed() > time / 2;
            self.drain(is_late);
            if adapted.elapsed() >= ADAPTED {
                self.adapt((self.samples() - samples) as f64 / adapted.elapsed().as_secs_f64());
                (adapted, samples) = (Instant::now(), self.samples());
            }
        }
        let over = begin.elapsed();
        self.on += over;
        let counted = Counted {
            hits: self.hits() - hits,
            cpu_s: self.cpu_s() - cpu_s,
            over_s: over.as_secs_f64(),
        };
        let share = pace::watched_share(counted, self.traps.ns_per_hit);
        // A short time alone is a poor measure.
        self.share = match self.share < 1.0 {
            true => (0.7 * self.share + 0.3 * share).min(0.999),
            false => share,
        };
        if self.share < 1.0 {
            self.attached = None;
            self.drain(true);
        }
        self.tell();
    }

    fn rest(&mut self) {
        let (begin, time) = (Instant::now(), pace::rest(self.share));
        while begin.elapsed() < time && !self.stops() {
            std::thread::sleep(TURN);
        }
        if !self.stops() {
            self.stacks.reload();
            // The process may have ended.
            self.attached = self.programs.attach(self.pid).ok();
        }
    }

    fn samples(&self) -> u64 {
        lock(&self.shared.table).samples
    }

    fn hits(&self) -> u64 {
        self.maps.cpus.sum(cpu::HITS)
    }

    fn cpu_s(&self) -> f64 {
        let stat = procfs::process::Process::new(self.pid as i32).and_then(|own| own.stat());
        let ticks = stat.map_or(0, |stat| stat.utime + stat.stime);
        ticks as f64 / procfs::ticks_per_second() as f64
    }

    /// Of what is allocated `late`, nothing is taken in.
    fn drain(&mut self, late: bool) {
        let mut table = lock(&self.shared.table);
        let (stacks, live) = (&mut self.stacks, &self.maps.live);
        let looked_at = match self.share < 1.0 {
            true => self.share / 2.0,
            false => 1.0,
        };
        self.maps.ring.drain(|bytes| match table::parse(bytes) {
            Some(Record::Given { block, .. }) if late => live.remove(block),
            Some(Record::Given {
                time_ns,
                block,
                bytes,
                mean,
                registers,
                stack,
            }) => {
                let frames = stacks.of_bytes(registers, stack);
                let addresses = returns(&frames);
                table.give((time_ns, block, bytes), mean, looked_at, &addresses);
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
            self.maps
                .mean
                .write(0, (2 * self.maps.mean.read()).min(MEAN_MAX));
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
        let hits = self.hits();
        let all_s = self.begin.elapsed().as_secs_f64();
        let traps = &mut self.traps;
        traps.hits = hits;
        traps.hits_per_second = hits as f64 / self.on.as_secs_f64().max(1e-9);
        traps.core_share = hits as f64 * traps.ns_per_hit / 1e9 / all_s;
        traps.watched_share = match self.share < 1.0 {
            true => (self.on.as_secs_f64() / all_s).min(0.999),
            false => 1.0,
        };
        *lock(&self.shared.traps) = *traps;
    }
}

/// The walk tells where it is, and then the calls: their return addresses lie one further.
fn returns(frames: &[u64]) -> Vec<u64> {
    let first = frames.first().copied();
    let rest = frames.iter().skip(1).map(|address| address + 1);
    first.into_iter().chain(rest).collect()
}
