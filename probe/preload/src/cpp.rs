//! Every form of C++ operator new and delete.
//!
//! Each goes to the same form of the next library. Where that form itself calls malloc (libstdc++'s
//! do, most allocators' do not) it is only forwarded, and counted in malloc: which it is, is tried
//! once for each form of an allocator at the start. Where the program has operators of its own, which stand in
//! front of ours, the allocator's forms alone are tried, and all others forwarded. Without any next
//! library (libstdc++ opened later, out of reach) they are malloc and free.
//! The C++ library's own are known to come back, those of a library that refers to no malloc and free are known not to:
//! trying them would allocate on the subject's heap.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use crate::c;
use crate::calls::{hand_out, take_back};
use crate::next::{Ptr, comes_to_us, gives_blocks, library_of, next, symbol};
use crate::symbols::may_refer;
use crate::thread::{self, flag};
use crate::usable;

/// One form: the next library's function, and whether it comes back to our malloc or free by
/// itself.
struct Form {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
    comes_back: AtomicBool,
}

impl Form {
    const fn new(name: &'static CStr) -> Form {
        Form {
            name,
            function: AtomicPtr::new(std::ptr::null_mut()),
            comes_back: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    fn next(&self) -> Ptr {
        self.function.load(Relaxed)
    }

    #[inline(always)]
    fn comes_back(&self) -> bool {
        self.comes_back.load(Relaxed)
    }

    fn find(&self) {
        self.function
            .store(symbol(self.name).unwrap_or(std::ptr::null_mut()), Relaxed);
    }

    /// One of the C++ library's own, which are known to call malloc and free.
    fn is_of_cpp_library(&self) -> bool {
        usable::is_in(
            self.next() as usize,
            &["libstdc++.so", "libc++.so", "libc++abi.so"],
        )
    }

    /// False where the library of this form has no way to our malloc and free.
    fn may_come_back(&self) -> bool {
        may_refer(self.next() as usize, &FAMILY)
    }

    /// Makes `call` with malloc and free watched.
    unsafe fn try_out<R>(&self, call: impl FnOnce() -> R) -> R {
        // SAFETY: this thread's own record; `call` is the caller's.
        unsafe {
            let local = thread::local();
            (*local).flags |= flag::TRYING;
            let result = call();
            self.comes_back
                .store((*local).flags & flag::REACHED != 0, Relaxed);
            (*local).flags &= !(flag::TRYING | flag::REACHED);
            result
        }
    }
}

/// What an operator may call.
const FAMILY: [&CStr; 8] = [
    c"malloc",
    c"free",
    c"calloc",
    c"realloc",
    c"memalign",
    c"aligned_alloc",
    c"posix_memalign",
    c"valloc",
];

static NOTHROW: u8 = 0;
const ALIGN: usize = 64;
const BYTES: usize = 16;

type New = unsafe extern "C-unwind" fn(usize, usize, usize) -> Ptr;
type Delete = unsafe extern "C" fn(Ptr, usize, usize);

/// Finds every form and tries it. The address of the next `operator new(size_t)`, or 0.
///
/// # Safety
/// The malloc family has been found; one thread; the probe is not on yet.
pub unsafe fn find() -> u64 {
    NEW.find();
    if NEW.next().is_null() {
        return 0;
    }
    let nothrow = (&raw const NOTHROW) as usize;
    let plain: [(&Form, usize); 4] = [
        (&NEW, 0),
        (&NEW_ARRAY, 0),
        (&NEW_NOTHROW, nothrow),
        (&NEW_ARRAY_NOTHROW, nothrow),
    ];
    let aligned: [(&Form, usize); 4] = [
        (&NEW_ALIGNED, 0),
        (&NEW_ARRAY_ALIGNED, 0),
        (&NEW_ALIGNED_NOTHROW, nothrow),
        (&NEW_ARRAY_ALIGNED_NOTHROW, nothrow),
    ];
    let plain_deletes: [(&Form, usize, usize); 6] = [
        (&DELETE, 0, 0),
        (&DELETE_ARRAY, 0, 0),
        (&DELETE_SIZED, BYTES, 0),
        (&DELETE_ARRAY_SIZED, BYTES, 0),
        (&DELETE_NOTHROW, nothrow, 0),
        (&DELETE_ARRAY_NOTHROW, nothrow, 0),
    ];
    let aligned_deletes: [(&Form, usize, usize); 6] = [
        (&DELETE_ALIGNED, ALIGN, 0),
        (&DELETE_ARRAY_ALIGNED, ALIGN, 0),
        (&DELETE_SIZED_ALIGNED, BYTES, ALIGN),
        (&DELETE_ARRAY_SIZED_ALIGNED, BYTES, ALIGN),
        (&DELETE_ALIGNED_NOTHROW, ALIGN, nothrow),
        (&DELETE_ARRAY_ALIGNED_NOTHROW, ALIGN, nothrow),
    ];
    let news = plain.iter().chain(&aligned).map(|(form, _)| *form);
    let deletes = plain_deletes.iter().chain(&aligned_deletes);
    let all = || news.clone().chain(deletes.clone().map(|(form, ..)| *form));
    let may_be_tried = Allowed::of(all());
    all().for_each(Form::find);
    // What is not tried below is only forwarded: the C++ library's forms call malloc and free.
    all().for_each(|form| form.comes_back.store(true, Relaxed));
    // SAFETY: the functions have the types of their forms; each is given what its form takes.
    unsafe {
        try_all(&plain, &plain_deletes, may_be_tried, |new, last| {
            new(BYTES, last, 0)
        });
        try_all(&aligned, &aligned_deletes, may_be_tried, |new, last| {
            new(BYTES, ALIGN, last)
        });
    }
    NEW.next() as u64
}

/// Which forms are tried. Where the program has some of its own, forms of the libraries come to those: a block of one
/// library's would be another's to free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    All,
    /// The allocator's own, which ask nobody but it: the library at this address.
    OfLibrary(usize),
    None,
}

impl Allowed {
    fn of<'a>(mut all: impl Iterator<Item = &'a Form>) -> Allowed {
        if !gives_blocks() {
            return Allowed::None;
        }
        if all.all(|form| comes_to_us(form.name)) {
            return Allowed::All;
        }
        library_of(next().malloc as usize as Ptr).map_or(Allowed::None, Allowed::OfLibrary)
    }

    fn has(self, form: &Form) -> bool {
        match self {
            Allowed::All => !form.is_of_cpp_library(),
            Allowed::OfLibrary(library) => library_of(form.next()) == Some(library),
            Allowed::None => false,
        }
    }
}

/// Tries forms of new with the first delete, and forms of delete with the first new. Surplus
/// arguments do no harm in either calling convention that the probe is built for.
unsafe fn try_all(
    news: &[(&Form, usize)],
    deletes: &[(&Form, usize, usize)],
    may_be_tried: Allowed,
    make: impl Fn(New, usize) -> Ptr,
) {
    // SAFETY: an address found by the name of a form is a function of that form, or null, which is None.
    let new_of = |form: &Form| -> Option<New> { unsafe { std::mem::transmute(form.next()) } };
    // SAFETY: as above.
    let delete_of = |form: &Form| -> Option<Delete> { unsafe { std::mem::transmute(form.next()) } };
    let (first_delete, second, third) = deletes[0];
    if !may_be_tried.has(first_delete) || !may_be_tried.has(news[0].0) {
        return;
    }
    let forms = || {
        news.iter()
            .map(|(form, _)| *form)
            .chain(deletes.iter().map(|(form, ..)| *form))
    };
    if forms().all(|form| may_be_tried.has(form) && !form.may_come_back()) {
        forms().for_each(|form| form.comes_back.store(false, Relaxed));
        return;
    }
    // These forms may ask our malloc for blocks and give them back past our free (jemalloc's do): what they get is the
    // allocator's own.
    let _forwarding = thread::Forwarding::begin();
    let tried_news = news.iter().filter(|(form, _)| may_be_tried.has(form));
    let tried_deletes = deletes.iter().filter(|(form, ..)| may_be_tried.has(form));
    // Twice each: an allocator's first call may set up something by malloc (snmalloc does), and
    // only the second counts.
    for (form, last) in tried_news.clone().chain(tried_news) {
        if let (Some(new), Some(delete)) = (new_of(form), delete_of(first_delete)) {
            // SAFETY: both are of the forms that were looked up; the block goes back to where it came from.
            unsafe {
                let block = form.try_out(|| make(new, *last));
                delete(block, second, third);
            }
        }
    }
    for (form, second, third) in tried_deletes.clone().chain(tried_deletes) {
        if let (Some(new), Some(delete)) = (new_of(news[0].0), delete_of(form)) {
            // SAFETY: as above.
            unsafe {
                let block = make(new, news[0].1);
                form.try_out(|| delete(block, *second, *third));
            }
        }
    }
}

/// Without a next library: malloc. A form that must not return null finds the C++ library after
/// all, to have its exception.
#[cold]
unsafe fn without_next(bytes: usize, align: usize, throws: bool) -> Ptr {
    // SAFETY: C's contract of malloc and free; the block is this library's.
    unsafe {
        let block = if align > 16 {
            aligned_block(bytes.max(1), align)
        } else {
            c::malloc(bytes.max(1))
        };
        if !block.is_null() || !throws {
            return block;
        }
        let library = libc::dlopen(
            c"libstdc++.so.6".as_ptr(),
            libc::RTLD_NOLOAD | libc::RTLD_LAZY,
        );
        if !library.is_null() {
            let new = libc::dlsym(library, c"_Znwm".as_ptr());
            let new: Option<unsafe extern "C-unwind" fn(usize) -> Ptr> = std::mem::transmute(new);
            if let Some(new) = new {
                return new(bytes);
            }
        }
        libc::abort()
    }
}

unsafe fn aligned_block(bytes: usize, align: usize) -> Ptr {
    let mut block = std::ptr::null_mut();
    // SAFETY: one pointer of ours is written.
    let failed = unsafe { c::posix_memalign(&mut block, align, bytes) } != 0;
    if failed { std::ptr::null_mut() } else { block }
}

macro_rules! news {
    (
        $($form:ident $symbol:ident $name:literal
            ($($arg:ident: $type:ty),*) align $align:expr, throws $throws:literal;)*
    ) => { $(
        static $form: Form = Form::new($name);

        /// # Safety
        /// C++'s contract of this operator.
        #[allow(non_snake_case, reason = "mangled names of C++")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(bytes: usize $(, $arg: $type)*) -> Ptr {
            // SAFETY: an address found by the mangled name is a function of that type; the caller keeps C++'s contract.
            unsafe {
                let next = $form.next();
                if next.is_null() {
                    return without_next(bytes, $align, $throws);
                }
                let next: unsafe extern "C-unwind" fn(usize $(, $type)*) -> Ptr = std::mem::transmute(next);
                if $form.comes_back() {
                    return next(bytes $(, $arg)*);
                }
                hand_out(bytes, move || next(bytes $(, $arg)*))
            }
        }
    )* };
}

macro_rules! deletes {
    ($($form:ident $symbol:ident $name:literal ($($arg:ident: $type:ty),*);)*) => { $(
        static $form: Form = Form::new($name);

        /// # Safety
        /// C++'s contract of this operator.
        #[allow(non_snake_case, reason = "mangled names of C++")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(block: Ptr $(, $arg: $type)*) {
            // SAFETY: as above; without a next operator the block came from malloc.
            unsafe {
                let next = $form.next();
                if next.is_null() {
                    return c::free(block);
                }
                let next: unsafe extern "C" fn(Ptr $(, $type)*) = std::mem::transmute(next);
                if $form.comes_back() {
                    return next(block $(, $arg)*);
                }
                take_back(block, move || next(block $(, $arg)*))
            }
        }
    )* };
}

// The mangled names of the C++ ABI on 64-bit Linux: nw/na new and new[], dl/da delete and delete[],
// m size_t, St11align_val_t, RKSt9nothrow_t.
news! {
    NEW _Znwm c"_Znwm" () align 0, throws true;
    NEW_ARRAY _Znam c"_Znam" () align 0, throws true;
    NEW_NOTHROW _ZnwmRKSt9nothrow_t c"_ZnwmRKSt9nothrow_t" (nothrow: Ptr) align 0, throws false;
    NEW_ARRAY_NOTHROW _ZnamRKSt9nothrow_t c"_ZnamRKSt9nothrow_t" (nothrow: Ptr) align 0, throws false;
    NEW_ALIGNED _ZnwmSt11align_val_t c"_ZnwmSt11align_val_t" (align: usize) align align, throws true;
    NEW_ARRAY_ALIGNED _ZnamSt11align_val_t c"_ZnamSt11align_val_t" (align: usize) align align, throws true;
    NEW_ALIGNED_NOTHROW _ZnwmSt11align_val_tRKSt9nothrow_t c"_ZnwmSt11align_val_tRKSt9nothrow_t"
        (align: usize, nothrow: Ptr) align align, throws false;
    NEW_ARRAY_ALIGNED_NOTHROW _ZnamSt11align_val_tRKSt9nothrow_t c"_ZnamSt11align_val_tRKSt9nothrow_t"
        (align: usize, nothrow: Ptr) align align, throws false;
}

deletes! {
    DELETE _ZdlPv c"_ZdlPv" ();
    DELETE_ARRAY _ZdaPv c"_ZdaPv" ();
    DELETE_SIZED _ZdlPvm c"_ZdlPvm" (bytes: usize);
    DELETE_ARRAY_SIZED _ZdaPvm c"_ZdaPvm" (bytes: usize);
    DELETE_NOTHROW _ZdlPvRKSt9nothrow_t c"_ZdlPvRKSt9nothrow_t" (nothrow: Ptr);
    DELETE_ARRAY_NOTHROW _ZdaPvRKSt9nothrow_t c"_ZdaPvRKSt9nothrow_t" (nothrow: Ptr);
    DELETE_ALIGNED _ZdlPvSt11align_val_t c"_ZdlPvSt11align_val_t" (align: usize);
    DELETE_ARRAY_ALIGNED _ZdaPvSt11align_val_t c"_ZdaPvSt11align_val_t" (align: usize);
    DELETE_SIZED_ALIGNED _ZdlPvmSt11align_val_t c"_ZdlPvmSt11align_val_t" (bytes: usize, align: usize);
    DELETE_ARRAY_SIZED_ALIGNED _ZdaPvmSt11align_val_t c"_ZdaPvmSt11align_val_t" (bytes: usize, align: usize);
    DELETE_ALIGNED_NOTHROW _ZdlPvSt11align_val_tRKSt9nothrow_t c"_ZdlPvSt11align_val_tRKSt9nothrow_t"
        (align: usize, nothrow: Ptr);
    DELETE_ARRAY_ALIGNED_NOTHROW _ZdaPvSt11align_val_tRKSt9nothrow_t c"_ZdaPvSt11align_val_tRKSt9nothrow_t"
        (align: usize, nothrow: Ptr);
}
