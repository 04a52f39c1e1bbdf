//! Building a probe over a fresh mapping.

use abi::{Header, SectionKind, State, bytes_mode};

use crate::arena::Arena;
use crate::budget::Budget;
use crate::clock;
use crate::interpreter::Interpreter;
use crate::layout::{ARENA_BYTES, Plan, STACK_BYTES};
use crate::limits;
use crate::memory::Reserved;
use crate::modules;
use crate::other_stack::OtherStack;
use crate::probe::Probe;
use crate::regions::Regions;
use crate::seccomp;
use crate::settings::Settings;
use crate::threads::Threads;
use crate::unwind::Unwinder;
use sampler::filter::Filter;
use sampler::flows::Flows;
use sampler::pace::Pace;
use sampler::roles::Roles;
use sampler::samples::Samples;
use sampler::stacks::Stacks;

/// What the probe has to know of the library that it lives in.
#[derive(Clone, Copy)]
pub struct Home {
    /// Any function of it: frames of the object around it are left out of stacks.
    pub own_code: u64,
    /// Addresses of the next malloc and operator new in line (0: none).
    pub next: (u64, u64),
    /// The filter that the hot path reads.
    pub filter: &'static Filter,
    /// The arena that is the library's allocator, to be given its memory here; `None`: the
    /// process's own (tests).
    pub arena: Option<&'static Arena>,
    /// Of the Python that this process is.
    pub python: Option<Interpreter>,
    /// How bytes are counted at first, one of [`bytes_mode`].
    pub bytes_mode: u32,
}

/// Reserves the mapping, fills the header, builds the parts. `None` when the kernel gives no
/// memory.
///
/// # Safety
/// One thread, once per process (tests: once per mapping).
pub unsafe fn start(settings: &Settings, home: Home) -> Option<Probe> {
    let plan = Plan::within(settings.cap_bytes.min(limits::share_bytes()?));
    let reserved = Reserved::new(plan.mapped_bytes)?;
    let header: *mut Header = reserved.start.cast();
    let now_ns = clock::monotonic_ns();
    // SAFETY: by the caller one thread; offsets of the plan lie within the mapping that was reserved by it.
    unsafe {
        reserved.guard(plan.stack_at);
        modules::prepare();
        describe(header, settings, &home, now_ns);
        if let Some(arena) = home.arena {
            arena.give(reserved.start.add(plan.arena_at), ARENA_BYTES);
        }
        plan.write(header);
        let probe = build(header, &plan, settings, home, now_ns);
        (*header).state_since_ns = now_ns;
        (*header).state = State::On as u32;
        // A test's mapping goes with the test. mseal is too new for many lists of allowed calls, and some filters kill.
        if home.arena.is_some() && !seccomp::is_confined() {
            reserved.seal();
        }
        Some(probe)
    }
}

fn object_around(address: u64) -> (u64, u64) {
    modules::find(address).map_or((0, 0), |object| (object.start, object.end))
}

unsafe fn describe(header: *mut Header, settings: &Settings, home: &Home, now_ns: u64) {
    // SAFETY: by the caller a mapping that nobody else knows yet.
    unsafe {
        let pid = libc::syscall(libc::SYS_getpid) as u64;
        (*header).pid = pid;
        (*header).started_ns = now_ns;
        (*header).started_realtime_ns = clock::realtime_ns();
        (*header).bytes_mode = home.bytes_mode;
        ((*header).own_text_start, (*header).own_text_end) = object_around(home.own_code);
        ((*header).next_malloc, (*header).next_new) = home.next;
        (*header).budget_ppm = settings.budget_ppm;
        (*header).seed = settings.seed.unwrap_or(now_ns ^ pid << 40);
        (*header).counters.outside_bytes = Filter::bytes() as u64;
        if home.bytes_mode == bytes_mode::SAMPLED {
            (*header).exact_bytes_ended_ns = now_ns;
        }
    }
}

unsafe fn build(
    header: *mut Header,
    plan: &Plan,
    settings: &Settings,
    home: Home,
    now_ns: u64,
) -> Probe {
    let first = header.cast::<u8>();
    let rows = |kind: SectionKind| {
        let offset = plan.sections[kind as usize].offset as usize;
        // SAFETY: inside the mapping by the plan.
        unsafe { first.add(offset) }
    };
    let capacity = |kind: SectionKind| plan.capacity(kind);
    let allocator = object_around(home.next.0);
    let own = object_around(home.own_code);
    use SectionKind as Kind;
    // SAFETY: as above; each section has the place and length of the plan.
    unsafe {
        let (keys, samples) = (rows(Kind::SampleKeys).cast(), rows(Kind::Samples).cast());
        let stacks = (rows(Kind::Stacks).cast(), capacity(Kind::Stacks));
        let frames = (rows(Kind::Frames).cast(), capacity(Kind::Frames));
        let threads = rows(Kind::Threads).cast();
        let stack = OtherStack::new(first.add(plan.stack_at), STACK_BYTES);
        let pace = Pace::new(settings.mean_bytes, now_ns);
        (*header).mean_bytes = pace.mean_bytes();
        Probe {
            header,
            filter: home.filter,
            samples: Samples::new(keys, samples, capacity(Kind::Samples)),
            stacks: Stacks::new(header, stacks, frames),
            roles: Roles::new(rows(Kind::Roles).cast()),
            flows: Flows {
                classes: rows(Kind::Classes).cast(),
                latencies: rows(Kind::Latencies).cast(),
                matrix: rows(Kind::Matrix).cast(),
            },
            threads: Threads::new(header, threads, capacity(Kind::Threads) as u32),
            regions: Regions::new(header, rows(Kind::Regions).cast(), capacity(Kind::Regions)),
            modules: rows(Kind::Modules).cast(),
            modules_capacity: capacity(Kind::Modules) as u32,
            pace,
            budget: Budget::new(settings.budget_ppm, now_ns),
            pair_ps: settings.pair_ps,
            unwinder: Unwinder::new(own, home.arena, stack),
            python: home.python,
            allocator,
        }
    }
}
