//! The machine that a rollout changes: its files below a root, its systemd through `systemctl`.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::crash;
use super::unit::{PROPERTIES, Unit, parse_show};

/// Asking takes milliseconds; on a machine that swaps, longer.
const ASK_MAX: Duration = Duration::from_secs(60);
/// A restart waits for the stop (90 s unless the unit says otherwise) and for readiness (as long again).
pub const RESTART_MAX: Duration = Duration::from_secs(600);
/// From one snapshot of a child to the next.
const POLL: Duration = Duration::from_millis(10);
/// The output of a command that has ended is waited for no longer.
const PIPES_MAX: Duration = Duration::from_secs(1);
/// What one command may print; two hundred units are 200 KiB.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Where the files are, and who answers for the units. Another root is for tests.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    pub fn at(root: &Path) -> Host {
        Host {
            root: root.to_path_buf(),
        }
    }

    /// The file that the service sees as `path`.
    pub fn file(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Units that match the patterns. A name without wildcards always gives a unit, also when there is none of it
    /// (`load` says so); a pattern gives what systemd has loaded.
    ///
    /// # Errors
    /// No systemd here, or it gives no answer.
    pub fn show(&self, patterns: &[String]) -> Result<Vec<Unit>, SystemdError> {
        let mut units = Vec::new();
        // Bounded: an argument list may not be longer than 128 KiB in old kernels.
        for some in patterns.chunks(200) {
            let arguments = ["show", "--property", PROPERTIES, "--"];
            let words = arguments
                .iter()
                .copied()
                .chain(some.iter().map(String::as_str));
            units.extend(parse_show(&self.ask(&words.collect::<Vec<_>>(), ASK_MAX)?));
        }
        Ok(units)
    }

    /// One unit by its full name.
    pub fn unit(&self, name: &str) -> Result<Unit, SystemdError> {
        let units = self.show(&[name.to_owned()])?;
        units
            .into_iter()
            .next()
            .ok_or_else(|| SystemdError::Silent(name.to_owned()))
    }

    /// Names of the services that systemd has loaded.
    pub fn names(&self) -> Result<Vec<String>, SystemdError> {
        let arguments = [
            "list-units",
            "--type=service",
            "--all",
            "--plain",
            "--no-legend",
            "--full",
        ];
        let text = self.ask(&arguments, ASK_MAX)?;
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// # Errors
    /// What systemctl printed.
    pub fn reload(&self) -> Result<(), SystemdError> {
        crash::point("systemctl: before daemon-reload");
        self.ask(&["daemon-reload"], ASK_MAX)?;
        crash::point("systemctl: after daemon-reload");
        Ok(())
    }

    /// Stops and starts a unit; waits until systemd says that it runs.
    ///
    /// # Errors
    /// What systemctl printed, or that it took longer than ten minutes.
    pub fn restart(&self, unit: &str) -> Result<(), SystemdError> {
        crash::point("systemctl: before restart");
        self.ask(&["restart", "--", unit], RESTART_MAX)?;
        crash::point("systemctl: after restart");
        Ok(())
    }

    /// Forgets that a unit failed, and how often it was started: or the next start may be refused.
    pub fn forget_failures(&self, unit: &str) {
        // A unit that did not fail has nothing to forget; that is no error worth words.
        let _ = self.ask(&["reset-failed", "--", unit], ASK_MAX);
    }

    fn ask(&self, arguments: &[&str], limit: Duration) -> Result<String, SystemdError> {
        let mut command = Command::new("systemctl");
        command
            .args(["--no-pager", "--no-ask-password"])
            .args(arguments)
            .env("LC_ALL", "C")
            .env("SYSTEMD_COLORS", "0")
            .env_remove("LD_PRELOAD");
        let command_line = format!("systemctl {}", arguments.first().unwrap_or(&""));
        match run_bounded(command, limit) {
            Ok((true, text, _)) => Ok(text),
            Ok((false, _, said)) if said.contains("not been booted with systemd") => {
                Err(SystemdError::NotBooted)
            }
            Ok((false, _, said)) => Err(SystemdError::Failed {
                command_line,
                printed: said.trim().to_owned(),
            }),
            Err(Trouble::Missing) => Err(SystemdError::Missing),
            Err(Trouble::Late) => Err(SystemdError::Late {
                command_line,
                limit_s: limit.as_secs(),
            }),
            Err(Trouble::Io(error)) => Err(SystemdError::Io {
                command_line,
                error,
            }),
        }
    }
}

/// Why systemd gave no answer, or did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    #[error(
        "systemd does not run here (PID 1 is something else): `--script` prints the plan for a host where it does"
    )]
    NotBooted,
    #[error("there is no systemctl here: an arm is adopted on a machine that runs systemd")]
    Missing,
    /// systemctl ended with an error; `printed` is its stderr.
    #[error("{command_line} failed: {printed}")]
    Failed {
        command_line: String,
        printed: String,
    },
    #[error("{command_line} took longer than {limit_s} s")]
    Late { command_line: String, limit_s: u64 },
    #[error("{command_line}: {error}")]
    Io {
        command_line: String,
        error: std::io::Error,
    },
    /// The unit's name.
    #[error("systemd says nothing of {0}")]
    Silent(String),
}

/// Why a command gave no answer.
#[derive(Debug)]
pub enum Trouble {
    Missing,
    Late,
    Io(std::io::Error),
}

/// Runs a command to its end, no longer than `limit`: whether it succeeded, its stdout, its stderr. In a process
/// group of its own, so that a Ctrl-C meant for us does not end a restart half way.
///
/// # Errors
/// It could not be started, or had to be ended.
pub fn run_bounded(
    mut command: Command,
    limit: Duration,
) -> Result<(bool, String, String), Trouble> {
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Trouble::Missing,
        _ => Trouble::Io(error),
    })?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let readers = [out.map(reader), err.map(reader)];
    let ended = wait(&mut child, limit);
    if ended.is_err() {
        // The group: what the command started would hold the pipes open.
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
    }
    let end = Instant::now() + PIPES_MAX;
    let [out, err] = readers.map(|reader| reader.map(|r| r.text(end)).unwrap_or_default());
    ended.map(|success| (success, out, err))
}

/// What a command writes into one of its pipes.
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the pipe is closed.
    ended: Receiver<()>,
}

impl Reader {
    /// What was written until the pipe is closed, or until `end`: a process that the command left behind may hold it
    /// open for ever.
    fn text(&self, end: Instant) -> String {
        let _ = self
            .ended
            .recv_timeout(end.saturating_duration_since(Instant::now()));
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn reader<R: Read + Send + 'static>(mut from: R) -> Reader {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (open, ended) = channel::<()>();
    let into = bytes.clone();
    thread::spawn(move || {
        let _open = open;
        let mut chunk = [0; 4096];
        loop {
            let read = match from.read(&mut chunk) {
                Ok(read @ 1..) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                _ => return,
            };
            let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT_BYTES_MAX.saturating_sub(bytes.len());
            bytes.extend(&chunk[..read.min(room)]);
            if room <= read {
                return;
            }
        }
    });
    Reader { bytes, ended }
}

fn wait(child: &mut Child, limit: Duration) -> Result<bool, Trouble> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begun.elapsed() >= limit => return Err(Trouble::Late),
            Ok(None) => thread::sleep(POLL),
            Err(error) => return Err(Trouble::Io(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_ended_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo out; echo err >&2; wait"]);
        let trouble = run_bounded(command, Duration::from_millis(300)).unwrap_err();
        assert!(matches!(trouble, Trouble::Late));
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let (success, out, err) = run_bounded(command, ASK_MAX).unwrap();
        assert_eq!(
            (success, out.as_str(), err.as_str()),
            (false, "out\n", "err\n")
        );
        let missing = run_bounded(Command::new("/nonexistent/x"), ASK_MAX);
        assert!(matches!(missing, Err(Trouble::Missing)));
    }
}
