//! Places where a kill can hit a rollout, by number: how the tests prove that every one of them is survived.
//!
//! A debug build that is started with `HIGHWATER_CRASH_AT=N` ends itself with SIGKILL at the Nth place it passes;
//! with `HIGHWATER_CRASH_LOG=FILE` it writes down the name of each place. A release build has none of this.

#[cfg(debug_assertions)]
pub fn point(name: &str) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let at = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(log) = std::env::var_os("HIGHWATER_CRASH_LOG") {
        let file = std::fs::File::options().append(true).create(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "{at} {name}"));
    }
    let wanted = std::env::var("HIGHWATER_CRASH_AT").ok();
    if wanted.and_then(|number| number.parse().ok()) == Some(at) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(debug_assertions))]
pub fn point(_name: &str) {}
