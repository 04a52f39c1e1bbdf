//! Of threads that begin to wait for a device, the stack, now and then at each place of the code: such a wait may be
//! over in a tenth of a millisecond, and a stall is made of many. Whoever reads the ring comes too late to see one.
//!
//! SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only

use std::os::fd::AsRawFd;

use super::maps::{Maps, NO_WAKEUP, lookup};
use super::record::{DEEP, PLACE, at, kept, place};
use bpf::insn::{Code, Helper, R0, R1, R2, R3, R8, R9, Size};

/// Places that are told apart; two that share a number are told less often.
pub const PLACES: u32 = 1 << PLACES_BITS;
const PLACES_BITS: i32 = 10;
/// A place is told this seldom: its stack is unwound each time that it is another.
const APART_NS: i32 = 200_000_000;
/// Read in pieces: of a stack that ends within one, those before it are there.
const PIECE_BYTES: i16 = 256;

/// Of the thread whose leaving was just kept at R9; R8 is overwritten.
pub(super) fn tell(code: &mut Code, maps: &Maps) {
    const RECORD: i16 = kept::RECORD;
    code.load(Size::B4, R1, R9, RECORD + at::FLAGS);
    code.and(R1, DEEP as i32);
    code.jump_if_zero(R1, "placed");
    slot_of_place(code);
    lookup(code, maps.places.fd(), R8);
    code.jump_if_zero(R0, "placed");
    code.load(Size::B8, R1, R9, RECORD + at::TIME);
    code.load(Size::B8, R2, R0, 0);
    code.copy(R3, R1);
    code.subtract(R3, R2);
    code.jump_if_less(R3, APART_NS, "placed");
    code.store(Size::B8, R0, 0, R1);
    code.map(R1, maps.ring.fd().as_raw_fd());
    code.set(R2, i32::from(place::WHOLE));
    code.set(R3, 0);
    code.call(Helper::RingReserve);
    // Without room nothing is lost but one of many.
    code.jump_if_zero(R0, "placed");
    code.copy(R8, R0);
    for offset in (0..at::STACK).step_by(8) {
        code.load(Size::B8, R1, R9, RECORD + offset);
        code.store(Size::B8, R8, offset, R1);
    }
    code.store_value(Size::B4, R8, at::KIND, PLACE);
    code.store_value(Size::B4, R8, place::COPIED, 0);
    for piece in (0..place::STACK_BYTES).step_by(PIECE_BYTES as usize) {
        code.copy(R1, R8);
        code.add(R1, i32::from(at::STACK + piece));
        code.set(R2, i32::from(PIECE_BYTES));
        code.load(Size::B8, R3, R9, RECORD + at::SP);
        code.add(R3, i32::from(piece));
        code.call(Helper::ProbeReadUser);
        code.jump_if_not_zero(R0, "copied");
        code.store_value(Size::B4, R8, place::COPIED, i32::from(piece + PIECE_BYTES));
    }
    code.label("copied");
    code.copy(R1, R8);
    code.set(R2, NO_WAKEUP);
    code.call(Helper::RingSubmit);
    code.label("placed");
}

/// R8: the place's number, from where the thread entered the kernel and how deep its stack was.
fn slot_of_place(code: &mut Code) {
    code.load(Size::B8, R8, R9, kept::RECORD + at::PC);
    code.load(Size::B8, R1, R9, kept::RECORD + at::SP);
    code.set_wide(R2, 0x9e37_79b9_7f4a_7c15);
    code.multiply(R1, R2);
    code.add_register(R8, R1);
    code.multiply(R8, R2);
    code.shift_right(R8, 64 - PLACES_BITS);
}
