//! What a slow path must leave as it found it: errno, and the signal mask.

use crate::calls::Calls;

/// Saves `errno` and puts it back at the end of the scope: free() must not change it.
pub struct Errno(i32);

impl Errno {
    /// Saves it.
    pub fn save() -> Errno {
        // SAFETY: a pointer to this thread's errno, always valid.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Blocks every signal, the C library's own included (raw system call), until the end of the scope:
/// no handler runs in the middle of a table, and none can leave it by longjmp. About 0.2 us for
/// both calls.
pub struct Signals {
    before: u64,
    blocked: bool,
    // Dropped last: the mask is put back by a system call.
    _calls: Calls,
}

/// Bytes of the kernel's signal set.
const SET_BYTES: usize = 8;

/// Stack that a slow path takes after it has blocked the signals, at most: 416 bytes of frames down to the sample
/// that makes room for another one, the 128 below its stack pointer that a function may use without taking them (the
/// red zone of the ABI), and some room, for frames differ between compilers.
/// The test `a_sample_takes_little_of_the_callers_stack` bounds it.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 1536 } else { 704 };

/// The same from where a thread is marked as inside the probe: with the frame of [`crate::Probe::allocated`].
pub const INSIDE_STACK_BYTES: usize = STACK_BYTES + if cfg!(debug_assertions) { 448 } else { 224 };

/// Writes to the stack as deep as what follows gets. Where the caller's stack ends earlier the fault comes now, and the
/// program's handler for it runs: with its signal blocked the kernel would end the process, and a handler that jumps
/// away would leave behind what is set for the time of a call.
#[inline(never)]
pub fn touch_stack<const BYTES: usize>() {
    let mut room = std::mem::MaybeUninit::<[u8; BYTES]>::uninit();
    // Otherwise the compiler keeps the first byte alone.
    let first = std::hint::black_box(&mut room).as_mut_ptr().cast::<u8>();
    // SAFETY: the first byte of this frame's own array.
    unsafe { first.write_volatile(0) };
}

impl Signals {
    /// Blocks them. `None`: the probe may make no system call.
    pub fn block() -> Option<Signals> {
        touch_stack::<STACK_BYTES>();
        let calls = Calls::begin()?;
        let (all, mut before) = (u64::MAX, 0u64);
        // SAFETY: reads and writes one kernel signal set.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_BLOCK,
                &raw const all,
                &raw mut before,
                SET_BYTES,
            )
        };
        Some(Signals {
            before,
            blocked: failed == 0,
            _calls: calls,
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if self.blocked {
            let none: *mut u64 = std::ptr::null_mut();
            // SAFETY: reads one kernel signal set.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigprocmask,
                    libc::SIG_SETMASK,
                    &raw const self.before,
                    none,
                    SET_BYTES,
                )
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> bool {
        // SAFETY: plain reads of this thread's mask.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut set);
            libc::sigismember(&set, libc::SIGUSR1) == 1
        }
    }

    #[test]
    fn the_mask_comes_back() {
        assert!(!blocked());
        let guard = Signals::block();
        assert!(blocked());
        drop(guard);
        assert!(!blocked());
    }

    #[test]
    fn errno_comes_back() {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = 77 };
        let guard = Errno::save();
        // SAFETY: closes nothing, and sets errno.
        unsafe { libc::close(-1) };
        drop(guard);
        // SAFETY: this thread's errno.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }
}
