//! Does the interval hold while the mean adapts? The probe over a made-up program on a made-up clock, 200 seeds.

use crate::clock::made_up::NOW_NS;
use crate::coverage::Harness;
use crate::draw;

const SEEDS: u64 = 200;
const LEAKED: u64 = 1 << 44;

/// So many seconds at so many bytes a second of traffic that comes and goes, and of a leak.
#[derive(Clone, Copy)]
struct Phase {
    seconds: f64,
    traffic: f64,
    leak: f64,
}

/// Blocks of the leak; of the traffic at most, bytes.
const LEAK_BYTES: u64 = 1_500;
const TRAFFIC_BYTES: u64 = 20_000;
/// Blocks of the traffic that are live at a time.
const KEPT: usize = 400;

struct Run {
    harness: Harness,
    random: u64,
    now_ns: f64,
    kept: Vec<(u64, u64)>,
    next: (u64, u64),
    leaked_bytes: f64,
    /// Seconds of all phases up to now, and what the mean was.
    trace: bool,
}

impl Run {
    fn new(seed: u64, cap_bytes: usize) -> Run {
        NOW_NS.set(Some(1_000_000_000));
        Run {
            harness: Harness::new(seed, cap_bytes, None),
            random: seed.wrapping_mul(77) + 5,
            now_ns: 1e9,
            kept: Vec::new(),
            next: (1 << 20, LEAKED),
            leaked_bytes: 0.0,
            trace: seed == 0,
        }
    }

    fn live_bytes(&self) -> f64 {
        self.leaked_bytes
            + self
                .kept
                .iter()
                .map(|(_, bytes)| *bytes as f64)
                .sum::<f64>()
    }

    fn go(&mut self, phase: Phase) {
        let end = self.now_ns + phase.seconds * 1e9;
        let mean_traffic = (16 + TRAFFIC_BYTES / 2) as f64;
        let (traffic, leak) = (phase.traffic / mean_traffic, phase.leak / LEAK_BYTES as f64);
        let mut shown = self.now_ns;
        while self.now_ns < end {
            self.now_ns += 1e9 / (traffic + leak);
            if self.trace && self.now_ns > shown {
                shown += 250e6;
                let mean = unsafe { (*self.harness.probe.header()).mean_bytes };
                let live = unsafe { (*self.harness.probe.header()).counters.samples_live };
                let taken = unsafe { (*self.harness.probe.header()).counters.samples_taken };
                println!(
                    "{:.2} s: mean {mean}, {live} live, {taken} taken",
                    self.now_ns / 1e9
                );
            }
            NOW_NS.set(Some(self.now_ns as u64));
            if draw::uniform(&mut self.random) * (traffic + leak) < leak {
                self.harness.alloc(self.next.1, LEAK_BYTES);
                self.next.1 += 1_520;
                self.leaked_bytes += LEAK_BYTES as f64;
            } else {
                self.turn();
            }
        }
    }

    fn turn(&mut self) {
        let bytes = 16 + draw::random(&mut self.random) % TRAFFIC_BYTES;
        if self.kept.len() >= KEPT {
            let at = (draw::random(&mut self.random) % KEPT as u64) as usize;
            let (address, _) = self.kept.swap_remove(at);
            self.harness.free(address);
        }
        self.harness.alloc(self.next.0, bytes);
        self.kept.push((self.next.0, bytes));
        self.next.0 += bytes.next_multiple_of(16) + 16;
    }

    /// (estimate, variance, samples) of blocks from an address.
    fn estimate(&self, from: u64) -> (f64, f64, usize) {
        let bytes = self.harness.copy();
        let snapshot = abi::read(&bytes).unwrap();
        let mut sum = (0.0, 0.0, 0);
        for (address, sample) in snapshot.samples() {
            if address >= from {
                let size = sample.requested_bytes as f64;
                let weight = size / -(-size / sample.mean_bytes as f64).exp_m1();
                sum = (sum.0 + weight, sum.1 + weight * (weight - size), sum.2 + 1);
            }
        }
        sum
    }
}

fn covered(name: &str, phases: &[Phase]) -> (f64, f64) {
    let (mut all, mut site) = (0, 0);
    let (mut ratio, mut z2, mut samples, mut low) = (0.0, 0.0, 0, 0);
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, 8 << 20);
        for phase in phases {
            run.go(*phase);
        }
        let (estimate, variance, _) = run.estimate(0);
        all += u64::from((estimate - run.live_bytes()).abs() <= 1.96 * variance.sqrt());
        let (estimate, variance, count) = run.estimate(LEAKED);
        let off = estimate - run.leaked_bytes;
        site += u64::from(off.abs() <= 1.96 * variance.sqrt());
        low += u64::from(off < -1.96 * variance.sqrt());
        ratio += estimate / run.leaked_bytes / SEEDS as f64;
        z2 += (estimate / run.leaked_bytes - 1.0).powi(2) / SEEDS as f64;
        samples += count;
    }
    NOW_NS.set(None);
    let share = |holds: u64| holds as f64 / SEEDS as f64;
    println!(
        "{name}: {:.3} of all, {:.3} of the site ({low} too low); site / truth {ratio:.3} sd {:.3}; {} samples",
        share(all),
        share(site),
        z2.sqrt(),
        samples / SEEDS as usize
    );
    (share(all), share(site))
}

const MB: f64 = 1e6;

#[test]
fn simulate() {
    let phase = |seconds, traffic, leak| Phase {
        seconds,
        traffic,
        leak,
    };
    covered("even", &[phase(6.0, 50.0 * MB, 1.0 * MB)]);
    covered(
        "a quiet start, then a storm",
        &[
            phase(2.0, 2.0 * MB, 0.5 * MB),
            phase(3.0, 200.0 * MB, 2.0 * MB),
        ],
    );
    covered(
        "a storm at the start",
        &[
            phase(0.5, 500.0 * MB, 2.0 * MB),
            phase(4.0, 10.0 * MB, 1.0 * MB),
        ],
    );
    let bursts: Vec<Phase> = (0..4)
        .flat_map(|_| {
            [
                phase(0.2, 300.0 * MB, 2.0 * MB),
                phase(1.0, 5.0 * MB, 1.0 * MB),
            ]
        })
        .collect();
    covered("bursts", &bursts);
}
