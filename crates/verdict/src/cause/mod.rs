//! Why a process's memory grows, or where it stays: one cause, how sure, one sentence, the next step.
//!
//! The rule, in prose. A part of the account counts as growing when it rose between the first and
//! the last quarter of the window by more than 256 KiB, 1 % of RSS and six times its own scatter,
//! and still rises; the live heap also by less than 1 % where one site only adds, evenly. The part that grew
//! most decides:
//!
//! | grows | cause |
//! |---|---|
//! | live heap, with or without the traffic in it | *leak* or *filling*, by the site that grew most ([`heap`]) |
//! | allocator-held or fragmentation | *retention*; *lazyfree* or *hugepages* when those are half of it |
//! | anonymous mappings | *mapping*; *managed* or *blind* when a runtime or a linked-in allocator owns them |
//! | thread stacks, file maps, shared memory | *stacks*, *files*, *mapping* |
//!
//! A block that is out of reach is a fact, and what a collector has not collected yet is none: where blocks of the site
//! that decides are lost, and that is a fifth of all growth, it is *leak* before *managed*.
//!
//! Where the probe counts more live bytes than are resident, or than glibc's headers show, it misses frees
//! ([`memory::limit`]): a heap that grows is *blind* then, and no site is named.
//!
//! Where the inside of a managed heap could be read and explains half of the growth, its types, sites or tasks are
//! named ([`objects`]).
//!
//! What grows outside of the mappings by more than RSS does decides before all of these: *sockets*, *files* or *kernel*
//! ([`outside`]).
//!
//! When nothing grows by that much, a site most of whose older blocks are lost is a slow *leak*; half of RSS in
//! LazyFree pages, untouched huge pages or free heap that has not been needed since half time is named all the same;
//! else it is *flat*, or undecided where RSS itself rises.

pub mod ended;
mod grown;
mod heap;
mod level;
mod limitations;
mod managed;
mod objects;
pub mod outside;
pub mod owner;
mod sentence;

pub use heap::named;
use limitations::{limitations, more_threads, overcounted};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ::heap::linked::traps::Traps;
use ::heap::memory_managers::{Allocator, MemoryManagers, Runtime};
use memory::account::{Account, LiveBy, Part};
use memory::growth::Growth;
use memory::limit::Overcount;
use memory::managed::ManagedGrowth;
use memory::outside::{OpenedGrowth, OutsideGrowth};
use memory::rank::Site;
use memory::types::Class;

/// Growth below this is none, whatever its share.
const GROWN_BYTES_MIN: f64 = 262_144.0;
/// Growth below this share of RSS is none.
const GROWN_SHARE: f64 = 0.01;
/// Free heap must grow by this share of RSS: whatever replaces blocks of many sizes takes a while until
/// its fragmentation is steady (3.5 % in the minute after a cache of 44 MiB was full).
const RETAINED_SHARE: f64 = 0.05;
/// Of the growth of free heap, what the heap as a whole must grow by.
const HEAP_SHARE: f64 = 0.5;
/// And by this much; where there are huge pages, by more than one of them.
const RETAINED_BYTES_MIN: f64 = 1_048_576.0;
const RETAINED_HUGE_BYTES_MIN: f64 = 2.0 * 2_097_152.0;
/// Growth at no certain site below this share of the largest fall is none.
const TOOTH_SHARE: f64 = 0.5;
/// Of what grows under traffic, or by little of RSS, what sites that only add must tell of, within standard errors
/// of their samples: 96 KiB by four samples explain no 562 KiB of a cache that swings.
const TOLD_SHARE: f64 = 0.5;
const TOLD_ERRORS: f64 = 2.0;
/// Growth below this many scatters is none.
const GROWN_NOISES: f64 = 6.0;

/// What makes memory grow, or keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// A site's live memory grows beyond its turnover, or the program cannot reach it any more.
    Leak,
    /// A site grows from which next to nothing was freed yet: a leak, or a cache that fills.
    Filling,
    /// The live heap is flat, the rest of the heap is not.
    Retention,
    /// Mappings that the program asked for itself.
    Mapping,
    Stacks,
    /// Mapped files, or files in memory.
    Files,
    /// Data in its sockets.
    Sockets,
    /// What the kernel keeps for it: open files and sockets, stacks of threads, watches.
    Kernel,
    /// Pages given back with MADV_FREE, which the kernel has not taken yet.
    Lazyfree,
    /// Transparent huge pages, most of them never written.
    Hugepages,
    /// A runtime with a heap of its own holds it.
    Managed,
    Flat,
    /// It grows where the probe cannot look.
    Blind,
}

impl Cause {
    /// As in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Leak => "leak",
            Cause::Filling => "filling",
            Cause::Retention => "retention",
            Cause::Mapping => "mapping",
            Cause::Stacks => "stacks",
            Cause::Files => "files",
            Cause::Sockets => "sockets",
            Cause::Kernel => "kernel",
            Cause::Lazyfree => "lazyfree",
            Cause::Hugepages => "hugepages",
            Cause::Managed => "managed",
            Cause::Flat => "flat",
            Cause::Blind => "blind",
        }
    }
}

/// The verdict on one process.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseVerdict {
    pub cause: Cause,
    /// 0 to 1.
    pub confidence: f64,
    pub sentence: String,
    pub next_step: String,
    /// Facts behind it that contradict each other or limit it, a sentence each.
    pub limitations: Vec<String>,
    /// Too little was seen to judge growth, or why there is some.
    pub undecided: bool,
    /// It names objects or tasks of a managed heap, and no native site.
    pub by_objects: bool,
}

impl CauseVerdict {
    /// For readers; in JSON what is undecided is *flat* with little confidence, or *filling* with half of it where the
    /// heap grows.
    pub fn word(&self) -> &'static str {
        match self.undecided {
            true => "undecided",
            false => self.cause.word(),
        }
    }
}

/// Who owns the anonymous mappings that grow.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Owner {
    /// The program called mmap at a known place.
    Program,
    /// An allocator that the program was linked with.
    Linked(String),
    Runtime(Runtime),
    #[default]
    Unknown,
}

/// How the probe stands to the process.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Sight {
    /// It counts.
    Sees,
    /// It is loaded and no allocation came by.
    SeesNothing,
    /// It is not there; why, in words.
    Absent(String),
    /// Highwater was not asked to load it (`--pid`).
    #[default]
    NotAsked,
}

/// All that the verdict is made from.
#[derive(Debug, Clone, Default)]
pub struct Case {
    pub observed_s: f64,
    pub snapshots: usize,
    /// The process is gone, and this is its last moment.
    pub has_ended: bool,
    /// By a signal, at the end.
    pub is_stopped: bool,
    /// The last account.
    pub account: Account,
    /// Growth of each part, of those that could be judged.
    pub growth: BTreeMap<Part, Growth>,
    pub rss: Option<Growth>,
    /// Live heap and free heap together.
    pub heap: Option<Growth>,
    /// Free heap, allocator-held and fragmentation summed at each snapshot: where a page goes from one to the other
    /// neither rises evenly.
    pub free: Option<Growth>,
    pub huge_untouched: Option<Growth>,
    /// What is in use by glibc's headers and was not counted by the probe, where that goes on growing.
    pub uncounted: Option<Growth>,
    /// Libraries that call malloc past the probe.
    pub past_the_probe: Vec<String>,
    /// The probe goes on counting more live bytes than there can be: it misses frees.
    pub overcount: Option<Overcount>,
    /// Libraries that call free past the probe, where it does.
    pub freed_past: Vec<String>,
    /// The most that can have been live at any moment since half time, bytes.
    pub live_at_most: Option<f64>,
    /// The live heap without the traffic in it, where there is some ([`memory::lasting`]).
    pub lasting: Option<Growth>,
    /// Of the file maps, what the program wrote for itself.
    pub files_written: Option<Growth>,
    /// Of the live heap.
    pub sites: Vec<Site>,
    /// Of the mappings that the program made.
    pub mapping_sites: Vec<Site>,
    /// Who started the threads whose stacks grew, most first.
    pub stack_sites: Vec<Site>,
    /// Classes whose objects become more in glibc's heap, those first that grew by most.
    pub classes: Vec<Class>,
    /// What grows inside the heap of a managed runtime, where that could be read.
    pub managed: Option<ManagedGrowth>,
    pub owner: Owner,
    /// Files and shared memory that grew most, with bytes.
    pub grown_files: Vec<(String, f64)>,
    /// What grows that is in no mapping.
    pub outside: Vec<OutsideGrowth>,
    /// What it has open.
    pub opened: Option<OpenedGrowth>,
    pub threads_first: usize,
    pub threads_last: usize,
    pub managers: MemoryManagers,
    pub sight: Sight,
    /// The size classes of the survivors that keep pages, in words.
    pub survivors: Option<String>,
    /// The line that starts this program again with the probe.
    pub restart: String,
    /// Uprobes on a linked-in allocator tell of the live heap, from when they were put on.
    pub traps: Option<Traps>,
    /// Why there are none, and what would open it.
    pub no_uprobes: Option<String>,
}

impl Case {
    pub fn part(&self, part: Part) -> Growth {
        self.growth.get(&part).copied().unwrap_or_default()
    }

    /// Whether free heap grows, and the heap with it, past what was live at once: what the live heap leaves
    /// between two of its own peaks (a runtime collects after a minute) comes back. A heap that rises in
    /// every quarter, above a live heap that does not, stays at ever higher peaks: those are seen by chance, the heap
    /// always is.
    fn retains(&self, growth: &Growth) -> bool {
        let part = HEAP_SHARE * growth.bytes;
        let live = self.part(Part::LiveHeap);
        let past_peaks =
            |heap: Growth| heap.level - live.peak > part || heap.even && live.bytes < part;
        let goes_along = |heap: Growth| heap.still && heap.bytes > part && past_peaks(heap);
        // What fills leaves gaps as it fills.
        let is_most = growth.bytes > live.bytes;
        growth.bytes > self.retained_least() && is_most && self.heap.is_none_or(goes_along)
    }

    /// What uprobes see may begin in the midst: blocks from before go unseen while others come. Then memory itself
    /// must grow, by half as much; where glibc's headers tell the level, that is not asked.
    fn is_backed(&self, growth: &Growth) -> bool {
        if self.is_told_by_headers() {
            return true;
        }
        let backs = |rss: Growth| rss.still && rss.bytes > HEAP_SHARE * growth.bytes;
        let is_whole = |traps: Traps| traps.at_start && traps.sees_all();
        self.traps.is_none_or(is_whole) || self.rss.is_some_and(backs)
    }

    /// Uprobes name the sites, and glibc's headers tell how much is live.
    fn is_told_by_headers(&self) -> bool {
        let is_part = |traps: Traps| traps.has_headers();
        self.account.live_by == LiveBy::HeadersBesideProbe && self.traps.is_some_and(is_part)
    }

    /// Every block's end was seen, and whether it is held could be asked.
    pub fn is_followed(&self) -> bool {
        self.traps.is_none_or(|traps| traps.sees_all())
    }

    /// Growth of free heap below this is none.
    fn retained_least(&self) -> f64 {
        let share = RETAINED_SHARE * self.account.rss_bytes;
        let steps = if self.account.huge > 0.0 {
            RETAINED_HUGE_BYTES_MIN
        } else {
            0.0
        };
        share.max(RETAINED_BYTES_MIN).max(steps)
    }

    /// Whether a growth is more than nothing, and goes on.
    pub fn grows(&self, growth: &Growth) -> bool {
        growth.still && growth.bytes > self.least_grown(growth)
    }

    /// What it must have grown by, bytes.
    fn least_grown(&self, growth: &Growth) -> f64 {
        let least = GROWN_BYTES_MIN.max(GROWN_SHARE * self.account.rss_bytes);
        least.max(GROWN_NOISES * growth.noise)
    }

    /// Whether the live heap grows though that is little of RSS: a large process, and a site that only adds, evenly.
    fn fills(&self, growth: &Growth) -> bool {
        let least = GROWN_BYTES_MIN.max(GROWN_NOISES * growth.noise);
        growth.still && growth.bytes > least && self.added_bytes() > TOLD_SHARE * growth.bytes
    }

    /// What sites that only add may have grown by, as far as samples tell; none where the first of all is no such site.
    fn added_bytes(&self) -> f64 {
        let adds = |site: &&Site| {
            let goes_on = site.growth.goes_on(self.observed_s);
            site.share_of_growth > 0.0 && goes_on && site.growth.stays()
        };
        if !self.sites.first().is_some_and(|site| adds(&site)) {
            return 0.0;
        }
        let adding = || self.sites.iter().filter(adds);
        let grown: f64 = adding().map(|site| site.growth.grown_bytes).sum();
        let variance: f64 = adding().map(|site| site.growth.grown_error.powi(2)).sum();
        grown + TOLD_ERRORS * variance.sqrt()
    }

    /// What of the live heap grows under traffic that swings: by sites that only add, which tell of most of it.
    fn under_traffic(&self) -> Option<Growth> {
        let is_counted = self.overcount.is_none();
        let lasting = self
            .lasting
            .filter(|growth| is_counted && self.grows(growth))?;
        let is_told = self.added_bytes() > TOLD_SHARE * lasting.bytes;
        let is_tooth = lasting.bytes < TOOTH_SHARE * lasting.fall;
        (is_told && !is_tooth).then_some(lasting)
    }

    /// Whether what the live heap grew by is a tooth of a slow saw: it is below where it began by now, or it grows
    /// at no site for certain, and by little of what it falls by in between.
    fn fell(&self, growth: &Growth) -> bool {
        let is_certain = self.sites.iter().any(|site| site.share_of_growth > 0.0);
        let is_tooth = growth.bytes < TOOTH_SHARE * growth.fall;
        self.account.live < growth.level - growth.bytes || !is_certain && is_tooth
    }

    /// Free heap: allocator-held and fragmentation together.
    pub fn retained(&self) -> Growth {
        let (held, torn) = (
            self.part(Part::AllocatorHeld),
            self.part(Part::Fragmentation),
        );
        if let Some(free) = self.free {
            let noise = free.noise.min(held.noise).min(torn.noise);
            return Growth { noise, ..free };
        }
        Growth {
            bytes: held.bytes + torn.bytes,
            over_s: held.over_s,
            slope_per_hour: held.slope_per_hour + torn.slope_per_hour,
            // One may shrink in favour of the other: together they must rise.
            still: (held.still && held.bytes > -torn.bytes)
                || (torn.still && torn.bytes > -held.bytes),
            level: held.level + torn.level,
            peak: held.peak.max(torn.peak),
            peak_early: held.peak_early.max(torn.peak_early),
            peak_late: held.peak_late.max(torn.peak_late),
            fall: held.fall.max(torn.fall),
            even: held.even && torn.even,
            noise: held.noise.min(torn.noise),
        }
    }

    /// Allocators that the program carries under names of its own.
    pub fn linked_inside(&self) -> impl Iterator<Item = &Allocator> {
        self.managers
            .allocators
            .iter()
            .filter(|allocator| allocator.inside_program)
    }

    pub fn runtime(&self) -> Option<Runtime> {
        self.managers.runtimes.first().copied()
    }
}

/// Judges one process.
pub fn judge(case: &Case) -> CauseVerdict {
    let mut verdict = outside::judge(case).unwrap_or_else(|| of_mappings(case));
    if verdict.cause != Cause::Blind {
        verdict
            .limitations
            .extend(case.overcount.map(|over| overcounted(case, &over)));
    }
    verdict.limitations.extend(limitations(case));
    let threads = more_threads(case, &verdict);
    verdict.limitations.extend(threads);
    verdict
}

fn of_mappings(case: &Case) -> CauseVerdict {
    let first = grown::judge(case)
        .or_else(|| heap::slow_leak(case))
        .or_else(|| grown::unwatched(case))
        .unwrap_or_else(|| level::judge(case));
    let mut verdict = objects::refined(case, first);
    verdict.limitations.extend(outside::beside(case));
    verdict
}

#[cfg(test)]
mod tests;
