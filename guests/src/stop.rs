//! SIGINT and SIGTERM: programs that run are let end, no further one is started, and what was found is printed. A
//! second signal ends the runner at once, and leaves its programs.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// From now on a signal is a wish to stop.
pub fn listen() {
    extern "C" fn note(_: libc::c_int) {
        IS_WANTED.store(true, Ordering::Relaxed);
    }
    let handler: extern "C" fn(libc::c_int) = note;
    for number in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores to an atomic and nothing else; SA_RESETHAND gives the second signal its default.
        unsafe {
            let mut act: libc::sigaction = std::mem::zeroed();
            act.sa_sigaction = handler as usize;
            act.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            libc::sigaction(number, &act, std::ptr::null_mut());
        }
    }
}

pub fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}
