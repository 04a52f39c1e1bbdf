//! Tries a library before a service runs on it: small programs in child processes, each under a
//! time
//! limit, each with whatever it left behind ended after it.
//!
//! The probes are C (`probes/`), compiled when a check starts, so that what is tried is what a
//! program on this machine would meet: this glibc, this compiler. Every probe is clean on glibc.

mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::library::Library;
use super::machine::glibc_version;
use super::run::{Finished, run_limited};
use super::spec::nearest;
use program::Programs;

const SCHEMA: &str = "highwater.check/1";
/// Longest time for one probe; the slowest clean one (threads) needs 2 to 8 s on a busy machine.
const PROBE_LIMIT: Duration = Duration::from_secs(25);
/// Longest time for one misuse: who neither survives nor stops within it hangs.
const MISUSE_LIMIT: Duration = Duration::from_secs(4);
/// Longest time for one library; what is not tried by then is said.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
/// The probes' random numbers; fixed, so that two checks of one library agree.
const SEED: u64 = 1;

/// Probe and what it is about, in the words of a report.
const PROBES: &[(&str, &str)] = &[
    (
        "alignment",
        "aligned blocks lie where they should, up to 64 KiB",
    ),
    ("overlap", "live blocks share no byte"),
    ("usable-size", "all of the usable size may be written"),
    (
        "threads",
        "data survives in blocks that wander between threads",
    ),
    ("thread-ends", "blocks outlive the threads that made them"),
    ("fork", "a child forked while threads allocate can allocate"),
    ("oversize", "impossible and overflowing sizes are refused"),
    ("errno", "a refusal says ENOMEM"),
    ("realloc", "contents survive every move"),
    ("calloc", "zeroed blocks are zero"),
    ("early", "use before the first constructor and at exit"),
    ("dlopen", "a library opened late shares the heap"),
    ("new", "operator new and delete in all forms"),
];

/// Misuse and what it is, in the words of a report.
const MISUSES: &[(&str, &str)] = &[
    ("double-free", "a block freed twice"),
    ("free-list", "a free block overwritten"),
    ("overrun", "a write past the end of a block"),
    ("invalid-free", "a free of what malloc never gave"),
    ("order", "addresses that can be foretold"),
];

/// What a check found. Kept under the library's sha256.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub spec: String,
    pub sha256: Option<String>,
    pub build_id: Option<String>,
    /// The glibc it was tried on.
    pub glibc: Option<String>,
    /// RFC 3339.
    pub checked_at: String,
    pub seconds: f64,
    pub seed: u64,
    pub findings: Vec<Finding>,
    pub protections: Vec<Protection>,
}

/// The outcome of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub probe: String,
    /// What the probe is about.
    pub about: String,
    pub outcome: Outcome,
    /// What was seen; empty for a clean one.
    pub words: String,
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Clean,
    Defect,
    Crash,
    Hang,
    /// It could not be tried here; the words say why.
    Untried,
}

/// What happens on one misuse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protection {
    pub misuse: String,
    pub about: String,
    pub answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The allocator notices and ends the program.
    Stops,
    /// The program dies by a bad access, at once or later.
    Crashes,
    /// It neither ends nor goes on.
    Hangs,
    /// Nothing is noticed.
    Nothing,
    /// It could not be tried here.
    Untried,
}

impl Report {
    /// The findings that are not clean and were tried.
    pub fn defects(&self) -> impl Iterator<Item = &Finding> {
        let bad = |f: &&Finding| !matches!(f.outcome, Outcome::Clean | Outcome::Untried);
        self.findings.iter().filter(bad)
    }
}

impl Cache {
    /// Tries a library and keeps the outcome under its sha256. `progress` hears of each probe. With
    /// names in `only`, just those are tried and nothing is kept.
    ///
    /// # Errors
    /// No C compiler, or probes that do not compile: never what a probe finds. A name in `only`
    /// that
    /// is none.
    pub fn check(
        &self,
        library: &Library,
        only: &[String],
        progress: &dyn Fn(&str),
    ) -> Result<Report> {
        check_names(only)?;
        let chosen = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
        let started = Instant::now();
        progress("compiling the probes");
        let folder = self.scratch("check")?;
        let programs = program::compile(folder.path(), &self.machine)?;
        let checked_at = jiff::Timestamp::now().to_string();
        let trial = Trial {
            library,
            programs,
            end: Instant::now() + WHOLE_LIMIT,
        };
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            spec: library.spec.clone(),
            sha256: library.sha256.clone(),
            build_id: library.build_id.clone(),
            glibc: glibc_version(),
            checked_at,
            seconds: 0.0,
            seed: SEED,
            findings: Vec::new(),
            protections: Vec::new(),
        };
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
            self.keep(&report)?;
        }
        Ok(report)
    }

    /// The outcome of the last check of exactly these bytes, if there was one.
    pub fn checked(&self, library: &Library) -> Option<Report> {
        let text = fs::read_to_string(self.report_file(library.sha256.as_deref()?)).ok()?;
        serde_json::from_str(&text).ok()
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

struct Trial<'a> {
    library: &'a Library,
    programs: Programs,
    end: Instant,
}

impl Trial<'_> {
    fn probe(&self, probe: &str, about: &str) -> Result<Finding> {
        let started = Instant::now();
        // A lock must be held at the very moment of a fork: one round can miss it.
        let rounds = if probe == "fork" { 3 } else { 1 };
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
        if left.is_zero() {
            return Ok(Err(format!(
                "the {} s for one check were over",
                WHOLE_LIMIT.as_secs()
            )));
        }
        let program = match (probe, &self.programs.new) {
            ("new", Some(program)) => program,
            ("new", None) => return Ok(Err("no C++ compiler is on PATH".to_owned())),
            _ => &self.programs.probes,
        };
        let mut command = self.library.command(program)?;
        quiet(&mut command, &self.programs.folder);
        command.arg(probe).arg(seed.to_string());
        run_limited(&mut command, limit.min(left))
            .map(Ok)
            .context("starting a probe")
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

/// Exit codes as `probes.h` has them.
fn judge(finished: &Finished) -> (Outcome, String) {
    use std::os::unix::process::ExitStatusExt;
    const CANNOT: i32 = 77;
    let said = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
    let Some(status) = finished.status else {
        return (Outcome::Hang, "it did not end in time".to_owned());
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => (Outcome::Clean, String::new()),
        (Some(CANNOT), _) => (Outcome::Untried, said),
        (Some(1), _) if !said.is_empty() => (Outcome::Defect, said),
        (Some(code), _) => (
            Outcome::Crash,
            format!("it ended with exit code {code}{}", last(finished)),
        ),
        (None, Some(signal)) => (
            Outcome::Crash,
            format!("it was ended by signal {signal}{}", last(finished)),
        ),
        (None, None) => (Outcome::Crash, "it ended in an unknown way".to_owned()),
    }
}

/// The last line on stderr, after a colon.
fn last(finished: &Finished) -> String {
    let said = String::from_utf8_lossy(&finished.stderr);
    let line = said.lines().rfind(|line| !line.trim().is_empty());
    line.map(|line| format!(": {}", line.trim()))
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
