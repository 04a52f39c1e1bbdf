//! The forms of C++ operator new and delete of the next library, and whether each calls our malloc or free.
//!
//! The program's own first calls show it ([`crate::learning`]). Nothing is tried, for that would allocate on the
//! subject's heap.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

use crate::next::{Ptr, library_of, next, symbol};
use crate::symbols::may_refer;

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
    const fn new(name: &'static CStr) -> Form {
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

    fn find(&self) {
        let found = symbol(self.name).unwrap_or(std::ptr::null_mut());
        self.function.store(found, Relaxed);
        self.way.store(self.first_way(), Relaxed);
    }

    /// What is known before the first call. Only the allocator's own forms may be direct: another library's give
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
    pub fn learn(&self, came_back: bool) {
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

// The mangled names of the C++ ABI on 64-bit Linux: nw/na new and new[], dl/da delete and delete[],
// m size_t, St11align_val_t, RKSt9nothrow_t.
pub static NEW: Form = Form::new(c"_Znwm");
pub static NEW_ARRAY: Form = Form::new(c"_Znam");
pub static NEW_NOTHROW: Form = Form::new(c"_ZnwmRKSt9nothrow_t");
pub static NEW_ARRAY_NOTHROW: Form = Form::new(c"_ZnamRKSt9nothrow_t");
pub static NEW_ALIGNED: Form = Form::new(c"_ZnwmSt11align_val_t");
pub static NEW_ARRAY_ALIGNED: Form = Form::new(c"_ZnamSt11align_val_t");
pub static NEW_ALIGNED_NOTHROW: Form = Form::new(c"_ZnwmSt11align_val_tRKSt9nothrow_t");
pub static NEW_ARRAY_ALIGNED_NOTHROW: Form = Form::new(c"_ZnamSt11align_val_tRKSt9nothrow_t");
pub static DELETE: Form = Form::new(c"_ZdlPv");
pub static DELETE_ARRAY: Form = Form::new(c"_ZdaPv");
pub static DELETE_SIZED: Form = Form::new(c"_ZdlPvm");
pub static DELETE_ARRAY_SIZED: Form = Form::new(c"_ZdaPvm");
pub static DELETE_NOTHROW: Form = Form::new(c"_ZdlPvRKSt9nothrow_t");
pub static DELETE_ARRAY_NOTHROW: Form = Form::new(c"_ZdaPvRKSt9nothrow_t");
pub static DELETE_ALIGNED: Form = Form::new(c"_ZdlPvSt11align_val_t");
pub static DELETE_ARRAY_ALIGNED: Form = Form::new(c"_ZdaPvSt11align_val_t");
pub static DELETE_SIZED_ALIGNED: Form = Form::new(c"_ZdlPvmSt11align_val_t");
pub static DELETE_ARRAY_SIZED_ALIGNED: Form = Form::new(c"_ZdaPvmSt11align_val_t");
pub static DELETE_ALIGNED_NOTHROW: Form = Form::new(c"_ZdlPvSt11align_val_tRKSt9nothrow_t");
pub static DELETE_ARRAY_ALIGNED_NOTHROW: Form = Form::new(c"_ZdaPvSt11align_val_tRKSt9nothrow_t");

static ALL: [&Form; 20] = [
    &NEW,
    &NEW_ARRAY,
    &NEW_NOTHROW,
    &NEW_ARRAY_NOTHROW,
    &NEW_ALIGNED,
    &NEW_ARRAY_ALIGNED,
    &NEW_ALIGNED_NOTHROW,
    &NEW_ARRAY_ALIGNED_NOTHROW,
    &DELETE,
    &DELETE_ARRAY,
    &DELETE_SIZED,
    &DELETE_ARRAY_SIZED,
    &DELETE_NOTHROW,
    &DELETE_ARRAY_NOTHROW,
    &DELETE_ALIGNED,
    &DELETE_ARRAY_ALIGNED,
    &DELETE_SIZED_ALIGNED,
    &DELETE_ARRAY_SIZED_ALIGNED,
    &DELETE_ALIGNED_NOTHROW,
    &DELETE_ARRAY_ALIGNED_NOTHROW,
];

/// Finds every form. The address of the next `operator new(size_t)`, or 0.
///
/// # Safety
/// The malloc family has been found; one thread; the probe is not on yet.
pub unsafe fn find() -> u64 {
    ALL.iter().for_each(|form| form.find());
    NEW.next() as u64
}
