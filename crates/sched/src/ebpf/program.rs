//! The two programs. What they tell is [`super::record::Record`].
//!
//! SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only

use std::io;
use std::os::fd::AsRawFd;

use super::super::room::Room;
use super::maps::{Maps, NO_WAKEUP, lookup};
use super::place;
use super::record::{DEEP, GONE, IN, OUT, SHORT_SHIFT, STACK_BYTES, STATES, WAKING, at, kept};
use bpf::insn::{Code, Helper, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Reg, Size};
use bpf::map::Counter;

/// Threads that may be watched at a time, of a process that has so many now: one that was just started has few, and may
/// get ten thousand. Each takes 256 bytes from the start, and clearing those of 32,768 takes 15 ms of a CPU.
pub fn threads_max(room: Room, now: usize) -> u32 {
    let (least, most) = match room {
        Room::One => (12_288, 32_768),
        Room::Many => (4_096, 8_192),
    };
    let now = u32::try_from(now).unwrap_or(u32::MAX);
    now.saturating_mul(4).clamp(least, most).max(now)
}

/// The ring is drained every 40 ms: 20,000 switches fit, or 10,000 where many processes are watched. Its
/// pages count twice in our RSS, for they are mapped twice.
pub fn ring_bytes(room: Room) -> u32 {
    match room {
        Room::One => 4 << 20,
        Room::Many => 2 << 20,
    }
}

/// A waker's stack is copied only when the wait it ends lasted this long.
const STACK_AFTER_NS: i32 = 1_000_000;

/// Samples of a thread begin when it is at work for this long: what ordinary requests compute is not worth unwinding.
const SAMPLED_AFTER_NS: i32 = 1_000_000;

/// Where a tracepoint's fields lie in its record; from its `format` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    pub tid: i16,
    pub state: i16,
    pub other: i16,
    pub comm: i16,
}

impl Fields {
    pub fn parse_switch(format: &str) -> io::Result<Fields> {
        Ok(Fields {
            tid: offset(format, "prev_pid", 4)?,
            state: offset(format, "prev_state", 8)?,
            other: offset(format, "next_pid", 4)?,
            comm: offset(format, "prev_comm[16]", 16)?,
        })
    }

    pub fn parse_waking(format: &str) -> io::Result<Fields> {
        Ok(Fields {
            tid: offset(format, "pid", 4)?,
            state: 0,
            other: 0,
            comm: 0,
        })
    }
}

/// The offset of a field of that name and size.
fn offset(format: &str, name: &str, size: usize) -> io::Result<i16> {
    let line = format.lines().find(|line| {
        let declared = line.trim().strip_prefix("field:").unwrap_or("");
        let declared = declared.split(';').next().unwrap_or("");
        declared.split_whitespace().last() == Some(name)
    });
    let number = |key: &str| -> Option<usize> {
        let part = line?.split(';').find_map(|p| p.trim().strip_prefix(key))?;
        part.parse().ok()
    };
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(found)) if found == size => Ok(offset as i16),
        _ => Err(io::Error::other(format!(
            "this kernel's tracepoint has no field {name} of {size} bytes"
        ))),
    }
}

/// Registers of the interrupted user code within `struct pt_regs`.
#[cfg(target_arch = "x86_64")]
const USER: [(i16, i16); 8] = [
    (at::NUMBER, 120),
    (at::PC, 128),
    (at::SP, 152),
    (at::FP, 32),
    (at::ARGS, 112),
    (at::ARGS + 8, 104),
    (at::ARGS + 16, 96),
    (at::ARGS + 24, 56),
];
/// As above; the first argument is the one saved before the call.
#[cfg(target_arch = "aarch64")]
const USER: [(i16, i16); 8] = [
    (at::NUMBER, 280),
    (at::PC, 256),
    (at::SP, 248),
    (at::FP, 232),
    (at::ARGS, 272),
    (at::ARGS + 8, 8),
    (at::ARGS + 16, 16),
    (at::ARGS + 24, 24),
];

/// The record on the program's stack, above the key at -8; a new thread's kept value lies there too.
const RECORD: i16 = -16 - at::HEAD;
const KEPT: i16 = RECORD;
/// A time, across calls.
const TIME: i16 = RECORD - 8;

/// On `sched_switch`: who left and why is kept; of who came, and was away for longer than the limit, it is told
/// together with the coming.
pub fn switch(maps: &Maps, fields: &Fields) -> Vec<u64> {
    let mut code = Code::default();
    code.copy(R6, R1);
    code.call(Helper::CurrentPidTgid);
    code.copy(R7, R0);
    code.store_value(Size::B8, R10, TIME, 0);
    code.shift_right(R0, 32);
    code.jump_unless_equal(R0, maps.pid as i32, "next");
    leaves(&mut code, maps, fields);
    code.label("next");
    code.load(Size::B4, R8, R6, fields.other);
    // The idle task, every other time on a machine with CPUs to spare.
    code.jump_if_zero(R8, "end");
    lookup(&mut code, maps.tids.fd(), R8);
    code.jump_if_zero(R0, "end");
    code.copy(R9, R0);
    comes(&mut code, maps, fields);
    end(code, FOR_OTHERS)
}

/// The thread that has the CPU leaves it: kept, and told at once where that is wanted.
fn leaves(code: &mut Code, maps: &Maps, fields: &Fields) {
    code.load(Size::B4, R8, R6, fields.tid);
    lookup(code, maps.tids.fd(), R8);
    code.jump_if_not_zero(R0, "known");
    for offset in (0..kept::BYTES as i16).step_by(8) {
        code.store_value(Size::B8, R10, KEPT + offset, 0);
    }
    code.map(R1, maps.tids.fd().as_raw_fd());
    code.copy(R2, R10);
    code.add(R2, -8);
    code.copy(R3, R10);
    code.add(R3, i32::from(KEPT));
    code.set(R4, 0);
    code.call(Helper::MapUpdate);
    lookup(code, maps.tids.fd(), R8);
    code.jump_if_zero(R0, "next");
    code.label("known");
    code.copy(R9, R0);
    code.store(Size::B4, R9, kept::RECORD + at::TID, R8);
    code.store_value(Size::B4, R9, kept::RECORD + at::KIND, OUT);
    code.load(Size::B8, R1, R6, fields.state);
    code.store(Size::B4, R9, kept::RECORD + at::FLAGS, R1);
    user_registers(code, R9, kept::RECORD);
    code.store_value(Size::B8, R9, kept::WOKEN, 0);
    code.store_value(Size::B8, R9, kept::TOLD, 0);
    code.call(Helper::KtimeNs);
    code.store(Size::B8, R10, TIME, R0);
    code.store(Size::B8, R9, kept::RECORD + at::TIME, R0);
    code.store(Size::B8, R9, kept::SINCE, R0);
    code.load(Size::B4, R1, R9, kept::RECORD + at::FLAGS);
    code.and(R1, GONE as i32);
    code.jump_if_zero(R1, "lives");
    code.store_value(Size::B8, R9, kept::TOLD, 1);
    output(code, maps, R9, kept::RECORD, at::STACK, "counted_gone");
    code.jump("next");
    code.label("lives");
    place::tell(code, maps);
    if maps.at_once {
        limit(code, maps);
        code.jump_if_not_zero(R1, "next");
        code.store_value(Size::B8, R9, kept::TOLD, 1);
        output(code, maps, R9, kept::RECORD, at::STACK, "counted_out");
    }
}

/// The thread of R9 comes to a CPU. Its leaving was told already, or is now, unless that was just before.
fn comes(code: &mut Code, maps: &Maps, fields: &Fields) {
    // The clock was read, where the one that leaves is watched too.
    code.load(Size::B8, R0, R10, TIME);
    code.jump_if_not_zero(R0, "read");
    code.call(Helper::KtimeNs);
    code.label("read");
    code.store(Size::B8, R9, kept::CAME, R0);
    code.load(Size::B4, R1, R9, kept::RECORD + at::FLAGS);
    code.and(R1, STATES as i32);
    code.jump_if_zero(R1, "still_at_work");
    code.store(Size::B8, R9, kept::AT_WORK, R0);
    code.label("still_at_work");
    code.load(Size::B8, R1, R9, kept::SINCE);
    code.store_value(Size::B8, R9, kept::SINCE, 0);
    code.jump_if_zero(R1, "told");
    code.load(Size::B8, R2, R9, kept::TOLD);
    code.jump_if_not_zero(R2, "told");
    code.subtract(R0, R1);
    code.store(Size::B8, R10, TIME, R0);
    limit(code, maps);
    code.load(Size::B8, R2, R10, TIME);
    code.jump_if_below(R2, R1, "short");
    code.store(Size::B8, R9, kept::BEFORE, R7);
    for half in [0, 8] {
        code.load(Size::B8, R1, R6, fields.comm + half);
        code.store(Size::B8, R9, kept::COMM + half, R1);
    }
    output(code, maps, R9, kept::RECORD, kept::WHOLE, "counted_whole");
    no_short(code);
    code.jump("end");
    code.label("short");
    code.shift_right(R2, SHORT_SHIFT);
    code.load(Size::B4, R1, R9, kept::RECORD + at::FLAGS);
    code.and(R1, DEEP as i32);
    code.jump_if_not_zero(R1, "deep");
    add_short(code, at::SHORT);
    code.jump("end");
    code.label("deep");
    add_short(code, at::SHORT_DEEP);
    code.jump("end");
    code.label("told");
    no_short(code);
    came(code, maps, fields);
}

/// R2 more.
fn add_short(code: &mut Code, to: i16) {
    code.load(Size::B4, R1, R9, kept::RECORD + to);
    code.add_register(R1, R2);
    code.store(Size::B4, R9, kept::RECORD + to, R1);
}

fn no_short(code: &mut Code) {
    for sum in [at::SHORT, at::SHORT_DEEP] {
        code.store_value(Size::B4, R9, kept::RECORD + sum, 0);
    }
}

/// The coming alone.
fn came(code: &mut Code, maps: &Maps, fields: &Fields) {
    begin(code, IN, at::STACK);
    code.store(Size::B4, R10, RECORD + at::TID, R8);
    code.store(Size::B4, R10, RECORD + at::OTHER, R7);
    code.shift_right(R7, 32);
    code.store(Size::B4, R10, RECORD + at::OTHER_PROCESS, R7);
    for half in [0, 8] {
        code.load(Size::B8, R1, R6, fields.comm + half);
        code.store(Size::B8, R10, RECORD + at::COMM + half, R1);
    }
    output(code, maps, R10, RECORD, at::STACK, "counted_in");
}

/// On `sched_waking`: who makes whom runnable; told at once after a long wait, with the waker's stack.
pub fn waking(maps: &Maps, fields: &Fields) -> Vec<u64> {
    let mut code = Code::default();
    code.copy(R6, R1);
    code.load(Size::B4, R8, R6, fields.tid);
    lookup(&mut code, maps.tids.fd(), R8);
    code.jump_if_zero(R0, "end");
    code.copy(R9, R0);
    code.load(Size::B8, R7, R9, kept::SINCE);
    code.jump_if_zero(R7, "end");
    code.load(Size::B8, R1, R9, kept::TOLD);
    code.jump_if_not_zero(R1, "told");
    code.call(Helper::KtimeNs);
    code.copy(R1, R0);
    code.subtract(R1, R7);
    code.jump_if_less(R1, STACK_AFTER_NS, "short");
    code.store_value(Size::B8, R9, kept::TOLD, 1);
    output(&mut code, maps, R9, kept::RECORD, at::STACK, "counted_late");
    code.label("told");
    tells_who(&mut code, maps);
    code.jump("end");
    code.label("short");
    code.store(Size::B8, R9, kept::WOKEN, R0);
    code.call(Helper::CurrentPidTgid);
    code.store(Size::B8, R9, kept::WAKER, R0);
    end(code, FOR_OTHERS)
}

/// R7: since when the thread R8 waited.
fn tells_who(code: &mut Code, maps: &Maps) {
    begin(code, WAKING, at::HEAD);
    code.store(Size::B4, R10, RECORD + at::TID, R8);
    code.load(Size::B8, R8, R10, RECORD + at::TIME);
    code.subtract(R8, R7);
    code.call(Helper::CurrentPidTgid);
    code.store(Size::B4, R10, RECORD + at::OTHER, R0);
    code.shift_right(R0, 32);
    code.store(Size::B4, R10, RECORD + at::OTHER_PROCESS, R0);
    code.jump_unless_equal(R0, maps.pid as i32, "plain");
    code.jump_if_less(R8, STACK_AFTER_NS, "plain");
    user_registers(code, R10, RECORD);
    code.copy(R1, R10);
    code.add(R1, i32::from(RECORD + at::STACK));
    code.set(R2, STACK_BYTES as i32);
    code.load(Size::B8, R3, R10, RECORD + at::SP);
    code.call(Helper::ProbeReadUser);
    output(code, maps, R10, RECORD, at::HEAD, "counted_long");
    code.jump("end");
    code.label("plain");
    output(code, maps, R10, RECORD, at::STACK, "counted_waking");
}

/// R1: the limit for what the thread of R9 is in. Its place is always there; the kernel wants that checked.
fn limit(code: &mut Code, maps: &Maps) {
    code.load(Size::B4, R2, R9, kept::RECORD + at::FLAGS);
    code.and(R2, DEEP as i32);
    code.shift_right(R2, 1);
    code.store(Size::B4, R10, -8, R2);
    code.copy(R2, R10);
    code.add(R2, -8);
    code.map(R1, maps.limits.fd().as_raw_fd());
    code.call(Helper::MapLookup);
    code.jump_if_zero(R0, "end");
    code.load(Size::B8, R1, R0, 0);
}

/// On a sample of any process: 0, which drops it, unless it is of a thread of the watched one that is at work for long.
pub fn ours(maps: &Maps) -> Vec<u64> {
    let mut code = Code::default();
    code.call(Helper::CurrentPidTgid);
    code.copy(R6, R0);
    code.shift_right(R0, 32);
    code.jump_unless_equal(R0, maps.pid as i32, "end");
    lookup(&mut code, maps.tids.fd(), R6);
    code.jump_if_zero(R0, "end");
    code.load(Size::B8, R6, R0, kept::AT_WORK);
    code.call(Helper::KtimeNs);
    code.subtract(R0, R6);
    code.jump_if_less(R0, SAMPLED_AFTER_NS, "end");
    code.set(R0, 1);
    code.exit();
    end(code, DROPPED)
}

/// Of the watched process, and not within some time of the last one that passed, whose time `passed` keeps. Two CPUs
/// at once may both pass.
pub fn some_of_ours(maps: &Maps, passed: &Counter) -> Vec<u64> {
    const APART_NS: i32 = 300_000;
    let mut code = Code::default();
    code.call(Helper::CurrentPidTgid);
    code.shift_right(R0, 32);
    code.jump_unless_equal(R0, maps.pid as i32, "end");
    code.call(Helper::KtimeNs);
    code.copy(R6, R0);
    code.set(R7, 0);
    lookup(&mut code, passed.fd(), R7);
    code.jump_if_zero(R0, "end");
    code.load(Size::B8, R1, R0, 0);
    code.copy(R2, R6);
    code.subtract(R2, R1);
    code.jump_if_less(R2, APART_NS, "end");
    code.store(Size::B8, R0, 0, R6);
    code.set(R0, 1);
    code.exit();
    end(code, DROPPED)
}

/// What a program on a tracepoint gives: with 0 the kernel drops the event for everybody who reads it, `perf` and
/// watches without eBPF too (trace_call_bpf in kernel/trace/bpf_trace.c).
const FOR_OTHERS: i32 = 1;
/// What a program on an event of our own gives for those that are dropped.
const DROPPED: i32 = 0;

fn end(mut code: Code, gives: i32) -> Vec<u64> {
    code.label("end");
    code.set(R0, gives);
    code.exit();
    code.finish()
}

/// An empty record with its time.
fn begin(code: &mut Code, kind: i32, bytes: i16) {
    for offset in (0..bytes).step_by(8) {
        code.store_value(Size::B8, R10, RECORD + offset, 0);
    }
    code.call(Helper::KtimeNs);
    code.store(Size::B8, R10, RECORD + at::TIME, R0);
    code.store_value(Size::B4, R10, RECORD + at::KIND, kind);
}

/// Those of the thread that has the CPU, into the record at `offset` of `into`.
fn user_registers(code: &mut Code, into: Reg, offset: i16) {
    code.call(Helper::CurrentTask);
    code.copy(R1, R0);
    code.call(Helper::TaskRegs);
    for (to, from) in USER {
        code.load(Size::B8, R1, R0, from);
        code.store(Size::B8, into, offset + to, R1);
    }
}

/// Into the ring; what does not fit is counted.
fn output(code: &mut Code, maps: &Maps, from: Reg, offset: i16, bytes: i16, counted: &'static str) {
    code.map(R1, maps.ring.fd().as_raw_fd());
    code.copy(R2, from);
    code.add(R2, i32::from(offset));
    code.set(R3, i32::from(bytes));
    code.set(R4, NO_WAKEUP);
    code.call(Helper::RingOutput);
    code.jump_if_zero(R0, counted);
    code.store_value(Size::B4, R10, -8, 0);
    code.copy(R2, R10);
    code.add(R2, -8);
    code.map(R1, maps.lost.fd().as_raw_fd());
    code.call(Helper::MapLookup);
    code.jump_if_zero(R0, counted);
    code.set(R1, 1);
    code.atomic_add(R0, 0, R1);
    code.label(counted);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// events/sched/sched_switch/format of Linux 6.18, its fields.
    const SWITCH: &str = "\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";

    #[test]
    fn there_is_room_for_the_threads_that_a_program_will_start() {
        assert!(threads_max(Room::One, 1) > 10_000);
        assert_eq!(threads_max(Room::One, 5_000), 20_000);
        assert_eq!(threads_max(Room::Many, 1), 4_096);
        for room in [Room::One, Room::Many] {
            assert_eq!(threads_max(room, 50_000), 50_000, "all that are there");
        }
    }

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let fields = Fields::parse_switch(SWITCH).unwrap();
        let (tid, state, other, comm) = (24, 32, 56, 8);
        assert_eq!(
            fields,
            Fields {
                tid,
                state,
                other,
                comm
            }
        );
    }

    #[test]
    fn another_kernels_tracepoint_is_refused_in_words() {
        let odd = SWITCH.replace(
            "prev_state;\toffset:32;\tsize:8",
            "prev_state;\toffset:32;\tsize:4",
        );
        let error = Fields::parse_switch(&odd).unwrap_err().to_string();
        assert!(error.contains("prev_state"), "{error}");
    }
}
