//! A form of C++ operator new or delete of the next library: whether it calls our malloc or free.
//!
//! The program's own first calls show it. Nothing is tried, for that would allocate on the subject's heap.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

use abi::Thread;
use heap::{Freed, Probe, Removed, clock, count};

use crate::life::{self, Stage};
use crate::next::{Ptr, library_of, next, symbol};
use crate::symbols::may_refer;
use crate::{FILTER, slow, usable};

/// What a form of the next library does, one of [`way`].
pub struct Form {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
    way: AtomicU8,
}

pub mod way {
    /// It calls our malloc or free, or its blocks are not the allocator's: it is only forwarded.
    pub const COMES_BACK: u8 = 0;
    /// It goes to the allocator by itself.
    pub const DIRECT: u8 = 1;
    /// Not known yet.
    pub const UNKNOWN: u8 = 2;
    /// Its last call came back. An allocator's first one may set something up by malloc (snmalloc's does).
    pub const CAME_BACK_ONCE: u8 = 3;
    /// Its last call did not.
    pub const WAS_DIRECT_ONCE: u8 = 4;
}

impl Form {
    pub const fn new(name: &'static CStr) -> Form {
        Form {
            name,
            function: AtomicPtr::new(std::ptr::null_mut()),
            way: AtomicU8::new(way::COMES_BACK),
        }
    }

    #[inline(always)]
    pub fn next(&self) -> Ptr {
        self.function.load(Relaxed)
    }

    #[inline(always)]
    pub fn way(&self) -> u8 {
        self.way.load(Relaxed)
    }

    pub fn find(&self) {
        let found = symbol(self.name).unwrap_or(std::ptr::null_mut());
        self.function.store(found, Relaxed);
        self.way.store(self.first_way(), Relaxed);
    }

    /// What is known before the first call. Only the allocator's own forms may be direct: another library's hand out
    /// blocks that come from malloc, or that the allocator does not know.
    fn first_way(&self) -> u8 {
        let allocator = library_of(next().malloc as usize as Ptr);
        if allocator.is_none() || library_of(self.next()) != allocator {
            way::COMES_BACK
        } else if self.may_come_back() {
            way::UNKNOWN
        } else {
            way::DIRECT
        }
    }

    /// False where the library of this form has no way to our malloc and free.
    fn may_come_back(&self) -> bool {
        may_refer(self.next() as usize, &FAMILY)
    }

    /// A call came back, or did not: twice in a row is known.
    fn learn(&self, came_back: bool) {
        let way = match (self.way(), came_back) {
            (way::CAME_BACK_ONCE, true) => way::COMES_BACK,
            (way::WAS_DIRECT_ONCE, false) => way::DIRECT,
            (_, true) => way::CAME_BACK_ONCE,
            (_, false) => way::WAS_DIRECT_ONCE,
        };
        self.way.store(way, Relaxed);
    }
}

/// What an operator may call.
const FAMILY: [&CStr; 12] = [
    c"malloc",
    c"free",
    c"calloc",
    c"realloc",
    c"memalign",
    c"aligned_alloc",
    c"posix_memalign",
    c"valloc",
    c"_Znwm",
    c"_Znam",
    c"_ZdlPv",
    c"_ZdaPv",
];

/// A form of new of which it is not known where it goes: the program's call shows.
#[cold]
#[inline(never)]
pub unsafe fn new_by(form: &Form, bytes: usize, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: the caller's: `call` is the next library's function, to be made once.
    unsafe {
        let Some((allocs, _)) = own_calls() else {
            return call();
        };
        let block = call();
        if !block.is_null()
            && let Some((now, _)) = own_calls()
        {
            form.learn(now != allocs);
            if now == allocs {
                is_there(block, bytes as u64);
            }
        }
        block
    }
}

/// Likewise of delete.
#[cold]
#[inline(never)]
pub unsafe fn delete_by(form: &Form, block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: the caller's: the block is live, and `call` frees it, once.
    unsafe {
        let Some(leaving) = Leaving::begin(block) else {
            return call();
        };
        call();
        if let Some(came_back) = leaving.end() {
            form.learn(came_back);
        }
    }
}

/// Calls of this thread that were counted, handing out and taking back; `None`: it has no row of its own.
unsafe fn own_calls() -> Option<(u64, u64)> {
    // SAFETY: an own row is this thread's.
    unsafe { own_row().map(|(_, row)| ((*row).allocs, (*row).frees)) }
}

unsafe fn own_row() -> Option<(&'static Probe, *mut Thread)> {
    let Stage::On(probe) = life::stage() else {
        return None;
    };
    // SAFETY: this thread's own record.
    match unsafe { slow::join(probe) } {
        slow::Row::Own(row) => Some((probe, row)),
        _ => None,
    }
}

/// A block that was handed out past the counting functions.
unsafe fn is_there(block: Ptr, bytes: u64) {
    // SAFETY: the caller's: the block was just allocated; an own row is this thread's.
    unsafe {
        if let Some((probe, row)) = own_row() {
            slow::counted_in(probe, row, block, bytes);
        }
    }
}

/// A block that is being freed, perhaps past the counting functions.
struct Leaving {
    frees: u64,
    bytes: u64,
    removed: Option<Removed>,
    begun_ns: u64,
}

impl Leaving {
    /// Before the free. `None`: it is null, or this thread has no row of its own.
    unsafe fn begin(block: Ptr) -> Option<Leaving> {
        if block.is_null() {
            return None;
        }
        // SAFETY: the caller's: the block is live; an own row is this thread's.
        unsafe {
            let (probe, row) = own_row()?;
            let may_be_sample = FILTER.may_hold(block as u64);
            Some(Leaving {
                frees: (*row).frees,
                bytes: if usable::is_exact() {
                    usable::of(block)
                } else {
                    0
                },
                removed: may_be_sample
                    .then(|| probe.take_out(block as u64))
                    .flatten(),
                begun_ns: clock::monotonic_ns(),
            })
        }
    }

    /// After it: whether it came to a function that counts. `None`: the probe has gone off.
    unsafe fn end(self) -> Option<bool> {
        let took_ns = clock::monotonic_ns().saturating_sub(self.begun_ns);
        // SAFETY: an own row is this thread's.
        unsafe {
            let (probe, row) = own_row()?;
            let came_back = (*row).frees != self.frees;
            if !came_back {
                count::free(row);
                count::usable_freed(row, self.bytes);
            }
            if let Some(removed) = self.removed {
                slow::freed(probe, removed, Freed::Back, took_ns);
            }
            Some(came_back)
        }
    }
}
