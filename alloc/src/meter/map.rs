//! The mapping that highwater reads: where its sections are, and its start. Nothing is mapped after that.

use core::ffi::CStr;
use core::ptr::{addr_of_mut, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use abi::{
    CLASSES, Class, Flow, HEADER_BYTES, Header, LATENCIES, Latency, MAGIC, Module, PAGE_BYTES,
    ROLES, Region, Role, STACK_NONE, Sample, Section, SectionKind, Stack, State, Thread, VERSION,
    bytes_mode,
};

use super::{modules, row, sampler, samples, settings};

/// Rows of threads; those beyond share one.
pub(crate) const THREADS: usize = if cfg!(test) { 4 } else { 4096 };
/// Rows of live samples: at a mean of 512 KiB, 8 GiB of live heap.
pub(crate) const SAMPLES: usize = 16_384;
/// Distinct stacks.
pub(crate) const STACKS: usize = 8_192;
/// Frames over all stacks, 24 on average.
pub(crate) const FRAMES: usize = STACKS * 24;
/// Loaded objects.
pub(crate) const MODULES: usize = 128;

/// Kind, rows and bytes of a row, in their order in the mapping.
const PLAN: [(SectionKind, usize, usize); 11] = [
    (SectionKind::Threads, THREADS, size_of::<Thread>()),
    (SectionKind::SampleKeys, SAMPLES, size_of::<u64>()),
    (SectionKind::Samples, SAMPLES, size_of::<Sample>()),
    (SectionKind::Stacks, STACKS, size_of::<Stack>()),
    (SectionKind::Frames, FRAMES, size_of::<u64>()),
    (SectionKind::Roles, ROLES, size_of::<Role>()),
    (SectionKind::Matrix, ROLES * ROLES, size_of::<Flow>()),
    (SectionKind::Classes, CLASSES, size_of::<Class>()),
    (SectionKind::Latencies, LATENCIES, size_of::<Latency>()),
    (SectionKind::Modules, MODULES, size_of::<Module>()),
    // A linked allocator sees no mmap of the program's.
    (SectionKind::Regions, 0, size_of::<Region>()),
];
const OFFSETS: [usize; 11] = offsets();
/// 5.1 MiB of addresses; resident is what was touched.
pub(crate) const TOTAL_BYTES: usize = end_of(10).next_multiple_of(PAGE_BYTES);

const _: () = assert!(THREADS < STACK_NONE as usize && PLAN[10].0 as usize == 10);

const fn end_of(at: usize) -> usize {
    (offsets()[at] + PLAN[at].1 * PLAN[at].2).next_multiple_of(64)
}

const fn offsets() -> [usize; 11] {
    let mut offsets = [0; 11];
    let (mut at, mut next) = (0, HEADER_BYTES);
    while at < PLAN.len() {
        offsets[at] = next;
        next = (next + PLAN[at].1 * PLAN[at].2).next_multiple_of(64);
        at += 1;
    }
    offsets
}

static BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static STAGE: AtomicU32 = AtomicU32::new(stage::NONE);

mod stage {
    pub(super) const NONE: u32 = 0;
    pub(super) const STARTING: u32 = 1;
    pub(super) const ON: u32 = 2;
    pub(super) const OFF: u32 = 3;
}

/// Maps at the first call of the process; true when there is a mapping to count in.
pub(crate) fn start() -> bool {
    loop {
        match STAGE.load(Acquire) {
            stage::ON => return true,
            stage::OFF => return false,
            stage::NONE => {
                let won = STAGE.compare_exchange(stage::NONE, stage::STARTING, AcqRel, Relaxed);
                if won.is_ok() {
                    let end = if map() { stage::ON } else { stage::OFF };
                    STAGE.store(end, Release);
                }
            }
            // SAFETY: no arguments. Another thread maps: some ten microseconds.
            _ => unsafe {
                libc::sched_yield();
            },
        }
    }
}

/// True while there is a mapping.
pub(crate) fn is_on() -> bool {
    STAGE.load(Acquire) == stage::ON
}

fn map() -> bool {
    // SAFETY: no arguments that could be wrong. A set-uid program is not for others to look into.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return false;
    }
    let settings = settings::read();
    if !settings.is_on {
        return false;
    }
    let Some(base) = reserve() else { return false };
    BASE.store(base, Release);
    sampler::set_up(&settings);
    fill_header(base.cast(), &settings);
    row::set_up_overflow();
    row::make_key();
    // SAFETY: the handler only writes to the mapping.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    header_field(|header| unsafe { addr_of_mut!((*header).state) })
        .store(State::On as u32, Release);
    true
}

/// Anonymous memory, its first page named by a memory file of one page: a reader finds it in /proc/PID/maps.
fn reserve() -> Option<*mut u8> {
    const NAME: &CStr = c"highwater-probe-meter";
    let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    let anonymous = private | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(null_mut(), TOTAL_BYTES, access, anonymous, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: a NUL-terminated name; the page replaced is the mapping's own; the file is closed once.
    unsafe {
        let file = libc::syscall(libc::SYS_memfd_create, NAME.as_ptr(), libc::MFD_CLOEXEC) as i32;
        if file >= 0 {
            let fixed = private | libc::MAP_FIXED;
            let sized = libc::ftruncate(file, PAGE_BYTES as libc::off_t) == 0;
            let page = if sized {
                libc::mmap(base, PAGE_BYTES, access, fixed, file, 0)
            } else {
                libc::MAP_FAILED
            };
            libc::close(file);
            if page != libc::MAP_FAILED {
                return Some(base.cast());
            }
        }
        libc::munmap(base, TOTAL_BYTES);
    }
    None
}

fn fill_header(header: *mut Header, settings: &settings::Settings) {
    let now = clock_ns(libc::CLOCK_MONOTONIC);
    // SAFETY: the page is mapped, zeroed and nobody else's yet; every field is an integer.
    let header = unsafe { &mut *header };
    header.version = VERSION;
    header.header_bytes = HEADER_BYTES as u32;
    header.total_bytes = TOTAL_BYTES as u64;
    header.cap_bytes = TOTAL_BYTES as u64;
    header.state = State::Starting as u32;
    header.bytes_mode = bytes_mode::EXACT_BY_LAYOUT;
    header.pid = u64::from(std::process::id());
    header.started_ns = now;
    header.started_realtime_ns = clock_ns(libc::CLOCK_REALTIME);
    header.state_since_ns = now;
    header.mean_bytes = settings.mean_bytes;
    header.next_malloc =
        <crate::chosen::Inner as core::alloc::GlobalAlloc>::alloc as *const () as u64;
    header.seed = settings.seed;
    for (at, (kind, rows, bytes)) in PLAN.into_iter().enumerate() {
        let grows = matches!(
            kind,
            SectionKind::Threads | SectionKind::Frames | SectionKind::Modules
        );
        header.sections[kind as usize] = Section {
            offset: OFFSETS[at] as u64,
            capacity: rows as u32,
            stride: bytes as u32,
            // Tables by hash may have a row anywhere.
            used: if grows { 0 } else { rows as u32 },
            reserved: 0,
        };
    }
    header.magic = MAGIC;
}

/// In the child: its counts go on from its parent's, in its own copy.
unsafe extern "C" fn forked() {
    // SAFETY: the mapping is private to this process, which has one thread now.
    let header = unsafe { &mut *BASE.load(Acquire).cast::<Header>() };
    header.forked_from = header.pid;
    header.pid = u64::from(std::process::id());
    header.forks += 1;
    header.forked_ns = clock_ns(libc::CLOCK_MONOTONIC);
    row::forked(header.forks);
    modules::forked();
    samples::forked();
}

/// First row of a section.
pub(crate) fn first<T>(kind: SectionKind) -> *mut T {
    let base = BASE.load(Relaxed);
    // SAFETY: the offset is inside the mapping; callers come after `start` said true.
    unsafe { base.add(OFFSETS[kind as usize]).cast() }
}

/// Row `at` of a section of `rows` rows.
pub(crate) fn row_at<T>(kind: SectionKind, at: usize) -> *mut T {
    assert!(at < PLAN[kind as usize].1);
    // SAFETY: inside the section.
    unsafe { first::<T>(kind).add(at) }
}

/// Rows below `rows` of a section have been used.
pub(crate) fn used(kind: SectionKind, rows: u32) {
    let used =
        |header: *mut Header| unsafe { addr_of_mut!((*header).sections[kind as usize].used) };
    header_field(used).fetch_max(rows, Relaxed);
}

/// Rows of a section that have been used.
pub(crate) fn rows_used(kind: SectionKind) -> usize {
    let used =
        |header: *mut Header| unsafe { addr_of_mut!((*header).sections[kind as usize].used) };
    (header_field(used).load(Relaxed) as usize).min(PLAN[kind as usize].1)
}

pub(crate) fn forks() -> u32 {
    header_field(|header| unsafe { addr_of_mut!((*header).forks) }).load(Relaxed)
}

fn header_field(field: impl FnOnce(*mut Header) -> *mut u32) -> &'static AtomicU32 {
    // SAFETY: aligned, in a mapping that stays.
    unsafe { AtomicU32::from_ptr(field(BASE.load(Relaxed).cast())) }
}

/// Mean distance of samples as the header shows it.
pub(crate) fn mean_bytes() -> &'static AtomicU64 {
    // SAFETY: as in `header_field`.
    unsafe {
        AtomicU64::from_ptr(addr_of_mut!(
            (*BASE.load(Relaxed).cast::<Header>()).mean_bytes
        ))
    }
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The header's counters that the meter keeps.
        pub(crate) struct Counters { $(pub(crate) $name: &'static AtomicU64),* }

        pub(crate) fn counters() -> Counters {
            let header: *mut Header = BASE.load(Relaxed).cast();
            // SAFETY: as in `header_field`.
            unsafe {
                Counters { $($name: AtomicU64::from_ptr(addr_of_mut!((*header).counters.$name))),* }
            }
        }
    };
}

counters!(
    samples_taken,
    samples_freed,
    samples_thinned,
    samples_live,
    samples_dropped_full,
    samples_stale,
    coarsened,
    refined,
    stacks_dropped,
    stacks_broken,
    modules_dropped,
    threads_overflowed,
    threads_seen,
    threads_recycled,
    slow_ns,
    slow_calls
);

/// Nanoseconds of a clock.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place to write to; both clocks exist everywhere.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Now, on the clock of all the mapping's times.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}
