//! Readers against bytes that nobody meant: seeded mutations of good input, a few seconds in CI.
//!
//! Whatever comes in, a reader gives readings or an error; it never panics and never reads for ever. A failure
//! prints target, seed and input. `HIGHWATER_FUZZ_SECONDS=600` goes on that long for each target, from a fresh
//! seed (printed). `highwater/fuzz` holds the same targets for cargo-fuzz, which looks for new paths.

mod mutate;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mutate::Dice;
use targets::TARGETS;
use testkit::skipped;

/// Inputs for each target in CI; a database takes longer than a line of text.
const SHORT: u64 = 1500;
const SHORT_SLOW: u64 = 60;

/// Writes the good inputs as files, DIR/TARGET/N, for cargo-fuzz to begin from.
#[test]
#[ignore = "writes into HIGHWATER_FUZZ_CORPUS, for make fuzz"]
fn corpus() {
    let Some(root) = std::env::var_os("HIGHWATER_FUZZ_CORPUS").map(std::path::PathBuf::from) else {
        skipped("HIGHWATER_FUZZ_CORPUS names no folder");
        return;
    };
    for target in TARGETS {
        let folder = root.join(target.name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (i, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(i.to_string()), seed).expect("a seed");
        }
    }
}

fn fuzz(name: &str) {
    let target = TARGETS
        .iter()
        .find(|t| t.name == name)
        .unwrap_or_else(|| panic!("no target {name}"));
    let seconds: Option<u64> = std::env::var("HIGHWATER_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let first = if seconds.is_some() {
        u64::from(std::process::id()) << 32
    } else {
        0
    };
    let short = if target.slow { SHORT_SLOW } else { SHORT };
    let began = Instant::now();
    let goes_on = |i: u64| match seconds {
        Some(s) => began.elapsed() < Duration::from_secs(s),
        None => i < short,
    };
    println!("{name}: seeds from {first}");
    let seeds = (target.seeds)();
    let mut i = 0;
    while goes_on(i) {
        let mut dice = Dice::new(first + i);
        let input = mutate::mutate(&mut dice, &seeds);
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.feed)(&input)));
        assert!(
            outcome.is_ok(),
            "{name} panicked on seed {}: {:?}",
            first + i,
            String::from_utf8_lossy(&input[..input.len().min(4000)])
        );
        i += 1;
    }
    println!("{name}: {i} inputs");
}

#[test]
fn tables() {
    fuzz("table");
}

#[test]
fn tables_judged() {
    fuzz("judged");
}

#[test]
fn meta_and_groups() {
    fuzz("meta");
    fuzz("groups");
}

#[test]
fn instants() {
    fuzz("instant");
}

#[test]
fn answers_of_a_fleet() {
    fuzz("answer");
    fuzz("selector");
}

#[test]
fn expositions() {
    fuzz("exposition");
}

#[test]
fn records_of_runs() {
    fuzz("record");
}

#[test]
fn traces_of_allocations() {
    fuzz("trace");
}
