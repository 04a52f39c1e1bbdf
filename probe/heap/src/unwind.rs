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
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, Module, MustNotAllocateDuringUnwind,
    UnwindRegsNative, Unwinder as _, UnwinderNative,
};

use crate::arena::Arena;
use crate::modules::{self, Object, Tables};
use crate::other_stack::OtherStack;
use crate::readable::StackReader;

/// Objects known at a time. A further one takes the place of another.
const KNOWN_MAX: usize = 256;
/// Places looked at for an object.
const PROBES: usize = 8;
/// What the arena must have left before an object is added: framehop's list doubles.
const ARENA_RESERVE_BYTES: usize = 96 << 10;
/// Panics after which unwinding stays off. None is known.
const PANICS_MAX: u32 = 3;
/// A frame pointer this far above the stack pointer lies on another stack.
#[cfg(target_arch = "x86_64")]
const SAME_STACK_BYTES: u64 = 8 << 20;
/// Changes of the stack within one trace.
const SWITCHES_MAX: u32 = 4;
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

/// An object that framehop knows.
#[derive(Clone, Copy)]
struct Known {
    object: Object,
    tables: Option<Tables>,
    is_cpp_library: bool,
}

struct Inner {
    unwinder: UnwinderNative<&'static [u8], MustNotAllocateDuringUnwind>,
    cache: CacheNative<MustNotAllocateDuringUnwind>,
    known: [Option<Known>; KNOWN_MAX],
}

/// The unwinder of a process.
pub struct Unwinder {
    busy: AtomicBool,
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

/// What a new object is told to: (object, what it replaced).
pub type OnObject<'a> = &'a mut dyn FnMut(Object, Option<Object>);

impl Unwinder {
    /// Over modules found by [`modules::find`]. `own` is the probe's code, whose frames are left
    /// out; without an arena memory is the process's own (tests). It runs on `stack`.
    pub fn new(own: (u64, u64), arena: Option<&'static Arena>, stack: OtherStack) -> Unwinder {
        let inner = new_inner(arena);
        Unwinder {
            busy: AtomicBool::new(false),
            inner: UnsafeCell::new(inner),
            panics: AtomicU32::new(0),
            arena,
            own,
            stack,
        }
    }

    /// The stack from `registers` outwards, or `None` when another thread is unwinding (or it is
    /// given up).
    pub fn trace(&self, registers: Registers, on_object: OnObject) -> Option<Trace> {
        if self.panics.load(Ordering::Relaxed) >= PANICS_MAX
            || self.busy.swap(true, Ordering::Acquire)
        {
            return None;
        }
        let mut trace = None;
        // SAFETY: we hold `busy`, so the stack is ours; the caller has blocked signals; a panic
        // ends inside.
        unsafe {
            self.stack
                .run(|| trace = self.trace_alone(registers, on_object))
        };
        self.busy.store(false, Ordering::Release);
        trace
    }

    fn trace_alone(&self, registers: Registers, on_object: OnObject) -> Option<Trace> {
        // SAFETY: the caller holds `busy`.
        let inner = unsafe { &mut *self.inner.get() }.as_deref_mut()?;
        let mut walk = Walk {
            inner,
            arena: self.arena,
            own: self.own,
            on_object,
        };
        let traced = catch_unwind(AssertUnwindSafe(|| walk.run(registers)));
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

    /// In a forked child: if another thread was unwinding at the fork, its lists may be
    /// half-changed, and stacks stay off.
    pub fn after_fork(&self) {
        if self.busy.swap(false, Ordering::Relaxed) {
            self.panics.store(PANICS_MAX, Ordering::Relaxed);
        }
    }
}

fn new_inner(arena: Option<&'static Arena>) -> Option<Box<Inner>> {
    // The cache holds gimli's rows (about 30 KiB) and framehop's rules; an arena that cannot hold
    // it means no stacks.
    if arena.is_some_and(|arena| arena.untouched_bytes() < 2 * ARENA_RESERVE_BYTES) {
        return None;
    }
    Some(Box::new(Inner {
        unwinder: UnwinderNative::new(),
        cache: CacheNative::new_in(),
        known: [None; KNOWN_MAX],
    }))
}

/// One unwinding.
struct Walk<'a> {
    inner: &'a mut Inner,
    arena: Option<&'static Arena>,
    own: (u64, u64),
    on_object: OnObject<'a>,
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
        self.known(address.address_for_lookup());
        for _ in 0..DEPTH_MAX + OWN_MAX {
            let mut read = |word: u64| stack.word(word);
            let step = self.inner.unwinder.unwind_frame(
                address,
                &mut registers,
                &mut self.inner.cache,
                &mut read,
            );
            let next = match step {
                Ok(Some(next)) => FrameAddress::from_return_address(next),
                Ok(None) | Err(_) if switches < SWITCHES_MAX => {
                    switches += 1;
                    let next = switched(address, &mut registers, &mut stack);
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
            let at = self.known(address.address_for_lookup());
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
        let known = self.inner.known.get(known as usize).copied().flatten();
        known.map_or(0, |known| known.object.start)
    }

    /// The entry of the thread: from the outermost frame inwards, the first function that is
    /// neither in the object that starts threads nor in the C++ library.
    fn root(&self, frames: &[u64], objects: &[u16]) -> u64 {
        let outermost = objects.last().copied().unwrap_or(u16::MAX);
        let pairs = frames.iter().zip(objects).rev();
        for (frame, at) in pairs.filter(|(_, at)| **at != outermost) {
            let Some(known) = self.inner.known.get(*at as usize).copied().flatten() else {
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

    /// Makes sure that framehop knows the object of an address as it is now; its place in the list.
    fn known(&mut self, address: u64) -> Option<usize> {
        let object = modules::find(address)?;
        let first = (object.start >> 12) as usize;
        let places = (0..PROBES).map(|step| (first + step) % KNOWN_MAX);
        let mut place = None;
        for at in places {
            match self.inner.known[at] {
                Some(known) if known.object == object => return Some(at),
                // The same address, another object: it was closed and another opened there.
                Some(known) if known.object.start == object.start => {
                    place = Some(at);
                    break;
                }
                None => place = place.or(Some(at)),
                Some(_) => {}
            }
        }
        self.add(place.unwrap_or(first % KNOWN_MAX), object)
    }

    fn add(&mut self, at: usize, object: Object) -> Option<usize> {
        if self
            .arena
            .is_some_and(|arena| arena.untouched_bytes() < ARENA_RESERVE_BYTES)
        {
            return None;
        }
        let replaced = self.inner.known[at].take().map(|known| known.object);
        if let Some(replaced) = replaced {
            self.inner.unwinder.remove_module(replaced.start);
        }
        let tables = object.tables();
        if let Some(tables) = tables {
            self.inner.unwinder.add_module(module(object, tables));
        }
        let mut path = [0; 64];
        let (bytes, _) = object.name_and_bias(&mut path);
        let has = |name: &[u8]| path[..bytes].windows(name.len()).any(|part| part == name);
        let is_cpp_library = has(b"libstdc++.so") || has(b"libc++.so");
        self.inner.known[at] = Some(Known {
            object,
            tables,
            is_cpp_library,
        });
        (self.on_object)(object, replaced);
        Some(at)
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

fn module(object: Object, tables: Tables) -> Module<&'static [u8]> {
    let range = |(start, bytes): (u64, u64)| start..start + bytes;
    // SAFETY: `tables` found them inside the object's segments; they stay as long as its code can
    // be on a stack.
    let bytes = |(start, bytes): (u64, u64)| unsafe {
        std::slice::from_raw_parts(start as *const u8, bytes as usize)
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: object.start,
        text_svma: Some(range(tables.text)),
        eh_frame_svma: Some(range(tables.eh_frame)),
        eh_frame: Some(bytes(tables.eh_frame)),
        eh_frame_hdr_svma: Some(range(tables.eh_frame_hdr)),
        eh_frame_hdr: Some(bytes(tables.eh_frame_hdr)),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new(
        String::new(),
        object.start..object.end,
        object.start,
        sections,
    )
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.lr, registers.sp, registers.fp)
}

#[cfg(test)]
mod tests;
