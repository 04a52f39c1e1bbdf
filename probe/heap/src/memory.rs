//! Reserving the mapping and giving it a name. No file system, no shared memory: nothing to fill
//! up, delete or close.

use std::ffi::{CStr, c_void};

use abi::PAGE_BYTES;

/// Name of the mapping, NUL-terminated.
const NAME: &CStr = c"highwater-probe";

/// Of the file that gives a name where anonymous memory cannot have one: its length, and the seals themselves.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

const PR_SET_VMA: libc::c_int = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: libc::c_ulong = 0;

/// Memory that is private to the process: a forked child has its own copy of it from then on.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// First byte; page-aligned and zero.
    pub start: *mut u8,
    /// Length, whole pages. One page behind it cannot be touched.
    pub bytes: usize,
}

/// The name under which /proc/PID/maps shows the first page.
pub fn name_of_mapping() -> &'static CStr {
    NAME
}

impl Reserved {
    /// Reserves `bytes` (whole pages), or `None` when the kernel refuses. Pages are taken when they
    /// are first written.
    pub fn new(bytes: usize) -> Option<Reserved> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping wherever the kernel likes; the last page becomes the guard that
        // keeps it apart.
        unsafe {
            let start = map(std::ptr::null_mut(), bytes + PAGE_BYTES, flags, -1)?;
            libc::mprotect(start.byte_add(bytes), PAGE_BYTES, libc::PROT_NONE);
            // Otherwise the first write may cost 2 MiB.
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            let reserved = Reserved {
                start: start.cast(),
                bytes,
            };
            if !reserved.name_anonymous() {
                reserved.name_first_page();
            }
            Some(reserved)
        }
    }

    /// Makes a page unreadable: the end of a stack. A kernel with larger pages would take more, so there it does
    /// nothing.
    ///
    /// # Safety
    /// `at` is the offset of a page that nothing else uses.
    pub unsafe fn guard(&self, at: usize) {
        // SAFETY: a number of the C library; by the caller a page of this mapping that nothing uses.
        unsafe {
            if libc::sysconf(libc::_SC_PAGESIZE) == PAGE_BYTES as libc::c_long {
                libc::mprotect(self.start.add(at).cast(), PAGE_BYTES, libc::PROT_NONE);
            }
        }
    }

    /// Keeps the mapping where it is, as it is: a program that unmaps or protects what it does not know would
    /// fault in its next malloc. Before Linux 6.10 nothing does. Once all guards are set.
    pub fn seal(&self) {
        // SAFETY: changes nothing but what the kernel will allow later.
        unsafe { libc::syscall(libc::SYS_mseal, self.start, self.bytes, 0) };
    }

    /// Linux 5.17 with CONFIG_ANON_VMA_NAME.
    fn name_anonymous(&self) -> bool {
        let (start, bytes) = (self.start as libc::c_ulong, self.bytes as libc::c_ulong);
        // SAFETY: names our own mapping, or fails.
        unsafe {
            libc::prctl(
                PR_SET_VMA,
                PR_SET_VMA_ANON_NAME,
                start,
                bytes,
                NAME.as_ptr(),
            ) == 0
        }
    }

    /// Elsewhere the first page becomes a private mapping of a nameless file, whose title maps
    /// shows. Only that page: each page of such a mapping is held twice once it is written. Without
    /// success it stays without a name, and the anchor leads to it.
    fn name_first_page(&self) {
        // SAFETY: the descriptor is ours and closed at once; the page replaced is our own and still
        // untouched.
        unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let flags = flags as libc::c_ulong;
            let file = libc::syscall(libc::SYS_memfd_create, NAME.as_ptr(), flags) as libc::c_int;
            if file < 0 {
                return;
            }
            // Sealed, so that nobody who finds the file by /proc can cut it short under the process.
            let is_whole = libc::syscall(libc::SYS_ftruncate, file, PAGE_BYTES) == 0
                && libc::syscall(libc::SYS_fcntl, file, libc::F_ADD_SEALS, SEALS) == 0;
            if is_whole {
                map(
                    self.start.cast(),
                    PAGE_BYTES,
                    libc::MAP_PRIVATE | libc::MAP_FIXED,
                    file,
                );
            }
            libc::syscall(libc::SYS_close, file);
        }
    }
}

/// mmap as a system call: the C library's name is the probe's own export.
unsafe fn map(
    at: *mut c_void,
    bytes: usize,
    flags: libc::c_int,
    file: libc::c_int,
) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: by the caller: where a place is fixed it is the caller's own.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, bytes, access, flags, file, 0usize) };
    (mapped != -1).then_some(mapped as *mut c_void)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_finds_it_by_name_and_it_can_be_written() {
        let reserved = Reserved::new(16 * PAGE_BYTES).unwrap();
        // SAFETY: within the mapping.
        unsafe { reserved.start.add(16 * PAGE_BYTES - 1).write(1) };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        // Other tests of this process have mappings of their own.
        let found = abi::find_headers(&maps).any(|range| range.start == reserved.start as u64);
        assert!(found, "{maps}");
    }

    #[test]
    fn the_page_behind_is_a_guard() {
        let reserved = Reserved::new(4 * PAGE_BYTES).unwrap();
        let behind = reserved.start as u64 + 4 * PAGE_BYTES as u64;
        assert!(!crate::readable::is_readable(behind));
        assert!(crate::readable::is_readable(behind - 8));
    }
}
