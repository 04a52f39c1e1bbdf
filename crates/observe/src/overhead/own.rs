//! What highwater takes itself.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use procfs::process::{Process, Stat};
use rustix::time::ClockId;

use crate::clock::read_ns;

/// Processes that highwater was split into. Their children are its own too.
static HELPERS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Makes a child that is a part of highwater, as its children are; its pid, or none in the child itself. Nobody asks
/// for the helpers meanwhile: a helper that is not known yet would be taken for another's.
///
/// # Errors
/// It cannot be made.
pub fn make_helper(make: impl FnOnce() -> io::Result<Option<u32>>) -> io::Result<Option<u32>> {
    let mut helpers = helpers_list();
    let made = make()?;
    helpers.extend(made);
    Ok(made)
}

/// Children of this process that are parts of highwater, as their children are.
pub fn helpers() -> Vec<u32> {
    helpers_list().clone()
}

fn helpers_list() -> MutexGuard<'static, Vec<u32>> {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPU time of this process and of its helpers, seconds.
pub fn cpu_s() -> f64 {
    let of_helpers: f64 = helpers().into_iter().map(cpu_s_with_children).sum();
    read_ns(ClockId::ProcessCPUTime) as f64 / 1e9 + of_helpers
}

/// The most that was resident of this process.
pub fn rss_peak_bytes() -> u64 {
    let status = Process::myself().and_then(|own| own.status());
    status.ok().and_then(|status| status.vmhwm).unwrap_or(0) * 1024
}

/// CPU time of all threads of a process, seconds; 0 when it is gone.
pub fn cpu_s_of(pid: u32) -> f64 {
    ticks_s(pid, |stat| stat.utime + stat.stime)
}

/// With that of its children, those that have ended among them.
fn cpu_s_with_children(pid: u32) -> f64 {
    let waited_for = |stat: &Stat| (stat.cutime + stat.cstime).max(0) as u64;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    ticks_s(pid, |stat| stat.utime + stat.stime + waited_for(stat))
        + children.map(cpu_s_of).sum::<f64>()
}

fn ticks_s(pid: u32, ticks: impl FnOnce(&Stat) -> u64) -> f64 {
    let stat = Process::new(pid as i32).and_then(|own| own.stat());
    stat.map_or(0, |stat| ticks(&stat)) as f64 / procfs::ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own() {
        assert!(rss_peak_bytes() > 1 << 20 && cpu_s() > 0.0);
    }
}
