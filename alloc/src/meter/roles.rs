//! Threads that do the same work, by name: who allocates what others free.

use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use abi::{Flow, ROLE_NONE, ROLES, Role, SectionKind, Thread};

use super::sampler::Weight;
use super::{map, row};

const FREE: u32 = 0;
const BUSY: u32 = 1;
const IN_USE: u32 = 2;

static CROSS_BLOCKS: AtomicU64 = AtomicU64::new(0);
static CROSS_BYTES: AtomicU64 = AtomicU64::new(0);

/// Estimates of blocks and bytes that another thread freed than allocated.
pub(crate) fn crossed() -> (u64, u64) {
    (CROSS_BLOCKS.load(Relaxed), CROSS_BYTES.load(Relaxed))
}

macro_rules! field {
    ($kind:ident, $row:expr, $name:ident) => {
        // SAFETY: aligned, in a row of the mapping, which stays.
        unsafe { $kind::from_ptr(addr_of_mut!((*$row).$name)) }
    };
}

fn role_at(role: u16) -> *mut Role {
    map::row_at(SectionKind::Roles, usize::from(role))
}

/// All that do not fit, and the threads that share a row.
pub(crate) const OTHER: u16 = ROLES as u16 - 1;

/// The role of the calling thread; looked up at its first sample.
pub(crate) fn of(thread: *mut Thread) -> u16 {
    if row::is_shared(thread) {
        name_other();
        return OTHER;
    }
    // SAFETY: this thread's row; no other thread of the process reads or writes its role.
    unsafe {
        if (*thread).role == ROLE_NONE {
            (*thread).role = find(name_of_thread());
        }
        (*thread).role
    }
}

/// Name without the digits at its end, zero-padded; `main` for the process's first thread.
fn name_of_thread() -> [u8; 16] {
    // SAFETY: no arguments.
    if unsafe { libc::syscall(libc::SYS_gettid) as u32 } == std::process::id() {
        return *b"main\0\0\0\0\0\0\0\0\0\0\0\0";
    }
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    without_digits(name)
}

fn without_digits(mut name: [u8; 16]) -> [u8; 16] {
    let length = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    let is_tail = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'#' | b' ');
    let tail = name[..length]
        .iter()
        .rev()
        .take_while(|byte| is_tail(byte))
        .count();
    // A name of digits alone stays.
    let kept = if tail == length {
        length
    } else {
        length - tail
    };
    name[kept..].fill(0);
    name
}

fn find(name: [u8; 16]) -> u16 {
    for role in 0..(ROLES - 1) as u16 {
        let row = role_at(role);
        match field!(AtomicU32, row, state).compare_exchange(FREE, BUSY, AcqRel, Acquire) {
            Ok(_) => {
                // SAFETY: the row is this thread's while BUSY.
                unsafe { (*row).name = name };
                field!(AtomicU32, row, state).store(IN_USE, Release);
            }
            // A row in the making may hold the same name: the second of two rows is then spare.
            Err(BUSY) => continue,
            // SAFETY: the name of a row in use stays.
            Err(_) if unsafe { (*row).name } != name => continue,
            Err(_) => {}
        }
        field!(AtomicU32, row, threads).fetch_add(1, Relaxed);
        return role;
    }
    other()
}

/// The last row takes all that do not fit.
fn other() -> u16 {
    name_other();
    field!(AtomicU32, role_at(OTHER), threads).fetch_add(1, Relaxed);
    OTHER
}

fn name_other() {
    let row = role_at(OTHER);
    let state = field!(AtomicU32, row, state);
    if state.compare_exchange(FREE, BUSY, AcqRel, Relaxed).is_ok() {
        // SAFETY: the row is this thread's while BUSY.
        unsafe { (*row).name = *b"other\0\0\0\0\0\0\0\0\0\0\0" };
        state.store(IN_USE, Release);
    }
}

pub(crate) fn allocated(role: u16, weight: Weight) {
    field!(AtomicU64, role_at(role), allocated_bytes).fetch_add(weight.bytes, Relaxed);
}

/// A sample that `by` allocated in the thread of row `thread` was freed by `freed_by` in the thread of `freed_in`.
pub(crate) fn freed(by: u16, thread: u32, freed_by: u16, freed_in: u32, weight: Weight) {
    field!(AtomicU64, role_at(freed_by), freed_bytes).fetch_add(weight.bytes, Relaxed);
    if usize::from(by) < ROLES {
        let at = usize::from(by) * ROLES + usize::from(freed_by);
        let flow = map::row_at::<Flow>(SectionKind::Matrix, at);
        field!(AtomicU64, flow, blocks).fetch_add(weight.blocks, Relaxed);
        field!(AtomicU64, flow, bytes).fetch_add(weight.bytes, Relaxed);
    }
    if thread != freed_in {
        CROSS_BLOCKS.fetch_add(weight.blocks, Relaxed);
        CROSS_BYTES.fetch_add(weight.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text.as_bytes());
        let name = without_digits(name);
        String::from_utf8(name.into_iter().take_while(|byte| *byte != 0).collect()).unwrap()
    }

    #[test]
    fn workers_of_one_pool_are_one_role() {
        assert_eq!(stripped("tokio-rt-worker"), "tokio-rt-worker");
        assert_eq!(stripped("connection-17"), "connection");
        assert_eq!(stripped("worker #3"), "worker");
        assert_eq!(stripped("2024"), "2024");
        assert_eq!(stripped(""), "");
    }
}
