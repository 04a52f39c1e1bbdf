//! What ends a verb in order, with what is known: signals, and the end of the process that started it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use rustix::process::{Pid, getppid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Ctrl-C, a TERM, and the terminal that is closed.
pub const ENDING: &[i32] = &[SIGINT, SIGTERM, SIGHUP];

/// Becomes true at any of the signals, but for a HUP that somebody (`nohup`) has decided to ignore.
///
/// # Errors
/// The handlers cannot be set.
pub fn flag(signals: &[i32]) -> anyhow::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in signals {
        if *signal == SIGHUP && is_ignored(SIGHUP) {
            continue;
        }
        signal_hook::flag::register(*signal, Arc::clone(&told)).context("taking signals")?;
    }
    Ok(told)
}

/// Whether the process that started this one lives.
pub fn is_supervised(supervisor: i32) -> bool {
    Pid::as_raw(getppid()) == supervisor
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a zeroed sigaction is a valid value of that C structure; the call only writes into it.
    let (asked, action) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (
            libc::sigaction(signal, std::ptr::null(), &mut action),
            action,
        )
    };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
