//! Gates of a program: places in its `main` where it waits until the runner lets it go on. See `gate` in `trace.c`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Before the first step, in the middle, before the last.
pub const COUNT: u32 = 3;

const PAGE_BYTES: usize = 4096;

/// The page that the runner and the program share.
pub struct Gates {
    page: *mut libc::c_void,
}

impl Gates {
    /// All gates closed, in a new file.
    pub fn new(path: &Path) -> io::Result<Gates> {
        use std::os::unix::fs::PermissionsExt;
        // Not the file of an earlier run: a process that was left may still have it.
        let _ = std::fs::remove_file(path);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o666))?;
        file.set_len(PAGE_BYTES as u64)?;
        // SAFETY: a new mapping of a file that is as long as it.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match page == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Gates { page }),
        }
    }

    /// The last gate that the program came to.
    pub fn reached(&self) -> u32 {
        self.word(0).load(Ordering::SeqCst)
    }

    /// Opens the gates up to this one.
    pub fn open(&self, number: u32) {
        self.word(1).store(number, Ordering::SeqCst);
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: within the page, aligned, and only accessed by atomic operations on both sides.
        unsafe { &*self.page.cast::<AtomicU32>().add(index) }
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        unsafe { libc::munmap(self.page, PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_are_one_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gates");
        let gates = Gates::new(&path).unwrap();
        gates.open(2);
        assert_eq!(gates.reached(), 0);
        assert_eq!(std::fs::read(&path).unwrap()[4..8], 2u32.to_ne_bytes());
    }
}
