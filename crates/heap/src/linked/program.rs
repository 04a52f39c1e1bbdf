//! The eBPF programs on a linked-in allocator's functions, one for each [`Role`] and places of its arguments.
//!
//! Each CPU counts down the bytes to its next sample, drawn anew from an exponential distribution, so that a block of
//! `n` bytes is sampled by the chance `1-exp(-n/mean)`. Where the function was called by another one of the family, the
//! sample is dropped: what falls on the outer call is the block's own chance, and none of it counts twice.
//!
//! A sampled call is kept by its thread until an exit with the same stack pointer and return address gives its result.
//! One that an exception or a `longjmp` left has no exit: the thread's next call from no deeper in the stack drops it.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::functions::{Function, Role};
use super::layout::{DRAW_BITS, DRAWS, GIVEN, Maps, STACK_BYTES, TAKEN, at, cpu, open, regs};
use bpf::insn::{Code, Helper, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Reg, Size};
use bpf::uprobes::entry::FIRST_ARGUMENT;
use observe::exits::{Exit, ResultIn};

// The program's own stack.
const KEY: i16 = -8;
const BYTES: i16 = -16;
const RETURN: i16 = -24;
const BLOCK: i16 = -32;
const OPEN: i16 = -80;
const ENDED: i16 = -104;

/// The program for the entry of one function.
pub fn entry_program(maps: &Maps, function: &Function) -> Vec<u64> {
    let mut code = hit(maps, function.is_emulated);
    entered(&mut code, maps, function);
    passed(code)
}

/// The program for exits like this one.
pub fn exit_program(maps: &Maps, exit: Exit) -> Vec<u64> {
    let mut code = hit(maps, exit.is_emulated);
    is_exit(&mut code, maps);
    let result = match exit.result {
        ResultIn::ReturnRegister => regs::RESULT,
        ResultIn::FirstArgument => FIRST_ARGUMENT,
    };
    returned(&mut code, maps, result);
    passed(code)
}

/// R6: the registers; R7: the thread; R8: the CPU's numbers.
fn hit(maps: &Maps, is_emulated: bool) -> Code {
    let mut code = Code::default();
    code.copy(R6, R1);
    code.call(Helper::CurrentPidTgid);
    code.copy(R7, R0);
    code.set(R1, 0);
    lookup(&mut code, maps.cpus.fd(), R1);
    code.jump_if_zero(R0, "pass");
    code.copy(R8, R0);
    one_more(&mut code, cpu::HITS);
    if !is_emulated {
        one_more(&mut code, cpu::STEPPED);
    }
    code
}

/// Before Linux 6.13 a 1 would take the probe away.
fn passed(mut code: Code) -> Vec<u64> {
    code.label("pass");
    code.set(R0, 0);
    code.exit();
    code.finish()
}

/// A call begins.
fn entered(code: &mut Code, maps: &Maps, function: &Function) {
    if function.gives() {
        is_over(code, maps);
    }
    if let Role::Take { block } | Role::Again { block, .. } = function.role {
        taken(code, maps, function.arguments[block]);
    }
    if let Role::Again {
        block,
        calls_on: true,
        ..
    } = function.role
    {
        code.load(Size::B8, R1, R6, function.arguments[block]);
        code.jump_if_zero(R1, "pass");
    }
    match function.role {
        Role::Take { .. } => code.jump("pass"),
        _ => given(code, maps, function),
    }
}

/// Drops the thread's sampled call if it is over: this one is from no deeper in the stack. Where another function of
/// the family ends in this one by a jump, it is the same call still.
fn is_over(code: &mut Code, maps: &Maps) {
    lookup(code, maps.open.fd(), R7);
    code.jump_if_zero(R0, "none_open");
    code.copy(R9, R0);
    code.load(Size::B8, R1, R6, regs::SP);
    code.load(Size::B8, R2, R9, open::SP);
    code.jump_if_below(R1, R2, "none_open");
    code.jump_if_same(R1, R2, "same_depth");
    code.jump("over");
    code.label("same_depth");
    return_address(code);
    code.load(Size::B8, R1, R10, RETURN);
    code.load(Size::B8, R2, R9, open::RETURN);
    code.jump_if_same(R1, R2, "same_caller");
    code.jump("over");
    code.label("same_caller");
    code.load(Size::B8, R1, R6, regs::PC);
    code.load(Size::B8, R2, R9, open::FUNCTION);
    code.jump_if_same(R1, R2, "over");
    code.jump("pass");
    code.label("over");
    by_thread(code, maps, Helper::MapDelete);
    code.label("none_open");
}

/// Whether this exit is that of the thread's sampled call, which is then at R9.
fn is_exit(code: &mut Code, maps: &Maps) {
    lookup(code, maps.open.fd(), R7);
    code.jump_if_zero(R0, "pass");
    code.copy(R9, R0);
    code.load(Size::B8, R1, R6, regs::SP);
    code.load(Size::B8, R2, R9, open::SP);
    code.jump_if_same(R1, R2, "same_depth");
    code.jump("pass");
    code.label("same_depth");
    return_address(code);
    code.load(Size::B8, R1, R10, RETURN);
    code.load(Size::B8, R2, R9, open::RETURN);
    code.jump_if_same(R1, R2, "returned");
    code.jump("pass");
    code.label("returned");
    one_more(code, cpu::RETURNED);
}

/// A block that was sampled goes.
fn taken(code: &mut Code, maps: &Maps, block: i16) {
    code.load(Size::B8, R1, R6, block);
    code.jump_if_zero(R1, "not_ours");
    code.store(Size::B8, R10, BLOCK, R1);
    by_block(code, maps, Helper::MapLookup);
    code.jump_if_zero(R0, "not_ours");
    by_block(code, maps, Helper::MapDelete);
    code.call(Helper::KtimeNs);
    code.store(Size::B8, R10, ENDED + at::TIME, R0);
    code.store_value(Size::B4, R10, ENDED + at::KIND, TAKEN);
    code.store(Size::B4, R10, ENDED + at::TID, R7);
    code.load(Size::B8, R1, R10, BLOCK);
    code.store(Size::B8, R10, ENDED + at::BLOCK, R1);
    code.map(R1, maps.ring.fd().as_raw_fd());
    code.copy(R2, R10);
    code.add(R2, i32::from(ENDED));
    code.set(R3, i32::from(at::BYTES));
    code.set(R4, NO_WAKEUP);
    code.call(Helper::RingOutput);
    code.jump_if_zero(R0, "not_ours");
    lost(code, maps, "not_ours");
    code.label("not_ours");
}

/// Counts the bytes; at a sample keeps what the return will need.
fn given(code: &mut Code, maps: &Maps, function: &Function) {
    let (count, bytes, place) = match function.role {
        Role::Give { bytes } | Role::Again { bytes, .. } => (None, bytes, None),
        Role::GiveMany { count, bytes } => (Some(count), bytes, None),
        Role::GiveInto { place, bytes } => (None, bytes, Some(place)),
        Role::Take { .. } => return,
    };
    code.load(Size::B8, R1, R6, function.arguments[bytes]);
    if let Some(count) = count {
        code.load(Size::B8, R2, R6, function.arguments[count]);
        code.multiply(R1, R2);
    }
    code.store(Size::B8, R10, BYTES, R1);
    code.load(Size::B8, R2, R8, cpu::LEFT);
    code.subtract(R2, R1);
    code.store(Size::B8, R8, cpu::LEFT, R2);
    code.jump_unless_negative(R2, "pass");
    draw(code, maps);
    code.set(R1, 0);
    lookup(code, maps.sampling.fd(), R1);
    code.jump_if_zero(R0, "pass");
    code.load(Size::B8, R1, R0, 0);
    code.jump_if_zero(R1, "pass");
    return_address(code);
    code.load(Size::B8, R1, R10, RETURN);
    for range in &maps.family {
        code.set_wide(R3, range.start);
        code.copy(R2, R1);
        code.subtract(R2, R3);
        code.jump_if_less(R2, (range.end - range.start) as i32, "pass");
    }
    code.store(Size::B8, R10, OPEN + open::RETURN, R1);
    one_more(code, cpu::SAMPLES);
    for (from, to) in [(regs::SP, open::SP), (regs::PC, open::FUNCTION)] {
        code.load(Size::B8, R1, R6, from);
        code.store(Size::B8, R10, OPEN + to, R1);
    }
    code.load(Size::B8, R1, R10, BYTES);
    code.store(Size::B8, R10, OPEN + open::BYTES, R1);
    match place {
        Some(place) => code.load(Size::B8, R1, R6, function.arguments[place]),
        None => code.set(R1, 0),
    }
    code.store(Size::B8, R10, OPEN + open::PLACE, R1);
    code.store(Size::B4, R10, KEY, R7);
    code.map(R1, maps.open.fd().as_raw_fd());
    keyed(code, KEY);
    code.copy(R3, R10);
    code.add(R3, i32::from(OPEN));
    code.set(R4, 0);
    code.call(Helper::MapUpdate);
}

/// How far it is to the next sample; what the mean was stays with this one.
fn draw(code: &mut Code, maps: &Maps) {
    code.call(Helper::RandomU32);
    code.and(R0, DRAWS as i32 - 1);
    code.copy(R9, R0);
    lookup(code, maps.draws.fd(), R9);
    code.jump_if_zero(R0, "pass");
    code.load(Size::B8, R9, R0, 0);
    code.set(R1, 0);
    lookup(code, maps.mean.fd(), R1);
    code.jump_if_zero(R0, "pass");
    code.load(Size::B8, R1, R0, 0);
    code.store(Size::B8, R10, OPEN + open::MEAN, R1);
    code.multiply(R9, R1);
    code.shift_right(R9, DRAW_BITS);
    code.store(Size::B8, R8, cpu::LEFT, R9);
}

#[cfg(target_arch = "x86_64")]
fn return_address(code: &mut Code) {
    code.load(Size::B8, R3, R6, regs::SP);
    read_user(code, RETURN);
    code.jump_if_not_zero(R0, "pass");
}

#[cfg(target_arch = "aarch64")]
fn return_address(code: &mut Code) {
    code.load(Size::B8, R1, R6, regs::LINK);
    code.store(Size::B8, R10, RETURN, R1);
}

/// Eight bytes of the subject's at R3.
fn read_user(code: &mut Code, into: i16) {
    code.copy(R1, R10);
    code.add(R1, i32::from(into));
    code.set(R2, 8);
    code.call(Helper::ProbeReadUser);
}

/// A sampled call (R9) ends: its block, with the caller's stack.
fn returned(code: &mut Code, maps: &Maps, result: i16) {
    for offset in (0..open::BYTES_ALL as i16).step_by(8) {
        code.load(Size::B8, R1, R9, offset);
        code.store(Size::B8, R10, OPEN + offset, R1);
    }
    by_thread(code, maps, Helper::MapDelete);
    code.load(Size::B8, R1, R6, result);
    code.load(Size::B8, R3, R10, OPEN + open::PLACE);
    code.jump_if_zero(R3, "is_block");
    code.jump_if_not_zero(R1, "pass");
    read_user(code, BLOCK);
    code.jump_if_not_zero(R0, "pass");
    code.load(Size::B8, R1, R10, BLOCK);
    code.label("is_block");
    code.jump_if_zero(R1, "pass");
    code.store(Size::B8, R10, BLOCK, R1);
    code.map(R1, maps.live.fd().as_raw_fd());
    keyed(code, BLOCK);
    code.copy(R3, R10);
    code.add(R3, i32::from(BLOCK));
    code.set(R4, 0);
    code.call(Helper::MapUpdate);
    code.jump_if_not_zero(R0, "no_room");
    code.map(R1, maps.ring.fd().as_raw_fd());
    code.set(R2, at::WHOLE);
    code.set(R3, 0);
    code.call(Helper::RingReserve);
    code.jump_if_not_zero(R0, "room");
    by_block(code, maps, Helper::MapDelete);
    code.label("no_room");
    lost(code, maps, "pass");
    code.jump("pass");
    code.label("room");
    code.copy(R8, R0);
    record(code);
    code.copy(R1, R8);
    code.set(R2, NO_WAKEUP);
    code.call(Helper::RingSubmit);
    code.jump("pass");
}

/// Into the record at R8.
fn record(code: &mut Code) {
    code.call(Helper::KtimeNs);
    code.store(Size::B8, R8, at::TIME, R0);
    code.store_value(Size::B4, R8, at::KIND, GIVEN);
    code.store(Size::B4, R8, at::TID, R7);
    for (from, to) in [
        (BLOCK, at::BLOCK),
        (OPEN + open::BYTES, at::BYTES),
        (OPEN + open::MEAN, at::MEAN),
        (OPEN + open::FUNCTION, at::FUNCTION),
        (OPEN + open::RETURN, at::PC),
    ] {
        code.load(Size::B8, R1, R10, from);
        code.store(Size::B8, R8, to, R1);
    }
    code.load(Size::B8, R1, R6, regs::FP);
    code.store(Size::B8, R8, at::FP, R1);
    callers_stack(code, R1);
    code.store(Size::B8, R8, at::SP, R1);
    for bytes in STACK_BYTES {
        code.copy(R1, R8);
        code.add(R1, i32::from(at::STACK));
        code.set(R2, bytes);
        callers_stack(code, R3);
        code.call(Helper::ProbeReadUser);
        code.set(R1, bytes);
        code.store(Size::B8, R8, at::COPIED, R1);
        code.jump_if_zero(R0, "copied");
    }
    code.store_value(Size::B8, R8, at::COPIED, 0);
    code.label("copied");
}

/// The stack pointer as it will be in the caller.
fn callers_stack(code: &mut Code, into: Reg) {
    code.load(Size::B8, into, R6, regs::SP);
    code.add(into, regs::RETURN_BYTES);
}

const NO_WAKEUP: i32 = 1;

/// One more in one of the CPU's numbers, at R8.
fn one_more(code: &mut Code, number: usize) {
    code.load(Size::B8, R2, R8, 8 * number as i16);
    code.add(R2, 1);
    code.store(Size::B8, R8, 8 * number as i16, R2);
}

fn lost(code: &mut Code, maps: &Maps, end: &'static str) {
    code.set(R1, 0);
    lookup(code, maps.lost.fd(), R1);
    code.jump_if_zero(R0, end);
    code.set(R1, 1);
    code.atomic_add(R0, 0, R1);
}

fn by_block(code: &mut Code, maps: &Maps, helper: Helper) {
    code.map(R1, maps.live.fd().as_raw_fd());
    keyed(code, BLOCK);
    code.call(helper);
}

fn by_thread(code: &mut Code, maps: &Maps, helper: Helper) {
    code.store(Size::B4, R10, KEY, R7);
    code.map(R1, maps.open.fd().as_raw_fd());
    keyed(code, KEY);
    code.call(helper);
}

fn keyed(code: &mut Code, key: i16) {
    code.copy(R2, R10);
    code.add(R2, i32::from(key));
}

/// R0: where a map keeps the value of `key`, or 0.
fn lookup(code: &mut Code, map: BorrowedFd, key: Reg) {
    code.store(Size::B4, R10, KEY, key);
    code.map(R1, map.as_raw_fd());
    keyed(code, KEY);
    code.call(Helper::MapLookup);
}
