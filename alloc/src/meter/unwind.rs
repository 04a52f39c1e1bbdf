//! The stack of the calling thread, by the unwinder that Rust programs are linked with for panics.
//!
//! It allocates nothing and, on glibc from 2.35 on, takes no lock. Only Rust's own allocations come here, never the
//! dynamic loader's, so that the older one's loader lock cannot be held by a caller that waits for the meter.

use core::ffi::c_void;

use abi::DEPTH_MAX;

/// Return addresses, innermost first.
pub(crate) struct Frames {
    pub(crate) addresses: [u64; DEPTH_MAX],
    pub(crate) depth: usize,
    /// There were more.
    pub(crate) is_deeper: bool,
    /// Frames with a lower stack pointer are the meter's own.
    own_below: usize,
}

impl Frames {
    pub(crate) fn known(&self) -> &[u64] {
        &self.addresses[..self.depth]
    }
}

const GO_ON: i32 = 0;
const STOP: i32 = 4;

unsafe extern "C" {
    // Of libgcc or libunwind, which std links for panics.
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        frames: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Frames of callers whose stack lies above `mark`, an address in the frame of the meter's outermost function.
pub(crate) fn frames(mark: usize) -> Frames {
    let mut frames = Frames {
        addresses: [0; DEPTH_MAX],
        depth: 0,
        is_deeper: false,
        own_below: mark,
    };
    // SAFETY: `visit` takes `frames` for what it is, and only during the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
    frames
}

extern "C" fn visit(context: *mut c_void, frames: *mut c_void) -> i32 {
    // SAFETY: the unwinder passes on its context and the pointer given to it.
    let (frames, address, stack) = unsafe {
        (
            &mut *frames.cast::<Frames>(),
            _Unwind_GetIP(context),
            _Unwind_GetCFA(context),
        )
    };
    if address == 0 {
        return STOP;
    }
    if stack <= frames.own_below {
        return GO_ON;
    }
    if frames.depth == DEPTH_MAX {
        frames.is_deeper = true;
        return STOP;
    }
    frames.addresses[frames.depth] = address as u64;
    frames.depth += 1;
    GO_ON
}
