//! The heap profile that the Go runtime keeps anyway: a list of buckets, one for each stack and size.

use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::budget::Budget;
use symbols::golang::pclntab::words;
use symbols::golang::words::u64_at;

const MEMORY_PROFILE: u64 = 1;
const HEADER_BYTES: usize = 48;
/// `maxProfStackDepth` of the runtime.
const STACK_MAX: u64 = 1024;
/// Buckets that are read: 100 times what a large server has.
const BUCKETS_MAX: u32 = 4_000_000;
/// Counts behind the stack: what is published, and those of three cycles to come.
const CYCLES: usize = 4;
/// Largest object that is believed: the address space.
const OBJECT_BYTES_MAX: u64 = 1 << 47;
/// Of a stack that is kept, besides its addresses.
const SITE_BYTES: usize = 120;

/// One bucket: objects of one size from one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub stack: Vec<u64>,
    pub size: u64,
    /// (allocations, frees) of the published profile and of the cycles to come.
    pub counts: [(u64, u64); CYCLES],
    older: u64,
}

/// Objects that were allocated and are live, all of them: scaled from the sampled ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    pub objects: f64,
    pub bytes: f64,
    pub allocated_bytes: f64,
}

/// By stack: return addresses, innermost first.
pub type Sites = HashMap<Vec<u64>, Sums>;

/// How the list is read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Size of one pair of counts, with what follows.
    pub cycle_bytes: usize,
    /// `runtime.MemProfileRate`.
    pub rate: u64,
    /// `runtime.mProfCycle`, when its address is known.
    pub cycle: Option<u32>,
}

/// The sites of a list of buckets.
///
/// As in pprof, the counts are those of the end of a collection, so that allocations and frees are of the same moment.
/// They may be two collections old. Before the first collection all that was allocated counts.
///
/// `Err` is a sentence: the list could not be followed to its end.
pub fn read(
    memory: &dyn Memory,
    head: u64,
    reading: &Reading,
    budget: &mut Budget,
) -> (Sites, Result<(), String>) {
    let (mut published, mut all) = (Sites::new(), Sites::new());
    let mut is_published = false;
    let walked = walk(
        memory,
        head,
        reading.cycle_bytes,
        budget,
        &mut |bucket, budget| {
            is_published |= bucket.counts[0] != (0, 0);
            let kept = !published.contains_key(&bucket.stack);
            if kept && !budget.keep(2 * (SITE_BYTES + 8 * bucket.stack.len())) {
                return;
            }
            let pending = pending_of(reading.cycle);
            let now = total(
                bucket
                    .counts
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at == 0 || Some(*at) == pending),
            );
            let sum = |counts| scaled(counts, bucket.size, reading.rate);
            add(published.entry(bucket.stack.clone()).or_default(), sum(now));
            add(
                all.entry(bucket.stack).or_default(),
                sum(total(bucket.counts.iter().enumerate())),
            );
        },
    );
    let mut sites = if is_published { published } else { all };
    sites.retain(|_, sums| sums.allocated_bytes > 0.0);
    (sites, walked)
}

/// The cycle that has ended but is not added to the published counts yet.
fn pending_of(cycle: Option<u32>) -> Option<usize> {
    let cycle = cycle.filter(|cycle| cycle & 1 == 0)?;
    Some(1 + (cycle >> 1) as usize % 3)
}

fn total<'a>(counts: impl Iterator<Item = (usize, &'a (u64, u64))>) -> (u64, u64) {
    counts.fold((0, 0), |(allocated, freed), (_, more)| {
        (
            allocated.saturating_add(more.0),
            freed.saturating_add(more.1),
        )
    })
}

/// An object of `size` bytes is sampled with a probability of 1 - exp(-size / rate): `scaleHeapSample` of pprof.
fn scaled((allocated, freed): (u64, u64), size: u64, rate: u64) -> Sums {
    let chance = match rate {
        0 | 1 => 1.0,
        _ => 1.0 - (-(size as f64) / rate as f64).exp(),
    };
    let scale = if chance > 0.0 { 1.0 / chance } else { 0.0 };
    // Counts that change while they are read may have more frees.
    let objects = allocated.saturating_sub(freed) as f64 * scale;
    Sums {
        objects,
        bytes: objects * size as f64,
        allocated_bytes: allocated as f64 * scale * size as f64,
    }
}

fn add(sums: &mut Sums, more: Sums) {
    sums.objects += more.objects;
    sums.bytes += more.bytes;
    sums.allocated_bytes += more.allocated_bytes;
}

/// Visits each bucket, the newest first. New ones are put in front: what is followed here does not change.
fn walk(
    memory: &dyn Memory,
    head: u64,
    cycle_bytes: usize,
    budget: &mut Budget,
    visit: &mut dyn FnMut(Bucket, &mut Budget),
) -> Result<(), String> {
    let (mut at, mut seen) = (head, 0);
    while at != 0 {
        if !budget.step() || seen == BUCKETS_MAX {
            let why = budget.spent().unwrap_or("it has no end");
            return Err(format!(
                "The heap profile was read in part, {seen} of its stacks: {why}."
            ));
        }
        let bucket = read_bucket(memory, at, cycle_bytes).ok_or_else(|| {
            format!(
                "The heap profile was read in part, {seen} of its stacks: the next one is damaged."
            )
        })?;
        at = bucket.older;
        seen += 1;
        visit(bucket, budget);
    }
    Ok(())
}

/// A bucket, when there is one: its hash must be that of its stack and size.
pub fn read_bucket(memory: &dyn Memory, at: u64, cycle_bytes: usize) -> Option<Bucket> {
    let mut header = [0; HEADER_BYTES];
    memory.read(at, &mut header)?;
    let word = |index: usize| u64_at(&header, 8 * index);
    let (older, kind, hash, size, depth) = (word(1)?, word(2)?, word(3)?, word(4)?, word(5)?);
    if kind != MEMORY_PROFILE || depth > STACK_MAX || size > OBJECT_BYTES_MAX {
        return None;
    }
    let length = 8 * depth + (CYCLES * cycle_bytes) as u64;
    let rest = memory.bytes(at.checked_add(HEADER_BYTES as u64)?, length, 16 << 10)?;
    let (stack, counts) = rest.split_at(8 * depth as usize);
    let stack: Vec<u64> = words(stack).collect();
    let count = |cycle: usize| {
        let pair = counts.get(cycle * cycle_bytes..)?;
        Some((u64_at(pair, 0)?, u64_at(pair, 8)?))
    };
    let counts = [count(0)?, count(1)?, count(2)?, count(3)?];
    (hash == bucket_hash(&stack, size)).then_some(Bucket {
        stack,
        size,
        counts,
        older,
    })
}

/// `stkbucket` of the runtime, the same in all versions that are read.
pub fn bucket_hash(stack: &[u64], size: u64) -> u64 {
    let mix = |hash: u64, word: u64| {
        let hash = hash.wrapping_add(word);
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    };
    let hash = stack
        .iter()
        .chain([&size])
        .fold(0, |hash, &word| mix(hash, word));
    let hash = hash.wrapping_add(hash << 3);
    hash ^ (hash >> 11)
}
