//! Reads what the probes tell, and keeps their cost within the budget.
//!
//! At first all probes are on. Once the budget is spent, allocations are sampled for a short time now and then, and
//! frees go on being probed, so that each sampled block is followed to its end: a trap at a return is some ten times as
//! dear as one at an entry, and those come off. Where the frees alone are too dear, they come off too a little later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::pace::{self, Budget, Counted, On};
use super::python::PythonNames;
use super::table::{self, Record};
use super::traps::Traps;
use super::{
    ADAPTED, ADAPTED_SAMPLES, LIVE_MAX, MEAN_MAX, MEAN_MIN, ON_SHARE_MIN, Probed, SAMPLES_MAX,
    SAMPLES_MIN, Shared, TURN, lock,
};
use bpf::uprobes::Target;
use observe::clock::read_ns;
use observe::overhead::StopCause;
use observe::overhead::own::cpu_s_of;
use symbols::managed::is_managed;
use symbols::unwind::Stacks;

/// Reads the ring until it is told to stop.
pub struct Watcher {
    target: Target,
    stacks: Stacks,
    python: PythonNames,
    shared: Arc<Shared>,
    probed: Probed,
    begin: Instant,
    /// For how long allocations were sampled, and hits in that time.
    on: Duration,
    on_hits: u64,
    /// When the budget was last read, and the hits until then.
    read: (Instant, u64),
    /// How often they were not, in between.
    rests: u32,
    /// When sampling last began.
    since_ns: i64,
    /// Of what is allocated while these samples are taken and in the rest before, how much is sampled.
    sampled_share: f64,
    /// The time with samples is the first after a rest; how long the last such time was.
    is_first: bool,
    first_on: Duration,
    /// Samples, and time with all probes, when the mean was last set.
    adapted: (u64, Duration),
    budget: Budget,
    traps: Traps,
    lost: u64,
}

impl Watcher {
    /// `share`: the budget, of the subject's CPU time or of a core.
    pub fn new(
        target: Target,
        probed: Probed,
        (traps, share): (Traps, f64),
        shared: Arc<Shared>,
    ) -> Watcher {
        Watcher {
            stacks: Stacks::new(target.pid),
            python: PythonNames::default(),
            shared,
            probed,
            begin: Instant::now(),
            on: Duration::ZERO,
            on_hits: 0,
            read: (Instant::now(), 0),
            rests: 0,
            since_ns: 0,
            is_first: false,
            first_on: pace::ON,
            sampled_share: 1.0,
            adapted: (0, Duration::ZERO),
            budget: Budget::new(traps.cost, share, cpu_s_of(target.pid)),
            traps,
            lost: 0,
            target,
        }
    }

    pub fn run(&mut self) {
        while !self.stops() {
            self.watch();
            if self.budget.is_spent() {
                if self.budget.is_hopeless() {
                    return self.give_up(StopCause::OverBudget);
                }
                self.rest();
            } else {
                // The rest before is accounted for by the time that just ended.
                self.sampled_share = 1.0;
            }
        }
        if self.probed.has_lost_probes() {
            return self.give_up(StopCause::HoldersEnded);
        }
        self.probed.allocations = None;
        self.probed.frees = None;
    }

    /// Takes the probes off for good.
    fn give_up(&mut self, cause: StopCause) {
        self.stop_sampling();
        self.stop_following();
        self.rests += 1;
        self.traps.stopped = Some((self.begin.elapsed().as_secs_f64(), cause));
        self.tell();
    }

    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed) || self.probed.has_lost_probes()
    }

    /// Takes in what comes for a while, or, before the first rest, until the budget is spent. After a rest the time is
    /// kept to its end: it stands for a share of all time.
    fn watch(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < pace::ON
            && !self.stops()
            && (self.rests > 0 || !self.budget.is_spent())
        {
            let turn = Instant::now();
            std::thread::sleep(match self.budget.may_stay_on() {
                true => TURN,
                false => pace::ON,
            });
            self.on += turn.elapsed();
            self.on_hits += self.read_budget(On::All);
            // To name the callers takes as long again: not while probes are on that are to come off.
            if !self.budget.is_spent() {
                self.drain();
                self.adapt();
            }
            self.tell();
        }
        if self.rests > 0 && self.is_first {
            self.is_first = false;
            self.first_on = begin.elapsed();
        }
        // Of threads that ended, or whose call was left for a deeper place of the stack.
        self.probed.maps.calls.clear();
    }

    fn drain_for(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::thread::sleep(TURN.min(time.saturating_sub(begin.elapsed())));
            self.drain();
        }
    }

    /// Since the last reading; the hits.
    fn read_budget(&mut self, on: On) -> u64 {
        let (counted, cpu_s) = (self.counted(), cpu_s_of(self.target.pid));
        let over = self.read.0.elapsed();
        let hits = counted.hits - self.read.1;
        self.read = (Instant::now(), counted.hits);
        self.budget.cores = cores(self.target.pid);
        self.budget.read(counted, cpu_s, over, on);
        hits
    }

    /// Takes the probes of allocations off until there is budget for them again.
    fn rest(&mut self) {
        // Taking the probes off and putting them on takes the kernel some tens of milliseconds each.
        let begin = Instant::now();
        let on = match self.rests {
            0 => pace::ON,
            _ => self.first_on,
        };
        self.stop_sampling();
        self.rests += 1;
        let part = pace::part(self.rests);
        if self.traps.sees_frees {
            self.follow(part);
        }
        if !self.traps.sees_frees {
            self.stand_by(part);
        }
        if !self.stops() {
            self.sample_again();
        }
        self.sampled_share = self
            .budget
            .sampled_share(on, begin.elapsed(), on.max(pace::ON));
        self.tell();
    }

    fn stop_sampling(&mut self) {
        self.probed.maps.sampling.write(0, 0);
        self.probed.allocations = None;
        // Of a call that was sampled and then ended unseen all later ones would seem to be part.
        self.probed.maps.calls.clear();
        self.drain();
        self.adapt();
    }

    /// With the frees probed alone; not to the end where they are too dear.
    fn follow(&mut self, part: f64) {
        while !self.stops() && !self.budget.rest(part).is_zero() {
            self.drain_for(TURN);
            self.read_budget(On::Frees);
            if self.budget.are_frees_too_dear() {
                self.traps.sees_frees = false;
                return;
            }
            self.tell();
        }
    }

    fn stop_following(&mut self) {
        self.traps.sees_frees = false;
        if self.probed.frees.take().is_some() {
            self.drain();
            if self.follows() {
                self.forget_young();
            }
        }
    }

    /// Whether a sampled block has to be followed: of glibc's heap its headers tell later what is free.
    fn follows(&self) -> bool {
        !self.traps.has_headers() || !self.shared.is_walked.load(Ordering::Relaxed)
    }

    /// With nothing probed.
    fn stand_by(&mut self, part: f64) {
        if self.follows() {
            self.drain_for(pace::FOLLOWED);
            self.read_budget(On::Frees);
        }
        self.stop_following();
        let (begin, time) = (Instant::now(), self.budget.rest(part));
        while begin.elapsed() < time && !self.stops() {
            std::thread::sleep(TURN);
            self.tell();
        }
        self.read_budget(On::Nothing);
    }

    /// The process may have ended.
    fn sample_again(&mut self) {
        self.stacks.reload();
        let probed = &mut self.probed;
        if probed.frees.is_none() {
            probed.frees = probed.programs.attach_frees(&self.target).ok();
        }
        probed.allocations = probed.programs.attach_allocations(&self.target).ok();
        probed.maps.sampling.write(0, 1);
        // What it did while they were put on is no work of the time that begins now.
        self.read_budget(On::Nothing);
        self.since_ns = read_ns(ClockId::Monotonic);
        self.is_first = true;
    }

    /// What was allocated just before the frees were no longer probed was not followed.
    fn forget_young(&mut self) {
        let from_ns = read_ns(ClockId::Monotonic) - pace::FOLLOWED.as_nanos() as i64;
        let live = &self.probed.maps.live;
        for block in lock(&self.shared.table).forget_since(from_ns as u64) {
            live.remove(block);
        }
    }

    fn samples(&self) -> u64 {
        lock(&self.shared.table).samples
    }

    fn counted(&self) -> Counted {
        Counted {
            hits: self.probed.maps.cpus.sum(|cpu| cpu.hits),
            stepped: self.probed.maps.cpus.sum(|cpu| cpu.stepped),
            samples: self.probed.maps.cpus.sum(|cpu| cpu.samples),
            frees: self.probed.maps.cpus.sum(|cpu| cpu.frees),
        }
    }

    /// Of what is allocated while the probes were put on one by one nothing is taken in.
    fn drain(&mut self) {
        let sampled_share = self.sampled_share;
        let since_ns = self.since_ns as u64;
        let mut table = lock(&self.shared.table);
        let (stacks, python, maps) = (&mut self.stacks, &mut self.python, &mut self.probed.maps);
        let live = &maps.live;
        python.begin_turn();
        maps.ring.drain(|bytes| match table::parse(bytes) {
            Some(Record::Given(given)) if given.time_ns < since_ns => live.remove(given.block),
            Some(Record::Given(given)) => {
                let frames = stacks.of_bytes_called(given.registers, given.stack);
                let mut addresses = returns(given.function, &frames);
                if let (Some(go), Some(left)) = (&maps.go, &given.go)
                    && let Some((at, stack)) = go.caller(left)
                {
                    // What the walk found from there on is no stack.
                    let is_left = |address: &u64| go.asmcgocall.contains(address);
                    let end = addresses.iter().position(is_left);
                    addresses.truncate(end.unwrap_or(addresses.len()));
                    let of_go = stacks.of_copy(at, stack);
                    addresses.extend(of_go.iter().map(|address| address + 1));
                }
                if let Some(walks) = &maps.python {
                    addresses.extend(python.addresses(&walks.interpreter, &given.python));
                }
                table.give(&given, sampled_share, &addresses);
            }
            Some(Record::Taken { time_ns, block }) => table.take(time_ns, block),
            None => {}
        });
        python.publish(&self.shared.python);
        if let Some(walks) = &mut maps.python {
            walks.refresh();
        }
        for block in lock(&self.shared.forgotten).drain(..) {
            if !table.holds(block) {
                live.remove(block);
            }
        }
        let lost = maps.lost.read(0);
        if lost != self.lost {
            table.keep(|block| live.get(block).is_some());
            self.lost = lost;
            self.shared.lost.store(lost, Ordering::Relaxed);
        }
        if table.len() > LIVE_MAX as usize / 4 * 3 {
            for block in table.thin() {
                live.remove(block);
            }
            let mean = self.probed.maps.mean.read(0);
            self.probed.maps.mean.write(0, (2 * mean).min(MEAN_MAX));
        }
    }

    /// The mean goes by the samples of all time: in short times with long ones in between they may be as much denser.
    fn adapt(&mut self) {
        let (samples, on) = (self.samples() - self.adapted.0, self.on - self.adapted.1);
        if samples < ADAPTED_SAMPLES && on < ADAPTED {
            return;
        }
        self.adapted = (self.samples(), self.on);
        let on_share = self.on.as_secs_f64() / self.begin.elapsed().as_secs_f64().max(1e-9);
        let mean = self.probed.maps.mean.read(0);
        let per_second =
            samples as f64 / on.as_secs_f64().max(1e-9) * on_share.clamp(ON_SHARE_MIN, 1.0);
        let wanted = match per_second {
            rate if rate > SAMPLES_MAX => mean * 2,
            rate if rate < SAMPLES_MIN => mean / 2,
            _ => mean,
        };
        // What is live must fit: it does not become finer again once it was thinned.
        let is_fuller = lock(&self.shared.table).len() > LIVE_MAX as usize / 3;
        let wanted = if is_fuller { wanted.max(mean) } else { wanted };
        self.probed
            .maps
            .mean
            .write(0, wanted.clamp(MEAN_MIN, MEAN_MAX));
    }

    fn tell(&mut self) {
        let counted = self.counted();
        let all_s = self.begin.elapsed().as_secs_f64();
        let traps = &mut self.traps;
        traps.hits = counted.hits;
        (traps.stepped, traps.samples) = (counted.stepped, counted.samples);
        let returned = self.probed.maps.cpus.sum(|cpu| cpu.returned);
        traps.without_result = counted.samples.saturating_sub(returned);
        traps.hits_per_second = self.on_hits as f64 / self.on.as_secs_f64().max(1e-9);
        traps.core_share = traps.cost.seconds(counted) / all_s;
        if self.rests > 0 {
            traps.watched_share = (self.on.as_secs_f64() / all_s).min(0.999);
        }
        traps.unseen_share = lock(&self.shared.table).unseen_share();
        *lock(&self.shared.traps) = *traps;
    }
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
pub(super) fn returns(function: u64, frames: &[u64]) -> Vec<u64> {
    let first = frames.first().copied();
    let returned = |address: &u64| match is_managed(*address) {
        true => *address,
        false => address + 1,
    };
    let rest = frames.iter().skip(1).map(returned);
    let own = std::iter::once(function + 1);
    own.chain(first).chain(rest).collect()
}
