//! A set of addresses of objects, kept from one snapshot to the next: a bit for each 8 bytes where there are objects.

use std::collections::HashMap;

use crate::memory::hash::AddressHash;

const BLOCK_BITS: u32 = 13;
const WORDS: usize = 1 << (BLOCK_BITS - 3 - 6);

/// 1 or 2 bytes for an object of usual size, of which there are many in each 8 KiB.
#[derive(Debug, Default)]
pub struct AddressSet(HashMap<u64, [u64; WORDS], AddressHash>);

impl AddressSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, address: u64) -> bool {
        let (word, bit) = place(address);
        let block = self.0.get(&(address >> BLOCK_BITS));
        block.is_some_and(|block| block[word] & bit != 0)
    }
}

impl FromIterator<u64> for AddressSet {
    fn from_iter<I: IntoIterator<Item = u64>>(addresses: I) -> AddressSet {
        let mut set = AddressSet::default();
        for address in addresses {
            let (word, bit) = place(address);
            set.0.entry(address >> BLOCK_BITS).or_default()[word] |= bit;
        }
        set
    }
}

fn place(address: u64) -> (usize, u64) {
    let index = address >> 3 & ((1 << (BLOCK_BITS - 3)) - 1);
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_were_put_in() {
        let addresses = [0x1_0000, 0x1_0008, 0x1_1ff8, 0x7fff_ffff_fff8];
        let set: AddressSet = addresses.into_iter().collect();
        assert!(addresses.into_iter().all(|address| set.has(address)));
        assert!(
            ![0x1_0010, 0x1_2000, 0]
                .into_iter()
                .any(|address| set.has(address))
        );
        assert!(!set.is_empty() && AddressSet::default().is_empty());
    }
}
