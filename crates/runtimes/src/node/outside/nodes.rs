//! Which object has which number: an open hash table over the addresses in the order of the numbers.

const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 1 << 12;

/// Addresses by number, and numbers by address.
#[derive(Default)]
pub struct Nodes {
    /// Zero: no object of the heap.
    addresses: Vec<u64>,
    slots: Vec<u32>,
}

impl Nodes {
    pub fn address(&self, node: u32) -> Option<u64> {
        let address = self.addresses.get(node as usize).copied();
        address.filter(|address| *address != 0)
    }

    pub fn find(&self, address: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = start(address, mask);
        loop {
            let node = self.slots[slot];
            if node == EMPTY {
                return None;
            }
            if self.addresses[node as usize] == address {
                return Some(node);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The next number, for an address that has none yet.
    pub fn add(&mut self, address: u64) -> u32 {
        let node = self.addresses.len() as u32;
        self.addresses.push(address);
        if address == 0 {
            return node;
        }
        // At most two thirds are taken.
        if self.addresses.len() * 3 > self.slots.len() * 2 {
            self.grow();
        } else {
            self.place(node, address);
        }
        node
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots = Vec::new();
        self.slots = vec![EMPTY; slots];
        for node in 0..self.addresses.len() {
            let address = self.addresses[node];
            if address != 0 {
                self.place(node as u32, address);
            }
        }
    }

    fn place(&mut self, node: u32, address: u64) {
        let mask = self.slots.len() - 1;
        let mut slot = start(address, mask);
        while self.slots[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = node;
    }

    /// Of our memory.
    pub fn bytes(&self) -> usize {
        self.addresses.capacity() * size_of::<u64>() + self.slots.len() * size_of::<u32>()
    }
}

/// 2^64 divided by the golden ratio: the upper bits of the product are well mixed.
fn start(address: u64, mask: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_number() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.find(8), None);
        assert_eq!((nodes.add(0), nodes.add(0)), (0, 1));
        for number in 2..100_000_u32 {
            assert_eq!(nodes.add(u64::from(number) * 8), number);
        }
        for number in (2..100_000).step_by(7) {
            assert_eq!(nodes.find(u64::from(number) * 8), Some(number));
            assert_eq!(nodes.address(number), Some(u64::from(number) * 8));
        }
        assert_eq!((nodes.find(800_008), nodes.address(1)), (None, None));
    }
}
