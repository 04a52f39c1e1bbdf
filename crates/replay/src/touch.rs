//! Which share of a large block's pages the program writes to: known from the pages resident when it was allocated and
//! when it was freed, guessed from blocks of like size where it is not.

use std::collections::HashMap;

use replayer::TOUCH_ALL;
use trace::Touch;

/// Blocks of which less than a quarter was not resident at the start tell nothing: they were used before.
const FRESH_PART: u64 = 4;
/// Classes of sizes: one for each doubling.
const CLASSES: usize = 64;

/// One large block of the plan.
struct Large {
    /// Index of its record; known once its epoch is written.
    record: u64,
    bytes: u64,
    touch: Option<u8>,
}

/// The block that a slot has now.
struct Present {
    id: usize,
    fresh: Option<Touch>,
    was_resized: bool,
}

/// All large blocks of a trace.
pub struct Touches {
    all: Vec<Large>,
    present: HashMap<u32, Present>,
    resident: [u64; CLASSES],
    pages: [u64; CLASSES],
}

impl Touches {
    pub fn new() -> Touches {
        Touches {
            all: Vec::new(),
            present: HashMap::new(),
            resident: [0; CLASSES],
            pages: [0; CLASSES],
        }
    }

    /// A large block is allocated, or has another size; its number.
    pub fn begin(&mut self, slot: u32, bytes: u64, was_resized: bool) -> usize {
        let id = self.all.len();
        self.all.push(Large {
            record: u64::MAX,
            bytes,
            touch: None,
        });
        self.present.insert(
            slot,
            Present {
                id,
                fresh: None,
                was_resized,
            },
        );
        id
    }

    /// What was resident of it at once.
    pub fn fresh(&mut self, slot: u32, touch: Touch) {
        if let Some(present) = self.present.get_mut(&slot) {
            present.fresh = Some(touch);
        }
    }

    /// It is freed, or has another size now; `touch`: what was resident of it.
    pub fn end(&mut self, slot: u32, touch: Option<Touch>) {
        let Some(present) = self.present.remove(&slot) else {
            return;
        };
        let Some((written, of)) = touch.and_then(|touch| present.written(touch)) else {
            return;
        };
        let large = &mut self.all[present.id];
        let class = class_of(large.bytes);
        self.resident[class] += written;
        self.pages[class] += of;
        large.touch = Some(share(written, of));
    }

    /// Where the record of a large block stands.
    pub fn at(&mut self, id: usize, record: u64) {
        self.all[id].record = record;
    }

    /// Record and share of each block; where nothing is known of it, that of its class, or of all.
    pub fn shares(&self) -> impl Iterator<Item = (u64, u8)> {
        let all = (self.resident.iter().sum(), self.pages.iter().sum());
        let guess = move |class: usize| match self.pages[class] {
            0 => share(all.0, all.1),
            pages => share(self.resident[class], pages),
        };
        let of = move |large: &Large| {
            (
                large.record,
                large.touch.unwrap_or_else(|| guess(class_of(large.bytes))),
            )
        };
        self.all
            .iter()
            .map(of)
            .filter(|(record, _)| *record != u64::MAX)
    }

    /// Bytes of large blocks, and of those whose share was guessed.
    pub fn guessed_bytes(&self) -> (u64, u64) {
        let sum = |bytes: u64, large: &Large| bytes.saturating_add(large.bytes);
        let guessed = self.all.iter().filter(|large| large.touch.is_none());
        (self.all.iter().fold(0, sum), guessed.fold(0, sum))
    }
}

impl Present {
    /// Pages that were written to during its life, of how many it is known.
    fn written(&self, end: Touch) -> Option<(u64, u64)> {
        if self.was_resized {
            // Its pages were those of the block before, and written to then.
            return (end.pages > 0).then_some((end.resident, end.pages));
        }
        let fresh = self.fresh?;
        let untouched = end.pages.saturating_sub(fresh.resident);
        let is_known = untouched > 0 && untouched.saturating_mul(FRESH_PART) >= end.pages;
        is_known.then(|| {
            (
                end.resident.saturating_sub(fresh.resident).min(untouched),
                untouched,
            )
        })
    }
}

fn class_of(bytes: u64) -> usize {
    bytes.max(1).ilog2() as usize
}

/// Of nothing: all.
fn share(written: u64, pages: u64) -> u8 {
    match pages {
        0 => TOUCH_ALL,
        _ => (u128::from(written.min(pages)) * u128::from(TOUCH_ALL) / u128::from(pages)) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(resident: u64, pages: u64) -> Touch {
        Touch { resident, pages }
    }

    #[test]
    fn fresh_blocks_tell_and_used_ones_do_not() {
        let mut touches = Touches::new();
        let half = touches.begin(1, 1 << 20, false);
        touches.fresh(1, touch(0, 256));
        touches.end(1, Some(touch(128, 256)));
        // Used before: all of it was resident at once.
        let used = touches.begin(1, 1 << 20, false);
        touches.fresh(1, touch(250, 256));
        touches.end(1, Some(touch(250, 256)));
        // Live to the end.
        let live = touches.begin(1, 40_000, false);
        for (id, record) in [(half, 10), (used, 11), (live, 12)] {
            touches.at(id, record);
        }
        let shares: Vec<_> = touches.shares().collect();
        assert_eq!(
            shares,
            [(10, 127), (11, 127), (12, 127)],
            "the class, then all, is the guess"
        );
        assert_eq!(
            touches.guessed_bytes(),
            ((2 << 20) + 40_000, (1 << 20) + 40_000)
        );
    }

    #[test]
    fn nothing_known_is_all() {
        let mut touches = Touches::new();
        let id = touches.begin(1, 1 << 20, false);
        touches.at(id, 0);
        assert_eq!(touches.shares().collect::<Vec<_>>(), [(0, TOUCH_ALL)]);
    }

    #[test]
    fn a_resized_block_counts_whole() {
        let mut touches = Touches::new();
        let id = touches.begin(7, 1 << 16, true);
        touches.at(id, 3);
        touches.end(7, Some(touch(16, 16)));
        assert_eq!(touches.shares().collect::<Vec<_>>(), [(3, TOUCH_ALL)]);
    }
}
