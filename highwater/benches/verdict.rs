//! Cost of a verdict on one core. The bar: 10,000 series of 300 samples in 30 s, so 3 ms each. `mixed_300` is the
//! figure to hold against it: its elements are series of many kinds. Reading is apart, in bytes of CSV.

use std::f64::consts::TAU;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use import::Row;
use import::columns::Wanted;
use import::rows::Rows;
use series::series::{Point, Series};
use verdict::Rules;
use verdict::series::judge;

/// Noise with a memory, of about one in either direction.
struct Noise {
    state: u64,
    drift: f64,
}

impl Noise {
    fn of(seed: u64) -> Noise {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Noise { state, drift: 0.0 }
    }

    fn next(&mut self) -> f64 {
        let step = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = step.wrapping_add(1);
        self.drift = 0.6 * self.drift + (self.state >> 40) as f64 / 16_777_216.0 - 0.5;
        self.drift
    }
}

/// A reading a minute of `shape` over the part of the run, in units of 100 MB, with a hundredth of noise.
fn series(samples: u32, seed: u64, shape: impl Fn(f64) -> f64) -> Series {
    let mut noise = Noise::of(seed);
    let point = |i: u32| Point {
        t_s: 60.0 * f64::from(i),
        value: 1e8 * (shape(f64::from(i) / f64::from(samples)) + 0.01 * noise.next()),
    };
    Series {
        points: (0..samples).map(point).collect(),
        ..Series::default()
    }
}

/// What is found on real machines, a dozen kinds.
fn kinds() -> Vec<fn(f64) -> f64> {
    vec![
        |_| 1.0,
        |x| 1.0 + 0.3 * x,
        |x| 1.0 + 0.04 * x,
        |x| 1.5 - 0.5 * (-x / 0.08).exp(),
        |x| 1.5 - 0.5 * (-x / 0.8).exp(),
        |x| 1.0 + 0.1 * (1.0 + x / 0.01).ln(),
        |x| 1.0 + 0.4 * x.sqrt(),
        |x| 1.0 + 0.5 * (12.0 * x).fract(),
        |x| 1.0 + if x > 0.4 { 0.2 } else { 0.0 },
        |x| 1.0 + 0.1 * (TAU * 4.0 * x).sin(),
        |x| 1.0 + 0.6 * (x - 0.6 * f64::from(u8::from(x > 0.6))),
        |x| 1.0 + (0.3 * x * 20.0).floor() / 20.0,
    ]
}

fn verdicts(c: &mut Criterion) {
    let rules = Rules::default();
    for (name, samples, by) in [
        ("leak_300", 300, 0.3),
        ("flat_300", 300, 0.0),
        ("leak_13000", 13_000, 0.3),
    ] {
        let series = series(samples, 1, |x| 1.0 + by * x);
        c.bench_function(name, |b| b.iter(|| judge(black_box(&series), &rules)));
    }
    let mixed: Vec<Series> = kinds()
        .into_iter()
        .zip(1..)
        .map(|(shape, seed)| series(300, seed, shape))
        .collect();
    let mut group = c.benchmark_group("series");
    group.throughput(Throughput::Elements(mixed.len() as u64));
    group.bench_function("mixed_300", |b| {
        b.iter(|| {
            let judged = mixed.iter().map(|s| judge(black_box(s), &rules));
            judged.map(|v| v.confidence).sum::<f64>()
        });
    });
    group.finish();
}

/// 50,000 rows of 200 processes, sorted by time.
fn reading(c: &mut Criterion) {
    let mut csv = String::from("arm,process,t_s,rss_kib\n");
    for snapshot in 0..250 {
        for process in 0..200 {
            let arm = process % 5;
            csv += &format!(
                "a{arm},p{process},{},{}\n",
                60 * snapshot,
                100_000 + snapshot * process
            );
        }
    }
    let mut group = c.benchmark_group("reading");
    group.throughput(Throughput::Bytes(csv.len() as u64));
    group.bench_function("rows_50000", |b| {
        b.iter(|| {
            let mut rows =
                Rows::open(black_box(csv.as_bytes()), &Wanted::default()).expect("a header");
            let (mut row, mut sum) = (Row::default(), 0.0);
            while rows.next_into(&mut row).expect("rows") {
                sum += row.rss_bytes;
            }
            sum
        });
    });
    group.finish();
}

criterion_group!(benches, verdicts, reading);
criterion_main!(benches);
