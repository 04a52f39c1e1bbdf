//! How a load program is ended before its time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Becomes true at SIGTERM and at Ctrl-C, so that the last line is still printed.
///
/// # Errors
/// The handlers cannot be set.
pub fn until_told() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let set = signal_hook::flag::register(signal, Arc::clone(&stop));
        set.map_err(|error| io::Error::new(error.kind(), format!("taking signals: {error}")))?;
    }
    Ok(stop)
}
