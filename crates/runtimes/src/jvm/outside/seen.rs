//! Which places of the heap were reached: a bit for each, in blocks that take memory when they are needed.

const BLOCK_WORDS: usize = 512;
const BLOCK_BITS: usize = BLOCK_WORDS * 64;

pub struct Seen {
    blocks: Vec<Option<Box<[u64; BLOCK_WORDS]>>>,
    taken: usize,
}

impl Seen {
    pub fn new(places: usize) -> Seen {
        Seen {
            blocks: vec![None; places.div_ceil(BLOCK_BITS)],
            taken: 0,
        }
    }

    /// Whether that place is reached now for the first time; never one that is outside.
    pub fn add(&mut self, place: u32) -> bool {
        let place = place as usize;
        let Some(block) = self.blocks.get_mut(place / BLOCK_BITS) else {
            return false;
        };
        let block = block.get_or_insert_with(|| {
            self.taken += 1;
            Box::new([0; BLOCK_WORDS])
        });
        let word = &mut block[place % BLOCK_BITS / 64];
        let bit = 1 << (place % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Of our memory.
    pub fn bytes(&self) -> usize {
        self.taken * size_of::<[u64; BLOCK_WORDS]>() + self.blocks.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_once() {
        let mut seen = Seen::new(100_000);
        for place in [0, 1, 63, 64, 32_767, 32_768, 99_999] {
            assert!(seen.add(place));
            assert!(!seen.add(place));
        }
        assert_eq!(seen.taken, 3);
        assert!(!seen.add(u32::MAX));
    }
}
