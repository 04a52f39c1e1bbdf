//! The doors to seccomp: `prctl` and `syscall`. Before the program installs a filter that would end it for a system
//! call of the probe's, the probe goes off for good.
//!
//! Strict mode forbids nearly all, the clock's vDSO included. A filter is run here first. A program that makes the call
//! by an instruction of its own is not seen. A child of vfork shares the parent's memory: it switches the parent's
//! probe off too.

use std::ffi::{c_int, c_long, c_ulong};
use std::sync::atomic::Ordering::Relaxed;

use abi::off_reason;
use heap::{Calls, Errno, Instruction};

use crate::locked::IS_CONFINED;
use crate::next::NEXT_SYSCALL;
use crate::{life, recorder};

const STRICT: c_ulong = 1;
const FILTER: c_ulong = 2;

/// `struct sock_fprog`.
#[repr(C)]
struct Filter {
    count: u16,
    instructions: *const Instruction,
}

/// # Safety
/// C's contract of prctl(2). It is variadic there; whole words are passed on, as the C library does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if option == libc::PR_SET_SECCOMP {
        confining(second, third as *const Filter);
    }
    if option == libc::PR_SET_TSC && second == libc::PR_TSC_SIGSEGV as c_ulong {
        recorder::losing_tsc();
    }
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { (crate::next::next().prctl)(option, second, third, fourth, fifth) }
}

/// The program is about to confine itself.
fn confining(mode: c_ulong, filter: *const Filter) {
    let _errno = Errno::save();
    if life::is_recording() {
        return recorder::confining(mode == STRICT);
    }
    let leaves_us = match mode {
        // Nothing of ours is left to end, and an earlier filter may forbid the call by which this one is read.
        _ if life::is_off() => return Calls::forbid(),
        STRICT => false,
        // SAFETY: the kernel is about to read it too; what cannot be read allows nothing.
        FILTER => unsafe { allows(filter) },
        _ => return,
    };
    IS_CONFINED.store(true, Relaxed);
    if !leaves_us {
        life::end(off_reason::SECCOMP);
    }
}

unsafe fn allows(filter: *const Filter) -> bool {
    let Some(_calls) = Calls::begin() else {
        return false;
    };
    let readable = |start: u64, bytes: usize| heap::is_range_readable(start, bytes as u64);
    if !(filter as usize).is_multiple_of(align_of::<Filter>())
        || !readable(filter as u64, size_of::<Filter>())
    {
        return false;
    }
    // SAFETY: just found readable.
    let Filter {
        count,
        instructions,
    } = unsafe { filter.read() };
    let count = usize::from(count).min(heap::INSTRUCTIONS_MAX);
    if count == 0
        || !(instructions as usize).is_multiple_of(align_of::<Instruction>())
        || !readable(instructions as u64, count * size_of::<Instruction>())
    {
        return false;
    }
    // SAFETY: likewise; plain integers. The caller keeps them until the system call is over.
    heap::allows_the_probe(unsafe { std::slice::from_raw_parts(instructions, count) })
}

/// seccomp(2) or prctl(2) by number: its three first arguments.
unsafe extern "C" fn called(number: c_long, first: c_ulong, second: c_ulong, third: c_ulong) {
    // Operations of seccomp(2) are one less than the modes of prctl(2); others install nothing.
    match number {
        libc::SYS_seccomp if first < FILTER => confining(first + 1, third as *const Filter),
        libc::SYS_prctl if first == libc::PR_SET_SECCOMP as c_ulong => {
            confining(second, third as *const Filter)
        }
        _ => {}
    }
}

/// syscall(2). It is variadic there, and a jump leaves its arguments as they are.
///
/// # Safety
/// The contract of the system call.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "cmp edi, {seccomp}",
        "je 2f",
        "cmp edi, {prctl}",
        "je 2f",
        "3:",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 4f",
        "jmp rax",
        "4:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 5f",
        "ret",
        "5:",
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {errno}",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        "2:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {called}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        "pop r8",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp 3b",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        next = sym NEXT_SYSCALL,
        errno = sym libc::__errno_location,
        called = sym called,
    );
}

/// syscall(2), as above.
///
/// # Safety
/// The contract of the system call.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "cmp w0, #{seccomp}",
        "b.eq 2f",
        "cmp w0, #{prctl}",
        "b.eq 2f",
        "3:",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 4f",
        "br x16",
        // Before the next library's is known: the same by the instruction.
        "4:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.hs 5f",
        "ret",
        "5:",
        "neg x0, x0",
        "stp x0, x30, [sp, #-16]!",
        "bl {errno}",
        "ldp x1, x30, [sp], #16",
        "str w1, [x0]",
        "mov x0, #-1",
        "ret",
        "2:",
        "stp x0, x1, [sp, #-80]!",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "str x30, [sp, #64]",
        "bl {called}",
        "ldr x30, [sp, #64]",
        "ldp x6, x7, [sp, #48]",
        "ldp x4, x5, [sp, #32]",
        "ldp x2, x3, [sp, #16]",
        "ldp x0, x1, [sp], #80",
        "b 3b",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        next = sym NEXT_SYSCALL,
        errno = sym libc::__errno_location,
        called = sym called,
    );
}
