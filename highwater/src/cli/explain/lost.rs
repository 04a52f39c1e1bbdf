//! Whether the program still holds what a growing site allocated: the question that tells a leak from a
//! cache that fills.

use std::collections::HashSet;

use super::follow::Tracked;
use crate::observe::heap::graph::Survey;
use crate::observe::heap::probe::Block;

/// Blocks that are asked after at each of the sites that grow most.
const ASKED_PER_SITE: usize = 48;
const SITES_ASKED: usize = 8;
/// So many blocks from before a survey do without later ones.
const ENOUGH: usize = 8;
/// The last pointer to a young block may lie in a register, or the block's owner be on its way.
const ASKED_AGE_MIN_S: f64 = 2.0;
/// Searches for what is reached: a pointer may move while one is made, and hardly in both.
const PASSES: usize = 2;

impl Tracked {
    /// For the sites that grow most: whether the program can still reach their older blocks. What it
    /// holds now is kept, to compare with when asked again.
    pub fn ask_after_blocks(&mut self) {
        let since_ns = self.survey.as_ref().map_or(0, |(at, _)| *at);
        let asked = self.blocks_to_ask(since_ns);
        let before = self.survey.take();
        let lost = self.find_lost(&asked, before.as_ref());
        // A process that ended meanwhile points to nothing any more: that would prove nothing.
        let Ok(look) = self.reader.look() else {
            return;
        };
        if !asked.is_empty() {
            self.survey = self
                .reader
                .survey(&look)
                .map(|survey| (look.time_ns, survey));
        }
        let Some(lost) = lost else { return };
        self.lost.clear();
        // What was freed meanwhile is not lost.
        let blocks = look.probe.iter().flat_map(|probe| &probe.blocks);
        let live: HashSet<(u64, u64)> =
            blocks.map(|block| (block.address, block.time_ns)).collect();
        let both = asked.iter().zip(lost);
        for (block, lost) in
            both.filter(|(block, _)| live.contains(&(block.address, block.time_ns)))
        {
            let sums = self.lost.entry(block.stack).or_default();
            sums.0 += usize::from(lost);
            sums.1 += 1;
        }
    }

    /// Whether something grows and there is no survey yet to tell by what is lost of it.
    pub fn wants_survey(&self) -> bool {
        !self.ended && self.survey.is_none() && !self.blocks_to_ask(0).is_empty()
    }

    /// Where there are enough, those from before `since_ns`: only of them an earlier survey can tell.
    fn blocks_to_ask(&self, since_ns: u64) -> Vec<Block> {
        let (Some(probe), Some(window)) = (&self.look.probe, self.history.window()) else {
            return Vec::new();
        };
        let mut growths = self.history.heap_sites(window, &self.look);
        growths.retain(|site| site.grows());
        growths.sort_by(|a, b| b.grown_bytes.total_cmp(&a.grown_bytes));
        let is_old = |block: &&Block| self.age_s(block.time_ns) >= ASKED_AGE_MIN_S;
        let mut asked = Vec::new();
        for site in growths.iter().take(SITES_ASKED) {
            let of_site = probe
                .blocks
                .iter()
                .filter(|block| block.stack == site.stack);
            let mut old: Vec<&Block> = of_site.filter(is_old).collect();
            let before = old.iter().filter(|block| block.time_ns < since_ns).count();
            if before >= ENOUGH {
                old.retain(|block| block.time_ns < since_ns);
            }
            asked.extend(old.into_iter().take(ASKED_PER_SITE).copied());
        }
        asked
    }

    fn age_s(&self, time_ns: u64) -> f64 {
        self.look.time_ns.saturating_sub(time_ns) as f64 / 1e9
    }

    /// By what can be reached where there was an earlier survey and the block is in glibc's heap, else
    /// by whether anything points to it.
    fn find_lost(&mut self, asked: &[Block], before: Option<&(u64, Survey)>) -> Option<Vec<bool>> {
        if asked.is_empty() {
            return None;
        }
        let old = before.filter(|(at, _)| self.age_s(*at) >= ASKED_AGE_MIN_S);
        let mut reached = vec![None; asked.len()];
        for _ in 0..PASSES {
            let Some((at, survey)) = old else { break };
            let look = self.reader.look().ok()?;
            let found = self.reader.find_reached(&look, survey);
            let told = asked.iter().map(|block| {
                let found = found.as_ref().filter(|_| block.time_ns < *at)?;
                found.of(block.address)
            });
            for (reached, now) in reached.iter_mut().zip(told) {
                *reached = match (*reached, now) {
                    (Some(earlier), Some(now)) => Some(earlier | now),
                    (None, now) => now,
                    // Listed in one pass and not in the other: nothing is proved.
                    (Some(_), None) => Some(true),
                };
            }
        }
        if reached.iter().all(Option::is_some) {
            return Some(
                reached
                    .into_iter()
                    .map(|reached| reached == Some(false))
                    .collect(),
            );
        }
        let ranges: Vec<(u64, u64)> = asked
            .iter()
            .map(|b| (b.address, pointed_bytes(b)))
            .collect();
        let referenced = self.reader.find_referenced(&self.look, &ranges)?;
        let both = reached.into_iter().zip(referenced);
        Some(
            both.map(|(reached, referenced)| !reached.unwrap_or(referenced))
                .collect(),
        )
    }
}

/// Bytes of a block that a pointer to it may point to. The last usable word is the header of glibc's next
/// block, to which lists of free blocks point.
fn pointed_bytes(block: &Block) -> u64 {
    let usable = block.usable_bytes.saturating_sub(8);
    block.requested_bytes.min(usable).max(1)
}
