//! The probe's account of a process, copied from its memory.
//!
//! The layout and its checks are `probe/abi`'s; here it is found, copied and turned into owned
//! values. The process runs on, and may have written anything there: a mapping that does not read
//! is an error in words, never more.

use std::collections::BTreeMap;

use abi::{
    Anchor, SectionKind, Snapshot, State, bytes_mode, off_reason, region_flag, stack_flag,
    stack_why,
};

use super::linked::Traps;
use crate::observe::fact::memory::Memory;

/// Mappings with the probe's name that are read: a preloaded probe and a meter are two. More only come from a program
/// that imitates the probe.
const MAPPINGS_MAX: usize = 4;

/// Bytes copied from all of them: the largest probe there is, and a meter with the default cap of 8 MiB or two.
const COPIED_BYTES_MAX: u64 = abi::TOTAL_BYTES_MAX + (16 << 20);

/// Bytes of a library's data that are searched for the anchor, and mappings that are.
const ANCHOR_BYTES_MAX: u64 = 16 << 20;
const ANCHOR_MAPPINGS_MAX: usize = 8;

/// A live block that was sampled; it stands for `weight` blocks of its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub address: u64,
    pub requested_bytes: u64,
    pub usable_bytes: u64,
    pub weight: f64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Key in [`ProbeLook::stacks`], 0 when unknown.
    pub stack: u64,
    /// Key in [`ProbeLook::roles`].
    pub role: u16,
}

/// What was allocated at one stack since the start, estimated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// Return addresses, innermost first; empty when the stack is not known.
    pub addresses: Vec<u64>,
    /// Why there are no addresses.
    pub why: Option<&'static str>,
    /// The outermost frames are missing.
    pub is_cut: bool,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    pub samples: u64,
    pub freed_samples: u64,
    pub lifetime_ns_max: u64,
    /// Freed samples by lifetime, bucket by `abi::lifetime_upper_ns`.
    pub lifetimes: Vec<u32>,
}

impl Site {
    /// Seconds by which so large a share of the freed samples was freed: the end of their bucket, or the longest
    /// life. 0 without any.
    pub fn lifetime_s(&self, share: f64) -> f64 {
        let all: u64 = self.lifetimes.iter().map(|&count| u64::from(count)).sum();
        let mut sum = 0;
        let reaches = |count: &u32| {
            sum += u64::from(*count);
            all > 0 && sum as f64 >= share * all as f64
        };
        let bucket = self.lifetimes.iter().position(reaches);
        let longest = self.lifetime_ns_max;
        bucket.map_or(0.0, |bucket| {
            abi::lifetime_upper_ns(bucket).min(longest) as f64 / 1e9
        })
    }
}

/// Memory that a direct call of mmap or mremap made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    pub time_ns: u64,
    pub stack: u64,
    pub anonymous: bool,
    pub shared: bool,
    /// Called by the allocator behind the probe.
    pub by_allocator: bool,
    /// Given by the break, in the midst of glibc's own heap.
    pub by_break: bool,
}

/// A library, or the program, as it was loaded when a stack went through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    pub start: u64,
    pub end: u64,
    /// To be subtracted from an address to get the one in the file.
    pub bias: u64,
    pub path: String,
}

impl LoadedObject {
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// One copy of the probe's account.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeLook {
    /// (from, to) of its mapping, and of the meter's.
    pub own: Vec<(u64, u64)>,
    /// Counting, or why not.
    pub off: Option<&'static str>,
    pub started_ns: u64,
    pub forks: u32,
    /// Exact usable bytes of live blocks. `None` when only samples tell.
    pub live_bytes_exact: Option<i64>,
    /// Usable bytes allocated so far, counted wherever the live bytes are.
    pub allocated_bytes_exact: Option<u64>,
    pub allocs: u64,
    pub frees: u64,
    pub blocks: Vec<Block>,
    /// By the hash of the stack.
    pub stacks: BTreeMap<u64, Site>,
    pub regions: Vec<Region>,
    /// In the order in which they went; those that are loaded come last.
    pub objects: Vec<LoadedObject>,
    pub roles: BTreeMap<u16, String>,
    /// Address of the `malloc` it forwards to; 0 when there is only a meter.
    pub next_malloc: u64,
    /// Address of the allocator's function behind a meter that the program was linked with, or 0.
    pub metered: u64,
    pub samples: u64,
    pub dropped: u64,
    /// Mappings with the probe's name that were not read: more than [`MAPPINGS_MAX`], or than [`COPIED_BYTES_MAX`].
    pub unread_mappings: usize,
    /// Stacks without addresses: all together had more frames than the table of frames holds.
    pub unread_stacks: usize,
    /// Mappings that did not fit into its table: of what grows, the table shows the beginning only.
    pub regions_dropped: u64,
    /// It switched itself off over its budget, so many seconds after its start.
    pub over_budget_s: Option<f64>,
    pub pair_ps: u64,
    pub slow_ns: u64,
    /// An account by uprobes stands in it: what these cost. It begins when they were put on.
    pub traps: Option<Traps>,
}

impl ProbeLook {
    /// Usable bytes of live blocks: exact, or estimated from the samples.
    pub fn live_bytes(&self) -> f64 {
        let sampled = || {
            self.blocks
                .iter()
                .map(|b| b.weight * b.usable_bytes as f64)
                .sum()
        };
        self.live_bytes_exact
            .map_or_else(sampled, |bytes| bytes as f64)
    }
}

/// The probe's account, and that of a meter that the program was linked with; `None` when the process
/// has neither. `maps`: text of its maps.
pub fn read_probe(memory: &dyn Memory, maps: &[u8]) -> Result<Option<ProbeLook>, String> {
    let maps = String::from_utf8_lossy(maps);
    let mut found: Option<ProbeLook> = None;
    let (mut left_bytes, mut unread) = (COPIED_BYTES_MAX, 0);
    for (index, at) in find(memory, &maps)?.into_iter().enumerate() {
        let read = match index < MAPPINGS_MAX {
            true => read_at(memory, at, &mut left_bytes)?,
            false => None,
        };
        let Some(look) = read else {
            unread += 1;
            continue;
        };
        found = Some(match found {
            Some(other) => joined(other, look),
            None => look,
        });
    }
    Ok(found.map(|look| ProbeLook {
        unread_mappings: unread,
        ..look
    }))
}

/// `None` when it has more than `left_bytes`, from which it is taken otherwise.
fn read_at(
    memory: &dyn Memory,
    at: u64,
    left_bytes: &mut u64,
) -> Result<Option<ProbeLook>, String> {
    let header_bytes = abi::HEADER_BYTES as u64;
    let first = memory.bytes(at, header_bytes, header_bytes);
    let first = first.ok_or("the probe's memory cannot be read")?;
    let header = abi::read_header(&first).map_err(|error| error.to_string())?;
    let Some(left) = left_bytes.checked_sub(header.total_bytes) else {
        return Ok(None);
    };
    *left_bytes = left;
    let all = memory.bytes(at, header.total_bytes, abi::TOTAL_BYTES_MAX);
    let all = all.ok_or_else(|| {
        let bytes = header.total_bytes;
        format!("the probe's memory claims {bytes} bytes, which are not there: it was written over")
    })?;
    let snapshot = abi::read(&all).map_err(|error| error.to_string())?;
    Ok(Some(owned(at, &snapshot)))
}

/// Roles are numbered from 0 in each account: those of the second come behind.
const ROLES_APART: u16 = 1 << 12;

/// Two accounts of one process, each of its own allocator.
pub(super) fn joined(a: ProbeLook, b: ProbeLook) -> ProbeLook {
    let live = a
        .live_bytes_exact
        .zip(b.live_bytes_exact)
        .map(|(a, b)| a.wrapping_add(b));
    let allocated = a.allocated_bytes_exact.zip(b.allocated_bytes_exact);
    let allocated = allocated.map(|(a, b)| a.wrapping_add(b));
    let moved = |block: Block| Block {
        role: block.role.saturating_add(ROLES_APART),
        ..block
    };
    let mut stacks = a.stacks;
    stacks.extend(b.stacks);
    let mut roles = a.roles;
    roles.extend(
        b.roles
            .into_iter()
            .map(|(at, name)| (at.saturating_add(ROLES_APART), name)),
    );
    let mut regions = [a.regions, b.regions].concat();
    regions.sort_by_key(|region| region.start);
    ProbeLook {
        own: [a.own, b.own].concat(),
        off: a.off.or(b.off),
        started_ns: a.started_ns.min(b.started_ns),
        forks: a.forks.max(b.forks),
        live_bytes_exact: live,
        allocated_bytes_exact: allocated,
        allocs: a.allocs.wrapping_add(b.allocs),
        frees: a.frees.wrapping_add(b.frees),
        blocks: a
            .blocks
            .into_iter()
            .chain(b.blocks.into_iter().map(moved))
            .collect(),
        stacks,
        regions,
        objects: [a.objects, b.objects].concat(),
        roles,
        next_malloc: a.next_malloc.max(b.next_malloc),
        metered: a.metered.max(b.metered),
        samples: a.samples.saturating_add(b.samples),
        dropped: a.dropped.saturating_add(b.dropped),
        unread_mappings: a.unread_mappings.saturating_add(b.unread_mappings),
        unread_stacks: a.unread_stacks.saturating_add(b.unread_stacks),
        regions_dropped: a.regions_dropped.max(b.regions_dropped),
        over_budget_s: a.over_budget_s.or(b.over_budget_s),
        pair_ps: a.pair_ps.max(b.pair_ps),
        slow_ns: a.slow_ns.saturating_add(b.slow_ns),
        traps: a.traps.or(b.traps),
    }
}

/// Addresses of the headers. An error in words when a probe is there and off without one.
fn find(memory: &dyn Memory, maps: &str) -> Result<Vec<u64>, String> {
    let named: Vec<u64> = abi::find_headers(maps).map(|range| range.start).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    for range in abi::anchor_candidates(maps).take(ANCHOR_MAPPINGS_MAX) {
        let bytes = memory.bytes(range.start, range.end - range.start, ANCHOR_BYTES_MAX);
        let Some(anchor) = bytes.and_then(|bytes| Anchor::find(&bytes)) else {
            continue;
        };
        if anchor.version != abi::VERSION {
            return Err(abi::Error::Version {
                found: anchor.version,
            }
            .to_string());
        }
        if anchor.header_address == 0 {
            let why = off_words(anchor.off_reason);
            return Err(format!("the probe is loaded and off: {why}"));
        }
        return Ok(vec![anchor.header_address]);
    }
    Ok(Vec::new())
}

fn owned(start: u64, snapshot: &Snapshot<'_>) -> ProbeLook {
    let header = &snapshot.header;
    let counters = &header.counters;
    let hashes: BTreeMap<u32, u64> = snapshot.stacks().map(|(row, s)| (row, s.hash)).collect();
    let hash = |row: u32| hashes.get(&row).copied().unwrap_or(0);
    let off = matches!(snapshot.state(), State::Off).then(|| off_words(header.off_reason));
    let is_meter = header.bytes_mode == bytes_mode::EXACT_BY_LAYOUT;
    let (mut allocs, mut frees, mut allocated) = (0u64, 0u64, 0u64);
    for (_, thread) in snapshot.threads() {
        allocs = allocs.wrapping_add(thread.allocs);
        frees = frees.wrapping_add(thread.frees);
        allocated = allocated.wrapping_add(thread.usable_allocated_bytes);
    }
    let live = exact_live_bytes(snapshot);
    let (stacks, unread_stacks) = sites(snapshot);
    ProbeLook {
        own: vec![(start, start.saturating_add(header.total_bytes))],
        off,
        started_ns: header.started_ns,
        forks: header.forks,
        live_bytes_exact: live,
        allocated_bytes_exact: live.map(|_| allocated),
        allocs,
        frees,
        blocks: blocks(snapshot, &hash),
        stacks,
        regions: regions(snapshot, &hash),
        objects: objects(snapshot),
        roles: snapshot
            .roles()
            .map(|(at, role)| (at, name_of(&role.name)))
            .collect(),
        next_malloc: if is_meter { 0 } else { header.next_malloc },
        metered: if is_meter { header.next_malloc } else { 0 },
        samples: counters.samples_taken,
        dropped: counters
            .samples_dropped_full
            .saturating_add(counters.samples_dropped_nested),
        unread_mappings: 0,
        unread_stacks,
        regions_dropped: counters.regions_dropped,
        over_budget_s: off
            .filter(|_| header.off_reason == off_reason::BUDGET)
            .map(|_| header.state_since_ns.saturating_sub(header.started_ns) as f64 / 1e9),
        pair_ps: counters.pair_ps,
        slow_ns: counters.slow_ns,
        traps: None,
    }
}

fn exact_live_bytes(snapshot: &Snapshot<'_>) -> Option<i64> {
    let header = &snapshot.header;
    let exact = header.bytes_mode != bytes_mode::SAMPLED && header.exact_bytes_ended_ns == 0;
    let live = snapshot.threads().fold(0i64, |sum, (_, thread)| {
        let live = thread
            .usable_allocated_bytes
            .wrapping_sub(thread.usable_freed_bytes);
        sum.wrapping_add(live as i64)
    });
    exact.then_some(live)
}

fn blocks(snapshot: &Snapshot<'_>, hash: &dyn Fn(u32) -> u64) -> Vec<Block> {
    let block = |(address, sample): (u64, abi::Sample)| {
        // Of a block asked for with no bytes the sampler sees one.
        let requested = sample.requested_bytes.max(1) as f64;
        let chance = -(-requested / sample.mean_bytes.max(1) as f64).exp_m1();
        Block {
            address,
            requested_bytes: sample.requested_bytes,
            usable_bytes: sample.usable_bytes,
            weight: 1.0 / chance,
            time_ns: sample.time_ns,
            stack: hash(sample.stack),
            role: sample.role,
        }
    };
    snapshot.samples().map(block).collect()
}

/// By the hash of the stack, and how many have no addresses for the limit. The probe writes the frames of each stack
/// once, so that all together have no more than their table has rows; stacks that share frames are made up.
fn sites(snapshot: &Snapshot<'_>) -> (BTreeMap<u64, Site>, usize) {
    let mut left = SectionKind::Frames.rows_max() as usize;
    let mut unread = 0;
    let mut sites = BTreeMap::new();
    for (_, stack) in snapshot.stacks() {
        let mut site = site(snapshot, &stack);
        match left.checked_sub(site.addresses.len()) {
            Some(rest) => left = rest,
            None => {
                unread += 1;
                site.addresses = Vec::new();
                site.why = Some("all stacks together have more frames than the probe's table");
            }
        }
        sites.insert(stack.hash, site);
    }
    (sites, unread)
}

fn site(snapshot: &Snapshot<'_>, stack: &abi::Stack) -> Site {
    let why = snapshot.why_no_stack(stack).map(|why| match why {
        stack_why::CONTENDED => "another thread was unwinding",
        stack_why::TABLE_FULL => "the table of stacks was full",
        _ => "no frame could be read",
    });
    Site {
        addresses: snapshot.frames(stack).collect(),
        why,
        is_cut: stack.flags & (stack_flag::DEEPER | stack_flag::BROKEN) != 0,
        // Weights are drawn to whole bytes, and what a resize takes off was drawn anew.
        allocated_bytes: (stack.allocated_bytes as i64).max(0) as u64,
        freed_bytes: stack.freed_bytes,
        samples: stack.samples,
        freed_samples: stack.freed_samples,
        lifetime_ns_max: stack.lifetime_ns_max,
        lifetimes: stack.lifetimes.to_vec(),
    }
}

fn regions(snapshot: &Snapshot<'_>, hash: &dyn Fn(u32) -> u64) -> Vec<Region> {
    let region = |row: abi::Region| {
        let has = |flag| row.flags & flag != 0;
        Region {
            start: row.start,
            end: row.start.saturating_add(row.bytes),
            time_ns: row.time_ns,
            stack: hash(row.stack),
            anonymous: has(region_flag::ANONYMOUS),
            shared: has(region_flag::SHARED),
            by_allocator: has(region_flag::BY_ALLOCATOR),
            by_break: has(region_flag::BREAK),
        }
    };
    let mut regions: Vec<Region> = snapshot.regions().map(region).collect();
    regions.sort_by_key(|region| region.start);
    regions
}

fn objects(snapshot: &Snapshot<'_>) -> Vec<LoadedObject> {
    let mut modules: Vec<_> = snapshot.modules().collect();
    // Where several had an address, the one that had it last counts.
    let last_ns = |gone_ns| if gone_ns == 0 { u64::MAX } else { gone_ns };
    modules.sort_by_key(|module| (last_ns(module.gone_ns), module.first_ns));
    let object = |module: abi::Module| {
        let length = (module.path_bytes as usize).min(module.path.len());
        let path = String::from_utf8_lossy(&module.path[..length]).into_owned();
        LoadedObject {
            start: module.start,
            end: module.end,
            bias: module.bias,
            path,
        }
    };
    let objects = modules.into_iter().map(object);
    objects
        .filter(|object| object.path.starts_with('/'))
        .collect()
}

fn name_of(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn off_words(reason: u32) -> &'static str {
    match reason {
        off_reason::BUDGET => "it cost more than its CPU budget and switched itself off",
        off_reason::SECURE => "the program was started with more rights than its caller (set-uid)",
        off_reason::NO_MEMORY => "the kernel gave it no memory",
        off_reason::REQUESTED => "HIGHWATER_PROBE=off is in the environment",
        off_reason::SECCOMP => {
            "the program confined itself with seccomp, and a system call of the probe's would have ended it"
        }
        off_reason::NO_ALLOCATOR => "no allocator was found behind it",
        _ => "it does not say why",
    }
}
