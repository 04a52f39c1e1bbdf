//! Cost of a verdict on one core. The bar: 10,000 series of 300 samples in 30 s.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use highwater::analyse::series::{Point, Series};
use highwater::verdict::Rules;
use highwater::verdict::series::judge;

/// A leak of `by` of the level over the window under noise with a memory.
fn series(samples: u32, by: f64) -> Series {
    let (mut state, mut drift) = (0x9e37_79b9_u64, 0.0);
    let points = (0..samples)
        .map(|i| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            drift = 0.6 * drift + (state >> 40) as f64 / 16_777_216.0 - 0.5;
            let x = f64::from(i) / f64::from(samples);
            Point {
                t_s: 60.0 * f64::from(i),
                value: 1e8 * (1.0 + by * x + 0.01 * drift),
            }
        })
        .collect();
    Series {
        points,
        ..Series::default()
    }
}

fn verdicts(c: &mut Criterion) {
    let rules = Rules::default();
    for (name, samples, by) in [
        ("leak_300", 300, 0.3),
        ("flat_300", 300, 0.0),
        ("leak_13000", 13_000, 0.3),
    ] {
        let series = series(samples, by);
        c.bench_function(name, |b| b.iter(|| judge(black_box(&series), &rules)));
    }
}

criterion_group!(benches, verdicts);
criterion_main!(benches);
