//! A chunk of a trace: its header, and the events of one thread behind it.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::event::{self, Before, EVENT_BYTES_MAX, Event};

/// The first four bytes of each chunk.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"HWCK");

/// A thread's first chunk; each further one is four times as large.
pub const CHUNK_BYTES_MIN: u32 = 4 << 10;
pub const CHUNK_BYTES_MAX: u32 = 256 << 10;

/// What a chunk holds.
pub mod kind {
    /// Events of a thread.
    pub const EVENTS: u16 = 1;
    /// Rows of [`super::Sample`].
    pub const SAMPLES: u16 = 2;
    /// What is known of the program: lines `name=value`.
    pub const FACTS: u16 = 3;
    /// Thread ids (u32) that were alive at the last sample.
    pub const ALIVE: u16 = 4;
    /// The recorder's table of live large blocks: of no use to a reader.
    pub const LARGE: u16 = 5;
    /// Rows of [`super::Ended`].
    pub const ENDED: u16 = 6;
}

/// In front of its bytes.
#[repr(C)]
pub struct Chunk {
    /// [`CHUNK_MAGIC`].
    pub magic: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// Which image of the process (exec) wrote it: 1 for the first.
    pub image: u16,
    /// Length with this header: a power of two.
    pub bytes: u32,
    /// Bytes in use, with this header. It moves after what it covers is written.
    pub used: AtomicU32,
    /// Number of the thread in the trace, from 0.
    pub thread: u32,
    /// Its id in the kernel, in the program's pid namespace.
    pub tid: u32,
    /// Number of this chunk among those of the thread, from 0.
    pub sequence: u32,
    /// CRC-32 of what is in use behind this header, once the trace is sealed.
    pub crc: u32,
    /// What the first event's differences are against.
    pub first: Place,
    /// What those of the next event will be.
    pub last: Place,
    /// Name of the thread when the chunk was taken, ended by zero bytes.
    pub name: [u8; 16],
    /// Events in it.
    pub events: u32,
    /// Zero.
    pub reserved: u32,
}

/// [`Before`] as it lies in the file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub ticks: u64,
    pub address: u64,
}

/// Bytes of [`Chunk`].
pub const CHUNK_HEADER_BYTES: u32 = size_of::<Chunk>() as u32;

const _: () = assert!(CHUNK_HEADER_BYTES == 88);

/// One reading of the program's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since [`crate::Header::start_monotonic_ns`].
    pub time_ns: u64,
    /// Resident anonymous, file and shared bytes.
    pub anon_bytes: u64,
    pub file_bytes: u64,
    pub shmem_bytes: u64,
    /// Of the anonymous ones, those in mappings that no allocator makes: variables of the program and its libraries,
    /// stacks. [`UNKNOWN`]: not read this time.
    pub other_bytes: u64,
}

/// A thread that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When it was first missing, since [`crate::Header::start_monotonic_ns`].
    pub time_ns: u64,
    /// Its id in the kernel.
    pub tid: u64,
}

/// [`Sample::other_bytes`] where it was not read.
pub const UNKNOWN: u64 = u64::MAX;

/// Appends an event. False: the chunk is full, nothing was written.
///
/// # Safety
/// A chunk of this thread's alone, of [`Chunk::bytes`] writable bytes.
#[inline(always)]
pub unsafe fn append(chunk: *mut Chunk, ticks: u64, event: Event) -> bool {
    // SAFETY: the caller's chunk; the longest event fits, which is checked before it is written.
    unsafe {
        let used = (*chunk).used.load(Ordering::Relaxed);
        if used + EVENT_BYTES_MAX as u32 > (*chunk).bytes {
            return false;
        }
        let mut before = Before {
            ticks: (*chunk).last.ticks,
            address: (*chunk).last.address,
        };
        let at = chunk.cast::<u8>().add(used as usize);
        let end = event::write(at, &mut before, ticks, event);
        (*chunk).last = Place {
            ticks: before.ticks,
            address: before.address,
        };
        (*chunk).events += 1;
        let end = (end as usize - chunk as usize) as u32;
        (*chunk).used.store(end, Ordering::Release);
        true
    }
}

/// Length of the chunk after one of `bytes`.
pub const fn next_bytes(bytes: u32) -> u32 {
    let next = bytes * 4;
    if next > CHUNK_BYTES_MAX {
        CHUNK_BYTES_MAX
    } else {
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Room([u8; CHUNK_BYTES_MIN as usize]);

    #[test]
    fn a_full_chunk_refuses_and_stays_whole() {
        let mut room = Box::new(Room([0; CHUNK_BYTES_MIN as usize]));
        let chunk = room.0.as_mut_ptr().cast::<Chunk>();
        // SAFETY: a chunk of the test's own.
        unsafe {
            (*chunk).bytes = CHUNK_BYTES_MIN;
            (*chunk).used.store(CHUNK_HEADER_BYTES, Ordering::Relaxed);
            let mut written = 0u32;
            while append(
                chunk,
                u64::from(written) << 40,
                Event::Free {
                    address: u64::from(written) << 30,
                },
            ) {
                written += 1;
            }
            let used = (*chunk).used.load(Ordering::Relaxed);
            assert!(used <= CHUNK_BYTES_MIN && used > CHUNK_BYTES_MIN - EVENT_BYTES_MAX as u32);
            assert_eq!((*chunk).events, written);
            let mut bytes = &room.0[CHUNK_HEADER_BYTES as usize..used as usize];
            let mut before = Before::default();
            for index in 0..written {
                let address = u64::from(index) << 30;
                assert_eq!(
                    event::read(&mut bytes, &mut before),
                    Some(Event::Free { address })
                );
            }
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn chunks_grow_to_their_limit() {
        assert_eq!(
            [4096, 16384, 65536, 262144].map(next_bytes),
            [16384, 65536, 262144, 262144]
        );
    }
}
