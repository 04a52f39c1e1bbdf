//! The functions of Python that a thread is in. To the unwinder they are all one: CPython runs what Python calls in one
//! native frame.
//!
//! For CPython 3.11. Later ones write a map of their functions when they are asked to (`PYTHONPERFSUPPORT`), and are
//! seen without this. Offsets are of `Include/cpython/pystate.h` and `Include/internal/pycore_frame.h`; a branch that
//! is released does not change them.

use std::ffi::{c_int, c_void};

use abi::{PAGE_BYTES, PYTHON_CODE};

use crate::readable::is_readable;

/// The version that the offsets are of: major and minor, as the upper half of `Py_Version`.
pub const VERSION: u64 = 0x030b;

/// Functions that are told of a stack at most, from the innermost: with each more there are more different stacks, and
/// the table of them has a bound.
pub const DEPTH_MAX: usize = 8;

/// Native frames that stay beside them. Those further out are the interpreter's own.
pub const NATIVE_MAX: usize = 24;

/// Of a thread's state.
const CFRAME: u64 = 56;
const THREAD_ID: u64 = 152;
/// Of what that points to: the innermost frame.
const CURRENT: u64 = 8;
/// Of a frame.
const CODE: u64 = 32;
const PREVIOUS: u64 = 48;

/// Functions of the interpreter. Both read a word or two: they take no lock and no memory.
#[derive(Clone, Copy)]
pub struct Interpreter {
    /// `PyGILState_GetThisThreadState`: null for a thread that never ran Python. What it gives belongs to this thread,
    /// whoever has the interpreter's lock.
    pub this_thread: unsafe extern "C" fn() -> *const c_void,
    /// `Py_IsInitialized`: 0 before the interpreter is there, and from the moment on that it ends.
    pub is_initialized: unsafe extern "C" fn() -> c_int,
}

impl Interpreter {
    /// Writes the code objects of the functions that this thread is in, innermost first, each with [`PYTHON_CODE`];
    /// how many there are.
    pub fn functions(&self, into: &mut [u64]) -> usize {
        // SAFETY: functions of the process, which only read.
        let state = unsafe {
            match (self.is_initialized)() {
                0 => 0,
                _ => (self.this_thread)() as u64,
            }
        };
        let mut words = Words { page: None };
        let mut count = 0;
        let mut frame = words.innermost(state);
        while let Some(at) = frame.filter(|_| count < into.len()) {
            let Some(code) = words.at(at.wrapping_add(CODE)) else {
                break;
            };
            into[count] = PYTHON_CODE | code;
            count += 1;
            frame = words.at(at.wrapping_add(PREVIOUS)).filter(|at| *at != 0);
        }
        count
    }
}

/// Words of this thread's own frames: nobody else takes them away, and a wrong address is no address.
struct Words {
    /// The page that was readable last.
    page: Option<u64>,
}

impl Words {
    fn innermost(&mut self, state: u64) -> Option<u64> {
        // SAFETY: no argument, and cannot fail.
        let own = unsafe { libc::pthread_self() } as u64;
        let is_own = state != 0 && self.at(state.wrapping_add(THREAD_ID))? == own;
        let cframe = self.at(is_own.then_some(state)?.wrapping_add(CFRAME))?;
        self.at(cframe.wrapping_add(CURRENT)).filter(|at| *at != 0)
    }

    fn at(&mut self, address: u64) -> Option<u64> {
        let page = address & !(PAGE_BYTES as u64 - 1);
        if !address.is_multiple_of(8) || self.page != Some(page) && !is_readable(address) {
            return None;
        }
        self.page = Some(page);
        // SAFETY: the kernel has read this page.
        Some(unsafe { (address as *const u64).read_volatile() })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }

    unsafe extern "C" fn this_thread() -> *const c_void {
        STATE.get() as *const c_void
    }

    unsafe extern "C" fn always() -> c_int {
        1
    }

    unsafe extern "C" fn never() -> c_int {
        0
    }

    const HERE: Interpreter = Interpreter {
        this_thread,
        is_initialized: always,
    };

    /// Words of eight bytes.
    struct Thread {
        state: Box<[u64; 20]>,
        _cframe: Box<[u64; 2]>,
        frames: Box<[[u64; 8]; 3]>,
    }

    /// A thread that says of itself that it is `thread`, in three frames, one inside the other.
    fn inside(thread: u64) -> Thread {
        let mut frames = Box::new([[0; 8]; 3]);
        let start = frames.as_ptr() as u64;
        for (at, frame) in frames.iter_mut().enumerate() {
            let outer = start + 64 * (at as u64 + 1);
            frame[CODE as usize / 8] = 0x1000 + at as u64;
            frame[PREVIOUS as usize / 8] = if at < 2 { outer } else { 0 };
        }
        let cframe = Box::new([0, start]);
        let mut state = Box::new([0; 20]);
        state[CFRAME as usize / 8] = cframe.as_ptr() as u64;
        state[THREAD_ID as usize / 8] = thread;
        STATE.set(state.as_ptr() as u64);
        Thread {
            state,
            _cframe: cframe,
            frames,
        }
    }

    fn functions(of: Interpreter, most: usize) -> Vec<u64> {
        let mut into = vec![0; most];
        let count = of.functions(&mut into);
        into.truncate(count);
        into
    }

    #[test]
    fn frames_are_told_from_the_innermost() {
        // SAFETY: asks for a number.
        let own = unsafe { libc::pthread_self() } as u64;
        let _thread = inside(own);
        let code = |at: u64| PYTHON_CODE | (0x1000 + at);
        assert_eq!(functions(HERE, 8), [code(0), code(1), code(2)]);
        assert_eq!(functions(HERE, 2), [code(0), code(1)]);
        let ended = Interpreter {
            is_initialized: never,
            ..HERE
        };
        assert!(functions(ended, 8).is_empty());
    }

    #[test]
    fn what_is_no_state_of_this_thread_is_none() {
        assert!(functions(HERE, 8).is_empty(), "it never ran Python");
        // SAFETY: asks for a number.
        let own = unsafe { libc::pthread_self() } as u64;
        let another = inside(own + 8);
        assert!(another.state[CFRAME as usize / 8] != 0);
        assert!(functions(HERE, 8).is_empty());
        for wild in [1, 8, 0x7fff_ffff_f000, u64::MAX - 7, u64::MAX] {
            STATE.set(wild & (u64::MAX >> 8));
            assert!(functions(HERE, 8).is_empty(), "{wild:#x}");
        }
    }

    #[test]
    fn a_frame_that_leads_nowhere_ends_the_walk() {
        // SAFETY: asks for a number.
        let own = unsafe { libc::pthread_self() } as u64;
        let mut thread = inside(own);
        let start = thread.frames.as_ptr() as u64;
        for nowhere in [0xdead, u64::MAX - 7, 0x7fff_ffff_f000] {
            thread.frames[1][PREVIOUS as usize / 8] = nowhere;
            assert_eq!(functions(HERE, 8).len(), 2, "{nowhere:#x}");
        }
        thread.frames[1][PREVIOUS as usize / 8] = start;
        assert_eq!(functions(HERE, 8).len(), 8, "a circle ends with the room");
    }
}
