//! mlockall: the probe's memory counts against the limit of locked memory, and a call that succeeds without the probe
//! would fail. What is the probe's stays unlocked.
//!
//! The kernel refuses mlockall(MCL_CURRENT) where all memory of the process is more than the limit (mlockall in
//! mm/mlock.c). Where it is the probe's share that is too much, the other mappings are locked one by one instead.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heap::Errno;

use crate::next::next;
use crate::{life, recorder};

/// The program has installed a filter of system calls: none is made here but the program's own.
pub static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// # Safety
/// C's contract of mlockall(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    life::stage();
    // SAFETY: the caller's call.
    let result = unsafe { (next().mlockall)(flags) };
    let is_current = flags & libc::MCL_CURRENT != 0;
    let own = own_ranges().filter(|_| is_current && !IS_CONFINED.load(Relaxed));
    let Some(own) = own else {
        return result;
    };
    let saved = Errno::save();
    if heap::is_confined() {
        return result;
    }
    match result {
        0 => own.iter().for_each(unlock),
        _ if last_error() == libc::ENOMEM && lock_others(flags, &own) => {
            drop(saved);
            return 0;
        }
        _ => {}
    }
    result
}

/// What of the process's memory is ours: while it counts, or records.
fn own_ranges() -> Option<[Range<u64>; 2]> {
    let counting = life::probe().map(heap::Probe::own_ranges);
    counting.or_else(recorder::own_ranges)
}

fn last_error() -> c_int {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn unlock(range: &Range<u64>) {
    let bytes = range.end - range.start;
    // SAFETY: whether memory is locked changes nothing of what is in it.
    unsafe { libc::syscall(libc::SYS_munlock, range.start, bytes) };
}

/// Locks every mapping but these. False, and nothing is done, where those are more than the limit too.
fn lock_others(flags: c_int, own: &[Range<u64>; 2]) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let mut bytes = 0;
    let is_read = for_each_other(own, |range| bytes += range.end - range.start);
    // SAFETY: fills one record.
    let is_told = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    if !is_read || !is_told || bytes > limit.rlim_cur {
        return false;
    }
    let later = flags & !libc::MCL_CURRENT;
    // Without MCL_FUTURE an earlier one ends. The locks of now end as well, for a moment.
    let is_set = match later & libc::MCL_FUTURE {
        // SAFETY: whether memory is locked changes nothing of what is in it.
        0 => unsafe { libc::syscall(libc::SYS_munlockall) == 0 },
        // SAFETY: of what is mapped later alone.
        _ => unsafe { (next().mlockall)(later) == 0 },
    };
    if !is_set {
        return false;
    }
    let on_fault = match flags & libc::MCL_ONFAULT {
        0 => 0,
        _ => libc::MLOCK_ONFAULT,
    };
    for_each_other(own, |range| {
        let bytes = range.end - range.start;
        // An error tells of pages that cannot be read: mlockall says nothing of those.
        // SAFETY: whether memory is locked changes nothing of what is in it.
        unsafe { libc::syscall(libc::SYS_mlock2, range.start, bytes, on_fault) };
    })
}

/// All mappings but what lies in `own`, from /proc/self/maps. False where that cannot be read to its end.
fn for_each_other(own: &[Range<u64>; 2], mut of: impl FnMut(Range<u64>)) -> bool {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a path that ends with NUL.
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), flags) };
    if file < 0 {
        return false;
    }
    let mut line = Line::default();
    let mut buffer = [0u8; 2048];
    let is_whole = loop {
        // SAFETY: a buffer of that length.
        match unsafe { libc::read(file, buffer.as_mut_ptr().cast::<c_void>(), buffer.len()) } {
            0 => break true,
            bytes @ 1.. => {
                for byte in &buffer[..bytes as usize] {
                    let Some(range) = line.next(*byte) else {
                        continue;
                    };
                    // The page of vsyscall is no mapping of the process's.
                    if range.start < 1 << 63 {
                        outside(range, own, &mut of);
                    }
                }
            }
            _ => break false,
        }
    };
    // SAFETY: ours.
    unsafe { libc::close(file) };
    is_whole
}

/// The parts of a mapping that are not the probe's. Its variables and a neighbour's may be one mapping: the kernel
/// merges anonymous memory with the same access.
fn outside(range: Range<u64>, own: &[Range<u64>; 2], of: &mut impl FnMut(Range<u64>)) {
    let page = abi::PAGE_BYTES as u64;
    let mut start = range.start;
    while start < range.end {
        let next = own
            .iter()
            .filter(|own| own.start < range.end && start < own.end.next_multiple_of(page))
            .min_by_key(|own| own.start);
        let end = next.map_or(range.end, |own| own.start & !(page - 1));
        if start < end {
            of(start..end);
        }
        start = next.map_or(range.end, |own| own.end.next_multiple_of(page));
    }
}

/// Reads the two addresses at the start of each line.
#[derive(Default)]
struct Line {
    start: u64,
    address: u64,
    is_past: bool,
}

impl Line {
    /// The range, at the blank behind it.
    fn next(&mut self, byte: u8) -> Option<Range<u64>> {
        match (byte, self.is_past) {
            (b'\n', _) => *self = Line::default(),
            (_, true) => {}
            (b'-', _) => {
                self.start = self.address;
                self.address = 0;
            }
            (b' ', _) => {
                self.is_past = true;
                return Some(self.start..self.address);
            }
            _ => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.address = self.address << 4 | u64::from(digit);
            }
        }
        None
    }
}
