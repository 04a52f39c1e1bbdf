//! One run of a program in one arm, and what can be seen of it.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::arms::Arm;
use crate::attach::{Seen, Session};
use crate::gates::{self, Gates};
use crate::leftover;
use crate::program::Program;
use crate::workshop::Workshop;

/// Longest run of a program. Plain runs take milliseconds.
const RUN_MAX: Duration = Duration::from_secs(20);
/// The same with an attachment, which takes most of a second each.
const ATTACHED_MAX: Duration = Duration::from_secs(60);
/// A child that has been waited for by nobody gets this long to end by itself.
const LEFT_MAX: Duration = Duration::from_millis(500);
/// Most of an output that is kept.
const OUTPUT_MAX: usize = 1 << 20;

/// How many seccomp filters a program may start with, for the probe; set by `make`.
const FILTERS: &str = "HIGHWATER_PROBE_FILTERS";
/// In strict mode an allocator that gives memory back by the clock (jemalloc after 10 s, mimalloc after 10 ms) is killed
/// or not by how long the program takes. There it keeps its memory, in every arm.
const STRICT: &str = "strict";
const WITHOUT_CLOCK: [(&str, &str); 2] = [
    ("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
    ("MIMALLOC_PURGE_DELAY", "-1"),
];

/// What can be seen of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub end: String,
    pub has_left_processes: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Names of what is mapped before the last step; of runs that come there, without the probe's libraries.
    pub mappings: Option<Vec<String>>,
    /// Files whose code is not what is on disk, after the detachment.
    pub changed_code: Vec<String>,
    /// What is wrong with how highwater ended.
    pub fault: String,
    /// How long it took.
    pub time: Duration,
    /// Of an attachment, whether it took place.
    pub seen: Option<Seen>,
}

impl Outcome {
    /// The first difference from another, in a few words.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        if !other.fault.is_empty() {
            return Some(other.fault.clone());
        }
        if self.end != other.end {
            return Some(format!("{} instead of {}", other.end, self.end));
        }
        if self.has_left_processes != other.has_left_processes {
            return Some("processes left".to_owned());
        }
        if self.changed_code != other.changed_code {
            return Some(format!("code is not its file's: {:?}", other.changed_code));
        }
        if let (Some(ours), Some(theirs)) = (&self.mappings, &other.mappings)
            && ours != theirs
        {
            return Some(format!("mappings: {theirs:?} instead of {ours:?}"));
        }
        if self.stdout != other.stdout {
            return Some(line_of("output", &self.stdout, &other.stdout));
        }
        (self.stderr != other.stderr)
            .then(|| line_of("standard error", &self.stderr, &other.stderr))
    }
}

/// The first line that differs.
fn line_of(name: &str, ours: &[u8], theirs: &[u8]) -> String {
    let (ours, theirs) = (
        String::from_utf8_lossy(ours),
        String::from_utf8_lossy(theirs),
    );
    let mut pairs = ours.lines().zip(theirs.lines());
    match pairs.find(|(our, their)| our != their) {
        Some((our, their)) => format!("{name}: {their:?} instead of {our:?}"),
        None => format!(
            "{name}: {} lines instead of {}",
            theirs.lines().count(),
            ours.lines().count()
        ),
    }
}

/// Runs a program to its end, or for `RUN_MAX`.
pub fn run(workshop: &Workshop, arm: &Arm, file: &Path, program: &Program) -> Result<Outcome> {
    let (out, errors) = (workshop.path("stdout"), workshop.path("stderr"));
    let gates = Gates::new(&workshop.path("gates")).context("making the gates")?;
    let mut command = command(workshop, arm, file, program);
    command
        .stdout(File::create(&out)?)
        .stderr(File::create(&errors)?);
    let mut child = Running {
        child: command.spawn().context("starting a program")?,
        started: Instant::now(),
        longest: if arm.attach.is_some() {
            ATTACHED_MAX
        } else {
            RUN_MAX
        },
    };
    let mut session = arm
        .attach
        .as_ref()
        .map(|attach| Session::new(attach, workshop, program, child.child.id()));
    let mut outcome = Outcome::default();
    let passed = pass_gates(
        (&gates, arm.pause),
        &mut child,
        session.as_mut(),
        &mut outcome,
    )?;
    outcome.end = match passed {
        Some(end) => end,
        None => child.end()?,
    };
    outcome.time = child.started.elapsed();
    outcome.has_left_processes = has_left(child.child.id() as i32, workshop.folder());
    if let Some(session) = session {
        outcome.seen = Some(session.seen);
        outcome.fault = session.finish()?;
    }
    if arm.probe.is_some() {
        outcome.mappings = None;
    }
    (outcome.stdout, outcome.stderr) = (read(&out)?, comparable(&read(&errors)?));
    Ok(outcome)
}

/// Largest trace of one run.
const TRACE_BYTES_MAX: u64 = 32 << 20;

/// A fresh trace for an arm that records. No more disk blocks are allocated: recording ends with them.
fn trace_of(workshop: &Workshop, arm: &Arm) -> Option<(&'static str, PathBuf)> {
    if !arm.records {
        return None;
    }
    let path = workshop.path("guest.hwt");
    drop(std::fs::remove_file(&path));
    let made = trace::Recording::create(&path, TRACE_BYTES_MAX);
    made.ok().map(|_| (trace_abi::RECORD_VARIABLE, path))
}

fn command(workshop: &Workshop, arm: &Arm, file: &Path, program: &Program) -> Command {
    let mut command = Command::new(file);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GUEST_PLUGINS", workshop.folder())
        .env("GUEST_GATES", workshop.path("gates"))
        .envs(arm.env.iter().copied())
        // Where all of this runs under a filter (a container), so do the programs.
        .envs(std::env::var_os(FILTERS).map(|count| (FILTERS, count)))
        .envs(trace_of(workshop, arm))
        .current_dir(workshop.folder())
        .process_group(0)
        .stdin(Stdio::null());
    let mut steps = program.all_steps().into_iter();
    if steps.any(|step| step.fragment.name == STRICT) {
        command.envs(WITHOUT_CLOCK);
    }
    let preload = arm.preload(workshop, program.chain);
    if !preload.is_empty() {
        command.env("LD_PRELOAD", preload);
    }
    // SAFETY: setrlimit is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            Ok(())
        });
    }
    command
}

/// Opens one gate after the other, each after a pause; the end of a program that comes before the last one.
fn pass_gates(
    (gates, pause): (&Gates, Duration),
    child: &mut Running,
    mut session: Option<&mut Session>,
    outcome: &mut Outcome,
) -> Result<Option<String>> {
    for gate in 1..=gates::COUNT {
        while gates.reached() < gate {
            if let Some(end) = child.ended()? {
                return Ok(Some(end));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(pause);
        let mut is_detached = true;
        if let Some(session) = session.as_deref_mut() {
            session.at_gate(gate)?;
            is_detached = session.is_detached();
        }
        if gate == gates::COUNT {
            let pid = child.child.id();
            outcome.mappings = leftover::mappings(pid).ok();
            if session.is_some() && is_detached {
                outcome.changed_code = leftover::changed_code_that_stays(pid);
            }
        }
        gates.open(gate);
    }
    Ok(None)
}

/// A program that runs.
struct Running {
    child: Child,
    started: Instant,
    longest: Duration,
}

impl Running {
    /// How it ended, if it did. One that takes too long is killed with all its group.
    fn ended(&mut self) -> Result<Option<String>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(describe(status)));
        }
        if self.started.elapsed() < self.longest {
            return Ok(None);
        }
        // SAFETY: a signal to a group that this process made; its leader has not been waited for.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        self.child.wait()?;
        Ok(Some("timeout".to_owned()))
    }

    /// Waits for its end.
    fn end(&mut self) -> Result<String> {
        let mut pause = Duration::from_micros(500);
        loop {
            if let Some(end) = self.ended()? {
                return Ok(end);
            }
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_millis(20));
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path)?;
    bytes.truncate(OUTPUT_MAX);
    Ok(bytes)
}

/// What differs from run to run in what allocators complain of: the block (gperftools: an invalid pointer), and what is
/// refused last where the address space is full (gperftools: a line for each).
fn comparable(text: &[u8]) -> Vec<u8> {
    const REFUSED: &str = "] tcmalloc: allocation failed ";
    let text = String::from_utf8_lossy(text);
    let lines = text.split_inclusive('\n');
    let text: String = lines.filter(|line| !line.contains(REFUSED)).collect();
    let mut parts = text.split("0x");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        all.push_str("0x");
        all.push_str(&part[digits..]);
    }
    all.into_bytes()
}

/// True when processes of the group, or others of the program's in sessions of their own, go on after its leader. They
/// are killed.
fn has_left(group: i32, folder: &Path) -> bool {
    let started = Instant::now();
    loop {
        let others = processes_of(folder);
        // SAFETY: plain system calls. Orphans are this process's children: see `adopt_orphans`.
        let is_empty = unsafe {
            while libc::waitpid(-group, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            libc::kill(-group, 0) != 0
        };
        if is_empty && others.is_empty() {
            return false;
        }
        if started.elapsed() > LEFT_MAX {
            // SAFETY: as above; each runs the program, or runs in its folder, which no other program has.
            unsafe {
                libc::kill(-group, libc::SIGKILL);
                while libc::waitpid(-group, std::ptr::null_mut(), 0) > 0 {}
                for pid in others {
                    libc::kill(pid, libc::SIGKILL);
                    libc::waitpid(pid, std::ptr::null_mut(), 0);
                }
            }
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Processes whose program, or whose working directory, is in this folder.
fn processes_of(folder: &Path) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_there = |pid: &i32| {
        let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}"));
        let is_in =
            |path: std::io::Result<PathBuf>| path.is_ok_and(|path| path.starts_with(folder));
        is_in(link("exe")) || is_in(link("cwd"))
    };
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_there)
        .collect()
}

/// Makes this process the parent of its programs' orphans, so that it sees them end.
pub fn adopt_orphans() {
    // SAFETY: sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit status {}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that goes on in a session of its own took half a CPU for two hours.
    #[test]
    fn a_process_in_another_session_is_left_too() {
        adopt_orphans();
        let folder = tempfile::tempdir().unwrap();
        let run = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).current_dir(folder.path());
            let mut shell = shell.process_group(0).spawn().unwrap();
            shell.wait().unwrap();
            has_left(shell.id() as i32, folder.path())
        };
        assert!(!run("true"));
        assert!(run("setsid sleep 60 & sleep 0.1"));
        assert!(processes_of(folder.path()).is_empty());
    }

    #[test]
    fn addresses_are_left_out_of_complaints() {
        let text = comparable(b"free of 0x7efd67ef4010 at 0xf, 12 of 0x\n");
        assert_eq!(text, b"free of 0x at 0x, 12 of 0x\n");
        let refused = "src/central_freelist.cc:330] tcmalloc: allocation failed 8192 \nother\n";
        assert_eq!(comparable(refused.as_bytes()), b"other\n");
    }
}
