//! Running a function on another stack: the subject's may be a few kilobytes, and unwinding needs
//! more.

use std::ffi::c_void;

/// A stack that one thread at a time may use.
#[derive(Clone, Copy, Debug)]
pub struct OtherStack {
    top: *mut u8,
}

impl OtherStack {
    /// The memory from `start` on, `bytes` long.
    ///
    /// # Safety
    /// It is writable, stays for ever, and nobody else's; `bytes` is enough for what is run.
    pub unsafe fn new(start: *mut u8, bytes: usize) -> OtherStack {
        let top = (start as usize + bytes) & !63;
        OtherStack {
            top: top as *mut u8,
        }
    }

    /// Runs `work` there and comes back.
    ///
    /// # Safety
    /// No other thread, and no outer call, is on this stack; signals are blocked; `work` does not panic.
    pub unsafe fn run<F: FnOnce()>(self, work: F) {
        unsafe extern "C" fn call<F: FnOnce()>(work: *mut c_void) {
            // SAFETY: `run` passes an Option<F> that lives until this returns.
            let work = unsafe { (*work.cast::<Option<F>>()).take() };
            if let Some(work) = work {
                work();
            }
        }
        let mut work = Some(work);
        // SAFETY: by the contract of `run`.
        unsafe { switch(self.top, call::<F>, (&raw mut work).cast()) };
    }
}

type Call = unsafe extern "C" fn(*mut c_void);

#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn switch(top: *mut u8, call: Call, argument: *mut c_void) {
    // SAFETY: by the caller `top` is the end of a stack that nobody is on; the old stack pointer comes back from a
    // register that the call preserves.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {call}",
            "mov rsp, r12",
            top = in(reg) top,
            call = in(reg) call,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(never)]
unsafe fn switch(top: *mut u8, call: Call, argument: *mut c_void) {
    // SAFETY: as on x86_64.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {call}",
            "mov sp, x20",
            top = in(reg) top,
            call = in(reg) call,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_there_and_comes_back() {
        let memory = Box::leak(vec![0u8; 65_536].into_boxed_slice());
        let range = memory.as_ptr_range();
        // SAFETY: memory of the test's own, which outlives the stack.
        let stack = unsafe { OtherStack::new(memory.as_mut_ptr(), 65_536) };
        let mut seen = 0usize;
        for round in 0..3 {
            // SAFETY: nobody else is on that stack.
            unsafe {
                stack.run(|| {
                    let here = round;
                    seen = &raw const here as usize;
                })
            };
            assert!((range.start as usize..range.end as usize).contains(&seen));
        }
    }
}
