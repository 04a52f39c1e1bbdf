//! Maps shared with the kernel: values by a number, numbers, a ring of records.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::kernel::{bpf, bpf_number};

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT_KEY: u32 = 4;
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PER_CPU_ARRAY: u32 = 6;
const RINGBUF: u32 = 27;

#[repr(C)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    rest: [u32; 13],
}

fn create(map_type: u32, key_size: u32, value_size: u32, max_entries: u32) -> io::Result<OwnedFd> {
    let attr = Create {
        map_type,
        key_size,
        value_size,
        max_entries,
        map_flags: 0,
        rest: [0; 13],
    };
    bpf(MAP_CREATE, &attr)
}

#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element<K, T>(command: u32, fd: &OwnedFd, key: &K, value: *mut T) -> io::Result<()> {
    flagged(command, fd, key, value, 0)
}

fn flagged<K, T>(command: u32, fd: &OwnedFd, key: &K, value: *mut T, flags: u64) -> io::Result<()> {
    let attr = Element {
        map_fd: fd.as_raw_fd() as u32,
        padding: 0,
        key: std::ptr::from_ref(key) as u64,
        value: value as u64,
        flags,
    };
    bpf_number(command, &attr).map(drop)
}

/// Values of `BYTES` by a number.
pub struct Hash<const BYTES: usize> {
    fd: OwnedFd,
}

impl<const BYTES: usize> Hash<BYTES> {
    pub fn create(most: u32) -> io::Result<Self> {
        Ok(Hash {
            fd: create(HASH, 4, BYTES as u32, most)?,
        })
    }

    /// One that is there already is left as it is.
    pub fn insert(&self, key: u32, mut value: [u8; BYTES]) -> io::Result<()> {
        const NO_EXIST: u64 = 1;
        match flagged(MAP_UPDATE, &self.fd, &key, &mut value, NO_EXIST) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    pub fn remove(&self, key: u32) {
        // Not there is as good as gone.
        let _ = element(MAP_DELETE, &self.fd, &key, std::ptr::null_mut::<u64>());
    }

    pub fn get(&self, key: u32) -> Option<[u8; BYTES]> {
        let mut value = [0u8; BYTES];
        element(MAP_LOOKUP, &self.fd, &key, &mut value).ok()?;
        Some(value)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the programs keep of a thread, for themselves alone.
pub struct ByThread {
    fd: OwnedFd,
}

impl ByThread {
    pub fn create(value_bytes: u32, most: u32) -> io::Result<ByThread> {
        Ok(ByThread {
            fd: create(HASH, 4, value_bytes, most)?,
        })
    }

    /// Of all threads; no program runs that puts more in.
    pub fn clear(&self) {
        // After a key that is not there the first one is next.
        let (none, mut first) = (u32::MAX, 0u32);
        while element(MAP_NEXT_KEY, &self.fd, &none, &mut first).is_ok() {
            if element(MAP_DELETE, &self.fd, &first, std::ptr::null_mut::<u64>()).is_err() {
                return;
            }
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Addresses that the programs put in and take out.
pub struct Addresses {
    fd: OwnedFd,
}

impl Addresses {
    pub fn create(most: u32) -> io::Result<Addresses> {
        Ok(Addresses {
            fd: create(HASH, 8, 8, most)?,
        })
    }

    pub fn has(&self, address: u64) -> bool {
        let mut value = 0u64;
        element(MAP_LOOKUP, &self.fd, &address, &mut value).is_ok()
    }

    pub fn remove(&self, address: u64) {
        // Not there is as good as gone.
        let _ = element(MAP_DELETE, &self.fd, &address, std::ptr::null_mut::<u64>());
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A few numbers of each CPU's own.
pub struct PerCpu<const N: usize> {
    fd: OwnedFd,
    cpus: usize,
}

impl<const N: usize> PerCpu<N> {
    pub fn create() -> io::Result<PerCpu<N>> {
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let last = cpus.trim().rsplit(['-', ',']).next().unwrap_or("");
        let cpus = last.parse::<usize>().map_err(io::Error::other)? + 1;
        Ok(PerCpu {
            fd: create(PER_CPU_ARRAY, 4, 8 * N as u32, 1)?,
            cpus,
        })
    }

    /// One of the numbers, over all CPUs.
    pub fn sum(&self, at: usize) -> u64 {
        let mut values = vec![[0u64; N]; self.cpus];
        let _ = element(MAP_LOOKUP, &self.fd, &0u32, values.as_mut_ptr());
        values.iter().fold(0, |sum, of| sum.wrapping_add(of[at]))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Some numbers that the programs and we share.
pub struct Counter {
    fd: OwnedFd,
}

impl Counter {
    pub fn create(numbers: u32) -> io::Result<Counter> {
        Ok(Counter {
            fd: create(ARRAY, 4, 8, numbers)?,
        })
    }

    pub fn read(&self) -> u64 {
        let mut value = 0;
        let _ = element(MAP_LOOKUP, &self.fd, &0u32, &mut value);
        value
    }

    pub fn write(&self, at: u32, mut value: u64) {
        let _ = element(MAP_UPDATE, &self.fd, &at, &mut value);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel's ring buffer map, read in place: one page for our position, one for the kernel's,
/// then the data, mapped twice in a row so that no record is ever cut.
pub struct Ring {
    fd: OwnedFd,
    ours: *mut libc::c_void,
    kernels: *mut libc::c_void,
    bytes: usize,
    page: usize,
}

// SAFETY: the mappings are the value's own, and are touched through it alone.
unsafe impl Send for Ring {}

impl Ring {
    pub fn create(bytes: u32) -> io::Result<Ring> {
        let fd = create(RINGBUF, 0, 0, bytes)?;
        let page = rustix::param::page_size();
        let bytes = bytes as usize;
        let ours = map(&fd, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let kernels = map(&fd, page + 2 * bytes, libc::PROT_READ, page)?;
        Ok(Ring {
            fd,
            ours,
            kernels,
            bytes,
            page,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        const BUSY: u32 = 1 << 31;
        const DISCARDED: u32 = 1 << 30;
        const HEADER: u64 = 8;
        // SAFETY: both pages are mapped for the life of self and hold one counter each at their start.
        let (consumed, produced) = unsafe {
            (
                &*self.ours.cast::<AtomicU64>(),
                &*self.kernels.cast::<AtomicU64>(),
            )
        };
        let end = produced.load(Ordering::Acquire);
        let mut at = consumed.load(Ordering::Relaxed);
        while at < end {
            let place = self.page + (at as usize & (self.bytes - 1));
            // SAFETY: the data lies behind the kernel's page, twice, so a record within it is whole.
            let length = unsafe {
                let header = self.kernels.cast::<u8>().add(place).cast::<AtomicU32>();
                (*header).load(Ordering::Acquire)
            };
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: as above; the kernel does not touch the record until we give it back.
                take(unsafe {
                    let data = self.kernels.cast::<u8>().add(place + HEADER as usize);
                    std::slice::from_raw_parts(data, bytes)
                });
            }
            at += HEADER + (bytes as u64).next_multiple_of(8);
            consumed.store(at, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `create` with these lengths, unmapped once.
        unsafe {
            libc::munmap(self.ours, self.page);
            libc::munmap(self.kernels, self.page + 2 * self.bytes);
        }
    }
}

fn map(fd: &OwnedFd, bytes: usize, access: i32, offset: usize) -> io::Result<*mut libc::c_void> {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(place)
}
