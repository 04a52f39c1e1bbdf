//! The objects of a heap that were found so far, each once, and their totals by type.

use super::heap::Heap;
use super::objects::{Found, Objects};
use super::size;

/// Objects that are followed in the order of their addresses: 8 MiB of ours.
const ROUND_MAX: usize = 1 << 20;

/// Fewer pages that are swapped out are not reported.
const SWAPPED_MIN: usize = 16;

/// All objects, in the order in which they were found: of each list of the collector the oldest first.
#[derive(Default)]
pub struct Census {
    pub objects: Objects,
    /// Objects and bytes of each type, by its number.
    pub totals: Vec<(u64, u64)>,
    /// As in [`crate::Snapshot`].
    pub missing: Vec<String>,
    pub is_partial: bool,
    /// Objects that were counted, and not kept.
    pub counted_only: u64,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    New,
    Known,
    NoObject,
    /// The limit is met.
    Full,
}

impl Census {
    pub fn add(&mut self, heap: &Heap, address: u64) -> Added {
        if self.objects.number(address).is_some() {
            return Added::Known;
        }
        let Some(type_number) = heap.type_of(address) else {
            return Added::NoObject;
        };
        if self.objects.is_full() {
            return Added::Full;
        }
        self.objects.push(Found {
            address,
            type_number,
        });
        Added::New
    }

    /// Each block of a pool is visited once: past the limit, its object is counted without being kept.
    pub fn add_or_count(&mut self, heap: &Heap, address: u64) {
        if self.add(heap, address) == Added::Full
            && let Some(type_number) = heap.type_of(address)
        {
            self.counted_only += 1;
            self.weigh(
                heap,
                Found {
                    address,
                    type_number,
                },
            );
        }
    }

    /// Weighs the objects from a number on and adds what they refer to, until there is nothing new. Each round goes in
    /// the order of the addresses, so that memory is read once, in order.
    pub fn follow(&mut self, heap: &Heap, from: usize) {
        let mut from = from;
        while from < self.objects.len() {
            let end = self.objects.len().min(from + ROUND_MAX);
            let round = self.objects.sorted(from..end);
            from = end;
            for (count, found) in round.enumerate() {
                let info = heap.info(found.type_number);
                if !self.objects.is_full() {
                    heap.each_reference(found.address, &info, &mut |_, to| {
                        self.add(heap, to);
                    });
                }
                self.weigh(heap, found);
                if count % 1_024 == 0 && heap.pages.is_late() {
                    return;
                }
            }
        }
    }

    fn weigh(&mut self, heap: &Heap, found: Found) {
        let info = heap.info(found.type_number);
        let bytes = size::bytes(heap, found.address, &info);
        let number = found.type_number as usize;
        if self.totals.len() <= number {
            self.totals.resize(number + 1, (0, 0));
        }
        let total = &mut self.totals[number];
        *total = (total.0 + 1, total.1.saturating_add(bytes));
    }

    pub fn conclude(&mut self, heap: &Heap) {
        let mut partial = Vec::new();
        if heap.pages.is_late() {
            partial.push("the time limit ended the reading: not all objects were seen".to_owned());
        }
        if self.objects.is_full() {
            partial.push(format!(
                "the memory limit was met after {} objects; of the others, {} small ones were counted",
                self.objects.len(),
                self.counted_only
            ));
        }
        let swapped = heap.pages.swapped();
        if swapped >= SWAPPED_MIN {
            partial.push(format!(
                "{swapped} pages of the heap are swapped out, and were not read: objects in them are missing"
            ));
        }
        self.is_partial = !partial.is_empty();
        self.missing.extend(partial);
    }
}
