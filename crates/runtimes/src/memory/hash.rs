//! A hash for addresses of objects.

use std::hash::{BuildHasherDefault, Hasher};

/// Addresses are multiples of 8 and close to one another: one multiplication spreads them well enough.
#[derive(Debug, Default, Clone, Copy)]
pub struct AddressHasher(u64);

pub type AddressHash = BuildHasherDefault<AddressHasher>;

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 divided by the golden ratio; the upper half is the better mixed one.
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
