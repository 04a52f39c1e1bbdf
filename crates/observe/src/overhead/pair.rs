//! What a malloc and its free cost with the probe and without, tried in processes of highwater's own.
//!
//! The probe measures its counting alone, in a loop without a call. In a program the call goes by the probe's function
//! to the allocator's, and its rows and tables take room in the caches: 3 to 7 ns a pair where that loop says 1.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The hidden word on highwater's command line that runs `pairs::time_pairs`.
pub const WORD: &str = "time-pairs";
/// Processes of each kind: the median counts, for each has its addresses elsewhere.
const TRIALS: usize = 5;
/// A machine that takes longer is too busy to measure on.
const TRIAL_MAX: Duration = Duration::from_secs(2);
const ALL_MAX: Duration = Duration::from_secs(4);

/// Below this is noise: the probe's instructions alone take a nanosecond.
pub const LEAST_NS: f64 = 1.0;

/// Added to a malloc and its free, nanoseconds: freed at once, and at random among many live blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairCost {
    /// While calls are counted.
    pub at_once_ns: f64,
    pub random_ns: f64,
    /// While usable bytes are counted too.
    pub exact_at_once_ns: f64,
    pub exact_random_ns: f64,
}

/// Live heaps below the first leave the caches to the program, those above the second do not.
const SMALL_BYTES: f64 = 262_144.0;
const LARGE_BYTES: f64 = 4_194_304.0;

impl PairCost {
    /// What a program with so large a live heap is taken to lose.
    pub fn counted_ns(&self, live_bytes: f64) -> f64 {
        between(self.at_once_ns, self.random_ns, live_bytes)
    }

    pub fn exact_ns(&self, live_bytes: f64) -> f64 {
        between(self.exact_at_once_ns, self.exact_random_ns, live_bytes)
    }

    /// For a budget that must not end on an estimate that is too high.
    pub fn least_ns(&self) -> f64 {
        self.at_once_ns.min(self.random_ns)
    }
}

/// In between the geometric mean, which is as many times too much for the one as it is too little for the other.
fn between(at_once_ns: f64, random_ns: f64, live_bytes: f64) -> f64 {
    match live_bytes {
        _ if live_bytes < SMALL_BYTES => at_once_ns,
        _ if live_bytes > LARGE_BYTES => random_ns,
        _ => (at_once_ns * random_ns).sqrt(),
    }
}

/// What prints the two numbers.
struct Timer(Command);

impl Timer {
    /// `program`: `highwater-time-pairs`, for the C library that the probe is for. Without it highwater runs itself,
    /// where a library can be preloaded into it: not where it is static.
    fn new(program: Option<&Path>) -> Option<Timer> {
        if let Some(program) = program {
            return Some(Timer(Command::new(program)));
        }
        if cfg!(target_feature = "crt-static") {
            return None;
        }
        let mut own = Command::new(std::env::current_exe().ok()?);
        own.arg(WORD);
        Some(Timer(own))
    }
}

/// `preload`: the probe, and what the caller preloads himself behind it; `without`: the latter alone; `program`:
/// `highwater-time-pairs` where there is one. `None` where it could not be tried. On a busy machine there are fewer
/// trials.
pub fn measure(
    program: Option<&Path>,
    preload: &OsStr,
    without: Option<&OsStr>,
) -> Option<PairCost> {
    let until = Instant::now() + ALL_MAX;
    let mut timer = Timer::new(program)?;
    let mut trials = || {
        Some([
            trial(&mut timer, without, "sampled", until)?,
            trial(&mut timer, Some(preload), "sampled", until)?,
            trial(&mut timer, Some(preload), "exact", until)?,
        ])
    };
    let all: Vec<[(f64, f64); 3]> = (0..TRIALS).map_while(|_| trials()).collect();
    if all.is_empty() {
        return None;
    }
    let [bare, counted, exact] =
        [0, 1, 2].map(|kind| medians(all.iter().map(|trials| trials[kind]).collect()));
    Some(PairCost {
        at_once_ns: (counted.0 - bare.0).max(LEAST_NS),
        random_ns: (counted.1 - bare.1).max(LEAST_NS),
        exact_at_once_ns: (exact.0 - bare.0).max(LEAST_NS),
        exact_random_ns: (exact.1 - bare.1).max(LEAST_NS),
    })
}

fn medians(trials: Vec<(f64, f64)>) -> (f64, f64) {
    let (at_once, random) = trials.into_iter().unzip();
    (median(at_once), median(random))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn trial(
    timer: &mut Timer,
    preload: Option<&OsStr>,
    bytes: &str,
    until: Instant,
) -> Option<(f64, f64)> {
    let Timer(command) = timer;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // The budget of a moment's trial is nobody's.
    command
        .env("HIGHWATER_PROBE_BUDGET", "0")
        .env("HIGHWATER_PROBE_BYTES", bytes);
    match preload {
        Some(preload) => command.env("LD_PRELOAD", preload),
        None => command.env_remove("LD_PRELOAD"),
    };
    let mut child = command.spawn().ok()?;
    let until = until.min(Instant::now() + TRIAL_MAX);
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
