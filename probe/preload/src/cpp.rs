//! Every form of C++ operator new and delete.
//!
//! Each goes to the same form of the next library. Where that form itself calls malloc (libstdc++'s
//! do, most allocators' do not) it is only forwarded, and counted in malloc ([`crate::forms`]). Without any next
//! library (libstdc++ opened later, out of reach) they are malloc and free.

use crate::c;
use crate::calls::{hand_out, take_back};
use crate::forms::{self, way};
use crate::learning::{delete_by, new_by};
use crate::next::Ptr;
use crate::record::How;

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
        $($form:ident $symbol:ident
            ($($arg:ident: $type:ty),*) align $align:expr, throws $throws:literal;)*
    ) => { $(
        /// # Safety
        /// C++'s contract of this operator.
        #[allow(non_snake_case, reason = "mangled names of C++")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(bytes: usize $(, $arg: $type)*) -> Ptr {
            // SAFETY: an address found by the mangled name is a function of that type; the caller keeps C++'s contract.
            unsafe {
                let next = forms::$form.next();
                if next.is_null() {
                    return without_next(bytes, $align, $throws);
                }
                let next: unsafe extern "C-unwind" fn(usize $(, $type)*) -> Ptr = std::mem::transmute(next);
                match forms::$form.way() {
                    way::COMES_BACK => next(bytes $(, $arg)*),
                    way::DIRECT => hand_out(How::aligned($align), bytes, move || next(bytes $(, $arg)*)),
                    _ => {
                        let how = How::aligned($align);
                        new_by(&forms::$form, how, bytes, move || next(bytes $(, $arg)*))
                    }
                }
            }
        }
    )* };
}

macro_rules! deletes {
    ($($form:ident $symbol:ident ($($arg:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// C++'s contract of this operator.
        #[allow(non_snake_case, reason = "mangled names of C++")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(block: Ptr $(, $arg: $type)*) {
            // SAFETY: as above; without a next operator the block came from malloc.
            unsafe {
                let next = forms::$form.next();
                if next.is_null() {
                    return c::free(block);
                }
                let next: unsafe extern "C" fn(Ptr $(, $type)*) = std::mem::transmute(next);
                match forms::$form.way() {
                    way::COMES_BACK => next(block $(, $arg)*),
                    way::DIRECT => take_back(block, move || next(block $(, $arg)*)),
                    _ => delete_by(&forms::$form, block, move || next(block $(, $arg)*)),
                }
            }
        }
    )* };
}

news! {
    NEW _Znwm () align 0, throws true;
    NEW_ARRAY _Znam () align 0, throws true;
    NEW_NOTHROW _ZnwmRKSt9nothrow_t (nothrow: Ptr) align 0, throws false;
    NEW_ARRAY_NOTHROW _ZnamRKSt9nothrow_t (nothrow: Ptr) align 0, throws false;
    NEW_ALIGNED _ZnwmSt11align_val_t (align: usize) align align, throws true;
    NEW_ARRAY_ALIGNED _ZnamSt11align_val_t (align: usize) align align, throws true;
    NEW_ALIGNED_NOTHROW _ZnwmSt11align_val_tRKSt9nothrow_t
        (align: usize, nothrow: Ptr) align align, throws false;
    NEW_ARRAY_ALIGNED_NOTHROW _ZnamSt11align_val_tRKSt9nothrow_t
        (align: usize, nothrow: Ptr) align align, throws false;
}

deletes! {
    DELETE _ZdlPv ();
    DELETE_ARRAY _ZdaPv ();
    DELETE_SIZED _ZdlPvm (bytes: usize);
    DELETE_ARRAY_SIZED _ZdaPvm (bytes: usize);
    DELETE_NOTHROW _ZdlPvRKSt9nothrow_t (nothrow: Ptr);
    DELETE_ARRAY_NOTHROW _ZdaPvRKSt9nothrow_t (nothrow: Ptr);
    DELETE_ALIGNED _ZdlPvSt11align_val_t (align: usize);
    DELETE_ARRAY_ALIGNED _ZdaPvSt11align_val_t (align: usize);
    DELETE_SIZED_ALIGNED _ZdlPvmSt11align_val_t (bytes: usize, align: usize);
    DELETE_ARRAY_SIZED_ALIGNED _ZdaPvmSt11align_val_t (bytes: usize, align: usize);
    DELETE_ALIGNED_NOTHROW _ZdlPvSt11align_val_tRKSt9nothrow_t
        (align: usize, nothrow: Ptr);
    DELETE_ARRAY_ALIGNED_NOTHROW _ZdaPvSt11align_val_tRKSt9nothrow_t
        (align: usize, nothrow: Ptr);
}
