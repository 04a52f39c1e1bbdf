//! Attaches highwater to a program that waits at a gate, and detaches it again: by a signal, by SIGKILL, by its time,
//! or only when the program ends.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::gates;
use crate::leftover;
use crate::program::Program;
use crate::workshop::Workshop;

/// highwater has this long to attach, and to end.
const PATIENCE: Duration = Duration::from_secs(40);
/// Of a watch that ends by itself, and of one that does not.
const SHORT: &str = "300ms";
const LONG: &str = "50s";
/// A watch that is killed by chance is killed within this time: attaching takes some tenths of a second.
const KILLED_MAX_MS: u64 = 400;
/// Descriptors of a watch that comes up do not change for this long when it is complete.
const SETTLED: Duration = Duration::from_millis(15);

/// What is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Uprobes where an allocator is part of the program; else /proc is read.
    Explain,
    Ebpf,
    Tracepoints,
    Rootless,
    /// The calls of one function: uprobes.
    Span,
}

impl Way {
    pub const ALL: [Way; 5] = [
        Way::Explain,
        Way::Ebpf,
        Way::Tracepoints,
        Way::Rootless,
        Way::Span,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Way::Explain => "explain",
            Way::Ebpf => "stalls ebpf",
            Way::Tracepoints => "stalls tracepoints",
            Way::Rootless => "stalls rootless",
            Way::Span => "stalls span",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Attach {
    way: Way,
    highwater: PathBuf,
}

impl Attach {
    pub fn new(way: Way, highwater: &Path) -> Attach {
        Attach {
            way,
            highwater: highwater.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Interrupt,
    Kill,
    /// By its own duration.
    Time,
    /// After so many milliseconds, attached or not.
    KillAfter(u64),
}

/// When a watch comes and goes; a seed's choice.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// It is started at this gate.
    start: u32,
    /// The program goes on while it attaches, to the next gate.
    runs_on: bool,
    /// It ends at this gate; behind the last gate: with the program.
    end: u32,
    how: End,
    /// The program goes on while it detaches.
    runs_off: bool,
}

impl Plan {
    fn of(random: &mut fastrand::Rng) -> Plan {
        let start = random.u32(1..gates::COUNT);
        Plan {
            start,
            runs_on: random.u32(0..3) == 0,
            end: random.u32(start + 1..=gates::COUNT + 1),
            how: match random.u32(0..8) {
                0..=2 => End::Interrupt,
                3..=5 => End::Kill,
                6 => End::Time,
                _ => End::KillAfter(random.u64(0..KILLED_MAX_MS)),
            },
            runs_off: random.u32(0..3) == 0,
        }
    }
}

/// One attachment to one running program.
pub struct Session<'a> {
    attach: &'a Attach,
    plan: Plan,
    pid: u32,
    /// Whose calls `Way::Span` follows.
    function: &'a str,
    errors: PathBuf,
    watcher: Option<(Child, Instant)>,
    is_signalled: bool,
    is_detached: bool,
    pub seen: Seen,
    fault: String,
}

/// That an attachment took place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub is_attached: bool,
    pub has_breakpoints: bool,
}

impl<'a> Session<'a> {
    pub fn new(attach: &'a Attach, workshop: &Workshop, program: &'a Program, pid: u32) -> Self {
        let mut random = fastrand::Rng::with_seed(program.seed ^ attach.way as u64);
        Session {
            attach,
            plan: Plan::of(&mut random),
            pid,
            function: a_function(program, &mut random),
            errors: workshop.path("watcher"),
            watcher: None,
            is_signalled: false,
            is_detached: false,
            seen: Seen::default(),
            fault: String::new(),
        }
    }

    /// The program waits there.
    pub fn at_gate(&mut self, gate: u32) -> Result<()> {
        if gate == self.plan.start {
            self.start()?;
        }
        let attaches_at = self.plan.start + u32::from(self.plan.runs_on);
        if gate == attaches_at {
            self.wait_until_attached()?;
        }
        if gate == self.plan.end {
            self.signal();
            if !self.plan.runs_off {
                self.wait()?;
            }
        }
        // What is left is looked for there.
        if gate == gates::COUNT && gate >= self.plan.end {
            self.wait()?;
        }
        Ok(())
    }

    /// It was attached, and ended before the program did.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// The program has ended; what is wrong with how highwater did.
    pub fn finish(mut self) -> Result<String> {
        if self.plan.end <= gates::COUNT {
            self.signal();
        }
        self.wait()?;
        // What held its breakpoints is an orphan once it has ended.
        leftover::reap("hw-breakpoints");
        Ok(self.fault)
    }

    fn start(&mut self) -> Result<()> {
        let is_timed = self.plan.how == End::Time;
        let time = if is_timed { SHORT } else { LONG };
        let mut command = Command::new(&self.attach.highwater);
        match self.attach.way {
            Way::Explain => command.args(["explain", "--json"]),
            Way::Ebpf => command.args(["stalls", "--json", "--mode", "ebpf"]),
            Way::Tracepoints => command.args(["stalls", "--json", "--mode", "tracepoints"]),
            Way::Rootless => command.args(["stalls", "--json", "--mode", "rootless"]),
            Way::Span => command.args(["stalls", "--json", "--span", self.function]),
        };
        command.args(["--duration", time, "--pid", &self.pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&self.errors)?);
        // Ignored, as in what a shell starts in the background, it would be lost on a watch that is coming up.
        // SAFETY: signal is async-signal-safe, and nothing else runs between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().context("starting highwater")?;
        self.watcher = Some((child, Instant::now()));
        Ok(())
    }

    /// Until it watches, or has ended. One that is killed by chance is not waited for.
    fn wait_until_attached(&mut self) -> Result<()> {
        let Some((child, started)) = &mut self.watcher else {
            return Ok(());
        };
        let mut last = (0, Instant::now());
        while child.try_wait()?.is_none() && started.elapsed() < PATIENCE {
            if let End::KillAfter(_) = self.plan.how {
                break;
            }
            if let held = held_in_kernel(child.id())
                && held != last.0
            {
                last = (held, Instant::now());
            }
            let is_complete = last.0 > 0 && last.1.elapsed() >= SETTLED;
            let is_attached = match self.attach.way {
                // It prints what it saw first when the uprobes are on.
                Way::Explain => self.errors.metadata()?.len() > 0,
                Way::Span => is_complete && !leftover::changed_code(self.pid).is_empty(),
                _ => is_complete,
            };
            if is_attached {
                self.seen.is_attached = true;
                break;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        self.seen.has_breakpoints = !leftover::changed_code(self.pid).is_empty();
        Ok(())
    }

    fn signal(&mut self) {
        let Some((child, started)) = &mut self.watcher else {
            return;
        };
        if self.is_signalled || !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        self.is_signalled = true;
        let number = match self.plan.how {
            End::Interrupt => libc::SIGINT,
            End::Kill => libc::SIGKILL,
            End::Time => return,
            End::KillAfter(ms) => {
                std::thread::sleep(Duration::from_millis(ms).saturating_sub(started.elapsed()));
                libc::SIGKILL
            }
        };
        // SAFETY: a signal to a child that has not been waited for, so that its number is no other process's.
        unsafe { libc::kill(child.id() as i32, number) };
    }

    fn wait(&mut self) -> Result<()> {
        let Some((mut child, started)) = self.watcher.take() else {
            return Ok(());
        };
        let waited = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if waited.elapsed() > PATIENCE {
                let seconds = started.elapsed().as_secs_f64();
                let at = where_it_is(child.id());
                self.fault = format!("highwater did not end within {seconds:.0} s: {at}");
                child.kill()?;
                child.wait()?;
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.is_detached = true;
        // 3: too little was seen; 4: the program has ended, or the function cannot be followed. A watch that is still
        // coming up is ended by the signal.
        let by_signal =
            self.is_signalled && matches!(status.signal(), Some(libc::SIGINT | libc::SIGKILL));
        if !by_signal && !matches!(status.code(), Some(0 | 3 | 4)) {
            let errors = std::fs::read(&self.errors)?;
            let errors = String::from_utf8_lossy(&errors);
            let last: String = errors.chars().rev().take(300).collect();
            let last: String = last.chars().rev().collect();
            self.fault = format!("highwater ended by {status}: {last}");
        }
        Ok(())
    }
}

/// What the threads of a process do in the kernel.
fn where_it_is(pid: u32) -> String {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return "it has ended".to_owned();
    };
    let stacks = tasks.flatten().map(|task| {
        let stack = std::fs::read_to_string(task.path().join("stack")).unwrap_or_default();
        let frames = stack
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().nth(1));
        frames.take(6).collect::<Vec<_>>().join(" < ")
    });
    stacks.collect::<Vec<_>>().join("; ")
}

/// Events and eBPF links that a process holds.
fn held_in_kernel(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_held = |link: &PathBuf| {
        let name = link.to_string_lossy();
        ["[perf_event]", "bpf_link", "bpf-link", "bpf-raw-tracepoint"]
            .iter()
            .any(|kind| name.contains(kind))
    };
    links.filter(is_held).count()
}

/// One that the program calls often, or one of its steps.
fn a_function<'a>(program: &'a Program, random: &mut fastrand::Rng) -> &'a str {
    let steps = program.all_steps();
    match random.u32(0..4) {
        0 => "churn",
        1 => "say",
        _ if steps.is_empty() => "finish",
        _ => steps[random.usize(0..steps.len())].fragment.name,
    }
}
