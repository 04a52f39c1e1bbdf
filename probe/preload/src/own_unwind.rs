//! `_dl_find_object` for the unwinder that is linked into this library (GCC's libgcc_eh, see build.rs). It unwinds this
//! library's own panics alone, so this library is all that it has to find: the C library's function of that name would
//! make glibc 2.35 a condition, and on an older one the loader ends every program that the probe is preloaded into.

use std::ffi::{c_int, c_ulonglong, c_void};

/// `struct dl_find_object` of glibc's `bits/dl_find_object.h`, on architectures without a base of data.
#[repr(C)]
pub struct Found {
    flags: c_ulonglong,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *mut c_void,
    eh_frame: *mut c_void,
    reserved: [c_ulonglong; 7],
}

unsafe extern "C" {
    /// The linker's: the first byte of this library.
    safe static __ehdr_start: libc::Elf64_Ehdr;
}

// Hidden: the program's unwinder finds the C library's.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl _dl_find_object",
    ".hidden _dl_find_object",
    ".type _dl_find_object, @function",
    "_dl_find_object:",
    "jmp {find}",
    find = sym find,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl _dl_find_object",
    ".hidden _dl_find_object",
    ".type _dl_find_object, %function",
    "_dl_find_object:",
    "b {find}",
    find = sym find,
);

/// 0, and where the unwind data of `address` is; -1 outside of this library.
///
/// # Safety
/// `found` can be written.
unsafe extern "C" fn find(address: *const c_void, found: *mut Found) -> c_int {
    let base = &raw const __ehdr_start as usize;
    // SAFETY: the headers that the loader mapped this library by; they are mapped as long as its code.
    let headers = unsafe {
        let first = (base + __ehdr_start.e_phoff as usize) as *const libc::Elf64_Phdr;
        std::slice::from_raw_parts(first, usize::from(__ehdr_start.e_phnum))
    };
    let at = |header: &libc::Elf64_Phdr| base + header.p_vaddr as usize;
    let end = |header: &libc::Elf64_Phdr| at(header) + header.p_memsz as usize;
    let loaded = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let unwind_data = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    let map_end = loaded().map(end).max().unwrap_or(base);
    let Some(unwind_data) = unwind_data.filter(|_| (base..map_end).contains(&(address as usize)))
    else {
        return -1;
    };
    let own = Found {
        flags: 0,
        map_start: base as *mut c_void,
        map_end: map_end as *mut c_void,
        link_map: std::ptr::null_mut(),
        eh_frame: at(unwind_data) as *mut c_void,
        reserved: [0; 7],
    };
    // SAFETY: by the caller.
    unsafe { found.write(own) };
    0
}
