//! One replay: the replayer on an arm's allocator, within limits of memory and time.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::arm::Arm;
use crate::error::ReplayError;
use crate::outcome::{self, End, Ran};
use crate::plan::Planned;

/// How often a replay's memory and time are compared with their limits.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// What a replay may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Resident bytes, anonymous and shared.
    pub resident_bytes: u64,
    pub time: Duration,
}

/// Runs replays of one plan.
#[derive(Debug)]
pub struct Runner<'a> {
    /// The program `highwater-replayer`.
    pub replayer: &'a Path,
    pub planned: &'a Planned,
    /// A folder for the outcome.
    pub folder: &'a Path,
    pub limits: Limits,
}

impl Runner<'_> {
    /// Replays once on an arm. `is_over`: whether to give up.
    ///
    /// # Errors
    /// The replayer cannot be started, or its outcome not be read. An allocator that crashes is an outcome.
    pub fn run(&self, arm: &Arm, is_over: &dyn Fn() -> bool) -> Result<Ran, ReplayError> {
        let outcome = self.folder.join("outcome");
        let failed = |source| ReplayError::Outcome {
            path: outcome.clone(),
            source,
        };
        outcome::create(&outcome, self.planned.sample_times.len()).map_err(failed)?;
        let start = |source| ReplayError::Start {
            path: self.replayer.to_path_buf(),
            source,
        };
        let mut command = self.command(arm, &outcome).map_err(start)?;
        let child = command.spawn().map_err(start)?;
        let end = self.wait(child, is_over)?;
        let mut ran = outcome::read(&outcome, self.planned.epochs, end).map_err(failed)?;
        if ran.end == End::Finished && arm.is_other(&ran.malloc_path) {
            ran.end = End::NotTheArm(ran.malloc_path.clone());
        }
        Ok(ran)
    }

    /// Nothing of our environment: settings of allocators may be in it.
    fn command(&self, arm: &Arm, outcome: &PathBuf) -> Result<Command, std::io::Error> {
        let mut command = Command::new(self.replayer);
        command.env_clear().arg(&self.planned.path).arg(outcome);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A terminal's Ctrl-C is ours to take.
        command.process_group(0);
        if let Some(preload) = arm.library.preload().map_err(std::io::Error::other)? {
            command.env("LD_PRELOAD", preload);
        }
        command.envs(arm.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn wait(&self, mut child: Child, is_over: &dyn Fn() -> bool) -> Result<End, ReplayError> {
        let begun = Instant::now();
        let pid = child.id();
        loop {
            let status = child.try_wait();
            if let Ok(Some(status)) = status {
                return Ok(status.signal().map_or(End::Finished, End::Crashed));
            }
            let end = if is_over() {
                Some(None)
            } else if begun.elapsed() > self.limits.time {
                Some(Some(End::TooLong))
            } else if resident_bytes(pid) > self.limits.resident_bytes {
                Some(Some(End::TooLarge))
            } else {
                None
            };
            if let Some(end) = end {
                drop(child.kill());
                drop(child.wait());
                return end.ok_or(ReplayError::Interrupted);
            }
            std::thread::sleep(CHECK_EVERY);
        }
    }
}

/// Resident bytes of a process without those of files, which the plan's are.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let kib = of("RssAnon:").unwrap_or(0) + of("RssShmem:").unwrap_or(0);
    kib << 10
}
