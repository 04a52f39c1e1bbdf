//! The recorded program: started with the recorder in front of its own preloads, in the foreground, and signals passed
//! on to it.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Handle;
use signal_hook::iterator::Signals;

use crate::cli::explain::launch::{find_program, preload, probe_for};
use observe::fact::program::read_program;
use observe::proc::identity::probe_filters;

/// Passed on to the program.
const PASSED: &[i32] = &[SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT];
/// A terminal sends these to the program as well: they only must not end highwater before it.
const SHARED: &[i32] = &[SIGINT, SIGQUIT];
/// After these a program may end, and say that all went well.
const ASKING: &[i32] = &[SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// What is to be started.
pub struct Plan {
    pub command: Vec<String>,
    pub path: PathBuf,
    library: PathBuf,
}

/// Finds the program and the recorder, and why the one cannot be in the other.
///
/// # Errors
/// There is no such program, or nothing can be preloaded into it.
pub fn plan(command: &[String]) -> anyhow::Result<Plan> {
    let name = command.first().context("no command was given")?;
    let path = find_program(name)?;
    let program = read_program(&path).ok();
    match probe_for(program.as_ref())? {
        Ok(probe) => Ok(Plan {
            command: command.to_vec(),
            path,
            library: probe.library,
        }),
        Err(why) => bail!("{name} cannot be recorded: {why}"),
    }
}

/// The program under way.
pub struct Subject {
    child: Child,
    signals: Handle,
    passing: Option<JoinHandle<()>>,
    /// A signal came that asks a program to end.
    was_asked: Arc<AtomicBool>,
    status: Option<ExitStatus>,
}

impl Subject {
    /// Starts it; it keeps our terminal, folder and standard streams.
    ///
    /// # Errors
    /// The kernel cannot start it.
    pub fn start(plan: &Plan, trace: &Path) -> anyhow::Result<Subject> {
        let mut signals = Signals::new(PASSED.iter().chain(SHARED)).context("taking signals")?;
        let handle = signals.handle();
        // In the handler, and not in the thread that passes them on: the program may be faster than that.
        let was_asked = Arc::new(AtomicBool::new(false));
        for signal in ASKING {
            signal_hook::flag::register(*signal, was_asked.clone()).context("taking signals")?;
        }
        let mut start = Command::new(&plan.path);
        start.arg0(&plan.command[0]).args(&plan.command[1..]);
        start.env(
            "LD_PRELOAD",
            preload(&plan.library, std::env::var_os("LD_PRELOAD")),
        );
        start.env(trace_abi::RECORD_VARIABLE, trace);
        start.envs([probe_filters()]);
        let name = &plan.command[0];
        let child = start
            .spawn()
            .with_context(|| format!("{name} could not be started"))?;
        let pid = child.id() as i32;
        let passing = std::thread::spawn(move || {
            for signal in signals.forever() {
                pass(pid, signal);
            }
        });
        Ok(Subject {
            child,
            signals: handle,
            passing: Some(passing),
            was_asked,
            status: None,
        })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Whether it came to its end with exit code 0, and no signal asked it to.
    pub fn ended_by_itself(&self) -> bool {
        let is_done = self.status.is_some_and(|status| status.success());
        is_done && !self.was_asked.load(Ordering::Relaxed)
    }

    /// Its exit code, as a shell has it.
    pub fn code(&self) -> u8 {
        let Some(status) = self.status else {
            return 0;
        };
        match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => 128 + signal as u8,
            (None, None) => u8::MAX,
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(passing) = self.passing.take() {
            drop(passing.join());
        }
    }
}

fn pass(pid: i32, signal: i32) {
    if SHARED.contains(&signal) {
        return;
    }
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}
