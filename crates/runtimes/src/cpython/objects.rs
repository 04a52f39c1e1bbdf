//! All objects of a heap by number, and their numbers by address, in 14 bytes each.

use std::ops::Range;

/// Of an address: below 2^48, and a multiple of 8.
const ADDRESS_BITS: u32 = 45;
const TYPE_BITS: u32 = 64 - ADDRESS_BITS;
/// Addresses of objects are below.
pub const ADDRESS_MAX: u64 = 1 << (ADDRESS_BITS + 3);
/// Numbers of types are below.
pub const TYPES_MAX: usize = 1 << TYPE_BITS;

/// A slot has the number of an object plus one, and above it some bits of its hash: most other objects are told
/// apart without reading their addresses.
const NUMBER_BITS: u32 = 26;
pub const OBJECTS_MAX: usize = (1 << NUMBER_BITS) - 2;
const SLOTS_MIN: usize = 1 << 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub address: u64,
    pub type_number: u32,
}

#[derive(Debug, Default)]
pub struct Objects {
    /// The address and the number of the type.
    packed: Vec<u64>,
    slots: Vec<u32>,
    most: usize,
}

impl Objects {
    pub fn new(most: usize) -> Objects {
        let most = most.min(OBJECTS_MAX);
        Objects {
            // Pages of it that are not used stay untouched.
            packed: Vec::with_capacity(most),
            slots: vec![0; SLOTS_MIN],
            most,
        }
    }

    pub fn len(&self) -> usize {
        self.packed.len()
    }

    pub fn is_full(&self) -> bool {
        self.packed.len() >= self.most
    }

    pub fn get(&self, number: u32) -> Found {
        unpack(self.packed[number as usize])
    }

    pub fn iter(&self) -> impl Iterator<Item = Found> {
        self.packed.iter().map(|packed| unpack(*packed))
    }

    /// The objects with these numbers, by address.
    pub fn sorted(&self, numbers: Range<usize>) -> impl Iterator<Item = Found> + use<> {
        let mut sorted = self.packed[numbers].to_vec();
        sorted.sort_unstable();
        sorted.into_iter().map(unpack)
    }

    pub fn number(&self, address: u64) -> Option<u32> {
        self.slot(address).err()
    }

    /// Adds an object that is new; there must be room.
    pub fn push(&mut self, found: Found) {
        if (self.packed.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        if let Ok(slot) = self.slot(found.address) {
            self.slots[slot] = tag(hash(found.address)) | (self.packed.len() as u32 + 1);
            self.packed.push(pack(found));
        }
    }

    /// The number of the object at an address, as an error; else the free slot for it.
    fn slot(&self, address: u64) -> Result<usize, u32> {
        const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
        let hash = hash(address);
        let tag = tag(hash);
        let mut at = place(hash, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Ok(at);
            }
            let number = (slot & NUMBER) - 1;
            if slot & !NUMBER == tag && self.get(number).address == address {
                return Err(number);
            }
            at = if at + 1 == self.slots.len() {
                0
            } else {
                at + 1
            };
        }
    }

    /// Makes the table anew: the old one is freed first.
    fn grow(&mut self) {
        let most = self.most * 4 / 3 + 8;
        let count = (self.slots.len() * 2).min(most.max(self.slots.len() + 8));
        self.slots = Vec::new();
        self.slots = vec![0; count];
        for (number, packed) in self.packed.iter().enumerate() {
            let hash = hash(unpack(*packed).address);
            let mut at = place(hash, count);
            while self.slots[at] != 0 {
                at = if at + 1 == count { 0 } else { at + 1 };
            }
            self.slots[at] = tag(hash) | (number as u32 + 1);
        }
    }
}

fn pack(found: Found) -> u64 {
    debug_assert!(found.address < ADDRESS_MAX && (found.type_number as usize) < TYPES_MAX);
    found.address >> 3 << TYPE_BITS | u64::from(found.type_number)
}

fn unpack(packed: u64) -> Found {
    Found {
        address: packed >> TYPE_BITS << 3,
        type_number: (packed & ((1 << TYPE_BITS) - 1)) as u32,
    }
}

fn hash(address: u64) -> u64 {
    // 2^64 divided by the golden ratio, twice: the place is made of the upper bits, the tag of the lower ones.
    let product = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product ^ product >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn tag(hash: u64) -> u32 {
    (hash as u32) >> NUMBER_BITS << NUMBER_BITS
}

fn place(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_address() {
        let mut objects = Objects::new(100_000);
        let address = |number: u64| 0x7f00_0000_0000 + number * 48;
        for number in 0..100_000 {
            assert!(!objects.is_full());
            objects.push(Found {
                address: address(number),
                type_number: (number % 500_000) as u32,
            });
        }
        assert!(objects.is_full());
        for number in 0..100_000 {
            assert_eq!(objects.number(address(number)), Some(number as u32));
            assert_eq!(objects.number(address(number) + 8), None);
        }
        assert_eq!(objects.get(7).address, address(7));
        assert_eq!(
            objects.iter().nth(9).map(|found| found.type_number),
            Some(9)
        );
        let bytes = objects.packed.capacity() * 8 + objects.slots.len() * 4;
        assert!(bytes <= 100_000 * 14, "{bytes}");
    }

    #[test]
    fn the_largest_address_and_type() {
        let mut objects = Objects::new(8);
        let found = Found {
            address: ADDRESS_MAX - 8,
            type_number: TYPES_MAX as u32 - 1,
        };
        objects.push(found);
        objects.push(found);
        assert_eq!((objects.len(), objects.get(0)), (1, found));
        assert_eq!(objects.sorted(0..1).collect::<Vec<_>>(), [found]);
    }
}
