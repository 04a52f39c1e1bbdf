//! The subject's memory, read without stopping it.

use std::io;

#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub pid: u32,
}

impl Memory {
    /// Reads up to `into.len()` bytes from `address`; how many came.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: into.len(),
        };
        // SAFETY: the local buffer is ours; the kernel checks the remote one.
        let count =
            unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    pub fn word(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        let count = self.read(address, &mut bytes).ok()?;
        (count == 4).then(|| u32::from_ne_bytes(bytes))
    }

    pub fn long(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let count = self.read(address, &mut bytes).ok()?;
        (count == 8).then(|| u64::from_ne_bytes(bytes))
    }

    /// Up to `most` bytes from `address` on, page by page as far as there are pages.
    pub fn stretch(&self, address: u64, most: usize) -> Vec<u8> {
        let page = rustix::param::page_size();
        let mut bytes = vec![0; most];
        let mut have = self.read(address, &mut bytes).unwrap_or(0);
        while have == 0 && bytes.len() > page {
            // The end of the stack is nearer than that: half as much.
            let half = bytes.len() / 2;
            bytes.truncate(half);
            have = self.read(address, &mut bytes).unwrap_or(0);
        }
        bytes.truncate(have);
        bytes
    }
}

/// A piece of the subject's memory, read at once.
#[derive(Default)]
pub struct Block {
    start: u64,
    bytes: Vec<u8>,
}

/// Most stacks of 256 copied bytes end within it.
const BLOCK_BYTES: usize = 2 * 1024;

impl Block {
    pub fn word(&mut self, memory: Memory, address: u64) -> Option<u64> {
        if let Some(word) = self.held(address) {
            return Some(word);
        }
        self.bytes.resize(BLOCK_BYTES, 0);
        // A block that runs over the end of a stack gives as much as there is.
        let have = memory.read(address, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(have);
        self.start = address;
        self.held(address)
    }

    fn held(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}
