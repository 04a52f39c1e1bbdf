//! Sums that are kept weighted as samples come and go: size classes, latencies, who frees what.

use abi::{Class, Flow, LATENCIES, Latency, ROLES, class_of, latency_of};

use crate::draw;
use crate::word::add;

/// Three sections of sums.
pub struct Flows {
    /// First row of each.
    pub classes: *mut Class,
    /// See `classes`.
    pub latencies: *mut Latency,
    /// See `classes`.
    pub matrix: *mut Flow,
}

/// What a sample stands for.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// Blocks.
    pub blocks: u64,
    /// Requested bytes.
    pub bytes: u64,
}

impl Weight {
    /// Of a sample of `bytes` at a mean. Rounded up or down by chance, from `dice`: a large block
    /// stands for 1.3 blocks, and always rounding it down would lose them.
    pub fn of(bytes: u64, mean_bytes: u64, mut dice: u64) -> Weight {
        let (blocks, bytes) = draw::weight(bytes, mean_bytes);
        let chance = draw::uniform(&mut dice);
        Weight {
            blocks: (blocks + chance) as u64,
            bytes: (bytes + chance) as u64,
        }
    }
}

impl Flows {
    /// A block of a size class was allocated.
    pub fn allocated(&self, usable_bytes: u64, weight: Weight) {
        // SAFETY: class_of is below the number of rows.
        unsafe {
            let row = self.classes.add(class_of(usable_bytes));
            add(&raw mut (*row).allocated_bytes, weight.bytes);
            add(&raw mut (*row).allocated_blocks, weight.blocks);
        }
    }

    /// A block that role `by` allocated was freed by role `freed_by`.
    pub fn freed(&self, usable_bytes: u64, weight: Weight, by: u16, freed_by: u16) {
        let (by, freed_by) = (
            usize::from(by).min(ROLES - 1),
            usize::from(freed_by).min(ROLES - 1),
        );
        // SAFETY: both indices are below their number of rows.
        unsafe {
            let row = self.classes.add(class_of(usable_bytes));
            add(&raw mut (*row).freed_bytes, weight.bytes);
            add(&raw mut (*row).freed_blocks, weight.blocks);
            let flow = self.matrix.add(by * ROLES + freed_by);
            add(&raw mut (*flow).bytes, weight.bytes);
            add(&raw mut (*flow).blocks, weight.blocks);
        }
    }

    /// A sampled allocating call took so long.
    pub fn alloc_took(&self, ns: u64) {
        // SAFETY: latency_of is below the number of rows.
        unsafe {
            add(
                &raw mut (*self.latencies.add(latency_of(ns).min(LATENCIES - 1))).allocs,
                1,
            )
        };
    }

    /// A sampled freeing call took so long.
    pub fn free_took(&self, ns: u64) {
        // SAFETY: as above.
        unsafe {
            add(
                &raw mut (*self.latencies.add(latency_of(ns).min(LATENCIES - 1))).frees,
                1,
            )
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn rounding_by_chance_loses_nothing() {
        let blocks: u64 = (0..10_000)
            .map(|dice| Weight::of(65_536, 65_536, dice).blocks)
            .sum();
        let truth = 10_000.0 / draw::probability(65_536, 65_536);
        assert!(
            (blocks as f64 / truth - 1.0).abs() < 0.02,
            "{blocks} for {truth}"
        );
    }
}
