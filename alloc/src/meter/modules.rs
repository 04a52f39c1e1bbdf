//! The loaded objects that frames lie in, so that a reader can name functions of one that is gone by then.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use abi::{MODULE_PATH_BYTES, Module, SectionKind};

use super::map;

static USED: AtomicU32 = AtomicU32::new(0);
/// One thread at a time adds; another that meets it leaves the frames to the next new stack.
static ADDING: AtomicBool = AtomicBool::new(false);

/// In a forked child: whoever was adding is not there.
pub(crate) fn forked() {
    ADDING.store(false, Release);
}

struct Search {
    address: u64,
    found: Option<Module>,
}

/// Makes sure that the objects of these frames have rows.
pub(crate) fn note(frames: &[u64], now_ns: u64) {
    if frames.iter().all(|address| is_known(*address)) || ADDING.swap(true, Acquire) {
        return;
    }
    for address in frames {
        if !is_known(*address) {
            add(*address, now_ns);
        }
    }
    ADDING.store(false, Release);
}

fn is_known(address: u64) -> bool {
    let used = (USED.load(Acquire) as usize).min(map::MODULES);
    (0..used).any(|at| {
        let row = map::row_at::<Module>(SectionKind::Modules, at);
        // SAFETY: rows below USED are written for good.
        let (start, end) = unsafe { ((*row).start, (*row).end) };
        (start..end).contains(&address)
    })
}

fn add(address: u64, now_ns: u64) {
    let mut search = Search {
        address,
        found: None,
    };
    // SAFETY: `visit` takes `search` for what it is, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let Some(found) = search.found else { return };
    let at = USED.load(Relaxed) as usize;
    if at >= map::MODULES {
        map::counters().modules_dropped.fetch_add(1, Relaxed);
        return;
    }
    // SAFETY: only the thread that holds ADDING writes rows at or past USED.
    unsafe {
        map::row_at::<Module>(SectionKind::Modules, at).write(Module {
            first_ns: now_ns,
            ..found
        })
    };
    USED.store(at as u32 + 1, Release);
    map::used(SectionKind::Modules, at as u32 + 1);
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader's own structure, and the pointer given to it.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
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
    let end = loads()
        .map(|header| first(header) + header.p_memsz)
        .max()
        .unwrap_or(0);
    if !(start..end).contains(&search.address) {
        return 0;
    }
    let mut module = Module {
        start,
        end,
        bias: info.dlpi_addr,
        first_ns: 0,
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
    search.found = Some(module);
    1
}
