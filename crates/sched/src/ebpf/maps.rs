//! The maps of the programs, and what programs do with them.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::threads::Threads;
use bpf::insn::{Code, Helper, R1, R2, R10, Reg, Size};
use bpf::map::{Counter, Ring};

/// The reader polls, so nobody is woken.
pub const NO_WAKEUP: i32 = 1;

pub struct Maps {
    pub pid: u32,
    pub tids: Threads,
    pub ring: Ring,
    pub lost: Counter,
    /// Nanoseconds; who is off its CPU for less is not told of. The second is for waits for devices.
    pub limits: Counter,
    /// When each place was told last.
    pub places: Counter,
    /// A leaving is told when it happens, and not with the coming back; while there is no limit.
    pub at_once: bool,
}

/// R0: where a map keeps the value of `key`, or 0. The key's register must not be R1 to R5.
pub fn lookup(code: &mut Code, map: BorrowedFd, key: Reg) {
    code.store(Size::B4, R10, -8, key);
    code.copy(R2, R10);
    code.add(R2, -8);
    code.map(R1, map.as_raw_fd());
    code.call(Helper::MapLookup);
}
