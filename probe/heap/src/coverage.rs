//! Does the interval of the sampled live heap hold what it promises? The probe itself over a
//! made-up program, 200 seeds.

use abi::{Thread, bytes_mode};

use crate::{Block, Filter, Freed, Home, Probe, Registers, Settings, count};

const SEEDS: u64 = 200;
const NOWHERE: Registers = Registers {
    pc: 0,
    sp: 0,
    fp: 0,
    lr: 0,
};

/// A program: sizes and lifetimes by a seed, and its own truth.
struct Program {
    state: u64,
    live: Vec<(u64, u64)>,
    live_bytes: u64,
    next_address: u64,
}

impl Program {
    fn new(seed: u64) -> Program {
        Program {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            live: Vec::new(),
            live_bytes: 0,
            next_address: 1 << 20,
        }
    }

    fn dice(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Mostly small, some of a few KiB, few of a MiB.
    fn size(&mut self) -> u64 {
        let dice = self.dice();
        match dice % 100 {
            0..80 => 16 + dice / 128 % 500,
            80..99 => 512 + dice / 128 % 16_000,
            _ => 16_384 + dice / 128 % 1_000_000,
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let header = self.probe.header();
        unsafe { libc::munmap(header.cast(), (*header).mapped_bytes as usize) };
    }
}

/// The parts of the exported functions that count and sample, over one row.
pub(crate) struct Harness {
    pub(crate) probe: Probe,
    row: *mut Thread,
}

impl Harness {
    pub(crate) fn new(seed: u64, cap_bytes: usize, mean_bytes: Option<u64>) -> Harness {
        let settings = Settings {
            cap_bytes,
            mean_bytes,
            seed: Some(seed),
            budget_ppm: 0,
            ..Settings::default()
        };
        let home = Home {
            own_code: 0,
            next: (0, 0),
            filter: Box::leak(Box::new(Filter::new())),
            arena: None,
            python: None,
            bytes_mode: bytes_mode::SAMPLED,
        };
        let probe = unsafe { crate::start(&settings, home) }.expect("8 MiB");
        let row = probe.join(std::process::id()).expect("the first row");
        Harness { probe, row }
    }

    pub(crate) fn alloc(&self, address: u64, bytes: u64) {
        unsafe {
            if !count::alloc(self.row, bytes) {
                return;
            }
            match self.probe.due(self.row, bytes) {
                None => (*self.row).allocs += 1,
                Some(mean_bytes) => {
                    (*self.row).allocs += 1;
                    self.probe.begin_distance(self.row, bytes);
                    let block = Block {
                        address,
                        requested_bytes: bytes,
                        usable_bytes: bytes,
                        took_ns: 10,
                        mean_bytes,
                    };
                    self.probe.allocated(self.row, block, NOWHERE);
                }
            }
        }
    }

    pub(crate) fn free(&self, address: u64) {
        unsafe {
            count::free(self.row);
            if self.probe.filter().may_hold(address)
                && let Some(removed) = self.probe.take_out(address)
            {
                self.probe
                    .freed(self.row, removed, Freed::Back, 10, NOWHERE);
            }
        }
    }

    /// (estimate, standard deviation, samples) of the live heap, read as a reader would.
    fn estimate(&self) -> (f64, f64, usize) {
        let bytes = self.copy();
        let snapshot = abi::read(&bytes).unwrap();
        let (mut sum, mut variance, mut samples) = (0.0, 0.0, 0);
        for (_, sample) in snapshot.samples() {
            let size = sample.requested_bytes as f64;
            let weight = size / -(-size / sample.mean_bytes as f64).exp_m1();
            sum += weight;
            variance += weight * (weight - size);
            samples += 1;
        }
        (sum, variance.sqrt(), samples)
    }

    pub(crate) fn copy(&self) -> Vec<u8> {
        let header = self.probe.header();
        unsafe {
            std::slice::from_raw_parts(header.cast::<u8>(), (*header).total_bytes as usize).to_vec()
        }
    }
}

/// The program runs until `allocs` blocks were taken, keeping some 4,000 live; then the live heap
/// is estimated.
fn run(harness: &Harness, program: &mut Program, allocs: usize) {
    for _ in 0..allocs {
        let bytes = program.size();
        let address = program.next_address;
        program.next_address += bytes.next_multiple_of(16) + 16;
        harness.alloc(address, bytes);
        program.live.push((address, bytes));
        program.live_bytes += bytes;
        if program.live.len() > 4_000 {
            let at = (program.dice() % program.live.len() as u64) as usize;
            let (address, bytes) = program.live.swap_remove(at);
            harness.free(address);
            program.live_bytes -= bytes;
        }
    }
}

/// Of so many seeds, how many 95 % intervals hold the truth; and the mean of estimate / truth.
fn covered(cap_bytes: usize, mean_bytes: Option<u64>, allocs: usize) -> (u64, f64, usize) {
    let (mut holds, mut ratio, mut samples) = (0, 0.0, 0);
    for seed in 0..SEEDS {
        let (harness, mut program) = (
            Harness::new(seed, cap_bytes, mean_bytes),
            Program::new(seed + 1),
        );
        run(&harness, &mut program, allocs);
        let (estimate, sd, count) = harness.estimate();
        let truth = program.live_bytes as f64;
        holds += u64::from((estimate - truth).abs() <= 1.96 * sd);
        ratio += estimate / truth / SEEDS as f64;
        samples += count;
    }
    (holds, ratio, samples / SEEDS as usize)
}

fn within_93_to_97(name: &str, (holds, ratio, samples): (u64, f64, usize)) {
    let share = holds as f64 / SEEDS as f64;
    println!(
        "{name}: {:.1} % of {SEEDS} intervals hold, estimate / truth {ratio:.4}, {samples} samples",
        share * 100.0
    );
    assert!(
        (0.93..=0.97).contains(&share),
        "{name}: {share} of the intervals hold the truth"
    );
    assert!((ratio - 1.0).abs() < 0.01, "{name}: biased, {ratio}");
}

#[test]
fn the_interval_of_a_fixed_mean_holds_in_95_of_100() {
    within_93_to_97("64 KiB", covered(2 << 20, Some(64 << 10), 9_000));
}

#[test]
fn and_after_thinning_a_small_table() {
    // A table of 1,024 rows thins from 384 on; at a mean of 512 nearly every larger block is
    // sampled.
    within_93_to_97("thinned", covered(2 << 20, Some(2_048), 9_000));
}

#[test]
fn counts_are_exact_whatever_is_sampled() {
    for seed in 0..20 {
        let (harness, mut program) = (
            Harness::new(seed, 2 << 20, Some(4_096)),
            Program::new(seed + 1),
        );
        run(&harness, &mut program, 10_000);
        let bytes = harness.copy();
        let snapshot = abi::read(&bytes).unwrap();
        let (allocs, frees) = snapshot.threads().fold((0, 0), |sum, (_, row)| {
            (sum.0 + row.allocs, sum.1 + row.frees)
        });
        assert_eq!(
            (allocs, allocs - frees),
            (10_000, program.live.len() as u64),
            "seed {seed}"
        );
        let requested: u64 = snapshot
            .threads()
            .map(|(_, row)| row.drawn_bytes.wrapping_sub(row.countdown_bytes))
            .fold(0, u64::wrapping_add);
        assert_eq!(
            requested,
            Program::requested(seed + 1, 10_000),
            "seed {seed}"
        );
        let counters = snapshot.header.counters;
        let gone = counters.samples_freed + counters.samples_thinned;
        assert_eq!(
            counters.samples_taken - gone,
            counters.samples_live,
            "seed {seed}"
        );
        assert_eq!(
            counters.samples_live as usize,
            snapshot.samples().count(),
            "seed {seed}"
        );
    }
}

impl Program {
    /// Bytes that a program of that seed asks for in so many allocations.
    fn requested(seed: u64, allocs: usize) -> u64 {
        let mut program = Program::new(seed);
        let mut live = 0;
        let mut sum = 0;
        for _ in 0..allocs {
            sum += program.size();
            live += 1;
            if live > 4_000 {
                program.dice();
                live -= 1;
            }
        }
        sum
    }
}

/// The reader over images that the subject has scribbled on: never a panic, never a row outside.
#[test]
fn a_scribbled_image_is_read_or_refused() {
    let (harness, mut program) = (Harness::new(3, 2 << 20, Some(4_096)), Program::new(9));
    run(&harness, &mut program, 10_000);
    let image = harness.copy();
    let mut dice = Program::new(77);
    let mut refused = 0;
    for round in 0..3_000 {
        let mut bytes = image.clone();
        // Mostly the header, where offsets and counts are.
        for _ in 0..1 + round % 8 {
            let area = if dice.dice().is_multiple_of(4) {
                bytes.len() as u64
            } else {
                1024
            };
            let at = (dice.dice() % area) as usize & !7;
            let value = match dice.dice() % 3 {
                0 => u64::MAX,
                1 => dice.dice(),
                _ => dice.dice() % 5_000,
            };
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if round % 10 == 0 {
            bytes.truncate((dice.dice() % image.len() as u64) as usize);
        }
        match abi::read(&bytes) {
            Err(_) => refused += 1,
            Ok(snapshot) => read_all(&snapshot),
        }
    }
    assert!(
        (300..3_000).contains(&refused),
        "{refused} of 3,000 refused"
    );
}

fn read_all(snapshot: &abi::Snapshot) {
    let mut rows =
        snapshot.threads().count() + snapshot.torn_samples() + snapshot.modules().count();
    rows += snapshot
        .samples()
        .filter_map(|(_, sample)| snapshot.stack(sample.stack))
        .count();
    rows += snapshot
        .stacks()
        .map(|(_, stack)| snapshot.frames(&stack).count())
        .sum::<usize>();
    rows += snapshot
        .stacks()
        .filter_map(|(_, stack)| snapshot.why_no_stack(&stack))
        .count();
    rows += snapshot
        .roles()
        .filter_map(|(role, _)| snapshot.flow(role, role))
        .count();
    rows += snapshot.classes().count() + snapshot.latencies().count() + snapshot.regions().count();
    assert!(rows < 1_000_000);
}

/// Plain additions to the row that they share lose some.
#[test]
fn the_bytes_of_threads_without_rows_are_exact() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 20_000;
    let harness = Harness::new(1, 2 << 20, Some(5_000));
    let probe = &harness.probe;
    let work = |first: u64| {
        (0..ROUNDS)
            .filter(|round| probe.due_shared(first + round % 90).is_some())
            .count()
    };
    let samples: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|first| scope.spawn(move || work(first)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // SAFETY: the row lives, and its writers have ended.
    let asked = unsafe {
        let row = probe.overflow();
        (*row).drawn_bytes.wrapping_sub((*row).countdown_bytes)
    };
    let truth: u64 = (1..=THREADS)
        .flat_map(|first| (0..ROUNDS).map(move |round| first + round % 90))
        .sum();
    assert_eq!(asked, truth);
    // One in 5,000 bytes by the chance of an exponential distance; the budget may make it fewer.
    let expected = truth as f64 / 5_000.0;
    assert!(
        (samples as f64) < 1.1 * expected && samples > 0,
        "{samples} of {expected}"
    );
}
