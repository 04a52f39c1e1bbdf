//! Signals that end a verb in order, with what is known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

/// Ctrl-C and a TERM.
pub const ENDING: &[i32] = &[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// Becomes true at any of the signals.
///
/// # Errors
/// The handlers cannot be set.
pub fn flag(signals: &[i32]) -> anyhow::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&told)).context("taking signals")?;
    }
    Ok(told)
}
