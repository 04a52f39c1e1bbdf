//! Whether the program still holds what a growing site allocated: the question that tells a leak from a
//! cache that fills.

use std::collections::HashSet;
use std::time::Instant;

use super::tracked::Tracked;
use heap::graph::Survey;
use heap::probe::Block;
use memory::lost::{ASKED_AGE_MIN_S, age_s, blocks_to_ask, pointed_bytes};

/// Searches for what is reached: a pointer may move while one is made, and hardly in both.
const PASSES: usize = 2;
/// Searches that are made to have so many of each block.
const PASSES_MAX: usize = 5;
/// Walks that are made to have one that lists what is asked after.
const SURVEYS_MAX: usize = 4;

impl Tracked {
    /// For the sites that grow most: whether the program can still reach their older blocks. What it
    /// holds now is kept, to compare with when asked again.
    ///
    /// What is not found out `until` a moment stays as it was. Once the probe is off nothing is asked any more: what is
    /// freed while nobody looks would look lost.
    pub fn ask_after_blocks(&mut self, until: Instant) {
        if self.has_stopped {
            return;
        }
        self.reader.search_until = Some(until);
        let since_ns = self.survey.as_ref().map_or(0, |(at, _)| *at);
        let asked = self.blocks_to_ask(since_ns);
        let before = self.survey.take();
        // Of a process of 64,000 mappings a further snapshot takes a second of CPU time.
        if asked.is_empty() {
            return;
        }
        let lost = self.find_lost(&asked, before.as_ref());
        // A process that ended meanwhile points to nothing any more: that would prove nothing.
        let Ok(snapshot) = self.reader.snapshot() else {
            return;
        };
        if snapshot
            .probe
            .as_ref()
            .is_none_or(|probe| probe.off.is_some())
        {
            return;
        }
        self.survey = self.survey_with(&asked);
        self.search_is_cut = Instant::now() >= until;
        let Some(lost) = lost else { return };
        let pointed = self.pointed_among(&asked, &lost);
        self.lost.clear();
        self.pointed.clear();
        // What was freed meanwhile is not lost.
        let blocks = snapshot.probe.iter().flat_map(|probe| &probe.blocks);
        let live: HashSet<(u64, u64)> =
            blocks.map(|block| (block.address, block.time_ns)).collect();
        let all = asked.iter().zip(lost.into_iter().zip(pointed));
        for (block, (lost, pointed)) in
            all.filter(|(block, _)| live.contains(&(block.address, block.time_ns)))
        {
            let Some(lost) = lost else { continue };
            let sums = self.lost.entry(block.stack).or_default();
            sums.0 += usize::from(lost);
            sums.1 += 1;
            *self.pointed.entry(block.stack).or_default() += usize::from(pointed);
        }
    }

    /// Which of the lost blocks something points to all the same: other lost ones.
    fn pointed_among(&self, asked: &[Block], lost: &[Option<bool>]) -> Vec<bool> {
        let is_lost = |index: &usize| lost[*index] == Some(true);
        let indices: Vec<usize> = (0..asked.len()).filter(is_lost).collect();
        let range = |&index: &usize| (asked[index].address, pointed_bytes(&asked[index]));
        let ranges: Vec<(u64, u64)> = indices.iter().map(range).collect();
        let mut pointed = vec![false; asked.len()];
        let found = self.reader.find_referenced(&self.snapshot, &ranges);
        for (index, is_pointed) in indices.into_iter().zip(found.unwrap_or_default()) {
            pointed[index] = is_pointed;
        }
        pointed
    }

    /// A survey that lists the blocks asked after, as far as one can be had: a walk that met a change of the heap
    /// lists nothing behind it.
    fn survey_with(&mut self, asked: &[Block]) -> Option<(u64, Survey)> {
        let mut best: Option<(usize, u64, Survey)> = None;
        for _ in 0..SURVEYS_MAX {
            if self.search_is_over() {
                break;
            }
            let snapshot = self.reader.snapshot().ok()?;
            let Some(survey) = self.reader.survey(&snapshot) else {
                continue;
            };
            let listed = asked.iter().filter(|b| survey.has(b.address)).count();
            // What samples tell of other heaps does not get more by asking again.
            let is_all = listed > 0 && best.as_ref().is_some_and(|(most, ..)| *most == listed);
            if best.as_ref().is_none_or(|(most, ..)| listed > *most) {
                best = Some((listed, snapshot.time_ns, survey));
            }
            if is_all || 10 * listed >= 9 * asked.len() {
                break;
            }
        }
        best.map(|(_, at_ns, survey)| (at_ns, survey))
    }

    fn search_is_over(&self) -> bool {
        let until = self.reader.search_until;
        until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether something grows and there is no survey yet to tell by what is lost of it.
    pub fn wants_survey(&self) -> bool {
        !self.ended
            && !self.has_stopped
            && self.survey.is_none()
            && !self.blocks_to_ask(0).is_empty()
    }

    fn blocks_to_ask(&self, since_ns: u64) -> Vec<Block> {
        blocks_to_ask(&self.history, &self.snapshot, since_ns)
    }

    /// For each block whether it is reached; `None`: not told of by any pass. The heap changes under the walk, and a
    /// pass that met that lists nothing behind it: it is made again, not taken for an answer.
    fn reached_in_passes(
        &mut self,
        asked: &[Block],
        at_ns: u64,
        survey: &Survey,
    ) -> Option<Vec<Option<bool>>> {
        let mut seen = vec![Sight::default(); asked.len()];
        // What is not in the survey, although it is older, lay behind the end of its walk: it looks new.
        let is_old = |block: &Block| block.time_ns < at_ns && survey.has(block.address);
        for pass in 0..PASSES_MAX {
            let mut old = asked.iter().zip(&seen).filter(|(block, _)| is_old(block));
            let is_enough = old.clone().all(|(_, sight)| sight.passes >= PASSES);
            let is_blind = pass >= PASSES && old.all(|(_, sight)| sight.passes == 0);
            if is_enough || is_blind || self.search_is_over() {
                break;
            }
            let snapshot = self.reader.snapshot().ok()?;
            let Some(found) = self.reader.find_reached(&snapshot, survey) else {
                continue;
            };
            for (block, sight) in asked
                .iter()
                .zip(&mut seen)
                .filter(|(block, _)| is_old(block))
            {
                if let Some(reached) = found.of(block.address) {
                    sight.passes += 1;
                    sight.reached |= reached;
                }
            }
        }
        let told = |sight: Sight| match sight.passes {
            0 => None,
            // Listed once only: nothing is proved.
            passes => Some(passes < PASSES || sight.reached),
        };
        Some(seen.into_iter().map(told).collect())
    }

    /// What is out of reach, and is not held by a pointer that is not aligned either. `None` of a block: nobody tells.
    fn find_lost(
        &mut self,
        asked: &[Block],
        before: Option<&(u64, Survey)>,
    ) -> Option<Vec<Option<bool>>> {
        let mut lost = match self.sees_frees() {
            true => self
                .out_of_reach(asked, before)?
                .into_iter()
                .map(Some)
                .collect(),
            false => self.out_of_reach_in_use(asked, before)?,
        };
        let is_lost = |lost: &Option<bool>| *lost == Some(true);
        let found = asked.iter().zip(&lost).filter(|(_, lost)| is_lost(lost));
        let mut addresses: Vec<u64> = found.map(|(block, _)| block.address).collect();
        addresses.sort_unstable();
        if addresses.is_empty() {
            return Some(lost);
        }
        // What holds them may lie in pages that are newer than the last snapshot.
        let snapshot = self.reader.snapshot().ok()?;
        let held = self.reader.find_unaligned(&snapshot, &addresses);
        for (block, lost) in asked
            .iter()
            .zip(&mut lost)
            .filter(|(_, lost)| is_lost(lost))
        {
            let index = addresses.binary_search(&block.address);
            let is_held = |index: usize| held.as_ref().is_some_and(|held| held[index]);
            *lost = Some(!index.is_ok_and(is_held));
        }
        Some(lost)
    }

    fn sees_frees(&self) -> bool {
        let traps = self.snapshot.probe.as_ref().and_then(|probe| probe.traps);
        traps.is_none_or(|traps| traps.sees_all())
    }

    /// Where a free may have gone unseen: of the blocks that glibc's headers have as in use, before and now.
    fn out_of_reach_in_use(
        &mut self,
        asked: &[Block],
        before: Option<&(u64, Survey)>,
    ) -> Option<Vec<Option<bool>>> {
        let (at, survey) =
            before.filter(|(at, _)| age_s(&self.snapshot, *at) >= ASKED_AGE_MIN_S)?;
        let reached = self.reached_in_passes(asked, *at, survey)?;
        let told = |(reached, block): (Option<bool>, &Block)| {
            let is_in_use = survey.walked(block.address);
            reached.filter(|_| is_in_use).map(|reached| !reached)
        };
        Some(reached.into_iter().zip(asked).map(told).collect())
    }

    /// By what can be reached where there was an earlier survey and both list the block, else by whether anything
    /// points to it.
    fn out_of_reach(
        &mut self,
        asked: &[Block],
        before: Option<&(u64, Survey)>,
    ) -> Option<Vec<bool>> {
        if asked.is_empty() {
            return None;
        }
        let old = before.filter(|(at, _)| age_s(&self.snapshot, *at) >= ASKED_AGE_MIN_S);
        let reached = match old {
            Some((at, survey)) => self.reached_in_passes(asked, *at, survey)?,
            None => vec![None; asked.len()],
        };
        // Of blocks that only samples tell of, what leads to them may not be what it looks like: one that nothing
        // points to is lost all the same.
        let is_walked = |block: &Block| old.is_some_and(|(_, survey)| survey.walked(block.address));
        let is_settled = |(reached, block): (&Option<bool>, &Block)| match reached {
            Some(reached) => !reached || is_walked(block),
            None => false,
        };
        if reached.iter().zip(asked).all(is_settled) {
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
        // What points to them may have moved since the last snapshot, to pages that it does not have.
        let snapshot = self.reader.snapshot().ok()?;
        let referenced = self.reader.find_referenced(&snapshot, &ranges)?;
        let holds = |(block, (reached, referenced)): (&Block, (Option<bool>, bool))| match reached {
            Some(reached) => reached && (referenced || is_walked(block)),
            None => referenced,
        };
        let both = asked.iter().zip(reached.into_iter().zip(referenced));
        Some(both.map(|of| !holds(of)).collect())
    }
}

/// What the passes said of one block.
#[derive(Clone, Copy, Default)]
struct Sight {
    /// Passes that listed it.
    passes: usize,
    /// Some pass reached it.
    reached: bool,
}
