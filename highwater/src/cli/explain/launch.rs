//! Starts the program with the probe in front of its own preloads, and ends it afterwards.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};

use experiment::built_in::ForLibc;
use experiment::probe_library::{self, LIBRARY, OVERRIDE, ProbeLibrary};
use experiment::service::end_with;
use heap::family::{Member, descendants, read_everyone};
use observe::fact::program::{Libc, Program, preload_problem, read_program};
use observe::fact::sanitizer::Sanitizer;
use observe::overhead::pair::PairCost;
use observe::overhead::{own, pair};
use observe::proc::ProcRoot;
use observe::proc::identity::probe_filters;

/// Asks CPython, from 3.12 on, to give each Python function machine code of its own and to write its name to
/// `/tmp/perf-PID.map`; nothing else reads it.
const PYTHON_NAMES: &str = "PYTHONPERFSUPPORT";

/// How long the program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The program under observation.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    pub status: Option<ExitStatus>,
    /// Why the probe cannot be in it, when that is known beforehand.
    pub without_probe: Option<String>,
    /// What the probe costs a malloc and its free on this machine.
    pub pair: Option<PairCost>,
}

impl Launched {
    /// `budget_share`: what the probe may take of its CPU time.
    pub fn start(command: &[String], budget_share: f64) -> anyhow::Result<Launched> {
        let (name, arguments) = command.split_first().context("no command was given")?;
        let path = find_program(name)?;
        let program = read_program(&path).ok();
        let probe = probe_for(program.as_ref())?;
        // Processes that the program leaves behind come to us, and so can be followed and ended.
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
        let mut start = Command::new(&path);
        start.arg0(name).args(arguments).process_group(0);
        start.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
        if std::io::stdin().is_terminal() {
            // A background group that reads from the terminal would be stopped.
            start.stdin(Stdio::null());
        }
        if std::env::var_os(PYTHON_NAMES).is_none() {
            start.env(PYTHON_NAMES, "1");
        }
        let mut pair = None;
        if let Ok(probe) = &probe {
            let own = std::env::var_os("LD_PRELOAD");
            let preload = preload(&probe.library, own.clone());
            pair = pair::measure(probe.timer.as_deref(), &preload, own.as_deref());
            start.env("LD_PRELOAD", preload);
            limit(&mut start, budget_share, pair);
        }
        // A highwater that is killed cannot end it, and does not leave it behind all the same. (It is in a group of its
        // own, where a terminal's signals do not come to it.)
        let own = getpid();
        // SAFETY: between fork and exec only system calls are made, no lock is taken and nothing is allocated.
        unsafe {
            start.pre_exec(move || end_with(own, Some(Signal::TERM)));
        }
        let child = start
            .spawn()
            .with_context(|| format!("{name} could not be started"))?;
        Ok(Launched {
            child,
            status: None,
            without_probe: probe.err(),
            pair,
        })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether the program itself has ended (its descendants may run on).
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Ends it and all of its group: SIGTERM, and SIGKILL after a grace.
    pub fn end(&mut self) {
        let Some(group) = Pid::from_raw(self.pid()) else {
            return;
        };
        let _ = kill_process_group(group, Signal::TERM);
        let begin = Instant::now();
        while !self.has_ended() && begin.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(group, Signal::KILL);
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
        end_left_behind();
    }
}

/// Descendants of this process that are no part of highwater: the program's.
pub fn left_to_us(everyone: &[Member]) -> Vec<Member> {
    let own = std::process::id() as i32;
    let helpers = own::helpers().into_iter();
    let parts: Vec<Member> = helpers
        .flat_map(|helper| descendants(everyone, helper as i32))
        .collect();
    let mut left = descendants(everyone, own);
    left.retain(|member| member.pid != own && !parts.contains(member));
    left
}

/// Ends what left the program's group, a daemon for one: as its subreaper we are its parent now.
fn end_left_behind() {
    let left = || {
        let everyone = read_everyone(&ProcRoot::default()).unwrap_or_default();
        let pids = left_to_us(&everyone).into_iter();
        pids.filter_map(|member| Pid::from_raw(member.pid))
            .collect::<Vec<Pid>>()
    };
    let begin = Instant::now();
    let mut signal = Signal::TERM;
    while begin.elapsed() < 2 * GRACE {
        let left = left();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, signal);
        }
        std::thread::sleep(Duration::from_millis(50));
        signal = if begin.elapsed() > GRACE {
            Signal::KILL
        } else {
            Signal::TERM
        };
    }
}

impl Drop for Launched {
    /// Whatever went wrong: nothing that was started here stays behind.
    fn drop(&mut self) {
        if self.status.is_none() {
            self.end();
        }
    }
}

/// The probe keeps the budget by itself, with what a call costs here, or the least that it can be where that could not
/// be tried; the caller's own settings stay.
fn limit(start: &mut Command, budget_share: f64, pair: Option<PairCost>) {
    let pair_ps = 1e3 * pair.map_or(pair::LEAST_NS, |pair| pair.least_ns());
    for (name, value) in [
        (
            "HIGHWATER_PROBE_BUDGET",
            format!("{:.4}", 100.0 * budget_share),
        ),
        ("HIGHWATER_PROBE_PAIR", format!("{pair_ps:.0}")),
        probe_filters(),
    ] {
        if std::env::var_os(name).is_none() {
            start.env(name, value);
        }
    }
}

/// The caller's own preloads stay, behind the probe: it must come first to see every call.
pub fn preload(library: &Path, own: Option<OsString>) -> OsString {
    let mut words = library.as_os_str().to_owned();
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        words.push(":");
        words.push(own);
    }
    words
}

/// The probe for a program, or why it will not be in it. What the program is comes first: no library would help a
/// static one.
///
/// # Errors
/// There is a library that must not be loaded, or that cannot be unpacked.
pub fn probe_for(program: Option<&Program>) -> anyhow::Result<Result<ProbeLibrary, String>> {
    if let Some(refused) = program.and_then(refused) {
        return Ok(Err(refused));
    }
    let Some(probe) = probe_library::find(libc_of(program))? else {
        return Ok(Err(format!(
            "{LIBRARY} was not found beside this program; build it (cargo build --release) or say \
             where it is in {OVERRIDE}"
        )));
    };
    let of_program = program.and_then(|program| preload_problem(program, &probe.library));
    let timer = probe.timer.as_deref();
    let problem = of_program.or_else(|| pair::refusal(timer?, &probe.library));
    Ok(problem.map_or(Ok(probe), Err))
}

/// Which form of the probe a program takes; glibc's where that cannot be told.
fn libc_of(program: Option<&Program>) -> ForLibc {
    match program.map(|program| program.libc) {
        Some(Libc::Musl) => ForLibc::Musl,
        _ => ForLibc::Glibc,
    }
}

/// Why nothing can be preloaded into such a program.
fn refused(program: &Program) -> Option<String> {
    if program.interpreter.is_none() {
        let why = "the program is static: no library can be put before its allocator";
        return Some(why.to_owned());
    }
    if program.gains_rights {
        let why = "the program gains rights at its start (set-uid, or file capabilities), so the dynamic \
                   linker ignores LD_PRELOAD";
        return Some(why.to_owned());
    }
    program.sanitizer().map(Sanitizer::problem)
}

/// By its path, or in PATH.
pub fn find_program(name: &str) -> anyhow::Result<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        if !path.exists() {
            bail!("{name}: no such file; give the path of a program, or a name that PATH has");
        }
        return Ok(path);
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join(name));
    found
        .find(|path| path.is_file())
        .with_context(|| format!("{name}: not found in PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_own_preload_stays_behind_the_probe() {
        let probe = Path::new("/opt/libhighwater_probe.so");
        assert_eq!(preload(probe, None), "/opt/libhighwater_probe.so");
        let own = Some(OsString::from("/opt/libjemalloc.so.2"));
        assert_eq!(
            preload(probe, own),
            "/opt/libhighwater_probe.so:/opt/libjemalloc.so.2"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_said_by_name() {
        let error = Launched::start(&["/nowhere/at-all".to_owned()], 0.05).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at-all"), "{error}");
    }
}
