//! Is memory readable? Asked of the kernel, so that a wrong frame pointer costs a lost stack and
//! not the process.

const PAGE: u64 = abi::PAGE_BYTES as u64;

/// Farthest that a stack is read from where unwinding began.
const STACK_BYTES_MAX: u64 = 8 << 20;

/// True when the eight bytes at `address` can be read. `rt_sigprocmask` with an impossible `how`
/// reads the set and changes nothing: EFAULT says unreadable, EINVAL readable. It is allowed in
/// every sandbox that runs a C library.
pub fn is_readable(address: u64) -> bool {
    if !(PAGE..=(1 << 56)).contains(&address) {
        return false;
    }
    let none: *mut u64 = std::ptr::null_mut();
    // SAFETY: `how` -1 is refused before anything is changed; the kernel checks the address.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, -1, address, none, 8usize) };
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() == libc::EINVAL }
}

/// True when every page of `[start, start + bytes)` can be read; at most 4,096 pages are asked.
pub fn is_range_readable(start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes) else {
        return false;
    };
    let first = start & !(PAGE - 1);
    let pages = (end - first).div_ceil(PAGE);
    pages <= 4096 && (0..pages).all(|page| is_readable((first + page * PAGE).max(start & !7)))
}

/// Reads words of a stack that grows down from its base: upwards only, page by page checked once.
pub struct StackReader {
    lowest: u64,
    checked_from: u64,
    checked_to: u64,
}

impl StackReader {
    /// Words from `sp` upwards.
    pub fn from(sp: u64) -> StackReader {
        StackReader {
            lowest: sp & !7,
            checked_from: 0,
            checked_to: 0,
        }
    }

    /// The word at `address`, if it lies on the stack and is there.
    pub fn word(&mut self, address: u64) -> Result<u64, ()> {
        let on_stack = address >= self.lowest && address - self.lowest < STACK_BYTES_MAX;
        if !on_stack || !address.is_multiple_of(8) || !self.check_page(address & !(PAGE - 1)) {
            return Err(());
        }
        // SAFETY: the kernel has just read this page; a stack that is being unwound is not unmapped
        // meanwhile.
        Ok(unsafe { (address as *const u64).read_volatile() })
    }

    fn check_page(&mut self, page: u64) -> bool {
        if (self.checked_from..self.checked_to).contains(&page) {
            return true;
        }
        if !is_readable(page) {
            return false;
        }
        if page == self.checked_to {
            self.checked_to += PAGE;
        } else {
            (self.checked_from, self.checked_to) = (page, page + PAGE);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_mapped_from_unmapped() {
        // SAFETY: a fresh mapping of two pages, the second made unreadable.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                8192,
                3,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            libc::mprotect(start.byte_add(4096), 4096, libc::PROT_NONE);
            start as u64
        };
        assert!(is_readable(start) && is_range_readable(start, 4096));
        assert!(!is_readable(start + 4096) && !is_range_readable(start, 4097));
        assert!(!is_readable(0) && !is_readable(8) && !is_readable(u64::MAX - 7));
        let mut stack = StackReader::from(start);
        assert_eq!(stack.word(start + 4088), Ok(0));
        assert_eq!(stack.word(start + 4096), Err(()));
        assert_eq!(stack.word(start + 1), Err(()), "not aligned");
        assert_eq!(stack.word(start - 8), Err(()), "below the stack pointer");
        // SAFETY: the test's own mapping.
        unsafe { libc::munmap(start as *mut libc::c_void, 8192) };
    }
}
