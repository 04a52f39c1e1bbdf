//! Where live memory was allocated, and which sites grow.
//!
//! A site's outstanding bytes are estimated from the live samples of its stack: a sample of `size`
//! bytes taken with probability `p` stands for `size/p`, with variance `size^2 (1-p)/p^2`, which is
//! `w (w-1) size^2` for a weight of `w = 1/p`.

use std::collections::BTreeMap;

use super::growth::Points;
use heap::probe::{Block, ProbeSnapshot};

/// 95 % of a normal distribution.
const Z95: f64 = 1.96;

/// Freed share from which a site's level is taken over many snapshots.
const TURNS_OVER: f64 = 0.5;

/// Standard errors by which such a level must have risen: one site in 400 does so by chance with as few snapshots.
const TURNING_ERRORS: f64 = 3.0;

/// Share of a site's freed blocks whose life is its turnover.
const TURNOVER_SHARE: f64 = 0.9;

/// Age from which a block may be said to stay.
const STAYS_S: f64 = 5.0;

/// Age of a site's median byte, of the time observed, above which most of it came at the start: evenly makes a half.
const GOES_ON_AGE_MAX: f64 = 0.8;

/// Outstanding bytes of one stack at one snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outstanding {
    pub bytes: f64,
    pub variance: f64,
    /// Third cumulant of the estimate: few samples that stand for much make it lopsided. Bytes cubed.
    pub third: f64,
    pub blocks: f64,
    /// The square of each block's bytes, summed: what a byte's block has on average, by the bytes.
    pub squares: f64,
    /// Samples behind it.
    pub samples: usize,
}

impl Outstanding {
    /// The sum of two that were sampled independently.
    pub fn with(&self, other: &Outstanding) -> Outstanding {
        Outstanding {
            bytes: self.bytes + other.bytes,
            variance: self.variance + other.variance,
            third: self.third + other.third,
            blocks: self.blocks + other.blocks,
            squares: self.squares + other.squares,
            samples: self.samples + other.samples,
        }
    }
}

/// By the key of the stack.
pub type ByStack = BTreeMap<u64, Outstanding>;

/// Outstanding bytes of every stack that has live samples.
pub fn outstanding(probe: &ProbeSnapshot) -> ByStack {
    let mut sums = ByStack::new();
    for block in &probe.blocks {
        add(sums.entry(block.stack).or_default(), block);
    }
    sums
}

impl Outstanding {
    pub fn of<'a>(blocks: impl Iterator<Item = &'a Block>) -> Outstanding {
        let mut sum = Outstanding::default();
        blocks.for_each(|block| add(&mut sum, block));
        sum
    }
}

fn add(sum: &mut Outstanding, block: &Block) {
    let size = block.usable_bytes as f64;
    sum.bytes += block.weight * size;
    let variance = block.weight * (block.weight - 1.0).max(0.0) * size * size;
    sum.variance += variance;
    sum.third += variance * (block.weight - 2.0).max(0.0) * size;
    sum.blocks += block.weight;
    sum.squares += block.weight * size * size;
    sum.samples += 1;
}

/// Ages of the outstanding blocks of a site, seconds, weighted by bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ages {
    pub median_s: f64,
    pub p90_s: f64,
    pub max_s: f64,
}

/// A site's whole story over the window. Bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteGrowth {
    pub stack: u64,
    pub now: Outstanding,
    /// Now less at the start of the window.
    pub grown_bytes: f64,
    /// Standard error of that, from the samples.
    pub grown_error: f64,
    /// As [`Outstanding::squares`], now less at the start of the window.
    pub grown_squares: f64,
    pub allocated_bytes: f64,
    pub freed_bytes: f64,
    pub freed_samples: u64,
    pub ages: Ages,
    /// Longest life of a block that was freed, seconds; and what most of them did not reach.
    pub lifetime_s_max: f64,
    pub turnover_s: f64,
}

impl SiteGrowth {
    /// 95 % interval of the outstanding bytes. An estimate that is too low has too small a variance as well, so
    /// the upper end lies further out, by what the heavier samples stand for: without that 90 % of the
    /// intervals held after the mean had risen, and nearly all misses were too low.
    pub fn interval(&self) -> (f64, f64) {
        let Outstanding {
            bytes,
            variance,
            third,
            ..
        } = self.now;
        let heavy = if variance > 0.0 {
            third / variance
        } else {
            0.0
        };
        let upper = bytes + heavy + Z95 * (variance + heavy * heavy / 2.0).sqrt();
        ((bytes - Z95 * variance.sqrt()).max(0.0), upper)
    }

    /// Grown by more than chance makes of the samples.
    pub fn grows(&self) -> bool {
        self.grown_bytes > 0.0 && self.grown_bytes > Z95 * self.grown_error
    }

    /// Grows so that it may be said beside so many sites at which most comes and goes: each of those is a chance
    /// that one swings up just then, and its error is itself known from few snapshots only. A site from which
    /// nothing is freed has no such chance, its samples only add up.
    pub fn grows_among(&self, turning: usize) -> bool {
        let chances = (turning.max(1) as f64).ln();
        let errors = (TURNING_ERRORS * TURNING_ERRORS + 2.0 * chances).sqrt();
        self.grows() && (!self.turns_over() || self.grown_bytes > errors * self.grown_error)
    }

    /// Most of what is allocated here is freed again.
    pub fn turns_over(&self) -> bool {
        self.freed_share() > TURNS_OVER
    }

    /// Half of what is live is older than what is freed here becomes.
    pub fn outlives_its_turnover(&self) -> bool {
        self.ages.median_s > self.turnover_s
    }

    /// Adds what another site grew by; ages and lifetimes stay its own.
    pub fn take_in(&mut self, other: &SiteGrowth) {
        self.grown_bytes += other.grown_bytes;
        self.grown_squares += other.grown_squares;
        self.grown_error = self.grown_error.hypot(other.grown_error);
        self.allocated_bytes += other.allocated_bytes;
        self.freed_bytes += other.freed_bytes;
        self.freed_samples += other.freed_samples;
        self.now = self.now.with(&other.now);
    }

    /// Its growth is more of larger blocks than of more blocks: an array, a string or a table that is replaced by
    /// ever larger ones, by more than chance makes of the samples.
    pub fn grows_in_size(&self) -> bool {
        // By bytes: of small blocks a sample stands for thousands, and their number is chance.
        let before = (
            self.now.bytes - self.grown_bytes,
            self.now.squares - self.grown_squares,
        );
        let (Some(bytes), Some(squares)) = (
            ratio(self.now.bytes, before.0),
            ratio(self.now.squares, before.1),
        ) else {
            return false;
        };
        let size = squares / bytes;
        let error = Z95 * self.grown_error / before.0;
        size.ln() - error > 0.5 * bytes.ln()
    }

    /// More is live than before, by however few samples, and nothing, or too little, of it was freed.
    pub fn stays(&self) -> bool {
        self.grown_bytes > 0.0 && !self.turns_over() && self.ages.median_s > STAYS_S
    }

    /// What is live came over the whole time and not at its start.
    pub fn goes_on(&self, observed_s: f64) -> bool {
        self.ages.median_s < GOES_ON_AGE_MAX * observed_s
    }

    /// Share of what was allocated here that has been freed again.
    pub fn freed_share(&self) -> f64 {
        if self.allocated_bytes > 0.0 {
            (self.freed_bytes / self.allocated_bytes).min(1.0)
        } else {
            0.0
        }
    }
}

/// Of two that are both there.
fn ratio(now: f64, before: f64) -> Option<f64> {
    (now > 0.0 && before > 0.0).then(|| now / before)
}

/// Growth of every stack from `before` to the snapshot `now`; `since_ns` is the time of `before`.
pub fn site_growth(
    before: &ByStack,
    since_ns: u64,
    now: &ProbeSnapshot,
    now_ns: u64,
) -> Vec<SiteGrowth> {
    let mut by_stack: BTreeMap<u64, Vec<&Block>> = BTreeMap::new();
    for block in &now.blocks {
        by_stack.entry(block.stack).or_default().push(block);
    }
    let growth = |(stack, blocks): (u64, Vec<&Block>)| {
        let mut sum = Outstanding::default();
        let mut fresh = Outstanding::default();
        for block in &blocks {
            add(&mut sum, block);
            if block.time_ns >= since_ns {
                add(&mut fresh, block);
            }
        }
        let old = before.get(&stack).copied().unwrap_or_default();
        let grown = sum.bytes - old.bytes;
        let site = now.stacks.get(&stack);
        SiteGrowth {
            stack,
            now: sum,
            grown_bytes: grown,
            grown_error: (fresh.variance + changed(&old, &sum, &fresh)).sqrt(),
            grown_squares: sum.squares - old.squares,
            allocated_bytes: site.map_or(0.0, |site| site.allocated_bytes as f64),
            freed_bytes: site.map_or(0.0, |site| site.freed_bytes as f64),
            freed_samples: site.map_or(0, |site| site.freed_samples),
            ages: ages(&blocks, now_ns),
            lifetime_s_max: site.map_or(0.0, |site| site.lifetime_ns_max as f64 / 1e9),
            turnover_s: site.map_or(0.0, |site| site.lifetime_s(TURNOVER_SHARE)),
        }
    };
    by_stack.into_iter().map(growth).collect()
}

/// Variance of what became of the blocks that were old already. Those that stayed cancel out; what was freed of
/// them varies, and so does what was thinned, whose rest stands for more.
fn changed(old: &Outstanding, now: &Outstanding, fresh: &Outstanding) -> f64 {
    let stayed = now.bytes - fresh.bytes;
    let gone_share = match old.bytes > 0.0 {
        true => (1.0 - stayed / old.bytes).clamp(0.0, 1.0),
        false => 0.0,
    };
    let thinned = now.variance - fresh.variance - (1.0 - gone_share) * old.variance;
    gone_share * old.variance + thinned.max(0.0)
}

/// The growth of a site at which most comes and goes, from the outstanding bytes at each snapshot of the window: its
/// level over the last quarter against the first. At each snapshot other blocks are live, so the levels are far more
/// exact than two snapshots. What `stays` for longer than a quarter counts with the error of its own samples.
pub fn steady(growth: &mut SiteGrowth, levels: &Points, stays: &Outstanding) {
    let quarter = levels.len() / 4;
    if quarter < 2 {
        return;
    }
    let snapshot_s = (levels[levels.len() - 1].0 - levels[0].0) / levels.len() as f64;
    let independent = (snapshot_s / growth.ages.median_s.max(1e-9)).min(1.0) * quarter as f64;
    let ends = scatter(&levels[..quarter]) + scatter(&levels[levels.len() - quarter..]);
    let whole = whole_window(levels, quarter);
    growth.grown_bytes = level_growth(levels);
    growth.grown_error = (ends / independent.max(1.0) * whole * whole + stays.variance).sqrt();
}

/// The level of a series over its last quarter less that over the first, for the whole of its time; bytes.
pub fn level_growth(levels: &Points) -> f64 {
    let quarter = (levels.len() / 4).max(1);
    let level = |points: &Points| mean(points.iter().map(|point| point.1));
    let grown = level(&levels[levels.len() - quarter..]) - level(&levels[..quarter]);
    grown * whole_window(levels, quarter)
}

/// The time of a series over that from the middle of its first quarter to that of its last.
fn whole_window(levels: &Points, quarter: usize) -> f64 {
    let time = |points: &Points| mean(points.iter().map(|point| point.0));
    let between = time(&levels[levels.len() - quarter..]) - time(&levels[..quarter]);
    let all = levels[levels.len() - 1].0 - levels[0].0;
    if between > 0.0 { all / between } else { 1.0 }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1);
    values.sum::<f64>() / count as f64
}

/// Variance within a stretch.
fn scatter(points: &Points) -> f64 {
    let middle = mean(points.iter().map(|point| point.1));
    let squares = points.iter().map(|point| (point.1 - middle).powi(2));
    squares.sum::<f64>() / points.len().saturating_sub(1).max(1) as f64
}

/// What of a site's blocks came since `since_ns` and is older than `age_ns` now.
pub fn stays(now: &ProbeSnapshot, stack: u64, since_ns: u64, until_ns: u64) -> Outstanding {
    let mut sum = Outstanding::default();
    let of_site =
        |block: &&Block| block.stack == stack && (since_ns..until_ns).contains(&block.time_ns);
    now.blocks
        .iter()
        .filter(of_site)
        .for_each(|block| add(&mut sum, block));
    sum
}

fn ages(blocks: &[&Block], now_ns: u64) -> Ages {
    let mut ages: Vec<(f64, f64)> = blocks
        .iter()
        .map(|block| {
            let age = now_ns.saturating_sub(block.time_ns) as f64 / 1e9;
            (age, block.weight * block.usable_bytes as f64)
        })
        .collect();
    ages.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = ages.iter().map(|(_, bytes)| bytes).sum();
    let at = |share: f64| {
        let mut sum = 0.0;
        let place = ages.iter().find(|(_, bytes)| {
            sum += bytes;
            sum >= share * total
        });
        place.map_or(0.0, |(age, _)| *age)
    };
    Ages {
        median_s: at(0.5),
        p90_s: at(0.9),
        max_s: ages.last().map_or(0.0, |(age, _)| *age),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(stack: u64, bytes: u64, mean: f64, time_ns: u64) -> Block {
        let weight = 1.0 / -(-(bytes as f64) / mean).exp_m1();
        Block {
            address: 0,
            requested_bytes: bytes,
            usable_bytes: bytes,
            weight,
            time_ns,
            stack,
            role: 0,
        }
    }

    #[test]
    fn a_site_that_only_adds_grows_and_one_that_turns_over_does_not() {
        let old = ProbeSnapshot {
            blocks: (0..100).map(|at| block(1, 3200, 65536.0, at)).collect(),
            ..ProbeSnapshot::default()
        };
        let before = outstanding(&old);
        let mut now = old.clone();
        now.blocks
            .extend((0..300).map(|at| block(2, 3200, 65536.0, 1000 + at)));
        let sites = site_growth(&before, 1000, &now, 2000);
        assert!(!sites[0].grows() && sites[1].grows());
        assert_eq!(sites[0].grown_bytes, 0.0);
        let (lo, hi) = sites[1].interval();
        assert!(lo < sites[1].now.bytes && sites[1].now.bytes < hi);
    }

    /// How often the 95 % interval holds the truth, over seeds: 4000 blocks of three sizes, each
    /// sampled by its own chance.
    #[test]
    fn the_interval_covers_in_93_to_97_of_100() {
        use rand::{RngExt, SeedableRng};
        let (mut held, seeds) = (0, 1000);
        for seed in 0..seeds {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let sizes = (0..4000).map(|index| [64u64, 1024, 16384][index % 3]);
            let truth: u64 = sizes.clone().sum();
            let mut probe = ProbeSnapshot::default();
            for bytes in sizes {
                let candidate = block(1, bytes, 65536.0, 0);
                if random.random::<f64>() < 1.0 / candidate.weight {
                    probe.blocks.push(candidate);
                }
            }
            let site = &site_growth(&ByStack::new(), 0, &probe, 1)[0];
            let (lo, hi) = site.interval();
            held += u32::from(lo <= truth as f64 && truth as f64 <= hi);
        }
        let share = f64::from(held) / f64::from(seeds as u32);
        assert!(
            (0.93..=0.97).contains(&share),
            "{share} over seeds 0..{seeds}"
        );
    }
}
