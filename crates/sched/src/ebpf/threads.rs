//! What the kernel keeps of each watched thread.

use std::io;
use std::os::fd::BorrowedFd;

use super::record::kept;
use bpf::map::Hash;

/// By thread id.
pub struct Threads(Hash<{ kept::BYTES }>);

impl Threads {
    pub fn create(most: u32) -> io::Result<Threads> {
        Hash::create(most).map(Threads)
    }

    /// From now on watched; off its CPU as far as anybody knows, and whatever comes next of it is told. One that is
    /// watched already is left as it is.
    pub fn insert(&self, tid: u32) -> io::Result<()> {
        let mut value = [0u8; kept::BYTES];
        for at in [kept::SINCE, kept::TOLD] {
            value[at as usize..at as usize + 8].copy_from_slice(&1u64.to_ne_bytes());
        }
        self.0.insert(tid, value)
    }

    pub fn remove(&self, tid: u32) {
        self.0.remove(tid);
    }

    pub fn get(&self, tid: u32) -> Option<[u8; kept::BYTES]> {
        self.0.get(tid)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}
