//! What a malloc and its free cost with the probe and without, tried in processes of highwater's own.
//!
//! The probe measures its counting alone, in a loop without a call. In a program the call goes by the probe's function
//! to the allocator's, and its rows and tables take room in the caches: 3 to 7 ns a pair where that loop says 1.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::proc::identity::probe_filters;

/// The hidden word on highwater's command line that runs `pairs::time_pairs`.
pub const WORD: &str = "time-pairs";
/// Processes of each kind: the median counts, for each has its addresses elsewhere.
const TRIALS: usize = 5;
/// A machine that takes longer is too busy to measure on.
const TRIAL_MAX: Duration = Duration::from_secs(2);
const ALL_MAX: Duration = Duration::from_secs(4);

/// Of what the dynamic linker says.
const SAID_MAX: u64 = 4096;

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

/// Why no process starts with the library before its allocator; `None`: one does, or the machine is too busy to tell.
/// The dynamic linker ends a program whose preload asks for a library that is not there.
/// `program`: one for the same C library, which ends by itself.
pub fn refusal(program: &Path, library: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", library)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Some(format!(
                "{} does not start here: {error}",
                program.display()
            ));
        }
    };
    let status = ended(&mut child, Instant::now() + TRIAL_MAX)?;
    if status.success() {
        return None;
    }
    let mut said = String::new();
    let stderr = child.stderr.take().map(|stderr| stderr.take(SAID_MAX));
    let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
    let line = said.lines().next().unwrap_or("it says nothing");
    Some(format!(
        "a program with {} does not start here: {line}",
        library.display()
    ))
}

/// How it ended; `None`, and it is gone, when it has not by then.
fn ended(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
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
        .env("HIGHWATER_PROBE_BYTES", bytes)
        .envs([probe_filters()]);
    match preload {
        Some(preload) => command.env("LD_PRELOAD", preload),
        None => command.env_remove("LD_PRELOAD"),
    };
    let mut child = command.spawn().ok()?;
    ended(&mut child, until.min(Instant::now() + TRIAL_MAX))?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that asks for one that is gone.
    fn orphan(folder: &Path) -> Option<std::path::PathBuf> {
        let source = folder.join("empty.c");
        std::fs::write(&source, "").ok()?;
        let build = |name: &str, more: &[&str]| {
            let mut compile = Command::new("cc");
            compile
                .args(["-shared", "-fPIC", "-o"])
                .arg(folder.join(name));
            compile.arg(&source).args(more).current_dir(folder);
            compile
                .status()
                .is_ok_and(|status| status.success())
                .then_some(())
        };
        build("libgone.so", &[])?;
        build("liborphan.so", &["-Wl,--no-as-needed", "-L.", "-lgone"])?;
        std::fs::remove_file(folder.join("libgone.so")).ok()?;
        Some(folder.join("liborphan.so"))
    }

    #[test]
    fn a_library_that_ends_programs_at_their_start_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = orphan(folder.path()) else {
            testkit::skipped("no C compiler");
            return;
        };
        let program = Path::new("/bin/true");
        let why = refusal(program, &library).unwrap();
        assert!(why.contains("libgone.so"), "{why}");
        assert_eq!(
            refusal(program, Path::new("/nowhere.so")),
            None,
            "it is ignored"
        );
        assert!(refusal(Path::new("/nowhere"), &library).is_some());
    }
}
