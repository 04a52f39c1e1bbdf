//! The replays: every arm in turn, again and again, so that what changes on the machine meanwhile meets all of them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use experiment::built_in::{self, ForLibc};
use observe::host::parse_meminfo;
use replay::{Arm, End, Limits, Ran, Runner};
use trace::Trace;

/// File name of the replayer.
const REPLAYER: &str = "highwater-replayer";
/// Of what the program had at most, a replay may have so many times as much, and this.
const MEMORY_FACTOR: u64 = 4;
const MEMORY_BYTES: u64 = 1 << 30;
/// Of the memory that is available, a replay may take so many percent.
const AVAILABLE_PERCENT: u64 = 80;

/// An arm, and its replays.
pub struct Played {
    pub arm: Arm,
    /// The program was recorded on it.
    pub is_recorded: bool,
    pub runs: Vec<Ran>,
}

/// What a replay may take.
pub fn limits(trace: &Trace, time: Duration, max_memory: Option<u64>) -> Limits {
    let peak = trace
        .samples
        .iter()
        .map(|sample| sample.anon_bytes)
        .max()
        .unwrap_or(0);
    let wanted = max_memory.unwrap_or(
        peak.saturating_mul(MEMORY_FACTOR)
            .saturating_add(MEMORY_BYTES),
    );
    let available = std::fs::read("/proc/meminfo").ok();
    let available = available.and_then(|text| parse_meminfo(&text).ok()?.available_bytes);
    let most = available.map_or(u64::MAX, |bytes| bytes / 100 * AVAILABLE_PERCENT);
    Limits {
        resident_bytes: wanted.min(most),
        time,
    }
}

/// Replays all arms. An arm that did not finish is not replayed again.
///
/// # Errors
/// The replayer cannot be started, or the user interrupted.
pub fn all(
    runner: &Runner<'_>,
    arms: Vec<(Arm, bool)>,
    repeat: u32,
    quiet: bool,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<Played>> {
    let begin = |(arm, is_recorded)| Played {
        arm,
        is_recorded,
        runs: Vec::new(),
    };
    let mut played: Vec<Played> = arms.into_iter().map(begin).collect();
    let bar = progress(u64::from(repeat) * played.len() as u64, quiet);
    for _ in 0..repeat {
        for one in &mut played {
            bar.set_message(one.arm.name.clone());
            if one.runs.iter().all(|ran| ran.end == End::Finished) {
                one.runs.push(runner.run(&one.arm, is_over)?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(played)
}

/// Progress of work whose end is a time.
pub fn spinner(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn progress(runs: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} replays  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// The replayer: where `HIGHWATER_REPLAYER` says, or what this program has inside, or beside this program.
///
/// # Errors
/// It is in no such place, or cannot be unpacked.
pub fn find_replayer() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("HIGHWATER_REPLAYER") {
        return Ok(PathBuf::from(path));
    }
    // The allocators of the catalogue are for glibc.
    if let Some(path) = built_in::unpacked(ForLibc::Glibc, REPLAYER)? {
        return Ok(path);
    }
    built_in::beside(REPLAYER).with_context(|| {
        format!(
            "{REPLAYER} was not found beside this program; build it (cargo build --release) or say where it is in \
             HIGHWATER_REPLAYER"
        )
    })
}
