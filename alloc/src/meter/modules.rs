//! The loaded objects that frames lie in, as the loader lists them.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::*};

use abi::{MODULE_PATH_BYTES, Module};

use super::sampling::{Meter, counter};

/// One thread at a time adds; another that meets it leaves the frames to the next new stack.
static ADDING: AtomicBool = AtomicBool::new(false);

/// In a forked child: a thread that was adding is not there.
pub(crate) fn forked() {
    ADDING.store(false, Release);
}

struct Search<'a> {
    meter: &'a Meter,
    frames: &'a [u64],
    now_ns: u64,
}

/// Makes sure that the objects of these frames have rows.
pub(crate) fn note(meter: &Meter, frames: &[u64], now_ns: u64) {
    let is_known = |address: &u64| meter.modules.hold(*address);
    if frames.iter().all(is_known) || ADDING.swap(true, Acquire) {
        return;
    }
    let mut search = Search {
        meter,
        frames,
        now_ns,
    };
    // SAFETY: `visit` takes `search` for what it is, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    ADDING.store(false, Release);
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader's own structure, and the pointer given to it.
    let (info, search) = unsafe { (&*info, &*search.cast::<Search>()) };
    // SAFETY: so many headers are there.
    let headers =
        unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loads = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let first = |header: &libc::Elf64_Phdr| info.dlpi_addr + header.p_vaddr;
    let start = loads().map(first).min().unwrap_or(0);
    let end = loads().map(|load| first(load) + load.p_memsz).max();
    let end = end.unwrap_or(0);
    let modules = &search.meter.modules;
    let is_missing = |at: &u64| (start..end).contains(at) && !modules.hold(*at);
    if !search.frames.iter().any(is_missing) {
        return 0;
    }
    let mut module = Module {
        start,
        end,
        bias: info.dlpi_addr,
        first_ns: search.now_ns,
        gone_ns: 0,
        path_bytes: 0,
        reserved: 0,
        path: [0; MODULE_PATH_BYTES],
    };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names end with NUL and stay while the object does.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let kept = &path[path.len().saturating_sub(MODULE_PATH_BYTES)..];
        module.path[..kept.len()].copy_from_slice(kept);
        module.path_bytes = kept.len() as u32;
    }
    // SAFETY: only the thread that holds ADDING writes the section.
    if !unsafe { modules.there(&module) } {
        counter!(search.meter, modules_dropped).fetch_add(1, Relaxed);
    }
    0
}
