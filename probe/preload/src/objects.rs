//! dlclose: no object is unmapped while the unwinder reads its tables.
//!
//! dlopen is not exported: it asks who calls it. What the C library closes by itself (conversions of iconv) does not
//! come by here; the unwinder snapshots every address up again before it uses tables.

use std::ffi::c_int;

use crate::life::{self, Stage};
use crate::next::{Ptr, next};

/// # Safety
/// C's contract of dlclose.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlclose(handle: Ptr) -> c_int {
    // The next functions have been looked for then, if any exist.
    let stage = life::stage();
    let _closing = match stage {
        Stage::On(probe) => Some(probe.closing()),
        _ => None,
    };
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { (next().dlclose)(handle) }
}
