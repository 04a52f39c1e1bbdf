//! perf's ring buffer of one CPU, and the records that we ask for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as perf;

pub use symbols::registers::Registers;

/// Registers asked for with a sample, in the kernel's order.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8; // BP, SP, IP
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32; // X29, LR, SP, PC

/// What each sample holds; [`parse`] relies on it.
pub const SAMPLE: u32 = perf::PERF_SAMPLE_TID
    | perf::PERF_SAMPLE_TIME
    | perf::PERF_SAMPLE_ADDR
    | perf::PERF_SAMPLE_CPU
    | perf::PERF_SAMPLE_RAW
    | perf::PERF_SAMPLE_REGS_USER
    | perf::PERF_SAMPLE_STACK_USER;

#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    In {
        at_ns: u64,
        tid: u32,
    },
    Out {
        at_ns: u64,
        tid: u32,
        preempted: bool,
    },
    /// The thread ended; its leaving the CPU for the last time is not told.
    Exit {
        at_ns: u64,
        tid: u32,
    },
    Sample(Sample<'a>),
    Lost(u64),
}

impl Record<'_> {
    /// When; what is lost has no time.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Record::In { at_ns, .. } | Record::Out { at_ns, .. } | Record::Exit { at_ns, .. } => {
                Some(*at_ns)
            }
            Record::Sample(sample) => Some(sample.at_ns),
            Record::Lost(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    pub at_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// Of a major fault; 0 for a sample of the clock.
    pub address: u64,
    /// What a tracepoint writes; a few zeros for other events.
    pub raw: &'a [u8],
    pub user: Option<Registers>,
    pub stack: &'a [u8],
}

/// Reads one record, header included. Kinds that were not asked for are `None`.
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    const OUT: u16 = perf::PERF_RECORD_MISC_SWITCH_OUT as u16;
    const PREEMPT: u16 = perf::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT as u16;
    let mut words = Words::of(bytes);
    let kind = words.half()?;
    let misc = (words.half()? & 0xffff) as u16;
    match kind {
        perf::PERF_RECORD_SWITCH => {
            let (_pid, tid) = (words.half()?, words.half()?);
            let at_ns = words.word()?;
            Some(match misc & OUT {
                0 => Record::In { at_ns, tid },
                _ => Record::Out {
                    at_ns,
                    tid,
                    preempted: misc & PREEMPT != 0,
                },
            })
        }
        perf::PERF_RECORD_EXIT => {
            let [_pid, _parent, tid, _by] = [(); 4].map(|()| words.half());
            let (at_ns, tid) = (words.word()?, tid?);
            Some(Record::Exit { at_ns, tid })
        }
        perf::PERF_RECORD_LOST => lost(bytes).map(Record::Lost),
        perf::PERF_RECORD_SAMPLE => parse_sample(words).map(Record::Sample),
        _ => None,
    }
}

/// How many records did not fit, where a record says that.
pub fn lost(bytes: &[u8]) -> Option<u64> {
    let mut words = Words::of(bytes);
    (words.half()? == perf::PERF_RECORD_LOST).then_some(())?;
    words.half()?;
    words.word()?;
    words.word()
}

fn parse_sample(mut words: Words<'_>) -> Option<Sample<'_>> {
    let (pid, tid) = (words.half()?, words.half()?);
    let (at_ns, address) = (words.word()?, words.word()?);
    words.word()?;
    let raw_bytes = words.half()? as usize;
    let raw = words.take(raw_bytes)?;
    let abi = words.word()?;
    let user = if abi == 0 {
        None
    } else {
        let fp = words.word()?;
        let lr = if cfg!(target_arch = "aarch64") {
            words.word()?
        } else {
            0
        };
        let (sp, pc) = (words.word()?, words.word()?);
        Some(Registers { pc, sp, fp, lr })
    };
    let size = words.word()? as usize;
    let stack = if size == 0 {
        &[][..]
    } else {
        let all = words.take(size)?;
        let used = words.word()? as usize;
        all.get(..used).unwrap_or(all)
    };
    Some(Sample {
        at_ns,
        pid,
        tid,
        address,
        raw,
        user,
        stack,
    })
}

/// Reads the fields of a record one after the other.
pub struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    pub fn of(bytes: &'a [u8]) -> Words<'a> {
        Words { bytes, at: 0 }
    }

    /// Process, thread and time of a sample that carries these first, and the words behind them; `None` for other
    /// records.
    pub fn of_sample(bytes: &'a [u8]) -> Option<(u32, u32, u64, Words<'a>)> {
        let mut words = Words::of(bytes);
        if words.half()? != perf::PERF_RECORD_SAMPLE {
            return None;
        }
        words.half()?;
        let (pid, tid) = (words.half()?, words.half()?);
        let at_ns = words.word()?;
        Some((pid, tid, at_ns, words))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    pub fn half(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    pub fn word(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// No record of ours is as long: with less room than this left, one may have been lost.
const RECORD_MOST_BYTES: u64 = 8 * 1024;

/// The mapped buffer of an event; other events of the same CPU write into it too.
pub struct Ring {
    place: *mut libc::c_void,
    bytes: usize,
    page: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// `pages` is a power of two.
    pub fn map(event: &OwnedFd, pages: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let bytes = pages * page;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            place,
            bytes,
            page,
            scratch: Vec::new(),
        })
    }

    pub fn drain(&mut self, mut take: impl FnMut(Record)) {
        self.drain_bytes(|bytes| {
            if let Some(record) = parse(bytes) {
                take(record);
            }
        });
    }

    /// The next record may not fit.
    pub fn is_full(&self) -> bool {
        let (head, tail) = self.positions();
        let used = head.load(Ordering::Acquire) - tail.load(Ordering::Relaxed);
        used + RECORD_MOST_BYTES > self.bytes as u64
    }

    /// Where the kernel writes next, and what is read already.
    fn positions(&self) -> (&'static AtomicU64, &'static AtomicU64) {
        // SAFETY: the first page is the kernel's perf_event_mmap_page for the life of the mapping, which no caller
        // outlives.
        unsafe {
            let page = self.place.cast::<perf::perf_event_mmap_page>();
            (
                &*(&raw const (*page).data_head).cast::<AtomicU64>(),
                &*(&raw const (*page).data_tail).cast::<AtomicU64>(),
            )
        }
    }

    /// Every record as it lies in the buffer, header included.
    pub fn drain_bytes(&mut self, mut take: impl FnMut(&[u8])) {
        let (head, tail) = self.positions();
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let size = u16::from_ne_bytes([self.byte(at + 6), self.byte(at + 7)]);
            if size < 8 {
                break;
            }
            self.copy(at, usize::from(size));
            take(&self.scratch);
            at += u64::from(size);
            tail.store(at, Ordering::Release);
        }
        tail.store(end, Ordering::Release);
    }

    fn byte(&self, at: u64) -> u8 {
        let place = self.page + (at as usize & (self.bytes - 1));
        // SAFETY: within the mapping by the mask.
        unsafe { *self.place.cast::<u8>().add(place) }
    }

    /// A record may run over the end of the buffer: copied out in two pieces.
    fn copy(&mut self, at: u64, size: usize) {
        let from = at as usize & (self.bytes - 1);
        let first = size.min(self.bytes - from);
        self.scratch.clear();
        for (start, length) in [(from, first), (0, size - first)] {
            // SAFETY: start + length is at most the buffer's size; the kernel writes only past head.
            let piece = unsafe {
                let data = self.place.cast::<u8>().add(self.page + start);
                std::slice::from_raw_parts(data, length)
            };
            self.scratch.extend_from_slice(piece);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once.
        unsafe {
            libc::munmap(self.place, self.page + self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = (8 + 8 * words.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    const IDS: u64 = 42 << 32 | 41;

    #[test]
    fn switches_say_who_and_whether_they_wanted_to() {
        let out = record(14, 0x2000 | 0x4000, &[IDS, 1_000, 3]);
        let (at_ns, tid) = (1_000, 42);
        let preempted = true;
        let expected = Record::Out {
            at_ns,
            tid,
            preempted,
        };
        assert_eq!(parse(&out), Some(expected));
        let back = record(14, 0, &[IDS, 1_000, 3]);
        assert_eq!(parse(&back), Some(Record::In { at_ns, tid }));
        let (process_and_parent, thread_and_parent) = (1 << 32 | 41, 41 << 32 | 42);
        let exit = record(
            4,
            0,
            &[process_and_parent, thread_and_parent, 1_000, IDS, 3],
        );
        assert_eq!(parse(&exit), Some(Record::Exit { at_ns, tid }));
    }

    #[test]
    fn a_record_cut_anywhere_is_no_record() {
        let whole = record(9, 0, &[IDS, 5, 0, 0, 4, 0, 0]);
        assert!(matches!(parse(&whole), Some(Record::Sample(_))));
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None, "{length} bytes");
        }
    }
}
