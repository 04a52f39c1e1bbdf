//! The probe's life in a process: looked for at the first call, started as soon as there is an
//! environment, switched off.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use abi::{Thread, bytes_mode, off_reason};
use heap::{Bytes, Calls, Errno, Home, Probe, Settings};

use crate::next::{Ptr, next};
use crate::thread::Inside;
use crate::{ARENA, FILTER, anchor, early, forms, measure, next, recorder, slow, thread, usable};

/// Where the process is.
pub enum Stage {
    /// The next functions are being looked for, on this very stack.
    Resolving,
    /// They are found; the C library has no environment yet.
    Early,
    /// Counting.
    On(&'static Probe),
    /// Writing every call into a trace.
    Recording,
    /// For good.
    Off,
}

const RAW: u32 = 0;
const RESOLVING: u32 = 1;
const FOUND: u32 = 2;
const STARTING: u32 = 3;
const ON: u32 = 4;
const OFF: u32 = 5;
const RECORDING: u32 = 6;

static STAGE: AtomicU32 = AtomicU32::new(RAW);

struct Place(UnsafeCell<MaybeUninit<Probe>>);
// SAFETY: written once, before ON is stored.
unsafe impl Sync for Place {}
static PROBE: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// Row of the thread that started the probe. It gets there by the slow paths until all constructors
/// before ours have run: an allocator whose own have not may allocate where the hot path must not.
static FIRST_ROW: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());
static FIRST_TID: AtomicU32 = AtomicU32::new(0);
static CONSTRUCTED: AtomicBool = AtomicBool::new(false);

/// Counters of the time before the start; one thread.
static mut EARLY: Thread = Thread::EMPTY;

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// True once it is off for good.
#[inline(always)]
pub fn is_off() -> bool {
    STAGE.load(Ordering::Relaxed) == OFF
}

/// True while every call is written into a trace.
#[inline(always)]
pub fn is_recording() -> bool {
    STAGE.load(Ordering::Relaxed) == RECORDING && (recorder::is_on() || has_stopped())
}

/// Recording has ended, for good; false, for [`is_recording`].
#[cold]
#[inline(never)]
fn has_stopped() -> bool {
    let _ = STAGE.compare_exchange(RECORDING, OFF, Ordering::AcqRel, Ordering::Acquire);
    false
}

/// True once this library's constructor has run, and with it the allocator's.
pub fn is_constructed() -> bool {
    CONSTRUCTED.load(Ordering::Relaxed)
}

/// Before that: the row of the thread that started the probe, to that thread only.
pub fn row_before_construction() -> Option<*mut Thread> {
    let row = FIRST_ROW.load(Ordering::Relaxed);
    (!row.is_null() && FIRST_TID.load(Ordering::Relaxed) == thread::tid()).then_some(row)
}

/// The stage, after trying to get further.
#[inline]
pub fn stage() -> Stage {
    match STAGE.load(Ordering::Acquire) {
        // SAFETY: written before ON was stored.
        ON => Stage::On(unsafe { (*PROBE.0.get()).assume_init_ref() }),
        OFF => Stage::Off,
        RECORDING if is_recording() => Stage::Recording,
        RECORDING => Stage::Off,
        RAW => resolve(),
        FOUND => begin(),
        STARTING => Stage::Early,
        _ => Stage::Resolving,
    }
}

/// The probe, while it is on.
pub fn probe() -> Option<&'static Probe> {
    match STAGE.load(Ordering::Acquire) {
        // SAFETY: written before ON was stored.
        ON => Some(unsafe { (*PROBE.0.get()).assume_init_ref() }),
        _ => None,
    }
}

/// The first call of the process.
#[cold]
#[inline(never)]
fn resolve() -> Stage {
    let _errno = Errno::save();
    if STAGE
        .compare_exchange(RAW, RESOLVING, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return Stage::Resolving;
    }
    // SAFETY: first call, so one thread.
    if !unsafe { next::find() } {
        anchor::off(off_reason::NO_ALLOCATOR);
        // There is nothing to forward to: what the early buffer holds is all there is.
        return Stage::Resolving;
    }
    STAGE.store(FOUND, Ordering::Release);
    begin()
}

/// Starts as soon as the C library has its environment.
#[inline(never)]
fn begin() -> Stage {
    // SAFETY: set by the C library before any constructor but its own.
    if unsafe { environ.is_null() } {
        return Stage::Early;
    }
    if STAGE
        .compare_exchange(FOUND, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return Stage::Early;
    }
    let _errno = Errno::save();
    // SAFETY: one thread gets here, once; the words are its own.
    let reason = unsafe {
        (*thread::local()).flags |= thread::flag::STARTING;
        let reason = start();
        (*thread::local()).flags &= !thread::flag::STARTING;
        reason
    };
    if reason == off_reason::NONE {
        STAGE.store(ON, Ordering::Release);
    } else if reason == off_reason::RECORDING && recorder::is_on() {
        anchor::off(reason);
        STAGE.store(RECORDING, Ordering::Release);
    } else {
        anchor::off(reason);
        STAGE.store(OFF, Ordering::Release);
    }
    stage()
}

/// One of [`off_reason`].
unsafe fn start() -> u32 {
    // SAFETY: one thread gets here, once; the next functions are found.
    unsafe {
        if libc::getauxval(libc::AT_SECURE) != 0 {
            return off_reason::SECURE;
        }
        let settings = settings();
        if !settings.on {
            return off_reason::REQUESTED;
        }
        // A launcher, a unit of systemd's: some filters end a process for one call of ours.
        if heap::filters() > settings.filters {
            Calls::forbid();
            return off_reason::STARTED_CONFINED;
        }
        next::let_others_resolve();
        if let Some(path) = variable(trace_abi::RECORD_VARIABLE.as_bytes()) {
            forms::find();
            FILTER.pin(0);
            recorder::start(path);
            return off_reason::RECORDING;
        }
        // A program with a malloc of its own never calls ours, and may answer for what the next library asks of itself:
        // nothing is tried there.
        let is_asked = next::gives_blocks();
        let mode = if settings.bytes == Bytes::Sampled || !is_asked {
            bytes_mode::SAMPLED
        } else {
            usable::best_mode()
        };
        let home = Home {
            own_code: stage as *const () as u64,
            next: (next().malloc as usize as u64, forms::find()),
            filter: &FILTER,
            arena: Some(&ARENA),
            python: next::python(),
            bytes_mode: mode,
        };
        let Some(probe) = heap::start(&settings, home) else {
            return off_reason::NO_MEMORY;
        };
        let probe: &Probe = (*PROBE.0.get()).write(probe);
        usable::set_mode(mode);
        // A free of null is told from others where a sampled one is.
        FILTER.pin(0);
        take_over_early(probe);
        measure::pairs(probe, settings.bytes == Bytes::Exact || !is_asked);
        anchor::point(probe.header());
        off_reason::NONE
    }
}

/// The value of a variable of the environment.
unsafe fn variable(name: &[u8]) -> Option<&'static CStr> {
    // SAFETY: as in `settings`; the environment outlives the start.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at);
            let rest = entry.to_bytes().strip_prefix(name);
            if rest.is_some_and(|rest| rest.starts_with(b"=")) {
                return Some(CStr::from_ptr((*at).add(name.len() + 1)));
            }
            at = at.add(1);
        }
    }
    None
}

unsafe fn settings() -> Settings {
    let mut settings = Settings::default();
    // SAFETY: `environ` is a list of C strings that ends with null, and nobody else runs yet.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes();
            if entry.starts_with(b"HIGHWATER_PROBE")
                && let Some(equals) = entry.iter().position(|byte| *byte == b'=')
            {
                settings.set(&entry[..equals], &entry[equals + 1..]);
            }
            at = at.add(1);
        }
    }
    settings
}

/// The first row begins with what was counted before there was one.
unsafe fn take_over_early(probe: &Probe) {
    // SAFETY: one thread, before the probe is on: nobody else reads or writes the early counters.
    unsafe {
        let Some(row) = probe.join(thread::tid()) else {
            return;
        };
        let before = &raw const EARLY;
        (*row).allocs += (*before).allocs;
        (*row).frees += (*before).frees;
        (*row).usable_allocated_bytes += (*before).usable_allocated_bytes;
        (*row).usable_freed_bytes += (*before).usable_freed_bytes;
        (*row).drawn_bytes += (*before).drawn_bytes;
        (*probe.header()).counters.early_bytes = early::used_bytes() as u64;
        FIRST_ROW.store(row, Ordering::Relaxed);
        FIRST_TID.store(thread::tid(), Ordering::Relaxed);
    }
}

/// A block of the time before the start. The size of it may cost an allocation in turn (gperftools,
/// the first time).
#[inline(never)]
pub unsafe fn count_early(block: Ptr, bytes: u64) {
    if block.is_null() {
        return;
    }
    // SAFETY: only the thread that starts the process gets here, before the probe is on.
    unsafe {
        let early = &raw mut EARLY;
        (*early).allocs += 1;
        (*early).drawn_bytes += bytes;
        if let Some(_inside) = Inside::enter() {
            (*early).usable_allocated_bytes += usable::by_call(block);
        }
    }
}

/// Its free.
#[inline(never)]
pub unsafe fn count_early_free(block: Ptr) {
    // SAFETY: only the thread that starts the process gets here, before the probe is on.
    unsafe {
        let early = &raw mut EARLY;
        (*early).frees += 1;
        if let Some(_inside) = Inside::enter() {
            (*early).usable_freed_bytes += usable::by_call(block);
        }
    }
}

/// After a sample: the hot path takes over what the probe has decided.
pub fn follow(probe: &Probe) {
    usable::set_mode(probe.bytes_mode());
    if !probe.is_on() {
        went_off(probe);
    }
}

/// The probe has switched itself off.
pub fn went_off(probe: &Probe) {
    usable::set_mode(bytes_mode::SAMPLED);
    // SAFETY: a word of the header.
    anchor::off(unsafe { (*probe.header()).off_reason });
    STAGE.store(OFF, Ordering::Release);
}

/// Goes off for good, in whatever stage: no system call of the probe's is made after this.
pub fn end(reason: u32) {
    match stage() {
        Stage::On(probe) => probe.switch_off(reason),
        // Nothing is behind the probe: it makes no samples, and its early buffer is all there is.
        Stage::Resolving => return,
        Stage::Recording => recorder::end(trace_abi::off_reason::CONFINED),
        Stage::Early | Stage::Off => {}
    }
    anchor::off(reason);
    usable::set_mode(bytes_mode::SAMPLED);
    STAGE.store(OFF, Ordering::Release);
    Calls::forbid();
}

extern "C" fn in_parent() {
    if let Some(probe) = probe() {
        probe.forked();
    }
}

extern "C" fn in_child() {
    ARENA.unlock_after_fork();
    let was_amid = Calls::after_fork();
    if is_recording() {
        // The trace is the parent's: both have it mapped.
        recorder::forget();
        STAGE.store(OFF, Ordering::Release);
    }
    if let Some(probe) = probe()
        && let Some(_calls) = Calls::begin()
    {
        let _errno = Errno::save();
        // SAFETY: once per fork, on the child's only thread.
        unsafe { probe.after_fork((*thread::local()).own, thread::tid(), was_amid) };
    }
}

/// Runs when the loader initialises this library: at the latest now there is an environment.
extern "C" fn construct() {
    stage();
    if let Some(row) = row_before_construction() {
        // SAFETY: this thread's words.
        unsafe { slow::take_row(row) };
    }
    CONSTRUCTED.store(true, Ordering::Relaxed);
    // SAFETY: registers two functions that stay.
    unsafe { libc::pthread_atfork(None, Some(in_parent), Some(in_child)) };
    // A panic is our bug and nobody's business here: it is caught and counted where it can happen.
    std::panic::set_hook(Box::new(|_| {}));
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCT: extern "C" fn() = construct;
