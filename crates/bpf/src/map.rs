//! Maps shared with the kernel: values by a key, numbers, a ring of records. Their shapes are the object's.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytemuck::{AnyBitPattern, Pod};

use crate::kernel::bpf_number;
use crate::object::{Object, Shape};

const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT_KEY: u32 = 4;
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PER_CPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const RINGBUF: u32 = 27;

#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element<K, T>(command: u32, fd: &OwnedFd, key: *const K, value: *mut T) -> io::Result<()> {
    flagged(command, fd, key, value, 0)
}

fn flagged<K, T>(
    command: u32,
    fd: &OwnedFd,
    key: *const K,
    value: *mut T,
    flags: u64,
) -> io::Result<()> {
    let attr = Element {
        map_fd: fd.as_raw_fd() as u32,
        padding: 0,
        key: key as u64,
        value: value as u64,
        flags,
    };
    bpf_number(command, &attr).map(drop)
}

/// Values by a key.
pub struct Hash<K, V> {
    fd: Arc<OwnedFd>,
    of: PhantomData<(K, V)>,
}

impl<K: Pod, V: Pod> Hash<K, V> {
    /// # Errors
    /// See [`Object::create`].
    pub fn create(object: &mut Object, name: &str, most: u32) -> io::Result<Self> {
        let fd = object.create(name, Shape::of::<K, V>(HASH), Some(most))?;
        Ok(Hash {
            fd,
            of: PhantomData,
        })
    }

    /// One that forgets what was used longest ago when it is full.
    ///
    /// # Errors
    /// See [`Object::create`].
    pub fn create_lru(object: &mut Object, name: &str, most: u32) -> io::Result<Self> {
        let fd = object.create(name, Shape::of::<K, V>(LRU_HASH), Some(most))?;
        Ok(Hash {
            fd,
            of: PhantomData,
        })
    }

    /// In place of one that is there already. Without room it is left out.
    pub fn put(&self, key: K, mut value: V) {
        let _ = element(MAP_UPDATE, &self.fd, &key, &mut value);
    }

    /// One that is there already is left as it is.
    ///
    /// # Errors
    /// There is no room.
    pub fn insert(&self, key: K, mut value: V) -> io::Result<()> {
        const NO_EXIST: u64 = 1;
        match flagged(MAP_UPDATE, &self.fd, &key, &mut value, NO_EXIST) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    pub fn remove(&self, key: K) {
        // Not there is as good as gone.
        let _ = element(MAP_DELETE, &self.fd, &key, std::ptr::null_mut::<V>());
    }

    pub fn get(&self, key: K) -> Option<V> {
        let mut value = V::zeroed();
        element(MAP_LOOKUP, &self.fd, &key, &mut value).ok()?;
        Some(value)
    }

    /// Removes all; no program runs that puts more in.
    pub fn clear(&self) {
        let mut first = K::zeroed();
        // After no key the first one is next.
        while element(MAP_NEXT_KEY, &self.fd, std::ptr::null::<K>(), &mut first).is_ok() {
            if element(MAP_DELETE, &self.fd, &first, std::ptr::null_mut::<V>()).is_err() {
                return;
            }
        }
    }
}

/// One value of each CPU's own.
pub struct PerCpu<V> {
    fd: Arc<OwnedFd>,
    cpus: usize,
    of: PhantomData<V>,
}

impl<V: Pod> PerCpu<V> {
    /// The size of the value is a multiple of 8 bytes: the kernel rounds it up.
    ///
    /// # Errors
    /// See [`Object::create`].
    pub fn create(object: &mut Object, name: &str) -> io::Result<PerCpu<V>> {
        const { assert!(size_of::<V>().is_multiple_of(8)) };
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let last = cpus.trim().rsplit(['-', ',']).next().unwrap_or("");
        let cpus = last.parse::<usize>().map_err(io::Error::other)? + 1;
        let fd = object.create(name, Shape::of::<u32, V>(PER_CPU_ARRAY), None)?;
        Ok(PerCpu {
            fd,
            cpus,
            of: PhantomData,
        })
    }

    /// One of its numbers, over all CPUs.
    pub fn sum(&self, number: impl Fn(&V) -> u64) -> u64 {
        let mut values = vec![V::zeroed(); self.cpus];
        let _ = element(MAP_LOOKUP, &self.fd, &0u32, values.as_mut_ptr());
        values
            .iter()
            .fold(0, |sum, of| sum.wrapping_add(number(of)))
    }
}

/// Values by a number, which the programs and we share.
pub struct Array<V = u64> {
    fd: Arc<OwnedFd>,
    of: PhantomData<V>,
}

impl<V: Pod> Array<V> {
    /// # Errors
    /// See [`Object::create`].
    pub fn create(object: &mut Object, name: &str) -> io::Result<Array<V>> {
        let fd = object.create(name, Shape::of::<u32, V>(ARRAY), None)?;
        Ok(Array {
            fd,
            of: PhantomData,
        })
    }

    pub fn read(&self, at: u32) -> V {
        let mut value = V::zeroed();
        let _ = element(MAP_LOOKUP, &self.fd, &at, &mut value);
        value
    }

    pub fn write(&self, at: u32, mut value: V) {
        let _ = element(MAP_UPDATE, &self.fd, &at, &mut value);
    }
}

/// The structure that a record begins with, and what follows it; `None`: it is cut.
pub fn begins_with<T: AnyBitPattern>(record: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = record.split_at_checked(size_of::<T>())?;
    Some((bytemuck::pod_read_unaligned(head), rest))
}

/// The kernel's ring buffer map, read in place: one page for our position, one for the kernel's,
/// then the data, mapped twice in a row so that no record is ever cut.
pub struct Ring {
    _fd: Arc<OwnedFd>,
    ours: *mut libc::c_void,
    kernels: *mut libc::c_void,
    bytes: usize,
    page: usize,
}

// SAFETY: the mappings are the value's own, and are touched through it alone.
unsafe impl Send for Ring {}

impl Ring {
    /// # Errors
    /// See [`Object::create`]; `bytes` is a power of two, and a multiple of the page size.
    pub fn create(object: &mut Object, name: &str, bytes: u32) -> io::Result<Ring> {
        let fd = object.create(name, Shape::of::<(), ()>(RINGBUF), Some(bytes))?;
        let page = rustix::param::page_size();
        let bytes = bytes as usize;
        let ours = map(&fd, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let kernels = map(&fd, page + 2 * bytes, libc::PROT_READ, page)?;
        Ok(Ring {
            _fd: fd,
            ours,
            kernels,
            bytes,
            page,
        })
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
