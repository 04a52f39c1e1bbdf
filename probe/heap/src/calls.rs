//! The probe's system calls that are under way, in all threads. Before the program forbids them (seccomp), they end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use crate::clock;

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static ARE_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// A thread in the middle of a sample may wait for a CPU.
const WAIT_NS_MAX: u64 = 1_000_000_000;
const PAUSE_NS: i64 = 20_000;

/// While it lasts this thread may make system calls for the probe.
pub struct Calls(());

impl Calls {
    /// `None`: for good no more.
    pub fn begin() -> Option<Calls> {
        UNDER_WAY.fetch_add(1, SeqCst);
        let calls = Calls(());
        // Either this sees that they are forbidden, or who forbids them sees this one.
        (!ARE_FORBIDDEN.load(SeqCst)).then_some(calls)
    }

    /// From now on none begins, and those under way have ended. A thread that never ends its own (a handler jumped out
    /// of it) costs a second, once.
    pub fn forbid() {
        if ARE_FORBIDDEN.swap(true, SeqCst) {
            return;
        }
        let end_ns = clock::monotonic_ns() + WAIT_NS_MAX;
        while UNDER_WAY.load(SeqCst) > 0 && clock::monotonic_ns() < end_ns {
            clock::pause(PAUSE_NS);
        }
    }

    /// In a forked child: the other threads are not there any more. True: one of them was in the middle of something.
    pub fn after_fork() -> bool {
        UNDER_WAY.swap(0, SeqCst) > 0
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // A child that was forked in the middle of one has set it to 0.
        let _ = UNDER_WAY.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    }
}
