//! The account of resident memory: parts that are each measured by themselves, and what is left.

use super::areas::{Class, Range, Remembered, class_areas};
use super::limit::{Counted, ERRORS, Overcount, overcount};
use super::occupancy::{Occupancy, occupancy};
use heap::HeapSnapshot;
use heap::linked::traps::Traps;
use heap::pages::PAGE_BYTES;
use heap::probe::{Block, ProbeSnapshot};

/// The parts, in the order in which they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    LiveHeap,
    AllocatorHeld,
    Fragmentation,
    ThreadStacks,
    AnonymousMappings,
    FileMaps,
    SharedMemory,
    Probe,
    Unexplained,
    LazyFree,
    HugePages,
}

impl Part {
    /// Parts that add up to RSS.
    pub const SUM: [Part; 9] = [
        Part::LiveHeap,
        Part::AllocatorHeld,
        Part::Fragmentation,
        Part::ThreadStacks,
        Part::AnonymousMappings,
        Part::FileMaps,
        Part::SharedMemory,
        Part::Probe,
        Part::Unexplained,
    ];
    /// Shares of those parts.
    pub const OF_WHICH: [Part; 2] = [Part::LazyFree, Part::HugePages];

    /// As in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Part::LiveHeap => "live_heap",
            Part::AllocatorHeld => "allocator_held",
            Part::Fragmentation => "fragmentation",
            Part::ThreadStacks => "thread_stacks",
            Part::AnonymousMappings => "anonymous_mappings",
            Part::FileMaps => "file_maps",
            Part::SharedMemory => "shared_memory",
            Part::Probe => "probe",
            Part::Unexplained => "unexplained",
            Part::LazyFree => "lazy_free",
            Part::HugePages => "huge_pages",
        }
    }
}

/// Who tells the live bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LiveBy {
    /// The probe's exact counters.
    ProbeExact,
    /// The probe's samples.
    ProbeSampled,
    /// Samples of what was allocated since uprobes were put on glibc's allocator.
    SinceAttached,
    /// glibc's own headers; there is no probe.
    Headers,
    /// glibc's own headers, beside a probe that gave up its exact counters for their cost: a count is better
    /// than its samples' estimate, which still names the sites.
    HeadersBesideProbe,
    /// The resident heap is the most that can be live: the probe counts more than that, and no headers say how much
    /// of it is live.
    ResidentHeap,
    /// Nobody: the heap cannot be divided.
    #[default]
    Nobody,
}

/// One account. Bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// The sum over all areas at one reading of smaps.
    pub rss_bytes: f64,
    pub live: f64,
    pub held: f64,
    pub fragmentation: f64,
    pub stacks: f64,
    pub anonymous: f64,
    pub files: f64,
    /// Of the file maps, what the program has written for itself: copies, and zero-initialised data.
    pub files_written: f64,
    pub shared: f64,
    pub probe: f64,
    pub lazy_free: f64,
    pub huge: f64,
    /// Of the huge pages, what was never written.
    pub huge_untouched: f64,
    /// Of the anonymous mappings, those whose caller the probe knows.
    pub anonymous_known: f64,
    /// Heap that could not be divided; it stands in `anonymous`.
    pub undivided: f64,
    /// Share of anonymous RSS (stacks and the probe left out) that the probe accounts for, 0 to 1.
    pub coverage: f64,
    pub live_by: LiveBy,
    /// Live bytes by the second witness, glibc's headers, when the probe is the first.
    pub witness: Option<f64>,
    /// In use by glibc's headers, and not counted by the probe; negative where it is the other way round. `None`: not
    /// all of the heap could be walked.
    pub uncounted: Option<f64>,
    /// The probe counts more live bytes than there can be.
    pub overcount: Option<Overcount>,
    pub swap: f64,
}

impl Account {
    pub fn part(&self, part: Part) -> f64 {
        match part {
            Part::LiveHeap => self.live,
            Part::AllocatorHeld => self.held,
            Part::Fragmentation => self.fragmentation,
            Part::ThreadStacks => self.stacks,
            Part::AnonymousMappings => self.anonymous,
            Part::FileMaps => self.files,
            Part::SharedMemory => self.shared,
            Part::Probe => self.probe,
            Part::Unexplained => self.unexplained(),
            Part::LazyFree => self.lazy_free,
            Part::HugePages => self.huge,
        }
    }

    /// RSS less all named parts; below zero when they claim more than is resident.
    pub fn unexplained(&self) -> f64 {
        let named = Part::SUM.iter().filter(|part| **part != Part::Unexplained);
        self.rss_bytes - named.map(|part| self.part(*part)).sum::<f64>()
    }
}

/// The account of one snapshot, with the classed ranges that it was made from.
pub fn account(snapshot: &HeapSnapshot, remembered: &mut Remembered) -> (Account, Vec<Range>) {
    let ranges = class_areas(snapshot, remembered);
    let sum = |class: Class| -> f64 {
        ranges
            .iter()
            .filter(|r| r.class == class)
            .map(|r| r.rss_bytes as f64)
            .sum()
    };
    let areas = |of: fn(&heap::smaps::Area) -> u64| -> f64 {
        snapshot.areas.iter().map(|area| of(area) as f64).sum()
    };
    let mut account = Account {
        rss_bytes: areas(|area| area.rss_bytes),
        stacks: sum(Class::Stack),
        anonymous: sum(Class::Anonymous),
        files: sum(Class::File),
        shared: sum(Class::Shared),
        probe: sum(Class::Probe),
        lazy_free: areas(|area| area.lazy_free_bytes),
        huge: areas(|area| area.huge_pages_bytes),
        huge_untouched: snapshot.huge_untouched_bytes as f64,
        swap: areas(|area| area.swap_bytes),
        ..Account::default()
    };
    account.files_written = files_written(snapshot, &ranges);
    let mapped = |r: &&Range| r.class == Class::Anonymous && r.covered;
    account.anonymous_known = ranges
        .iter()
        .filter(mapped)
        .map(|r| r.rss_bytes as f64)
        .sum();
    divide_heap(snapshot, &ranges, &mut account);
    account.coverage = coverage(&ranges, snapshot);
    (account, ranges)
}

fn files_written(snapshot: &HeapSnapshot, ranges: &[Range]) -> f64 {
    let files = ranges.iter().filter(|range| range.class == Class::File);
    let areas = files.filter_map(|range| {
        let place = snapshot
            .areas
            .binary_search_by_key(&range.start, |area| area.start);
        place.ok().map(|place| &snapshot.areas[place])
    });
    areas.map(|area| area.anonymous_bytes as f64).sum()
}

/// Live, held and fragmentation: live bytes by a counter, occupied and empty pages by counting them.
fn divide_heap(snapshot: &HeapSnapshot, ranges: &[Range], account: &mut Account) {
    let sees = snapshot.probe.as_ref().filter(|probe| probe.allocs > 0);
    let sampled: f64 = sees.map_or(0.0, |p| {
        p.blocks
            .iter()
            .map(|b| b.weight * b.usable_bytes as f64)
            .sum()
    });
    let total = sees.map_or(0.0, |probe| probe.live_bytes());
    let scale = if sampled > 0.0 { total / sampled } else { 1.0 };
    let pages = occupancy(snapshot, ranges, scale);
    let in_use = witness(snapshot, &pages);
    let large = absent(snapshot, ranges, |block| block.usable_bytes >= PAGE_BYTES);
    let small = absent(snapshot, ranges, |block| block.usable_bytes < PAGE_BYTES);
    let counted = total - large.bytes;
    let sampled = match sees {
        Some(probe) if probe.live_bytes_exact.is_none() => sampling_variance(&probe.blocks),
        _ => 0.0,
    };
    let error = (large.variance + small.variance + sampled).sqrt();
    account.overcount = sees.and_then(|probe| {
        let counted = Counted {
            bytes: counted - small.bytes,
            error,
        };
        // Of an allocator that uprobes watch elsewhere glibc's headers say nothing.
        let has_headers = |traps: Traps| traps.has_headers();
        let in_use = in_use.filter(|_| probe.traps.is_none_or(has_headers));
        overcount(counted, account.rss_bytes + account.swap, in_use)
    });
    // At least: a few samples that stand for megabytes each are no blocks that passed by.
    let uncounted = |in_use: f64| in_use - counted - ERRORS * error;
    let is_part = |probe: &&ProbeSnapshot| probe.traps.is_some_and(|traps| traps.has_headers());
    account.uncounted = sees
        .filter(|probe| !is_part(probe))
        .and(in_use)
        .map(uncounted);
    account.anonymous += pages.unknown_bytes;
    account.undivided = pages.unknown_bytes;
    let known = pages.resident_bytes - pages.unknown_bytes;
    let is_over = account.overcount.is_some();
    (account.live, account.live_by) = match sees {
        Some(_) if is_over => match in_use {
            Some(in_use) => (in_use, LiveBy::HeadersBesideProbe),
            None => (counted.min(known), LiveBy::ResidentHeap),
        },
        Some(probe) if probe.live_bytes_exact.is_some() => (counted, LiveBy::ProbeExact),
        Some(_) => match in_use {
            Some(in_use) => (in_use, LiveBy::HeadersBesideProbe),
            None if sees.is_some_and(|probe| is_part(&probe)) => (counted, LiveBy::SinceAttached),
            None => (counted, LiveBy::ProbeSampled),
        },
        None => in_use.map_or((pages.in_use_bytes, LiveBy::Nobody), |in_use| {
            (in_use, LiveBy::Headers)
        }),
    };
    // Live bytes lie on occupied pages: what the samples estimate cannot be less than the counter.
    let is_counted = pages.estimated_of_bytes == 0.0;
    let least = if is_counted {
        0.0
    } else {
        account.live.min(known)
    };
    let occupied = pages.occupied_bytes.max(least);
    // Live bytes beyond the occupied pages would make this negative: they show as unexplained.
    account.fragmentation = (occupied - account.live).max(0.0);
    account.held = known - occupied;
    let is_own = account.live_by == LiveBy::HeadersBesideProbe;
    account.witness = sees.filter(|_| !is_own).and(in_use);
}

/// An estimate from samples.
struct Estimate {
    bytes: f64,
    variance: f64,
}

/// Bytes of live blocks on pages that are not in RAM, by the samples: never touched, or swapped out.
fn absent(snapshot: &HeapSnapshot, ranges: &[Range], is_asked: fn(&&Block) -> bool) -> Estimate {
    let blocks = snapshot.probe.iter().flat_map(|probe| &probe.blocks);
    let of_blocks = blocks.filter(is_asked).map(|block| {
        let index = ranges.partition_point(|range| range.end <= block.address);
        let range = ranges
            .get(index)
            .filter(|range| range.start <= block.address);
        let bits = range.and_then(|range| snapshot.present.get(&range.area));
        let end = block.address + block.usable_bytes;
        let present = match (range, bits) {
            (Some(_), Some(bits)) => bits.bytes_in(block.address, end),
            // In no resident range at all.
            (None, _) => 0,
            (Some(_), None) => block.usable_bytes,
        };
        (
            block.weight,
            block.usable_bytes.saturating_sub(present) as f64,
        )
    });
    let none = Estimate {
        bytes: 0.0,
        variance: 0.0,
    };
    of_blocks.fold(none, |sum, (weight, bytes)| Estimate {
        bytes: sum.bytes + weight * bytes,
        variance: sum.variance + variance(weight, bytes),
    })
}

/// Of a block that was sampled with probability 1 / `weight`.
fn variance(weight: f64, bytes: f64) -> f64 {
    weight * (weight - 1.0).max(0.0) * bytes * bytes
}

fn sampling_variance(blocks: &[Block]) -> f64 {
    let of_block = |block: &Block| variance(block.weight, block.usable_bytes as f64);
    blocks.iter().map(of_block).sum()
}

/// glibc's figure, when all heap was walked to its end.
fn witness(snapshot: &HeapSnapshot, pages: &Occupancy) -> Option<f64> {
    let walk = snapshot.walk.as_ref()?;
    let all = walk.complete && !walk.spans.is_empty();
    let estimated = pages.occupied_bytes - pages.counted_bytes;
    (all && estimated < 0.01 * pages.resident_bytes).then_some(pages.in_use_bytes)
}

fn coverage(ranges: &[Range], snapshot: &HeapSnapshot) -> f64 {
    let anonymous = ranges
        .iter()
        .filter(|r| matches!(r.class, Class::Heap | Class::Anonymous));
    let sees = snapshot
        .probe
        .as_ref()
        .is_some_and(|probe| probe.allocs > 0);
    let (mut all, mut covered) = (0.0, 0.0);
    for range in anonymous {
        all += range.rss_bytes as f64;
        if range.covered && sees {
            covered += range.rss_bytes as f64;
        }
    }
    if all == 0.0 {
        f64::from(u8::from(sees))
    } else {
        covered / all
    }
}
