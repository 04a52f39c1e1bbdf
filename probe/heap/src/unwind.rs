//! Stacks without frame pointers: framehop over the objects that `modules` finds, one thread at a
//! time.
//!
//! A thread that finds another unwinding does without a stack and is counted: at 1,000 samples a
//! second of some microseconds each that is rare, and nobody ever waits.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use abi::{DEPTH_MAX, stack_flag};
use framehop::{
    CacheNative, FrameAddress, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder as _,
};

use crate::arena::Arena;
use crate::calls::Calls;
use crate::clock;
#[cfg(target_arch = "x86_64")]
use crate::modules;
use crate::objects::{ARENA_RESERVE_BYTES, Objects, OnChange};
use crate::other_stack::OtherStack;
use crate::readable::StackReader;

/// Panics after which unwinding stays off. None is known.
const PANICS_MAX: u32 = 3;
/// A frame pointer this far above the stack pointer lies on another stack.
#[cfg(target_arch = "x86_64")]
const SAME_STACK_BYTES: u64 = 8 << 20;
/// Changes of the stack within one trace.
const SWITCHES_MAX: u32 = 4;
/// How often and how long dlclose waits for a trace: one second in all. A trace takes microseconds.
const CLOSING_TRIES: u32 = 20_000;
const CLOSING_PAUSE_NS: i64 = 50_000;
/// Frames of the probe itself at the inner end, at most.
const OWN_MAX: usize = 16;

/// Where unwinding begins: registers inside a function of the probe that is still running.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register (aarch64; elsewhere unused).
    pub lr: u64,
}

/// Return addresses, innermost first; then the functions of an interpreter, if any.
#[derive(Clone, Copy)]
pub struct Trace {
    frames: [u64; DEPTH_MAX],
    depth: usize,
    /// Bits of [`stack_flag`].
    pub flags: u16,
    /// Start of the outermost function outside the C library, or 0.
    pub root: u64,
    /// Start of the object of the innermost frame, or 0.
    pub caller_object: u64,
}

impl Trace {
    /// The frames.
    pub fn frames(&self) -> &[u64] {
        &self.frames[..self.depth]
    }

    /// Puts these at the end, in place of all frames but the innermost `kept`.
    pub fn end_with(&mut self, more: &[u64], kept: usize) {
        if self.depth > kept {
            (self.depth, self.flags) = (kept, self.flags | stack_flag::DEEPER);
        }
        let end = self.frames[self.depth..].iter_mut();
        let added = end.zip(more).map(|(frame, one)| *frame = *one).count();
        self.depth += added;
    }
}

struct Inner {
    objects: Objects,
    cache: CacheNative<MustNotAllocateDuringUnwind>,
}

/// The unwinder of a process.
pub struct Unwinder {
    busy: AtomicBool,
    /// Threads that are closing an object.
    closing: AtomicU32,
    inner: UnsafeCell<Option<Box<Inner>>>,
    panics: AtomicU32,
    arena: Option<&'static Arena>,
    own: (u64, u64),
    stack: OtherStack,
}

// SAFETY: `inner` is touched only by the holder of `busy`.
unsafe impl Sync for Unwinder {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Unwinder {}

impl Unwinder {
    /// Over modules found by [`modules::find`]. `own` is the probe's code, whose frames are left
    /// out; without an arena memory is the process's own (tests). It runs on `stack`.
    pub fn new(own: (u64, u64), arena: Option<&'static Arena>, stack: OtherStack) -> Unwinder {
        let inner = new_inner(arena);
        Unwinder {
            busy: AtomicBool::new(false),
            closing: AtomicU32::new(0),
            inner: UnsafeCell::new(inner),
            panics: AtomicU32::new(0),
            arena,
            own,
            stack,
        }
    }

    /// What `done` makes of the stack from `registers` outwards, or `None` when another thread is unwinding or closing
    /// an object (or it is given up). Both run on the unwinder's own stack, so that the caller's need not hold a trace
    /// of 600 bytes.
    pub fn trace<R>(
        &self,
        registers: Registers,
        on_change: OnChange,
        done: impl FnOnce(&mut Trace) -> R,
    ) -> Option<R> {
        if self.panics.load(Ordering::Relaxed) >= PANICS_MAX
            || self.busy.swap(true, Ordering::SeqCst)
        {
            return None;
        }
        // Either this sees the closing thread, or that one sees `busy` and waits.
        if self.closing.load(Ordering::SeqCst) > 0 {
            self.busy.store(false, Ordering::Release);
            return None;
        }
        let mut result = None;
        // SAFETY: we hold `busy`, so the stack is ours; the caller has blocked signals; a panic
        // ends inside.
        unsafe {
            self.stack
                .run(|| result = self.trace_alone(registers, on_change, done))
        };
        self.busy.store(false, Ordering::Release);
        result
    }

    fn trace_alone<R>(
        &self,
        registers: Registers,
        on_change: OnChange,
        done: impl FnOnce(&mut Trace) -> R,
    ) -> Option<R> {
        // SAFETY: the caller holds `busy`.
        let inner = unsafe { &mut *self.inner.get() }.as_deref_mut()?;
        let mut walk = Walk {
            inner,
            arena: self.arena,
            own: self.own,
            on_change,
        };
        let traced = catch_unwind(AssertUnwindSafe(|| done(&mut walk.run(registers))));
        if traced.is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        traced.ok()
    }

    /// Bytes of the arena in use, and how often it refused.
    pub fn memory(&self) -> (u64, u64) {
        let of = |arena: &Arena| (arena.touched_bytes() as u64, arena.refused());
        self.arena.map_or((0, 0), of)
    }

    /// Keeps objects in memory while they are read: from now until the guard goes no trace begins, and the one under
    /// way has ended. That takes some microseconds, or until its thread is scheduled again. After [`CLOSING_TRIES`]
    /// unwinding is given up for good and the caller goes on: it never waits without a bound.
    pub fn closing(&self) -> Closing<'_> {
        self.closing.fetch_add(1, Ordering::SeqCst);
        let is_over = |_| {
            let is_over = !self.busy.load(Ordering::SeqCst);
            if !is_over {
                // A thread of a lower real-time priority may need this CPU.
                match Calls::begin() {
                    Some(_calls) => clock::pause(CLOSING_PAUSE_NS),
                    None => std::hint::spin_loop(),
                }
            }
            is_over
        };
        if !(0..CLOSING_TRIES).any(is_over) {
            self.panics.store(PANICS_MAX, Ordering::Relaxed);
        }
        Closing(self)
    }

    /// In a forked child: if another thread was unwinding at the fork, its lists may be
    /// half-changed, and stacks stay off. Threads that were closing something are not there any more.
    pub fn after_fork(&self) {
        self.closing.store(0, Ordering::Relaxed);
        if self.busy.swap(false, Ordering::Relaxed) {
            self.panics.store(PANICS_MAX, Ordering::Relaxed);
        }
    }
}

/// While it lasts no object is read. See [`Unwinder::closing`].
pub struct Closing<'a>(&'a Unwinder);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let one_less = |count: u32| Some(count.saturating_sub(1));
        // A child forked meanwhile has set it to 0.
        let _ = self
            .0
            .closing
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

fn new_inner(arena: Option<&'static Arena>) -> Option<Box<Inner>> {
    // The cache holds gimli's rows (about 30 KiB) and framehop's rules; an arena that cannot hold
    // it means no stacks.
    if arena.is_some_and(|arena| arena.untouched_bytes() < 2 * ARENA_RESERVE_BYTES) {
        return None;
    }
    Some(Box::new(Inner {
        objects: Objects::new(),
        cache: CacheNative::new_in(),
    }))
}

/// One unwinding.
struct Walk<'a> {
    inner: &'a mut Inner,
    arena: Option<&'static Arena>,
    own: (u64, u64),
    on_change: OnChange<'a>,
}

impl Walk<'_> {
    fn run(&mut self, from: Registers) -> Trace {
        let mut trace = Trace {
            frames: [0; DEPTH_MAX],
            depth: 0,
            flags: 0,
            root: 0,
            caller_object: 0,
        };
        let mut objects = [u16::MAX; DEPTH_MAX];
        let mut stack = StackReader::from(from.sp);
        let mut registers = native(from);
        let mut switches = 0;
        let mut address = FrameAddress::from_instruction_pointer(from.pc);
        self.inner.objects.begin_trace();
        let mut at = self.current(address);
        for _ in 0..DEPTH_MAX + OWN_MAX {
            let mut read = |word: u64| stack.word(word);
            let step = self.inner.objects.unwinder.unwind_frame(
                address,
                &mut registers,
                &mut self.inner.cache,
                &mut read,
            );
            let next = match step {
                Ok(Some(next)) => FrameAddress::from_return_address(next),
                Ok(None) | Err(_) if switches < SWITCHES_MAX => {
                    switches += 1;
                    let is_go = at
                        .and_then(|at| self.inner.objects.at(at as u16))
                        .is_some_and(|known| known.is_go);
                    let next = is_go
                        .then(|| switched(address, &mut registers, &mut stack))
                        .flatten();
                    trace.flags |= if step.is_err() && next.is_none() {
                        stack_flag::BROKEN
                    } else {
                        0
                    };
                    next
                }
                Ok(None) => None,
                Err(_) => {
                    trace.flags |= stack_flag::BROKEN;
                    None
                }
            };
            let Some(next) = next else {
                break;
            };
            address = next;
            at = self.current(address);
            if self.is_own(address.address()) && trace.depth == 0 {
                continue;
            }
            if trace.depth == DEPTH_MAX {
                trace.flags |= stack_flag::DEEPER;
                break;
            }
            trace.frames[trace.depth] = address.address();
            objects[trace.depth] = at.map_or(u16::MAX, |at| at as u16);
            trace.depth += 1;
        }
        trace.caller_object = self.start_of(objects[0]);
        if trace.flags == 0 {
            trace.root = self.root(&trace.frames[..trace.depth], &objects[..trace.depth]);
        }
        trace
    }

    fn is_own(&self, address: u64) -> bool {
        (self.own.0..self.own.1).contains(&address)
    }

    fn start_of(&self, known: u16) -> u64 {
        let known = self.inner.objects.at(known);
        known.map_or(0, |known| known.object.start)
    }

    /// The entry of the thread: from the outermost frame inwards, the first function that is
    /// neither in the object that starts threads nor in the C++ library.
    fn root(&self, frames: &[u64], objects: &[u16]) -> u64 {
        let outermost = objects.last().copied().unwrap_or(u16::MAX);
        let pairs = frames.iter().zip(objects).rev();
        for (frame, at) in pairs.filter(|(_, at)| **at != outermost) {
            let Some(known) = self.inner.objects.at(*at) else {
                continue;
            };
            if !known.is_cpp_library {
                return known
                    .tables
                    .and_then(|tables| tables.function_start(frame - 1))
                    .unwrap_or(*frame);
            }
        }
        0
    }

    /// What the loader has at an address now; its slot.
    fn current(&mut self, address: FrameAddress) -> Option<usize> {
        let address = address.address_for_lookup();
        self.inner
            .objects
            .current(address, self.arena, self.on_change)
    }
}

/// A frame that called from another stack, by its frame pointer. Go runs C on the thread's own stack,
/// and the goroutine that asked for it is only to be found by the register that C has saved. Believed
/// when it leads back into the object that made the call.
#[cfg(target_arch = "x86_64")]
fn switched(
    address: FrameAddress,
    registers: &mut UnwindRegsNative,
    stack: &mut StackReader,
) -> Option<FrameAddress> {
    let (frame, sp) = (registers.bp(), registers.sp());
    let same_stack = frame >= sp && frame - sp < SAME_STACK_BYTES;
    if same_stack || !frame.is_multiple_of(8) {
        return None;
    }
    let mut other = StackReader::from(frame);
    let (saved, back) = (
        other.word(frame).ok()?,
        other.word(frame.checked_add(8)?).ok()?,
    );
    let from = modules::find(address.address_for_lookup())?;
    if modules::find(back.wrapping_sub(1))?.start != from.start {
        return None;
    }
    registers.set_ip(back);
    registers.set_sp(frame + 16);
    registers.set_bp(saved);
    *stack = other;
    FrameAddress::from_return_address(back)
}

#[cfg(not(target_arch = "x86_64"))]
fn switched(
    _: FrameAddress,
    _: &mut UnwindRegsNative,
    _: &mut StackReader,
) -> Option<FrameAddress> {
    None
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegsNative {
    // Of all bits below the one that tells a program's addresses from the kernel's, those that hold no signature of
    // pointer authentication.
    let mut mask = u64::MAX >> 9;
    // SAFETY: xpaclri, as its number among the hints: it changes x30 alone, and older CPUs do nothing for it.
    unsafe {
        std::arch::asm!(
            "hint #7",
            inlateout("x30") mask,
            options(nomem, nostack, preserves_flags),
        );
    }
    let mask = framehop::aarch64::PtrAuthMask(mask);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}

#[cfg(test)]
mod tests;
