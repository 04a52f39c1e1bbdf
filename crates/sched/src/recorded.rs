//! What perf's records cost the thread that they are of: tried on threads of highwater's own, with the same events.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::ClockId;

use super::ebpf::Ebpf;
use super::ebpf::tracepoint::waking_tracepoint;
use super::events::Events;
use super::open_files::raise_the_limit;
use super::room::Room;
use bpf::allowed::Mode;
use bpf::ring::Record;
use observe::clock::read_ns;

/// Each kind of event is tried so often, and the median counts.
const TIMES: usize = 7;
/// Loops with samples and without, of which the quickest count.
const LOOPS: usize = 15;
/// A byte there and one back, by two threads: four switches at most.
const ROUNDS: usize = 200;
/// From one sample of the clock to the next in the trial.
const SAMPLED_NS: u64 = 100_000;
/// CPU time of the thread that is sampled: 24 samples fit a ring.
const BUSY_NS: u64 = 2_400_000;

/// CPU time of one, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// A thread leaves its CPU and comes back: two records, and the kernel's care for the thread's events.
    pub switch_ns: f64,
    /// One that wakes another one, with some of its stack; only as root without eBPF.
    pub waking_ns: f64,
    /// A sample of the clock, with the registers and as much of the stack as is copied at most, 16 KiB.
    pub sample_ns: f64,
    /// The way to a program on a tracepoint of the scheduler, which the kernel leaves out when it times the program.
    pub way_ns: f64,
}

/// What was recorded of the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    pub switches: u64,
    pub wakings: u64,
    pub samples: u64,
    /// Records that did not fit a ring: the thread paid for them all the same.
    pub lost: u64,
}

impl Cost {
    pub fn seconds(&self, recorded: Recorded) -> f64 {
        let switches_ns = recorded.switches as f64 * self.switch_ns;
        let wakings_ns = recorded.wakings as f64 * self.waking_ns;
        let lost_ns = recorded.lost as f64 * self.lost_ns(recorded);
        (switches_ns + wakings_ns + recorded.samples as f64 * self.sample_ns + lost_ns) / 1e9
    }

    /// One record of a kind that is not told: as dear as those that came are in the mean.
    pub fn lost_ns(&self, recorded: Recorded) -> f64 {
        // A switch is two.
        let (switches, wakings) = (recorded.switches as f64, recorded.wakings as f64);
        let records = 2.0 * switches + wakings;
        if records == 0.0 {
            return self.switch_ns / 2.0;
        }
        (switches * self.switch_ns + wakings * self.waking_ns) / records
    }

    /// Tries what the mode records, in some 0.1 s; `None` where it cannot.
    pub fn measure(mode: Mode) -> Option<Cost> {
        // A descriptor for each of two threads, event and CPU.
        raise_the_limit();
        let sample_ns = sample_ns()?;
        let pair = Pair::start()?;
        if mode == Mode::Ebpf {
            return Some(Cost {
                sample_ns,
                way_ns: pair.way_ns()?,
                ..Cost::default()
            });
        }
        let alone = pair.events_ns(Events::of_threads)?;
        let waking_ns = match mode {
            Mode::Tracepoints => {
                let (number, _) = waking_tracepoint().ok()?;
                let both = pair.events_ns(|| Events::of_threads_and_wakes(number))?;
                (both - alone).max(0.0) / WAKINGS
            }
            _ => 0.0,
        };
        Some(Cost {
            switch_ns: alone / SWITCHES,
            waking_ns,
            sample_ns,
            way_ns: 0.0,
        })
    }
}

/// Each byte lets one thread wait and wakes the other one.
const SWITCHES: f64 = 2.0 * ROUNDS as f64;
const WAKINGS: f64 = 2.0 * ROUNDS as f64;
/// Of programs, in the context of the two threads: one that leaves its CPU, and one that wakes.
const RUNS: f64 = SWITCHES + WAKINGS;

/// Two threads that send a byte to and fro when they are told to.
struct Pair {
    tids: [u32; 2],
    go: [Sender<()>; 2],
    took: Receiver<u64>,
}

impl Pair {
    fn start() -> Option<Pair> {
        let ((there_in, there_out), (back_in, back_out)) = (pipe().ok()?, pipe().ok()?);
        let (tell, tids) = channel();
        let (done, took) = channel();
        // Across CPUs a byte there and back takes ten times as long, or not, as the scheduler places the two.
        let cpu = sched_getcpu();
        let ends = [(back_in, there_out, true), (there_in, back_out, false)];
        let go = ends.map(|(from, to, is_first)| {
            let (go, wait) = channel();
            let (tell, done) = (tell.clone(), done.clone());
            std::thread::spawn(move || {
                stay_on(cpu);
                play(from, to, is_first, &tell, &wait, &done)
            });
            go
        });
        let tids = [tids.recv().ok()?, tids.recv().ok()?];
        Some(Pair { tids, go, took })
    }

    /// CPU time of both.
    fn play_ns(&self) -> Option<f64> {
        self.go.iter().try_for_each(|go| go.send(())).ok()?;
        Some((self.took.recv().ok()? + self.took.recv().ok()?) as f64)
    }

    /// By programs that pass over every thread: that they do so is counted here as part of the way.
    fn way_ns(&self) -> Option<f64> {
        // Some tens of nanoseconds are looked for.
        let play = || {
            (0..3 * TIMES)
                .map(|_| self.play_ns())
                .collect::<Option<_>>()
        };
        let plain_ns = median(play()?);
        let _programs = Ebpf::attach(std::process::id(), &[], Room::Many, false).ok()?;
        Some((median(play()?) - plain_ns).max(0.0) / RUNS)
    }

    /// What the events add to that.
    fn events_ns(&self, events: impl Fn() -> Events) -> Option<f64> {
        let added = |_| {
            let plain_ns = self.play_ns()?;
            let mut events = events();
            for tid in self.tids {
                events.watch(tid, true).ok()?;
                // As in a watch: there is one, which is off for threads that switch often.
                events.watch_clock(tid);
                events.sample(tid, false);
            }
            let watched_ns = self.play_ns()?;
            let _ = events.drain(|_| {});
            Some(watched_ns - plain_ns)
        };
        let added: Option<Vec<f64>> = (0..TIMES).map(added).collect();
        Some(median(added?).max(0.0))
    }
}

/// Of this thread. Where it is refused it goes where it likes.
fn stay_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    let _ = sched_setaffinity(None, &only);
}

fn play(
    mut from: PipeReader,
    mut to: PipeWriter,
    is_first: bool,
    tell: &Sender<u32>,
    go: &Receiver<()>,
    took: &Sender<u64>,
) -> Option<()> {
    tell.send(own_tid()).ok()?;
    let mut byte = [0];
    while go.recv().is_ok() {
        let begin = read_ns(ClockId::ThreadCPUTime);
        for _ in 0..ROUNDS {
            if is_first {
                to.write_all(&byte).ok()?;
            }
            from.read_exact(&mut byte).ok()?;
            if !is_first {
                to.write_all(&byte).ok()?;
            }
        }
        took.send((read_ns(ClockId::ThreadCPUTime) - begin) as u64)
            .ok()?;
    }
    Some(())
}

/// Of a loop that takes as long each time but for the samples: the quickest with them less the quickest without, for
/// whatever else delays a loop only adds to it.
fn sample_ns() -> Option<f64> {
    let turns = turns_of(BUSY_NS);
    let (mut plain_ns, mut sampled_ns, mut all) = (f64::MAX, f64::MAX, 0.0);
    for _ in 0..LOOPS {
        plain_ns = plain_ns.min(busy_ns(turns));
        let mut events = Events::of_threads();
        events.watch(own_tid(), false).ok()?;
        let clock = events.sample_every(own_tid(), SAMPLED_NS).ok()?;
        sampled_ns = sampled_ns.min(busy_ns(turns));
        drop(clock);
        let mut samples = 0u32;
        events.drain(|record| samples += u32::from(matches!(record, Record::Sample(_))));
        all += f64::from(samples) + events.lost as f64;
    }
    let each = all / LOOPS as f64;
    (each > 0.0).then(|| ((sampled_ns - plain_ns) / each).max(0.0))
}

fn turns_of(ns: u64) -> u64 {
    const TRIED: u64 = 20_000;
    let once_ns = busy_ns(TRIED).max(1.0);
    (TRIED as f64 * ns as f64 / once_ns) as u64
}

fn busy_ns(turns: u64) -> f64 {
    let begin = read_ns(ClockId::ThreadCPUTime);
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
    (read_ns(ClockId::ThreadCPUTime) - begin) as f64
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::allowed::Allowed;
    use testkit::skipped;

    #[test]
    fn switches_and_samples_cost_something() {
        if Allowed::try_all().switches.is_err() {
            return skipped("perf's events are not allowed");
        }
        let cost = Cost::measure(Mode::Rootless).unwrap();
        assert!(cost.sample_ns > 100.0, "{cost:?}");
        assert!((0.0..50_000.0).contains(&cost.switch_ns), "{cost:?}");
        let recorded = Recorded {
            switches: 1_000,
            samples: 10,
            ..Recorded::default()
        };
        let expected_s = (1_000.0 * cost.switch_ns + 10.0 * cost.sample_ns) / 1e9;
        assert!((cost.seconds(recorded) - expected_s).abs() < 1e-12);
    }
}
