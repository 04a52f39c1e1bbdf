//! How much of the subject's time the probes take, and when they rest.
//!
//! A trap on every call cannot be sampled away. Where the traps take more than their budget, allocations are probed for
//! [`ON`] at a time only, and a block that was sampled then counts for those that were not. How many those are goes by
//! the work that was done, for a program that is busy anyway does less in the same time: its frees are counted with
//! all probes, and with those of frees alone. Where there are few, its own CPU time tells, less well: of a program that
//! is slowed to a twentieth less is left over than the error of what traps cost.
//!
//! Frees stay probed, and are seen to the end. Where they alone leave too little of the budget, they come off
//! [`FOLLOWED`] after the allocations: what lives shorter is out of the account, what lives longer counts though its
//! end may go unseen.
//!
//! A time with all probes is short, for a program that is busy anyway does next to nothing in it: its requests wait
//! until it is over. With 200 ms at a time, and 300 ms of CPU time at once at the start, requests of 0.1 ms took half a
//! second.

use std::time::Duration;

/// What may be spent at once, of the share that is allowed: 10 ms at 5 %.
const AT_ONCE_S: f64 = 0.2;
/// How long all probes are on at a time, where they may not be all the time.
pub const ON: Duration = Duration::from_millis(10);
/// How long frees alone are probed afterwards at least.
pub const FOLLOWED: Duration = Duration::from_millis(100);
/// Own CPU time that tells how fast the subject is when it is left alone, seconds: five ticks of what the kernel says.
const TOLD_S: f64 = 0.05;
/// Of what it could use, from how much on the traps make it slower.
const FULL: f64 = 0.9;
/// Standard error of a mean, of the mean, up to which frees tell how fast it is.
const FREES_ERROR_MAX: f64 = 0.25;
/// It does some work while it is watched, however little its CPU time less that of the traps comes to.
const SPEED_MIN: f64 = 0.02;
/// A longer rest would leave too few samples.
const OFF_MAX: Duration = Duration::from_secs(20);
/// Time with the frees probed alone that tells what they cost, seconds.
const FREES_TOLD_S: f64 = 0.5;
/// The golden ratio: its multiples fall evenly between whole numbers.
const EVEN: f64 = 0.618_033_988_749_895;

/// Of the budget for a time with all probes, how much is saved for the next one. The mean is 1; it differs from time to
/// time, so that these times do not fall in step with something that the subject does once a second.
pub fn part(rest: u32) -> f64 {
    0.5 + (f64::from(rest) * EVEN).fract()
}

/// CPU time of a trap, and what one costs beyond that where the kernel steps what is probed, and where it is a sample,
/// nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    pub hit_ns: f64,
    pub step_ns: f64,
    pub sample_ns: f64,
}

impl Cost {
    pub fn seconds(&self, counted: Counted) -> f64 {
        let hits_ns = counted.hits as f64 * self.hit_ns + counted.stepped as f64 * self.step_ns;
        (hits_ns + counted.samples as f64 * self.sample_ns) / 1e9
    }
}

/// Since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counted {
    pub hits: u64,
    pub stepped: u64,
    pub samples: u64,
    /// Of the hits, at functions that free.
    pub frees: u64,
}

/// What is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    All,
    Frees,
    Nothing,
}

/// Seconds of the subject's CPU time, saved and spent.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    cost: Cost,
    /// Of the subject's own CPU time, and where that is little, of one core: programs that idle call their allocator
    /// all the same.
    share: f64,
    saved_s: f64,
    /// What a second with the probes on costs.
    rate: f64,
    /// The last readings.
    all_s: f64,
    cpu_s: f64,
    frees: u64,
    /// CPUs that it can use at once.
    pub cores: f64,
    /// While allocations are sampled, and in between.
    on: Work,
    off: Work,
    /// Frees while all is probed, and while they alone are.
    slowed: Rate,
    followed: Rate,
    /// In between, what could be saved and what the probes of frees took of it.
    allowed_s: f64,
    frees_s: f64,
}

/// What the subject did by itself.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    own_s: f64,
    over_s: f64,
    /// Traps and all.
    cpu_s: f64,
}

impl Work {
    fn add(&mut self, own_s: f64, spent_s: f64, over_s: f64) {
        self.own_s += own_s;
        self.over_s += over_s;
        self.cpu_s += own_s + spent_s;
    }

    fn speed(&self) -> f64 {
        self.own_s / self.over_s.max(1e-9)
    }
}

/// What is counted in times of about the same length.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    times: f64,
    over_s: f64,
    sum: f64,
    squares: f64,
}

impl Rate {
    fn add(&mut self, count: u64, over_s: f64) {
        self.times += 1.0;
        self.over_s += over_s;
        self.sum += count as f64;
        self.squares += (count as f64).powi(2);
    }

    /// A second, where it is told well enough.
    fn per_second(&self) -> Option<f64> {
        let n = self.times;
        let mean = self.sum / n.max(1.0);
        let variance = (self.squares / n - mean * mean).max(mean) / (n - 1.0);
        let is_told = n > 1.0 && variance.sqrt() < FREES_ERROR_MAX * mean;
        is_told.then(|| self.sum / self.over_s)
    }
}

impl Budget {
    pub fn new(cost: Cost, share: f64, cpu_s: f64) -> Budget {
        Budget {
            cost,
            share,
            saved_s: AT_ONCE_S * share,
            rate: 0.0,
            all_s: 0.0,
            cpu_s,
            frees: 0,
            cores: 1.0,
            on: Work::default(),
            off: Work::default(),
            slowed: Rate::default(),
            followed: Rate::default(),
            allowed_s: 0.0,
            frees_s: 0.0,
        }
    }

    /// `cpu_s`: all that the subject used so far; `over`: the time since the last reading, with that probed.
    pub fn read(&mut self, counted: Counted, cpu_s: f64, over: Duration, on: On) {
        let all_s = self.cost.seconds(counted);
        let spent_s = all_s - self.all_s;
        let unspent_s = cpu_s - self.cpu_s - spent_s;
        let own_s = unspent_s.max(0.0);
        let over_s = over.as_secs_f64();
        let allowed_s = self.share * own_s.max(over_s);
        self.saved_s = (self.saved_s + allowed_s - spent_s).min(self.at_once_s());
        if on == On::All && over_s > 0.0 {
            self.rate = spent_s / over_s;
        }
        if on != On::All {
            self.allowed_s += allowed_s;
            self.frees_s += spent_s;
        }
        let frees = counted.frees - self.frees;
        match on {
            On::All => self.slowed.add(frees, over_s),
            On::Frees => self.followed.add(frees, over_s),
            On::Nothing => {}
        }
        // Below zero here and there: a tick is 10 ms, and only sums of many are exact.
        let work = match on {
            On::All => &mut self.on,
            On::Frees | On::Nothing => &mut self.off,
        };
        work.add(unspent_s, spent_s, over_s);
        (self.all_s, self.cpu_s, self.frees) = (all_s, cpu_s, counted.frees);
    }

    /// Of all that the subject does, how much it does while what it allocates is sampled: for `sampled` of each time
    /// with the probes on, which is so long (never less than [`ON`]) and comes after so long a rest.
    pub fn sampled_share(&self, on: Duration, rested: Duration, sampled: Duration) -> f64 {
        let speed = self.speed_on();
        let on_s = speed * on.max(ON).as_secs_f64();
        speed * sampled.as_secs_f64() / (on_s + rested.as_secs_f64())
    }

    /// How fast it is with all probes on, of what it is without; 1 where that is not told yet.
    fn speed_on(&self) -> f64 {
        let of_frees = self.slowed.per_second().zip(self.followed.per_second());
        let speed = match of_frees {
            Some((slowed, followed)) => slowed / followed,
            None => self.speed_by_cpu_time(),
        };
        speed.clamp(SPEED_MIN, 1.0)
    }

    /// 1 where it waits in between: then it catches up.
    fn speed_by_cpu_time(&self) -> f64 {
        // As many CPUs as it keeps busy by itself: threads that sleep use none.
        let busy = self.off.speed().ceil().clamp(1.0, self.cores.max(1.0));
        let is_full = self.on.cpu_s > FULL * busy * self.on.over_s;
        match is_full && self.off.own_s > TOLD_S {
            true => self.on.speed() / self.off.speed(),
            false => 1.0,
        }
    }

    fn at_once_s(&self) -> f64 {
        AT_ONCE_S * self.share
    }

    /// By what the last time with all probes took, they may be on all the time.
    pub fn may_stay_on(&self) -> bool {
        self.on.over_s > 0.0 && self.rate <= self.share
    }

    pub fn is_spent(&self) -> bool {
        self.saved_s < 0.0
    }

    /// Until there is enough for another time with the probes on, or for so much of it, by what an idle subject saves.
    pub fn rest(&self, part: f64) -> Duration {
        let rest_s = self.missing_s(part) / self.share.max(1e-9);
        Duration::from_secs_f64(rest_s.min(OFF_MAX.as_secs_f64()))
    }

    /// A rest of the longest that there is does not save enough, by what the subject did so far.
    pub fn is_hopeless(&self) -> bool {
        let own = self.on.speed().max(self.off.speed()).max(1.0);
        self.missing_s(1.0) > self.share * own * OFF_MAX.as_secs_f64()
    }

    fn missing_s(&self, part: f64) -> f64 {
        let wanted_s = (part * self.wanted_s()).min(self.at_once_s());
        (wanted_s - self.saved_s).max(0.0)
    }

    /// What a time with all probes takes.
    fn wanted_s(&self) -> f64 {
        (self.rate * ON.as_secs_f64()).min(self.at_once_s())
    }

    /// Whether the probes of frees leave so little that the next time with all probes would be too far away. Told after
    /// a while, or at once where they have taken more than may be spent at once.
    pub fn are_frees_too_dear(&self) -> bool {
        let over_s = self.off.over_s;
        let saves = (self.allowed_s - self.frees_s) / over_s.max(1e-9);
        let is_told = over_s >= FREES_TOLD_S || self.frees_s > self.allowed_s + self.at_once_s();
        is_told && self.wanted_s() > saves * OFF_MAX.as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
