//! The probe's account of a process, copied from its memory.
//!
//! The layout and its checks are `probe/abi`'s; here it is found, copied and turned into owned
//! values. The process runs on, and may have written anything there: a mapping that does not read
//! is an error in words, never more.

mod owned;

use std::collections::BTreeMap;
use std::sync::Arc;

use abi::{Anchor, PYTHON_CODE};

use self::owned::{off_words, owned};
use super::linked::traps::{Calls, Traps};
use observe::fact::memory::Memory;
use symbols::frame::Frame;

/// Mappings with the probe's name that are read: a preloaded probe and a meter are two. More only come from a program
/// that imitates the probe.
const MAPPINGS_MAX: usize = 4;

/// Share of a core that its samples may take whatever the budget.
pub const SAMPLES_SHARE_MIN: f64 = abi::SAMPLES_NS_MIN as f64 / 1e9;

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
    /// Key in [`ProbeSnapshot::stacks`], 0 when unknown.
    pub stack: u64,
    /// Key in [`ProbeSnapshot::roles`].
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
    /// Given by the break, inside glibc's own heap.
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
pub struct ProbeSnapshot {
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
    /// Where uprobes tell of mappings, and not the probe.
    pub mapping_calls: Option<Calls>,
    /// It switched itself off over its budget, so many seconds after its start.
    pub over_budget_s: Option<f64>,
    pub pair_ps: u64,
    pub slow_ns: u64,
    /// An account by uprobes stands in it: what these cost. It begins when they were put on.
    pub traps: Option<Traps>,
    /// Frames of Python, by their numbers in stacks ([`python_number`]).
    pub python: Arc<Vec<Frame>>,
}

/// In an address of a stack with [`PYTHON_CODE`]: the rest is a number of [`ProbeSnapshot::python`].
const NAMED_PYTHON: u64 = 1 << 62;

/// The address that stands for such a frame.
pub fn python_address(number: usize) -> u64 {
    PYTHON_CODE | NAMED_PYTHON | number as u64
}

/// The number of the frame that an address stands for. `None`: it is another address, a code object's among them.
pub fn python_number(address: u64) -> Option<usize> {
    const MARKS: u64 = PYTHON_CODE | NAMED_PYTHON;
    (address & MARKS == MARKS).then_some((address & !MARKS) as usize)
}

impl ProbeSnapshot {
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
pub fn read_probe(memory: &dyn Memory, maps: &[u8]) -> Result<Option<ProbeSnapshot>, String> {
    let maps = String::from_utf8_lossy(maps);
    let mut found: Option<ProbeSnapshot> = None;
    let (mut left_bytes, mut unread) = (COPIED_BYTES_MAX, 0);
    for (index, at) in find(memory, &maps)?.into_iter().enumerate() {
        let read = match index < MAPPINGS_MAX {
            true => read_at(memory, at, &mut left_bytes)?,
            false => None,
        };
        let Some(snapshot) = read else {
            unread += 1;
            continue;
        };
        found = Some(match found {
            Some(other) => joined(other, snapshot),
            None => snapshot,
        });
    }
    Ok(found.map(|snapshot| ProbeSnapshot {
        unread_mappings: unread,
        ..snapshot
    }))
}

/// `None` when it has more than `left_bytes`, from which it is taken otherwise.
fn read_at(
    memory: &dyn Memory,
    at: u64,
    left_bytes: &mut u64,
) -> Result<Option<ProbeSnapshot>, String> {
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
pub(super) fn joined(a: ProbeSnapshot, b: ProbeSnapshot) -> ProbeSnapshot {
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
    ProbeSnapshot {
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
        mapping_calls: a.mapping_calls.or(b.mapping_calls),
        over_budget_s: a.over_budget_s.or(b.over_budget_s),
        pair_ps: a.pair_ps.max(b.pair_ps),
        slow_ns: a.slow_ns.saturating_add(b.slow_ns),
        traps: a.traps.or(b.traps),
        // Uprobes alone have any, and there is one account of them.
        python: if a.python.is_empty() {
            b.python
        } else {
            a.python
        },
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
