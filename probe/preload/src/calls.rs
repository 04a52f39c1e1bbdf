//! What every call does, whatever its name: count and forward. The closure is the call of the next
//! library's function. It is `Copy`, so that no frame has it to drop when an exception passes: see [`slow`].

// The exports are extern "C-unwind": operator new throws through them, and without the guard
// against a panic that plain "C" functions have, the jump to the allocator saves no register.

use heap::count;

use crate::next::Ptr;
use crate::record::How;
use crate::{FILTER, slow, thread};

/// A call that hands out a block of `bytes`. Every branch but the counting one is a jump to a
/// function of its own, so that this one saves no register (1 ns per pair). While bytes are exact no
/// thread has a row here: that costs the others no test.
#[inline(always)]
pub unsafe fn hand_out(how: How, bytes: usize, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: a row that a thread finds in its own storage is its own, and lives as long as the process.
    unsafe {
        let row = thread::row();
        if row.is_null() || count::alloc(row, bytes as u64) {
            return slow::hand_out(how, bytes as u64, call);
        }
        call()
    }
}

/// The same for a call that may well refuse (an alignment that is none): a refusal is not counted. Where
/// [`hand_out`] jumps to the allocator it cannot see one; small blocks are refused to a process at its end.
#[inline(always)]
pub unsafe fn hand_out_or_refuse(how: How, bytes: usize, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: a row that a thread finds in its own storage is its own, and lives as long as the process.
    unsafe {
        let row = thread::row();
        if row.is_null() || count::alloc(row, bytes as u64) {
            return slow::hand_out(how, bytes as u64, call);
        }
        let block = call();
        if block.is_null() {
            (*row).allocs -= 1;
        }
        block
    }
}

/// A call that takes a block back; what is freed of null goes by the filter's pinned cell.
#[inline(always)]
pub unsafe fn take_back(block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: a row that a thread finds in its own storage is its own, and lives as long as the process.
    unsafe {
        let row = thread::row();
        if row.is_null() || FILTER.may_hold(block as u64) {
            return slow::take_back(block, call);
        }
        count::free(row);
        call()
    }
}
