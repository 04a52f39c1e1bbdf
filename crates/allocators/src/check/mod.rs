//! Tries a library before a service runs on it: small programs in child processes, each under a
//! time limit, each with whatever it left behind ended after it.
//!
//! The probes are C (`probes/`), compiled when a check starts, so that what is tried is what a
//! program on this machine would meet: this glibc, this compiler. Every probe is clean on glibc.

mod program;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cache::{Cache, Staging};
use super::library::Library;
use super::machine::glibc_version;
use super::run::{Finished, outcome as ending, run_limited};
use super::source::sha256_file;
use super::spec::nearest;
use anyhow::{Context, Result, bail};
use program::Programs;
pub use report::{Answer, Finding, Outcome, Protection, Report};

/// Longest time for one probe; the slowest clean one (threads) needs 2 to 8 s on a busy machine.
const PROBE_LIMIT: Duration = Duration::from_secs(25);
/// A probe says where it hangs this long before its limit.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Longest time for one misuse: who neither survives nor stops within it hangs.
const MISUSE_LIMIT: Duration = Duration::from_secs(4);
/// Longest time for one library; what is not tried by then is said. With the compiling of the probes
/// it is a minute.
const WHOLE_LIMIT: Duration = Duration::from_secs(56);
/// A lock must be held at the very moment of a fork, and one round can miss it: oneTBB's was met in four of five
/// checks of 3 rounds of 4 s, always by the first forks of a round, on a machine at load 70.
const FORK_ROUNDS: u64 = 12;
/// The probes' random numbers; fixed, so that two checks of one library agree.
const SEED: u64 = 1;

/// The first finding: whether the library can be used at all.
const LOAD: (&str, &str) = (
    "load",
    "a program starts on it, and its malloc leads into it",
);

/// Probe and what it is about, in the words of a report. The quick ones first: one that hangs must
/// not keep the others from being tried.
const PROBES: &[(&str, &str)] = &[
    ("symbols", "one library answers the whole malloc family"),
    ("sizes", "blocks of every size"),
    (
        "alignment",
        "aligned blocks lie where they should, up to 64 KiB",
    ),
    ("overlap", "live blocks share no byte"),
    ("usable-size", "all of the usable size may be written"),
    ("calloc", "zeroed blocks are zero"),
    ("realloc", "contents survive every move"),
    ("oversize", "impossible and overflowing sizes are refused"),
    ("errno", "a refusal says ENOMEM"),
    ("early", "use before the first constructor and at exit"),
    ("dlopen", "a library opened late shares the heap"),
    ("new", "operator new and delete in all forms"),
    ("new-throw", "operator new of an impossible size throws"),
    ("reuse", "freed memory is used again"),
    ("thread-ends", "blocks outlive the threads that made them"),
    ("fork", "a child forked while threads allocate can allocate"),
    (
        "threads",
        "data survives in blocks that wander between threads",
    ),
];

/// Probes whose findings depart from the standards and harm no memory.
const CONFORMANCE: &[&str] = &["errno", "new-throw"];

/// Misuse and what it is, in the words of a report.
const MISUSES: &[(&str, &str)] = &[
    ("double-free", "a block freed twice"),
    ("free-list", "a free block overwritten"),
    ("overrun", "a write past the end of a block"),
    ("invalid-free", "a free of what malloc never gave"),
    ("order", "addresses that can be foretold"),
];

/// Probes that are compiled and ready, for as many libraries as there are to try.
pub struct Checker<'a> {
    cache: &'a Cache,
    programs: Programs,
    /// These probes only; empty means all.
    only: Vec<String>,
    _folder: Staging,
}

impl Cache {
    /// Compiles the probes. With names in `only`, just those are tried and nothing is kept.
    ///
    /// # Errors
    /// No C compiler, or probes that do not compile. A name in `only` that is none.
    pub fn checker(&self, only: &[String]) -> Result<Checker<'_>> {
        check_names(only)?;
        let folder = self.scratch("check")?;
        let cxx = only.is_empty() || only.iter().any(|name| is_cxx(name));
        Ok(Checker {
            cache: self,
            programs: program::compile(folder.path(), &self.machine, cxx)?,
            only: only.to_owned(),
            _folder: folder,
        })
    }
}

impl Checker<'_> {
    /// Tries a library and keeps the outcome under its sha256. `progress` hears of each probe.
    ///
    /// # Errors
    /// A probe that cannot be started, an outcome that cannot be kept: never what a probe finds.
    pub fn check(&self, library: &Library, progress: &dyn Fn(&str)) -> Result<Report> {
        let only = &self.only;
        let chosen = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
        let started = Instant::now();
        let trial = Trial {
            library,
            programs: &self.programs,
            end: started + WHOLE_LIMIT,
        };
        let mut report = blank(&library.spec);
        report.sha256.clone_from(&library.sha256);
        report.build_id.clone_from(&library.build_id);
        if only.is_empty() {
            report.findings.push(loads(Outcome::Clean, String::new()));
        }
        for (probe, about) in PROBES.iter().filter(|(name, _)| chosen(name)) {
            progress(probe);
            report.findings.push(trial.probe(probe, about)?);
        }
        for (misuse, about) in MISUSES.iter().filter(|(name, _)| chosen(name)) {
            progress(misuse);
            report.protections.push(trial.misuse(misuse, about)?);
        }
        report.seconds = round_ms(started.elapsed());
        if only.is_empty() {
            self.cache.keep(&report)?;
        }
        Ok(report)
    }

    /// Tries a file of the user's own. One that cannot be preloaded at all is a finding, not an
    /// error: the answer then has no library.
    ///
    /// # Errors
    /// No file of that name; otherwise as [`Checker::check`].
    pub fn check_file(
        &self,
        path: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<(Option<Library>, Report)> {
        fs::metadata(path).with_context(|| format!("no library at {}", path.display()))?;
        match Library::of_file(path) {
            Ok(library) => {
                let report = self.check(&library, progress)?;
                Ok((Some(library), report))
            }
            Err(why) => {
                let mut report = blank(&path.display().to_string());
                report.sha256 = sha256_file(path).ok();
                let words = format!("{why:#}");
                report.findings.push(loads(Outcome::Defect, words));
                Ok((None, report))
            }
        }
    }
}

impl Cache {
    /// The outcome of the last check of exactly these bytes, by these probes on this glibc, if there
    /// was one.
    pub fn checked(&self, library: &Library) -> Option<Report> {
        let text = fs::read_to_string(self.report_file(library.sha256.as_deref()?)).ok()?;
        let report: Report = serde_json::from_str(&text).ok()?;
        let same = report.probes_sha256 == program::sha256() && report.glibc == glibc_version();
        same.then_some(report)
    }

    fn report_file(&self, sha256: &str) -> PathBuf {
        self.folder().join(".checks").join(format!("{sha256}.json"))
    }

    fn keep(&self, report: &Report) -> Result<()> {
        let Some(sha256) = &report.sha256 else {
            return Ok(());
        };
        let file = self.report_file(sha256);
        let folder = file.parent().context("a report lies in a folder")?;
        fs::create_dir_all(folder)?;
        let half = file.with_extension(format!("{}~", std::process::id()));
        fs::write(&half, serde_json::to_string_pretty(report)?)
            .and_then(|()| fs::rename(&half, &file))
            .with_context(|| format!("writing {}", file.display()))
    }
}

/// A report with nothing in it yet.
fn blank(spec: &str) -> Report {
    Report {
        schema: report::SCHEMA.to_owned(),
        spec: spec.to_owned(),
        sha256: None,
        build_id: None,
        glibc: glibc_version(),
        probes_sha256: program::sha256(),
        checked_at: jiff::Timestamp::now().to_string(),
        seconds: 0.0,
        seed: SEED,
        findings: Vec::new(),
        protections: Vec::new(),
    }
}

fn loads(outcome: Outcome, words: String) -> Finding {
    Finding {
        probe: LOAD.0.to_owned(),
        about: LOAD.1.to_owned(),
        outcome,
        words,
        seconds: 0.0,
    }
}

fn check_names(only: &[String]) -> Result<()> {
    let known = || PROBES.iter().chain(MISUSES).map(|(name, _)| *name);
    for name in only {
        if !known().any(|k| k == name) {
            let near = nearest(name, known()).map(|n| format!("; the nearest is {n}"));
            let all = known().collect::<Vec<_>>().join(", ");
            bail!(
                "no probe is called {name:?}{}; there are {all}",
                near.unwrap_or_default()
            );
        }
    }
    Ok(())
}

/// Whether a probe is written in C++.
fn is_cxx(probe: &str) -> bool {
    matches!(probe, "new" | "new-throw")
}

struct Trial<'a> {
    library: &'a Library,
    programs: &'a Programs,
    end: Instant,
}

impl Trial<'_> {
    fn probe(&self, probe: &str, about: &str) -> Result<Finding> {
        let started = Instant::now();
        let rounds = if probe == "fork" { FORK_ROUNDS } else { 1 };
        let (mut outcome, mut words) = (Outcome::Clean, String::new());
        for round in 0..rounds {
            (outcome, words) = match self.start(probe, SEED + 2 * round, PROBE_LIMIT)? {
                Ok(finished) => judge(&finished),
                Err(why) => (Outcome::Untried, why),
            };
            if outcome != Outcome::Clean {
                break;
            }
        }
        if CONFORMANCE.contains(&probe) && matches!(outcome, Outcome::Defect | Outcome::Crash) {
            outcome = Outcome::Deviation;
        }
        let seconds = round_ms(started.elapsed());
        Ok(Finding {
            probe: probe.to_owned(),
            about: about.to_owned(),
            outcome,
            words,
            seconds,
        })
    }

    fn misuse(&self, misuse: &str, about: &str) -> Result<Protection> {
        let answer = match self.start(misuse, SEED, MISUSE_LIMIT)? {
            Ok(finished) => answer(&finished),
            Err(_) => Answer::Untried,
        };
        Ok(Protection {
            misuse: misuse.to_owned(),
            about: about.to_owned(),
            answer,
        })
    }

    /// Starts a probe on the library; the inner error says why it cannot be tried.
    fn start(
        &self,
        probe: &str,
        seed: u64,
        limit: Duration,
    ) -> Result<std::result::Result<Finished, String>> {
        let left = self.end.saturating_duration_since(Instant::now());
        let over = || format!("the {} s for one check were over", WHOLE_LIMIT.as_secs());
        if left.is_zero() {
            return Ok(Err(over()));
        }
        let program = match &self.programs.new {
            _ if !is_cxx(probe) => &self.programs.probes,
            Some(program) => program,
            None => return Ok(Err("no C++ compiler is on PATH".to_owned())),
        };
        let mut command = self.library.command(program)?;
        quiet(&mut command, &self.programs.folder);
        let cut = left < limit;
        let limit = limit.min(left);
        let watched = limit.saturating_sub(LAST_WORDS).max(Duration::from_secs(1));
        command.arg(probe).arg(seed.to_string());
        command.arg(watched.as_secs().to_string());
        let finished = run_limited(&mut command, limit).context("starting a probe")?;
        // Too little time was left to tell a slow one from one that hangs.
        Ok(if cut && hangs(&finished) {
            Err(over())
        } else {
            Ok(finished)
        })
    }
}

/// No core files of crashes on purpose, no tunables of whoever starts the check.
fn quiet(command: &mut Command, folder: &Path) {
    use std::os::unix::process::CommandExt;
    command
        .current_dir(folder)
        .env_remove("MALLOC_CONF")
        .env_remove("GLIBC_TUNABLES");
    // SAFETY: setrlimit is async-signal-safe and reads only the struct on our stack.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            Ok(())
        });
    }
}

/// The exit code of a probe that says where it hangs.
const HANGS: i32 = 3;

fn hangs(finished: &Finished) -> bool {
    let code = finished.status.map(|status| status.code());
    matches!(code, None | Some(Some(HANGS)))
}

/// Exit codes as `probes.h` has them.
fn judge(finished: &Finished) -> (Outcome, String) {
    const CANNOT: i32 = 77;
    let said = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
    let after = match said.as_str() {
        "" => String::new(),
        said => format!(" {said}"),
    };
    let Some(status) = finished.status else {
        return (Outcome::Hang, format!("it did not end in time{after}"));
    };
    match status.code() {
        Some(0) => (Outcome::Clean, String::new()),
        Some(CANNOT) => (Outcome::Untried, said),
        Some(HANGS) => (Outcome::Hang, format!("it hangs{after}")),
        Some(1) if !said.is_empty() => (Outcome::Defect, said),
        _ => (
            Outcome::Crash,
            format!("it {}{after}{}", ending(status), last(finished)),
        ),
    }
}

/// The last line on stderr, after a colon.
fn last(finished: &Finished) -> String {
    let said = String::from_utf8_lossy(&finished.stderr);
    let line = said.lines().rfind(|line| !line.trim().is_empty());
    line.map(|line| format!("; it said: {}", line.trim()))
        .unwrap_or_default()
}

fn answer(finished: &Finished) -> Answer {
    use std::os::unix::process::ExitStatusExt;
    let Some(status) = finished.status else {
        return Answer::Hangs;
    };
    match status.signal() {
        // Abort, trap and illegal instruction are how an allocator ends a program on purpose.
        Some(libc::SIGABRT | libc::SIGTRAP | libc::SIGILL) => Answer::Stops,
        Some(_) => Answer::Crashes,
        None => match status.code() {
            Some(0) => Answer::Nothing,
            // The loader's words for a program that does not start.
            Some(126 | 127) => Answer::Untried,
            // Some print their finding and exit; the probe of the order answers in the same way.
            _ => Answer::Stops,
        },
    }
}

fn round_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}
