//! Ending what a process leaves behind, pass by pass: a child may fork while we kill.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::census::{Census, Identity, Row, is_alive};

/// How long SIGKILL may take to work: a process in a system call that cannot be interrupted (a dead network file
/// system) outlives it.
pub const KILL_WAIT: Duration = Duration::from_secs(10);
/// For descendants that notice by themselves that their parent has ended.
const LEFT_GRACE: Duration = Duration::from_millis(100);
/// Processes named in a message.
const NAMED_MAX: usize = 5;

/// The sweep after one process has ended.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    kill_at: Duration,
    until: Duration,
    told: bool,
}

/// What one pass found.
#[derive(Debug, PartialEq, Eq)]
pub enum Pass {
    Clean,
    /// Something is left, and it was already said.
    Waiting,
    /// SIGKILL was sent for the first time; what was left, in words.
    Killed(String),
    /// SIGKILL does not end it.
    Stuck(String),
}

impl Sweep {
    /// What is left gets until `kill_at` to end by itself, but at least a moment.
    pub fn new(now: Duration, kill_at: Option<Duration>) -> Self {
        let kill_at = kill_at.unwrap_or(now + LEFT_GRACE);
        Self {
            kill_at,
            until: kill_at + KILL_WAIT,
            told: false,
        }
    }

    pub fn pass(&mut self, now: Duration, identity: &Identity, census: &Census) -> Pass {
        let left = living_members(census, identity);
        if left.is_empty() {
            // Busy while the last zombie is not reaped: tried again at the next pass.
            let removed = identity
                .cgroup
                .as_ref()
                .is_none_or(|cgroup| cgroup.remove().is_ok());
            return if removed || now >= self.until {
                Pass::Clean
            } else {
                Pass::Waiting
            };
        }
        if now >= self.until {
            return Pass::Stuck(list(&left));
        }
        if now < self.kill_at {
            return Pass::Waiting;
        }
        signal_members(census, identity, Signal::KILL);
        let first = !std::mem::replace(&mut self.told, true);
        if first {
            Pass::Killed(list(&left))
        } else {
            Pass::Waiting
        }
    }
}

/// Sends a signal to everything that belongs to a process, itself included while it lives. `true` when there was
/// something.
pub fn signal_members(census: &Census, identity: &Identity, signal: Signal) -> bool {
    let members = living_members(census, identity);
    if signal == Signal::KILL
        && !members.is_empty()
        && let Some(cgroup) = &identity.cgroup
    {
        cgroup.kill();
    }
    for pid in members.iter().filter_map(|row| Pid::from_raw(row.pid)) {
        let _ = kill_process(pid, signal);
    }
    !members.is_empty()
}

/// A census may be older than the end of a process: what it lists is looked at once more.
fn living_members<'a>(census: &'a Census, identity: &Identity) -> Vec<&'a Row> {
    let members = census.members(identity).into_iter();
    members
        .filter(|row| is_alive(row.pid, row.start_ticks))
        .collect()
}

fn list(rows: &[&Row]) -> String {
    let named = rows.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|row| format!("{} ({})", row.pid, row.name.escape_debug()))
        .collect();
    let more = match rows.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if rows.len() == 1 {
        "a process"
    } else {
        "processes"
    };
    format!("{noun} running: {}{more}", named.join(", "))
}
