//! From a probe's tables, as they were copied, to owned values.

use std::collections::BTreeMap;

use abi::{
    SectionKind, Snapshot, State, bytes_mode, off_reason, region_flag, stack_flag, stack_why,
};

use crate::reach::untagged;

use super::{Block, LoadedObject, ProbeSnapshot, Region, Site};

/// One probe's account, as owned values.
pub fn owned(start: u64, snapshot: &Snapshot<'_>) -> ProbeSnapshot {
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
    ProbeSnapshot {
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
        mapping_calls: None,
        over_budget_s: off
            .filter(|_| header.off_reason == off_reason::BUDGET)
            .map(|_| header.state_since_ns.saturating_sub(header.started_ns) as f64 / 1e9),
        pair_ps: counters.pair_ps,
        slow_ns: counters.slow_ns,
        traps: None,
        python: Default::default(),
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
            address: untagged(address),
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

pub fn off_words(reason: u32) -> &'static str {
    match reason {
        off_reason::BUDGET => "it cost more than its CPU budget and switched itself off",
        off_reason::SECURE => "the program was started with more rights than its caller (set-uid)",
        off_reason::NO_MEMORY => "the kernel gave it no memory",
        off_reason::REQUESTED => "HIGHWATER_PROBE=off is in the environment",
        off_reason::SECCOMP => {
            "the program confined itself with seccomp, and a system call of the probe's would have ended it"
        }
        off_reason::STARTED_CONFINED => {
            "the program was started under a seccomp filter that highwater does not have itself: whether it allows the \
             probe's system calls is not known (HIGHWATER_PROBE_FILTERS says how many filters do)"
        }
        off_reason::RECORDING => {
            "it belongs to `highwater record`: it writes calls into a trace and samples none"
        }
        off_reason::NO_ALLOCATOR => "no allocator was found behind it",
        _ => "it does not say why",
    }
}
