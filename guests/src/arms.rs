//! The arms of the experiment, and one run of a program in one of them. A new way to watch a program is a new arm
//! in `all`, nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::program::Chain;
use crate::workshop::Workshop;

/// Longest run of a program. Plain runs take milliseconds.
const RUN_MAX: Duration = Duration::from_secs(20);
/// A child that has been waited for by nobody gets this long to end by itself.
const LEFT_MAX: Duration = Duration::from_millis(500);
/// Most of an output that is kept.
const OUTPUT_MAX: usize = 1 << 20;

/// One way to run a program.
#[derive(Clone, Debug)]
pub struct Arm {
    pub name: String,
    /// Preloaded, before the allocator.
    probe: Option<PathBuf>,
    allocator: Option<PathBuf>,
    env: Vec<(&'static str, &'static str)>,
}

/// An allocator's plain arm, and those that are compared with it.
pub struct Group {
    pub control: Arm,
    pub arms: Vec<Arm>,
}

/// The arms over one allocator; `None` is the C library's.
pub fn all(probe: &Path, allocator: Option<&Path>) -> Group {
    let over = allocator.map_or("glibc".into(), |file| {
        file.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    });
    let arm = |name: &str, probe: Option<&Path>, env: &[(&'static str, &'static str)]| Arm {
        name: format!("{name} over {over}"),
        probe: probe.map(Path::to_owned),
        allocator: allocator.map(Path::to_owned),
        env: env.to_vec(),
    };
    Group {
        control: arm("plain", None, &[]),
        arms: vec![
            arm("probe", Some(probe), &[]),
            // Every block is a sample: the slow path all the way.
            arm(
                "probe of every block",
                Some(probe),
                &[("HIGHWATER_PROBE_MEAN", "1")],
            ),
        ],
    }
}

/// What can be seen of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: String,
    pub has_left_processes: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// The first difference from another, in a few words.
    pub fn difference(&self, other: &Outcome) -> String {
        if self.end != other.end {
            return format!("{} instead of {}", other.end, self.end);
        }
        if self.has_left_processes != other.has_left_processes {
            return "processes left".to_owned();
        }
        let (name, ours, theirs) = if self.stdout == other.stdout {
            ("standard error", &self.stderr, &other.stderr)
        } else {
            ("output", &self.stdout, &other.stdout)
        };
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
}

impl Arm {
    /// The value of LD_PRELOAD.
    pub fn preload(&self, workshop: &Workshop, chain: Chain) -> OsString {
        let link = workshop.path("chain.so");
        let mut files: Vec<PathBuf> = Vec::new();
        files.extend((chain == Chain::Before).then(|| link.clone()));
        files.extend(self.probe.clone());
        files.extend((chain == Chain::After).then_some(link));
        files.extend(self.allocator.clone());
        let mut value = OsString::new();
        for file in files {
            if !value.is_empty() {
                value.push(":");
            }
            value.push(file);
        }
        value
    }

    /// Runs a program to its end, or for `RUN_MAX`.
    pub fn run(&self, workshop: &Workshop, program: &Path, chain: Chain) -> Result<Outcome> {
        let (out, errors) = (workshop.path("stdout"), workshop.path("stderr"));
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("GUEST_PLUGINS", workshop.folder())
            .envs(self.env.iter().copied())
            .current_dir(workshop.folder())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&errors)?);
        let preload = self.preload(workshop, chain);
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
        let mut child = command.spawn().context("starting a program")?;
        let end = wait(&mut child)?.map_or("timeout".to_owned(), describe);
        let has_left_processes = has_left(child.id() as i32);
        let read = |path: &Path| -> Result<Vec<u8>> {
            let mut bytes = std::fs::read(path)?;
            bytes.truncate(OUTPUT_MAX);
            Ok(bytes)
        };
        Ok(Outcome {
            end,
            has_left_processes,
            stdout: read(&out)?,
            stderr: read(&errors)?,
        })
    }
}

/// The status; `None` when it took too long and was killed with all its group.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > RUN_MAX {
            // SAFETY: a signal to a group that this process made; its leader has not been waited for.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(20));
    }
}

/// True when processes of the group go on after its leader. They are killed.
fn has_left(group: i32) -> bool {
    let started = Instant::now();
    loop {
        // SAFETY: plain system calls. Orphans are this process's children: see `adopt_orphans`.
        let is_empty = unsafe {
            while libc::waitpid(-group, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            libc::kill(-group, 0) != 0
        };
        if is_empty {
            return false;
        }
        if started.elapsed() > LEFT_MAX {
            // SAFETY: as above.
            unsafe {
                libc::kill(-group, libc::SIGKILL);
                while libc::waitpid(-group, std::ptr::null_mut(), 0) > 0 {}
            }
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
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
