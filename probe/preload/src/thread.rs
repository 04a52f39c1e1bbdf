//! Four words of thread-local memory, in the initial-exec model: found by one load relative to the
//! thread pointer.
//!
//! The general model would call `__tls_get_addr`, which may allocate: inside malloc that is a loop.
//! Rust's `thread_local!` cannot ask for initial-exec on stable, hence the assembly.

use abi::Thread;

/// What each thread has.
#[repr(C)]
pub struct Local {
    /// Its row where a call has nothing to do but to count, or null: bytes are exact, or it has none.
    pub row: *mut Thread,
    /// Its row, or null: not yet known, sharing the overflow row, or the probe is off.
    pub own: *mut Thread,
    /// Bits of [`flag`].
    pub flags: u64,
    /// Where its events are written while every call is recorded, or null.
    pub chunk: *mut trace_abi::Chunk,
}

/// Bits of [`Local::flags`].
pub mod flag {
    /// Inside the probe's own code.
    pub const INSIDE: u64 = 1;
    /// All rows were taken: it shares one.
    pub const OVERFLOW: u64 = 2;
    /// Starting the probe: what this thread allocates on the way stays off the subject's heap.
    pub const STARTING: u64 = 16;
}

// Zero in every new thread. Hidden: a symbol of this library alone.
std::arch::global_asm!(
    ".pushsection .tbss.highwater_probe_local,\"awT\",@nobits",
    ".p2align 4",
    ".globl highwater_probe_local",
    ".hidden highwater_probe_local",
    ".type highwater_probe_local, @object",
    ".size highwater_probe_local, 32",
    "highwater_probe_local:",
    ".zero 32",
    ".popsection",
);

/// This thread's.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn local() -> *mut Local {
    let place: *mut Local;
    // SAFETY: reads the offset of our words from the thread pointer, and the thread pointer.
    unsafe {
        std::arch::asm!(
            "mov {place}, qword ptr [rip + highwater_probe_local@GOTTPOFF]",
            "add {place}, qword ptr fs:[0]",
            place = out(reg) place,
            options(nostack, readonly, pure),
        );
    }
    place
}

/// [`Local::row`] of this thread.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn row() -> *mut Thread {
    let row: *mut Thread;
    // SAFETY: reads the first of our words.
    unsafe {
        std::arch::asm!(
            "mov {row}, qword ptr [rip + highwater_probe_local@GOTTPOFF]",
            "mov {row}, qword ptr fs:[{row}]",
            row = out(reg) row,
            options(nostack, readonly, preserves_flags, pure),
        );
    }
    row
}

/// This thread's.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn local() -> *mut Local {
    let place: *mut Local;
    // SAFETY: as on x86_64.
    unsafe {
        std::arch::asm!(
            "adrp {place}, :gottprel:highwater_probe_local",
            "ldr {place}, [{place}, :gottprel_lo12:highwater_probe_local]",
            "mrs {pointer}, tpidr_el0",
            "add {place}, {place}, {pointer}",
            place = out(reg) place,
            pointer = out(reg) _,
            options(nostack, readonly, preserves_flags, pure),
        );
    }
    place
}

/// [`Local::row`] of this thread.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn row() -> *mut Thread {
    // SAFETY: our words are always there.
    unsafe { (*local()).row }
}

/// Registers here, for unwinding from the function that this is inlined into.
#[inline(always)]
pub fn registers() -> heap::Registers {
    #[cfg(target_arch = "x86_64")]
    {
        let (pc, sp, fp): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]", "mov {sp}, rsp", "mov {fp}, rbp",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp,
                options(nomem, nostack, preserves_flags),
            );
        }
        heap::Registers { pc, sp, fp, lr: 0 }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let (pc, sp, fp, lr): (u64, u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "adr {pc}, .", "mov {sp}, sp", "mov {fp}, x29", "mov {lr}, x30",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp, lr = out(reg) lr,
                options(nomem, nostack, preserves_flags),
            );
        }
        heap::Registers { pc, sp, fp, lr }
    }
}

/// True while this thread starts the probe.
pub fn is_starting() -> bool {
    // SAFETY: this thread's words.
    unsafe { (*local()).flags & flag::STARTING != 0 }
}

/// Until the end of the scope this thread's allocations go to the allocator, although it starts the probe.
pub struct Forwarding;

impl Forwarding {
    /// This thread starts the probe.
    pub fn begin() -> Forwarding {
        // SAFETY: this thread's words.
        unsafe { (*local()).flags &= !flag::STARTING };
        Forwarding
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        // SAFETY: this thread's words.
        unsafe { (*local()).flags |= flag::STARTING };
    }
}

/// Thread id as the kernel knows it.
pub fn tid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Marks this thread as inside the probe until the end of the scope.
pub struct Inside(*mut Local);

impl Inside {
    /// `None` when it is already.
    pub fn enter() -> Option<Inside> {
        let local = local();
        // SAFETY: this thread's words.
        unsafe {
            if (*local).flags & flag::INSIDE != 0 {
                return None;
            }
            heap::touch_stack::<{ heap::INSIDE_STACK_BYTES }>();
            (*local).flags |= flag::INSIDE;
        }
        Some(Inside(local))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: this thread's words.
        unsafe { (*self.0).flags &= !flag::INSIDE };
    }
}
