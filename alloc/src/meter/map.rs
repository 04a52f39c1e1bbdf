//! The mapping that highwater reads: where its sections are, and its start. Nothing is mapped after that.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use abi::{
    CLASSES, Class, Flow, HEADER_BYTES, Header, LATENCIES, Latency, MAGIC, Module, PAGE_BYTES,
    ROLES, Region, Role, STACK_NONE, Sample, Section, SectionKind, Stack, State, Thread, VERSION,
    bytes_mode,
};
use sampler::Filter;
use sampler::flows::Flows;
use sampler::live::Live;
use sampler::modules::Modules;
use sampler::pace::Pace;
use sampler::roles::Roles;
use sampler::samples::Samples;
use sampler::stacks::Stacks;
use sampler::threads::Threads;
use sampler::word::atomic32;

use super::sampling::Meter;
use super::{modules, row, settings};

/// Rows of threads; those beyond share one.
pub(crate) const THREADS: usize = if cfg!(test) { 4 } else { 4096 };
/// Rows of live samples: at a mean of 512 KiB, 3 GiB of live heap before they are thinned.
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

/// Which blocks may be sampled; most frees read nothing else.
pub(crate) static FILTER: Filter = Filter::new();

static BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static STAGE: AtomicU32 = AtomicU32::new(stage::NONE);
static METER: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

struct Place(UnsafeCell<MaybeUninit<Meter>>);
// SAFETY: written once, by the thread that maps, before the stage is ON; its parts are made to be shared.
unsafe impl Sync for Place {}

mod stage {
    pub(super) const NONE: u32 = 0;
    pub(super) const STARTING: u32 = 1;
    pub(super) const ON: u32 = 2;
    pub(super) const OFF: u32 = 3;
}

/// Maps at the first call of the process. `None`: there is nothing to count in.
pub(crate) fn start() -> Option<&'static Meter> {
    loop {
        match STAGE.load(Acquire) {
            stage::ON | stage::OFF => return meter(),
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

/// The meter, while there is a mapping.
pub(crate) fn meter() -> Option<&'static Meter> {
    let is_on = STAGE.load(Acquire) == stage::ON;
    // SAFETY: written before the stage is ON, and not after.
    is_on.then(|| unsafe { (*METER.0.get()).assume_init_ref() })
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
    let header: *mut Header = base.cast();
    // SAFETY: this thread alone maps, once; the handler only writes to the mapping.
    unsafe {
        fill_header(header, &settings);
        (*METER.0.get()).write(build(header, &settings));
        row::make_key();
        libc::pthread_atfork(None, None, Some(forked));
        atomic32(&raw mut (*header).state).store(State::On as u32, Release);
    }
    true
}

/// # Safety
/// `header` is that of the mapping, filled.
unsafe fn build(header: *mut Header, settings: &settings::Settings) -> Meter {
    use SectionKind as Kind;
    // SAFETY: by the caller zeroed sections, of the lengths of the plan, which live as long as the process.
    unsafe {
        let samples = Samples::new(first(Kind::SampleKeys), first(Kind::Samples), SAMPLES);
        let (stacks, frames) = (first(Kind::Stacks), first(Kind::Frames));
        Meter {
            header,
            live: Live::new(header, &FILTER, samples),
            stacks: Stacks::new(header, (stacks, STACKS), (frames, FRAMES)),
            roles: Roles::new(first(Kind::Roles)),
            flows: Flows {
                classes: first(Kind::Classes),
                latencies: first(Kind::Latencies),
                matrix: first(Kind::Matrix),
            },
            threads: Threads::new(header, first(Kind::Threads), THREADS as u32),
            modules: Modules::new(header, first(Kind::Modules), MODULES as u32),
            pace: Pace::at_least(settings.mean_bytes, (*header).started_ns),
        }
    }
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
    let Some(meter) = meter() else { return };
    let header = meter.header;
    // SAFETY: the mapping is private to this process, which has one thread now.
    unsafe {
        (*header).forked_from = (*header).pid;
        (*header).pid = u64::from(std::process::id());
        (*header).forks += 1;
        (*header).forked_ns = now_ns();
    }
    row::forked(forks());
    modules::forked();
    meter.live.after_fork();
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

/// Forks between the process that mapped and this one.
pub(crate) fn forks() -> u32 {
    let header: *mut Header = BASE.load(Relaxed).cast();
    // SAFETY: a word of the header; callers come after the start.
    unsafe { atomic32(&raw mut (*header).forks) }.load(Relaxed)
}

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
