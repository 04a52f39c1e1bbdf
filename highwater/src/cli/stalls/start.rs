//! The subject of a watch, started here or there already, and what /proc counts around it.

use std::collections::HashMap;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use observe::proc::ProcRoot;
use observe::proc::pid::why_not;

use super::StallsArgs;
use super::worker::{self, Worker};

pub enum Subject {
    /// Somebody else's; it is never touched.
    Attached(u32),
    /// In place of the process that was named.
    Worker(Worker),
    Started(Child, Option<ExitStatus>),
}

/// A command that does not end on SIGTERM within this time is killed.
const GRACE: Duration = Duration::from_secs(5);

impl Subject {
    pub fn of(args: &StallsArgs) -> Result<Subject> {
        if let Some(pid) = args.pid {
            let root = ProcRoot::default();
            if let Some(why) = i32::try_from(pid).map_or(None, |pid| why_not(&root, pid)) {
                anyhow::bail!(why);
            }
            let worker = (!args.exact).then(|| worker::find(pid)).flatten();
            return Ok(worker.map_or(Subject::Attached(pid), Subject::Worker));
        }
        let (program, rest) = args.command.split_first().context("no command was given")?;
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null());
        if args.json {
            // The object on stdout is ours alone.
            command.stdout(std::io::stderr());
        }
        let child = command
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        // Before exec has mapped the program there is nothing to name.
        sleep(Duration::from_millis(5));
        Ok(Subject::Started(child, None))
    }

    pub fn pid(&self) -> u32 {
        match self {
            Subject::Attached(pid) | Subject::Worker(Worker { pid, .. }) => *pid,
            Subject::Started(child, _) => child.id(),
        }
    }

    /// How the started command ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        match self {
            Subject::Attached(_) | Subject::Worker(_) => None,
            Subject::Started(child, status) => {
                if status.is_none() {
                    *status = child.try_wait().ok().flatten();
                }
                *status
            }
        }
    }

    /// Ends what was started here.
    pub fn end(&mut self) {
        if self.status().is_some() {
            return;
        }
        let Subject::Started(child, _) = self else {
            return;
        };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if let Ok(Some(_)) = child.try_wait() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Time runnable without a CPU of each thread, by the kernel's count.
pub fn run_delays(pid: u32) -> HashMap<u32, u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    let delay = |entry: std::fs::DirEntry| -> Option<(u32, u64)> {
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let tid = entry.file_name().to_str()?.parse().ok()?;
        Some((tid, text.split_whitespace().nth(1)?.parse().ok()?))
    };
    entries.flatten().filter_map(delay).collect()
}

pub fn run_delay_since(pid: u32, start: &HashMap<u32, u64>) -> u64 {
    let now = run_delays(pid);
    let grown = now
        .iter()
        .map(|(tid, ns)| ns - ns.min(start.get(tid).unwrap_or(&0)));
    grown.sum()
}

/// (kernel's - ours) / kernel's; nothing to compare below 10 ms.
pub fn difference(kernel_ns: u64, ours_ns: u64) -> Option<f64> {
    const LEAST_NS: u64 = 10_000_000;
    (kernel_ns >= LEAST_NS).then(|| (kernel_ns as f64 - ours_ns as f64) / kernel_ns as f64)
}

/// CPU time of every process, user and system, in nanoseconds.
pub fn cpu_times() -> HashMap<u32, (String, u64)> {
    let Ok(all) = procfs::process::all_processes() else {
        return HashMap::new();
    };
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    all.filter_map(|process| process.ok()?.stat().ok())
        .map(|stat| {
            let ns = (stat.utime + stat.stime) * tick_ns;
            (stat.pid as u32, (stat.comm, ns))
        })
        .collect()
}

/// The other processes that used most CPU since, most first.
pub fn most_cpu_since(start: &HashMap<u32, (String, u64)>, subject: u32) -> Vec<(String, u64)> {
    const SHOWN: usize = 8;
    const LEAST_NS: u64 = 200_000_000;
    let own = std::process::id();
    let mut grown: Vec<(String, u64)> = cpu_times()
        .into_iter()
        .filter(|(pid, _)| *pid != subject && *pid != own)
        .map(|(pid, (name, ns))| {
            let before = start.get(&pid).map_or(0, |(_, ns)| *ns);
            (format!("{name} (pid {pid})"), ns.saturating_sub(before))
        })
        .filter(|(_, ns)| *ns >= LEAST_NS)
        .collect();
    grown.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    grown.truncate(SHOWN);
    grown
}

/// A watcher that waits for a CPU itself loses what it came to see. Needs root; without, nothing
/// changes.
pub fn go_first() {
    const NICE: i32 = -19;
    let _ = rustix::process::setpriority_process(None, NICE);
}

pub fn own_cpu_ns() -> u64 {
    cpu_ns(rustix::time::ClockId::ProcessCPUTime)
}

/// Of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(rustix::time::ClockId::ThreadCPUTime)
}

fn cpu_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
