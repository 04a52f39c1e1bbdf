//! The structures of the mapping, field by field. Structural: any change of a size or a meaning is
//! a new [`VERSION`].

/// First 16 bytes of the header.
pub const MAGIC: [u8; 16] = *b"highwater-probe\0";
/// Version of this layout. A reader of another version must not read on.
pub const VERSION: u32 = 1;
/// The unit of the mapping; the named first page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of the header; the sections follow.
pub const HEADER_BYTES: usize = PAGE_BYTES;
/// Most frames of one stack.
pub const DEPTH_MAX: usize = 64;
/// Roles of threads that the matrix tells apart; the last takes all that do not fit.
pub const ROLES: usize = 64;
/// Longest path of a module that is kept, bytes.
pub const MODULE_PATH_BYTES: usize = 208;
/// `stack` of an entry whose stack is unknown.
pub const STACK_NONE: u32 = u32::MAX;
/// `role` of a thread that has not been sampled yet.
pub const ROLE_NONE: u16 = u16::MAX;
/// Largest [`Header::total_bytes`] of any probe, whatever its cap. A reader refuses a larger mapping: no probe made it.
pub const TOTAL_BYTES_MAX: u64 = 32 << 20;
/// Row of the threads section that all threads beyond its capacity share.
pub const OVERFLOW_THREAD: usize = 0;

/// State of the probe. Numbers are stored; an unknown one is read as `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Mapped, not yet counting.
    Starting = 1,
    /// Counting and sampling.
    On = 2,
    /// Off for good; [`Header::off_reason`] says why. Counts and samples stand still since
    /// `state_since_ns`.
    Off = 3,
    /// A number that this version does not know.
    Unknown = 0,
}

impl State {
    /// The state of a stored number.
    pub const fn of(number: u32) -> State {
        match number {
            1 => State::Starting,
            2 => State::On,
            3 => State::Off,
            _ => State::Unknown,
        }
    }
}

/// CPU time that samples may take of each second whatever the budget's share of the process: at 2 ms a leak of 20 kB/s
/// among 100 MB/s, in a process that is idle nine tenths of the time, gave one sample a minute.
pub const SAMPLES_NS_MIN: u64 = 5_000_000;

/// Why the probe is off.
pub mod off_reason {
    /// It is on.
    pub const NONE: u32 = 0;
    /// It cost more than its CPU budget and switched itself off.
    pub const BUDGET: u32 = 1;
    /// A set-uid or otherwise privileged start (`AT_SECURE`).
    pub const SECURE: u32 = 2;
    /// The kernel gave no memory for the mapping.
    pub const NO_MEMORY: u32 = 3;
    /// `HIGHWATER_PROBE=off` in the environment.
    pub const REQUESTED: u32 = 4;
    /// No allocator behind the probe could be found.
    pub const NO_ALLOCATOR: u32 = 5;
    /// The program confined itself (seccomp) so that a system call of the probe's would have ended it.
    pub const SECCOMP: u32 = 6;
    /// It was loaded to record calls into a trace (`highwater record`), here or in another process of the program.
    pub const RECORDING: u32 = 7;
    /// The program was started under a seccomp filter of which is not known whether it allows the probe's system calls.
    pub const STARTED_CONFINED: u32 = 8;
}

/// How live bytes are counted.
pub mod bytes_mode {
    /// Only calls are exact; bytes freed come from samples.
    pub const SAMPLED: u32 = 0;
    /// Usable bytes of every block, both ways, by the allocator's `malloc_usable_size`.
    pub const EXACT_BY_CALL: u32 = 1;
    /// The same, read from glibc's chunk header (checked against `malloc_usable_size` at the
    /// start).
    pub const EXACT_BY_HEADER: u32 = 2;
    /// Requested bytes of every block, both ways, by the layout that a Rust program passes with both calls: where
    /// a field says usable bytes, it holds requested ones.
    pub const EXACT_BY_LAYOUT: u32 = 3;
}

/// The first page of the mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 16],
    /// [`VERSION`].
    pub version: u32,
    /// [`HEADER_BYTES`].
    pub header_bytes: u32,
    /// Length of the mapping from the header's first byte, bytes; what a reader copies. At most
    /// `cap_bytes`.
    pub total_bytes: u64,
    /// The cap that the user set, bytes.
    pub cap_bytes: u64,
    /// [`State`] as a number.
    pub state: u32,
    /// One of [`off_reason`].
    pub off_reason: u32,
    /// One of [`bytes_mode`]: how bytes are counted now.
    pub bytes_mode: u32,
    /// Forks between the process that loaded the probe and this one: 0 in the first, 1 in its child
    /// ...
    pub forks: u32,
    /// Process id as the process itself sees it (its own pid namespace).
    pub pid: u64,
    /// The parent that it was forked from, likewise; 0 when the probe was loaded by this process.
    pub forked_from: u64,
    /// When the probe started, `CLOCK_MONOTONIC` ns.
    pub started_ns: u64,
    /// The same instant, `CLOCK_REALTIME` ns since 1970.
    pub started_realtime_ns: u64,
    /// When this process was forked; 0 when it was not.
    pub forked_ns: u64,
    /// When `state` took its present value.
    pub state_since_ns: u64,
    /// When exact byte counting was given up for its cost; 0 while it goes on or never began.
    /// Before that instant `usable_allocated - usable_freed` is exact, after it those two stand
    /// still.
    pub exact_bytes_ended_ns: u64,
    /// Mean distance of samples now, requested bytes. Every sample keeps its own.
    pub mean_bytes: u64,
    /// Address of the `malloc` that the probe forwards to: names the allocator by /proc/PID/maps.
    pub next_malloc: u64,
    /// Address of the `operator new(size_t)` in line after the probe; 0 when there is none yet.
    pub next_new: u64,
    /// First and last+1 address of the probe library's own code (its frames are left out of
    /// stacks).
    pub own_text_start: u64,
    /// See `own_text_start`.
    pub own_text_end: u64,
    /// CPU budget: the share of the process's CPU time that the probe may take, parts per million;
    /// 0 is no limit.
    pub budget_ppm: u64,
    /// Seed of the sampler.
    pub seed: u64,
    /// Length of everything that the probe has mapped from the header on, bytes: `total_bytes`, then
    /// a page that nobody can read and the unwinder's stack.
    pub mapped_bytes: u64,
    /// Where each section is; index by [`SectionKind`].
    pub sections: [Section; 16],
    /// What the probe did, lost and cost.
    pub counters: Counters,
    /// Mappings made and undone by direct calls.
    pub mappings: Mappings,
}

/// One section of the mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Section {
    /// First byte, from the header's first byte; a multiple of 64.
    pub offset: u64,
    /// Rows that fit.
    pub capacity: u32,
    /// Bytes of a row.
    pub stride: u32,
    /// Rows below this index have ever been used; the rest is zero and need not be copied.
    pub used: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Index into [`Header::sections`], with the row type of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SectionKind {
    /// [`Thread`] rows; row [`OVERFLOW_THREAD`] is shared by threads beyond the capacity.
    Threads = 0,
    /// `u64` rows: the address of the live sampled block in the [`Sample`] of the same index; 0
    /// free, 1 being written.
    SampleKeys = 1,
    /// [`Sample`] rows.
    Samples = 2,
    /// [`Stack`] rows.
    Stacks = 3,
    /// `u64` rows: return addresses, innermost first within a stack.
    Frames = 4,
    /// [`Role`] rows, [`ROLES`] of them.
    Roles = 5,
    /// [`Flow`] rows: `ROLES * ROLES`, row `allocating role * ROLES + freeing role`.
    Matrix = 6,
    /// [`Class`] rows, [`CLASSES`] of them.
    Classes = 7,
    /// [`Latency`] rows, [`LATENCIES`] of them.
    Latencies = 8,
    /// [`Module`] rows.
    Modules = 9,
    /// [`Region`] rows.
    Regions = 10,
}

impl SectionKind {
    /// Most rows that any probe gives the section, whatever its cap. A reader refuses more.
    pub const fn rows_max(self) -> u32 {
        match self {
            SectionKind::Threads => 32_768,
            SectionKind::SampleKeys | SectionKind::Samples => 131_072,
            SectionKind::Stacks => 65_536,
            SectionKind::Frames => 1_048_576,
            SectionKind::Roles => ROLES as u32,
            SectionKind::Matrix => (ROLES * ROLES) as u32,
            SectionKind::Classes => crate::CLASSES as u32,
            SectionKind::Latencies => crate::LATENCIES as u32,
            SectionKind::Modules => 512,
            SectionKind::Regions => 2_048,
        }
    }
}

/// What the probe did, lost and cost. All since the start (a child goes on from its parent's).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Samples put into the table.
    pub samples_taken: u64,
    /// Samples taken out because their block was freed.
    pub samples_freed: u64,
    /// Samples taken out by thinning as the table filled (the others' means were raised in
    /// exchange).
    pub samples_thinned: u64,
    /// Samples in the table now.
    pub samples_live: u64,
    /// Samples lost because their window of the table was full.
    pub samples_dropped_full: u64,
    /// Samples lost because the thread was already inside the probe.
    pub samples_dropped_nested: u64,
    /// Blocks at an address whose sample was still there: a free that the probe did not see.
    pub samples_stale: u64,
    /// Times the mean was raised, by rate or by filling.
    pub coarsened: u64,
    /// Times the mean was lowered.
    pub refined: u64,
    /// Distinct stacks that did not fit.
    pub stacks_dropped: u64,
    /// Stacks not taken because another thread was unwinding.
    pub stacks_contended: u64,
    /// Stacks whose unwinding stopped before the outermost frame.
    pub stacks_broken: u64,
    /// Modules that did not fit.
    pub modules_dropped: u64,
    /// Regions that did not fit or met a busy table.
    pub regions_dropped: u64,
    /// Threads that shared the overflow row because all rows were taken.
    pub threads_overflowed: u64,
    /// Threads that have had a row.
    pub threads_seen: u64,
    /// Rows taken over from threads that had exited.
    pub threads_recycled: u64,
    /// Bytes of the buffer for allocations before an allocator was found, in use for good.
    pub early_bytes: u64,
    /// Time spent in the probe's slow paths (sampling, unwinding), less the allocator's own, ns.
    pub slow_ns: u64,
    /// Entries into slow paths.
    pub slow_calls: u64,
    /// Cost of counting one malloc and its free, picoseconds, measured once at the start on this
    /// machine.
    pub pair_ps: u64,
    /// Extra cost of exact bytes per pair, picoseconds, likewise.
    pub exact_pair_ps: u64,
    /// Memory of the probe outside the mapping: its library's writable data, bytes.
    pub outside_bytes: u64,
    /// Unwinder memory in use inside the mapping, bytes.
    pub unwinder_bytes: u64,
    /// Unwinder memory that was asked for and refused, times.
    pub unwinder_refused: u64,
    /// Children forked.
    pub forks_seen: u64,
}

/// Calls of mmap, munmap, mremap, brk and sbrk that reached the probe, by who called.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mappings {
    /// Anonymous mappings made by the program or its libraries, calls.
    pub program_maps: u64,
    /// Their bytes.
    pub program_mapped_bytes: u64,
    /// Bytes of those that were unmapped again, as far as they are in the regions section.
    pub program_unmapped_bytes: u64,
    /// File mappings made, calls.
    pub file_maps: u64,
    /// Their bytes.
    pub file_mapped_bytes: u64,
    /// Mappings made by the allocator behind the probe, calls.
    pub allocator_maps: u64,
    /// Their bytes.
    pub allocator_mapped_bytes: u64,
    /// munmap, calls by anyone.
    pub unmaps: u64,
    /// Bytes of those.
    pub unmapped_bytes: u64,
    /// mremap, calls.
    pub remaps: u64,
    /// Bytes that mremap added.
    pub remap_grown_bytes: u64,
    /// Bytes that mremap took away.
    pub remap_shrunk_bytes: u64,
    /// Bytes by which brk or sbrk moved the break up.
    pub break_grown_bytes: u64,
    /// Bytes by which they moved it down.
    pub break_shrunk_bytes: u64,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
