//! The sizes that the Go runtime keeps for itself.

use observe::fact::memory::Memory;

use super::layout::Layout;
use crate::HeapSize;

/// Sizes above this are not believed: the address space.
const BYTES_MAX: u64 = 1 << 47;
/// `math.MaxInt64`: no limit.
const NO_LIMIT: u64 = i64::MAX as u64;
/// Parts of `struct heapStatsDelta`, of which there are three to be added.
const IN_STACKS: u64 = 24;
const IN_WORK_BUFFERS: u64 = 32;
const SHARDS: u64 = 3;
/// Behind them, their generation and a lock: 16 bytes.
const GENERATION_BYTES: u64 = 16;
/// Words of `struct mstats` behind that.
const SYSTEM: [(u64, &str); 5] = [
    (8, "span structures"),
    (16, "allocation caches"),
    (24, "profile buckets"),
    (32, "GC metadata"),
    (40, "other runtime structures"),
];
/// Of `numgc` behind the first of these.
const COLLECTIONS: u64 = 4160;

/// Of `runtime.gcController` and `runtime.memstats`.
pub fn read(
    memory: &dyn Memory,
    controller: u64,
    stats: Option<u64>,
    layout: &Layout,
) -> Option<HeapSize> {
    let word = |offset: u64| memory.u64(controller.checked_add(offset)?);
    let bytes = |offset: u64| word(offset).filter(|&bytes| bytes < BYTES_MAX);
    let used_bytes = bytes(layout.heap_live)?;
    let Some(in_use) = layout.heap_in_use else {
        return Some(HeapSize {
            used_bytes,
            ..HeapSize::default()
        });
    };
    let idle = bytes(in_use + 16)?;
    let mut size = HeapSize {
        used_bytes,
        committed_bytes: Some(bytes(in_use)? + idle),
        limit_bytes: word(8).filter(|&limit| limit < NO_LIMIT),
        idle_bytes: Some(idle),
        ..HeapSize::default()
    };
    if let Some(stats) = stats {
        size.others = others(memory, stats, layout);
        let counted = stats.checked_add(system(layout) + COLLECTIONS);
        size.collections = counted.and_then(|at| memory.u32(at)).map(u64::from);
    }
    Some(size)
}

fn system(layout: &Layout) -> u64 {
    SHARDS * layout.delta_bytes + GENERATION_BYTES
}

fn others(memory: &dyn Memory, stats: u64, layout: &Layout) -> Vec<(String, u64)> {
    let word = |offset: u64| memory.u64(stats.checked_add(offset)?);
    // Each shard counts changes, which may be negative: the sum wraps to what is right.
    let added = |offset: u64| {
        let mut shards = (0..SHARDS).map(|shard| word(shard * layout.delta_bytes + offset));
        shards.try_fold(0u64, |sum, shard| Some(sum.wrapping_add(shard?)))
    };
    let delta = [
        ("goroutine stacks", added(IN_STACKS)),
        ("GC work buffers", added(IN_WORK_BUFFERS)),
    ];
    let own = SYSTEM
        .iter()
        .map(|(offset, name)| (*name, word(system(layout) + offset)));
    let all = delta.into_iter().chain(own);
    let believed =
        all.filter_map(|(name, bytes)| Some((name, bytes.filter(|&bytes| bytes < BYTES_MAX)?)));
    believed
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}
