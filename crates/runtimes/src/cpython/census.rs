//! All objects of a heap: those that the collector knows, what they refer to, and what is in the small-object
//! allocator's pools besides.

use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::heap::Heap;
use super::interpreters::{Interpreter, tracked};
use super::pools;
use super::size;
use super::types::AddressHash;

/// Of our memory, for each object: its address, its type, and its place in the table of addresses.
const OBJECT_COST_BYTES: usize = 56;

/// All objects, in the order in which they were found: of each list of the collector the oldest first.
#[derive(Default)]
pub struct Census {
    pub objects: Vec<Found>,
    /// Number of an object, by its address.
    pub numbers: HashMap<u64, u32, AddressHash>,
    /// Objects and bytes of each type, by its number.
    pub totals: Vec<(u64, u64)>,
    /// As in [`crate::Snapshot`].
    pub missing: Vec<String>,
    pub is_partial: bool,
    most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub address: u64,
    pub type_number: u32,
}

/// Finds all objects. `maps`: the areas of the process; `bytes`: of our memory.
pub fn take(
    heap: &Heap,
    live: &dyn Memory,
    interpreters: &[Interpreter],
    maps: &[u8],
    bytes: usize,
) -> Census {
    let mut census = Census {
        most: (bytes / OBJECT_COST_BYTES).clamp(1_024, u32::MAX as usize - 1),
        ..Census::default()
    };
    let mut broken = 0;
    for interpreter in interpreters {
        let found = tracked(
            heap,
            live,
            interpreter.gc,
            census.most - census.objects.len(),
        );
        broken += found.broken;
        for object in found.objects {
            census.add(heap, object);
        }
    }
    if broken > 0 {
        let some =
            "the collector's lists changed while they were read: some objects may be missing";
        census.missing.push(some.to_owned());
    }
    census.follow(heap, 0);
    let from = census.objects.len();
    let pools = pools::each_object(heap, maps, &mut |object| census.add(heap, object));
    if pools == 0 {
        let unseen = "objects that only native code refers to are not seen: Python does not use its own allocator \
                      (PYTHONMALLOC?)";
        census.missing.push(unseen.to_owned());
    }
    census.follow(heap, from);
    census.conclude(heap);
    census
}

impl Census {
    /// Of all objects, in order.
    pub fn addresses(&self) -> Vec<u64> {
        let mut addresses: Vec<u64> = self.objects.iter().map(|found| found.address).collect();
        addresses.sort_unstable();
        addresses
    }

    /// Adds an object that is new. `false`: the limit is met.
    fn add(&mut self, heap: &Heap, address: u64) -> bool {
        if self.objects.len() >= self.most {
            return false;
        }
        if self.numbers.contains_key(&address) {
            return true;
        }
        if let Some(type_number) = heap.type_of(address) {
            self.numbers.insert(address, self.objects.len() as u32);
            self.objects.push(Found {
                address,
                type_number,
            });
        }
        true
    }

    /// Weighs the objects from a number on and adds what they refer to, until there is nothing new. Each round goes in the
    /// order of the addresses, so that memory is read once, in order.
    fn follow(&mut self, heap: &Heap, from: usize) {
        let mut from = from;
        while from < self.objects.len() {
            let mut round = self.objects[from..].to_vec();
            round.sort_unstable_by_key(|found| found.address);
            from = self.objects.len();
            for (count, found) in round.iter().enumerate() {
                self.weigh(heap, *found);
                if count % 1_024 == 0 && heap.pages.is_late() {
                    return;
                }
            }
        }
    }

    fn weigh(&mut self, heap: &Heap, found: Found) {
        let info = heap.info(found.type_number);
        heap.each_reference(found.address, &info, &mut |_, to| {
            self.add(heap, to);
        });
        let bytes = size::bytes(heap, found.address, &info);
        let number = found.type_number as usize;
        if self.totals.len() <= number {
            self.totals.resize(number + 1, (0, 0));
        }
        self.totals[number].0 += 1;
        self.totals[number].1 += bytes;
    }

    fn conclude(&mut self, heap: &Heap) {
        if heap.pages.is_late() {
            let late = "the time limit ended the reading: not all objects were seen";
            self.is_partial = true;
            self.missing.push(late.to_owned());
        }
        if self.objects.len() >= self.most {
            let full = format!(
                "the memory limit ended the reading after {} objects",
                self.objects.len()
            );
            self.is_partial = true;
            self.missing.push(full);
        }
    }
}
