//! Whether the thread of a row is still there. No exit hook: the kernel is asked when its row is wanted, so destructors
//! that run late may allocate as they like.

use std::sync::atomic::Ordering::Relaxed;

use abi::Thread;

use crate::probe::Probe;
use sampler::word::atomic32;

impl Probe {
    /// A row for a new thread; `None`: all are taken, it shares [`Self::overflow`].
    pub fn join(&self, tid: u32) -> Option<*mut Thread> {
        self.threads.take(tid, |row, old| self.is_gone(row, old))
    }

    fn is_gone(&self, row: *mut Thread, tid: u32) -> bool {
        // SAFETY: words of a row of the section and of the header; the signal 0 only asks.
        unsafe {
            let forks = |word: *mut u32| atomic32(word).load(Relaxed);
            if forks(&raw mut (*row).forks) != forks(&raw mut (*self.header).forks) {
                return true;
            }
            let pid = libc::syscall(libc::SYS_getpid);
            let failed = libc::syscall(libc::SYS_tgkill, pid, tid as libc::pid_t, 0);
            failed != 0 && *libc::__errno_location() == libc::ESRCH
        }
    }
}
