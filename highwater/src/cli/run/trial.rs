//! Conditions that must be tried on the running subject (`http`, `command`): each attempt on a thread of its
//! own, so that a subject that never answers delays nobody, and each outcome a fact of its process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use experiment::file::{Check, Condition, Experiment};
use experiment::placeholder::{Values, expand};
use experiment::service::{Launch, Question};
use observe::snapshot::{Fact, ProcessId};
use verdict::check::fact;

/// From one round of trials to the next.
pub const EVERY: Duration = Duration::from_secs(5);
/// A command that takes longer has failed; its process group is ended.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// A round that is still under way after this many rounds' time is not doubled.
const UNDER_WAY_MAX: usize = 64;
/// Of a command's output, shown when it fails.
const SHOWN_BYTES_MAX: usize = 200;

/// One replica that can be tried now.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub process: ProcessId,
    pub arm: String,
    pub uptime: Duration,
    pub values: Values,
}

/// One finished attempt.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub fact: Fact,
    pub arm: String,
    pub passed: bool,
    /// The check is a guard: a failure aborts the arm.
    pub is_guard: bool,
    pub words: String,
}

/// The trials of a run.
#[derive(Debug)]
pub struct Trials {
    checks: Vec<(Check, bool)>,
    /// Where commands work.
    base: PathBuf,
    sender: Sender<Outcome>,
    receiver: Receiver<Outcome>,
    under_way: usize,
}

impl Trials {
    pub fn new(experiment: &Experiment) -> Trials {
        let verify = experiment.verify.iter().map(|check| (check.clone(), false));
        let guard = experiment.guard.iter().map(|check| (check.clone(), true));
        let is_tried = |check: &Check| fact::key(&check.condition).is_some();
        let checks = verify
            .chain(guard)
            .filter(|(check, _)| is_tried(check))
            .collect();
        let (sender, receiver) = channel();
        Trials {
            checks,
            base: experiment.base.clone(),
            sender,
            receiver,
            under_way: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Begins a round: every check against every candidate that it names and that is old enough.
    pub fn begin(&mut self, candidates: &[Candidate]) {
        for (check, is_guard) in &self.checks {
            let named = |arm: &str| check.arms.is_empty() || check.arms.iter().any(|a| a == arm);
            let due = candidates
                .iter()
                .filter(|c| named(&c.arm) && c.uptime >= check.after);
            for candidate in due {
                if self.under_way < UNDER_WAY_MAX {
                    let (check, candidate) = (check.clone(), candidate.clone());
                    let (sender, is_guard) = (self.sender.clone(), *is_guard);
                    let base = self.base.clone();
                    thread::spawn(move || {
                        // Nobody listens any more when the run ended meanwhile.
                        let _ = sender.send(attempt(&check, &candidate, is_guard, &base));
                    });
                    self.under_way += 1;
                }
            }
        }
    }

    /// What has finished since the last call.
    pub fn finished(&mut self) -> Vec<Outcome> {
        let outcomes: Vec<Outcome> = self.receiver.try_iter().collect();
        self.under_way -= outcomes.len();
        outcomes
    }

    /// Waits for the attempts that are under way, at most `COMMAND_MAX` and a little.
    pub fn wait(&mut self) -> Vec<Outcome> {
        let deadline = Instant::now() + COMMAND_MAX + Duration::from_secs(5);
        let mut outcomes = Vec::new();
        while self.under_way > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(outcome) = self.receiver.recv_timeout(left) else {
                break;
            };
            self.under_way -= 1;
            outcomes.push(outcome);
        }
        outcomes
    }
}

fn attempt(check: &Check, candidate: &Candidate, is_guard: bool, base: &Path) -> Outcome {
    let (passed, words) = match &check.condition {
        Condition::Http { url, status } => try_http(url, *status, &candidate.values),
        Condition::Command { command, exit } => {
            try_command(command, *exit, base, &candidate.values)
        }
        _ => (false, "not a condition that is tried".to_owned()),
    };
    Outcome {
        fact: Fact {
            process: candidate.process,
            key: fact::key(&check.condition).unwrap_or_default(),
            value: fact::value(passed, &words),
        },
        arm: candidate.arm.clone(),
        passed,
        is_guard,
        words,
    }
}

fn try_http(url: &str, status: u16, values: &Values) -> (bool, String) {
    let url = match expand(url, values) {
        Ok(url) => url,
        Err(error) => return (false, error.to_string()),
    };
    match (Question::Http {
        url: url.clone(),
        status,
    })
    .ask()
    {
        Ok(()) => (true, format!("{url} answered {status}")),
        Err(words) => (false, format!("{url}: {words}")),
    }
}

fn try_command(command: &[String], exit: i32, base: &Path, values: &Values) -> (bool, String) {
    let launch = match Launch::of_check(base, command, values) {
        Ok(launch) => launch,
        Err(error) => return (false, error.to_string()),
    };
    match run_command(&launch, COMMAND_MAX) {
        Ok((status, _)) if status.code() == Some(exit) => (true, format!("exit code {exit}")),
        Ok((status, output)) => (false, format!("{status}: {output}")),
        Err(words) => (false, words),
    }
}

/// Runs it in a process group of its own, which is ended when the time is over.
pub(super) fn run_command(launch: &Launch, max: Duration) -> Result<(ExitStatus, String), String> {
    let (program, words) = launch.executed()?;
    let mut child = Command::new(program)
        .args(&words[1..])
        .current_dir(&launch.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{} could not be started: {error}", words[0]))?;
    let group = child.id() as i32;
    let reader = child
        .stderr
        .take()
        .map(|stderr| thread::spawn(move || read_start(stderr)));
    let deadline = Instant::now() + max;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let output = reader
                    .and_then(|reader| reader.join().ok())
                    .unwrap_or_default();
                return Ok((status, output));
            }
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            _ => {
                // SAFETY: kill takes two integers; the group is the child's own and not yet reaped.
                unsafe { libc::kill(-group, libc::SIGKILL) };
                let _ = child.wait();
                return Err(format!(
                    "took longer than {} s and was ended",
                    max.as_secs()
                ));
            }
        }
    }
}

/// The first line or so of what it said; the rest is read and thrown away so that it cannot block.
fn read_start(mut from: impl std::io::Read) -> String {
    let mut start = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 {
            break;
        }
        let room = SHOWN_BYTES_MAX.saturating_sub(start.len());
        start.extend_from_slice(&buffer[..n.min(room)]);
    }
    String::from_utf8_lossy(&start).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<String> {
        command.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_command_passes_by_its_exit_code() {
        let root = Path::new("/");
        let values = Values::default();
        let tried = |command: &[&str], exit| try_command(&words(command), exit, root, &values);
        assert!(tried(&["true"], 0).0);
        assert!(tried(&["sh", "-c", "exit 3"], 3).0);
        let (passed, said) = tried(&["sh", "-c", "echo broken >&2; exit 1"], 0);
        assert!(!passed && said.contains("broken"), "{said}");
        let (passed, said) = tried(&["/no/such/program"], 0);
        assert!(!passed && said.contains("/no/such/program"), "{said}");
        assert!(!tried(&[], 0).0);
    }

    #[test]
    fn a_relative_command_starts_at_the_experiment() {
        let (passed, said) = try_command(
            &words(&["bin/sh", "-c", "test $PWD = /usr"]),
            0,
            Path::new("/usr"),
            &Values::default(),
        );
        assert!(passed, "{said}");
    }

    #[test]
    fn a_flood_on_stderr_neither_blocks_nor_fills_memory() {
        let flood = "i=0; while [ $i -lt 20000 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 2";
        let command = words(&["sh", "-c", flood]);
        let (passed, said) = try_command(&command, 0, Path::new("/"), &Values::default());
        assert!(!passed && said.len() < 400, "{said}");
    }
}
