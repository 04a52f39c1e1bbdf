//! Runs other programs: builders with their output in a log, and short checks under a time limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::machine::Machine;

/// Variables that would change a build without standing in its recipe.
const UNWANTED: &[&str] = &[
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "MALLOC_CONF",
    "GLIBC_TUNABLES",
    "CARGO_TARGET_DIR",
    "RUSTFLAGS",
];

/// Lines of a log that an error shows.
const LAST_LINES: usize = 15;
/// Longest tail of a log that is read for them.
const TAIL_BYTES: u64 = 16 * 1024;

/// Runs builders one after the other, all their output in one log.
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Starts an empty log.
    pub fn create(path: &Path) -> Result<Log> {
        let file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
        Ok(Log {
            path: path.to_owned(),
            file,
        })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// One that cannot start or fails: with the log's last lines and where the log is.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let status = self.start(command)?.wait()?;
        if status.success() {
            return Ok(());
        }
        bail!("{name} {}{}", outcome(status), self.last_lines())
    }

    /// Starts a command; the caller waits for it, on this same thread.
    ///
    /// # Errors
    /// One that cannot start; a log that cannot be written.
    pub fn start(&mut self, command: &mut Command) -> Result<Child> {
        // The log's own write fails first on a full disk: say so instead of letting the builder
        // stumble.
        writeln!(self.file, "\n$ {}", describe(command)).context("writing the build log")?;
        command
            .stdin(Stdio::null())
            .stdout(self.file.try_clone()?)
            .stderr(self.file.try_clone()?)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))
    }

    /// The end of the log in lines, and where the whole is: what follows a failure's first words.
    pub fn last_lines(&self) -> String {
        let tail = read_tail(&self.path, TAIL_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let shown: String = last.iter().map(|line| format!("\n  | {line}")).collect();
        format!(
            "; the last lines of its log:{shown}\n  the whole log: {}",
            self.path.display()
        )
    }
}

fn read_tail(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut tail = Vec::new();
    file.take(limit).read_to_end(&mut tail)?;
    Ok(tail)
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// `ended with exit code 1`, `was killed by signal 9 (SIGKILL)`.
pub fn outcome(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}{}", signal_name(signal)),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// The signals that a broken library earns.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGTRAP => " (SIGTRAP)",
        _ => "",
    }
}

/// A command for a client or a builder: the machine's path, plain English, the same bytes every
/// time, and gone when highwater is gone.
pub fn builder(machine: &Machine, program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in UNWANTED {
        command.env_remove(name);
    }
    command
        .env("PATH", &machine.path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    // Compilers and archivers write this instead of the clock: twice the same bytes.
    command.env("SOURCE_DATE_EPOCH", "0");
    command.envs(machine.environment.iter().map(|(k, v)| (k, v)));
    die_with_us(&mut command);
    command
}

/// The kernel ends the child when the thread that started it ends. That thread waits for it here.
fn die_with_us(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// What a short program did.
#[derive(Debug)]
pub struct Finished {
    /// `None`: it was still running at the limit and was ended.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Most output of a short program that is kept; the rest is read and dropped.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
const POLL: Duration = Duration::from_millis(5);

/// Runs a command in a process group of its own for at most `limit`, then ends whatever is left of
/// the group: a child that was forked under a broken allocator can spin for ever.
pub fn run_limited(command: &mut Command, limit: Duration) -> io::Result<Finished> {
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_us(command);
    let mut child = command.spawn()?;
    let stdout = keep(child.stdout.take());
    let stderr = keep(child.stderr.take());
    let pid = pid_of(&child);
    let ended = ends_before(pid, Instant::now() + limit);
    // The leader is not reaped yet, so the group's number cannot be another's by now. Nobody else
    // left to end is the usual case.
    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    let status = child.wait()?;
    let status = ended?.then_some(status);
    let text = |reader: thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Finished {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn pid_of(child: &Child) -> Pid {
    let number = i32::try_from(child.id()).expect("the kernel's pids are positive i32");
    Pid::from_raw(number).expect("a child's pid is not 0")
}

fn ends_before(pid: Pid, end: Instant) -> io::Result<bool> {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        if rustix::process::waitid(WaitId::Pid(pid), peek)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

fn keep(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(mut pipe) = pipe else { return kept };
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..count.min(room)]);
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_stays_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let finished = run_limited(&mut shell(&script), Duration::from_secs(3)).unwrap();
        assert!(finished.status.is_none());
        let pid: i32 = std::fs::read_to_string(file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Killed, it ends when it is next scheduled, and is reaped by init some moments later.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let end = Instant::now() + Duration::from_secs(60);
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(Instant::now() < end, "{}", state());
            thread::sleep(POLL);
        }
    }

    #[test]
    fn a_child_that_holds_the_pipe_does_not_hold_us() {
        let finished =
            run_limited(&mut shell("sleep 600 & echo said"), Duration::from_secs(20)).unwrap();
        assert!(finished.status.unwrap().success());
        assert_eq!(finished.stdout, b"said\n");
    }

    #[test]
    fn a_failure_shows_the_last_lines_and_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::create(&folder.path().join("build.log")).unwrap();
        let error = log
            .run(&mut shell("echo wrong here >&2; exit 3"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("exit code 3"), "{error}");
        assert!(error.contains("| wrong here"), "{error}");
        assert!(error.contains("build.log"), "{error}");
    }
}
