//! Sites by function: stacks that differ only further out belong to one site.

use std::collections::BTreeMap;

use super::blame::{Shared, frame_behind, is_start};
use super::libraries::behind_libraries;
use super::sites::SiteGrowth;
use super::wrappers::{is_wrapper, leading};
use heap::symbols::evaluates;
use symbols::frame::Frame;

/// A site as it is reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// Innermost first, wrappers skipped; of the stack that grew most.
    pub frames: Vec<Frame>,
    /// The program's own functions by way of which it allocates, outermost first: they are not to blame
    /// ([`super::blame`]).
    pub through: Vec<Frame>,
    /// Functions that made what its lost blocks hold ([`super::owned`]).
    pub owns: Vec<Frame>,
    /// Sums and extremes over its stacks.
    pub growth: SiteGrowth,
    /// Of all growth of the live heap, 0 to 1; 0 when it grows by no more than chance.
    pub share_of_growth: f64,
    /// Keys of its stacks, the largest growth first.
    pub stacks: Vec<u64>,
    /// (lost, asked): of the blocks asked after, how many are out of reach. `None`: not asked.
    pub lost: Option<(usize, usize)>,
}

impl Site {
    /// The function to name, or module and offset.
    pub fn name(&self) -> String {
        self.frames
            .first()
            .map_or_else(|| "an unknown site".to_owned(), frame_name)
    }
}

/// `function`, or `libz.so.1+0x1f` where there is no symbol.
pub fn frame_name(frame: &Frame) -> String {
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    match &frame.function {
        Some(function) => function.clone(),
        None if file.is_empty() => format!("{:#x}", frame.offset),
        None => format!("{file}+{:#x}", frame.offset),
    }
}

/// What is known of stacks by their key.
#[derive(Debug, Clone, Default)]
pub struct Named<'a> {
    /// Frames, wrappers included.
    pub frames: Option<&'a BTreeMap<u64, Vec<Frame>>>,
    /// What of a stack only passes on what others free again ([`super::blame::shared_with_others`]).
    pub shared: BTreeMap<u64, Shared>,
}

impl Named<'_> {
    fn of(&self, stack: u64) -> &[Frame] {
        let frames = self.frames.and_then(|frames| frames.get(&stack));
        frames.map_or(&[], Vec::as_slice)
    }

    /// The first frame behind what only passes an allocation on.
    fn first(&self, stack: u64) -> usize {
        leading(self.of(stack))
    }

    /// The frame to name: the program's that had a library do it.
    fn own(&self, stack: u64) -> usize {
        behind_libraries(self.of(stack), self.first(stack))
    }

    /// The same behind functions that others use well too; `None` where there are none.
    fn caller(&self, stack: u64) -> Option<usize> {
        let index = frame_behind(self.of(stack), *self.shared.get(&stack)?)?;
        (index > self.own(stack)).then_some(index)
    }

    fn name(&self, stack: u64, index: usize) -> String {
        self.of(stack).get(index).map_or_else(String::new, key_of)
    }
}

/// Of a function's growth, what one of its callers must have to be named in its stead.
const CALLER_SHARE: f64 = 0.8;

/// The callers that are to blame, by the function through which they allocate.
fn blamed(growths: &[SiteGrowth], named: &Named) -> BTreeMap<String, String> {
    let mut by_function: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let stays = |growth: &&SiteGrowth| growth.grown_bytes > 0.0 && !growth.turns_over();
    for growth in growths.iter().filter(stays) {
        let own = named.name(growth.stack, named.own(growth.stack));
        let caller = named.caller(growth.stack);
        let name = caller.map_or_else(|| own.clone(), |at| named.name(growth.stack, at));
        let callers = by_function.entry(own).or_default();
        *callers.entry(name).or_default() += growth.grown_bytes;
    }
    let most = |(own, callers): (String, BTreeMap<String, f64>)| {
        let all: f64 = callers.values().sum();
        let (name, bytes) = callers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (name != own && bytes >= CALLER_SHARE * all).then_some((own, name))
    };
    by_function.into_iter().filter_map(most).collect()
}

/// `total_growth`: of the live heap, by the exact counter when there is one; what of it no site explains stays out
/// of every share. Ordered by growth, then by size.
pub fn rank(growths: &[SiteGrowth], named: &Named, total_growth: f64) -> Vec<Site> {
    let blamed = blamed(growths, named);
    let mut by_name: BTreeMap<String, Vec<Placed>> = BTreeMap::new();
    let mut all_placed: Vec<Placed> = Vec::new();
    for growth in growths {
        let stack = growth.stack;
        let own = named.own(stack);
        let caller = named.caller(stack).filter(|&caller| {
            blamed.get(&named.name(stack, own)) == Some(&named.name(stack, caller))
        });
        let at = caller.unwrap_or(own);
        let frames = named.of(stack);
        let placed = Placed {
            growth,
            frames: frames.get(at..).unwrap_or_default(),
            through: frames.get(named.first(stack)..at).unwrap_or_default(),
        };
        all_placed.push(placed);
        by_name
            .entry(named.name(stack, at))
            .or_default()
            .push(placed);
    }
    let mut sites: Vec<Site> = by_name.into_values().map(join).collect();
    correct(&mut sites, total_growth);
    let turning = sites.iter().filter(|site| site.growth.turns_over()).count();
    let is_certain = |site: &Site| site.growth.grows_among(turning);
    // When none grows for certain, and the counters say that there is growth, the likely ones have it.
    let lenient = !sites.iter().any(is_certain);
    let is_likely =
        |site: &Site| site.growth.grows() && total_growth > 0.5 * site.growth.grown_bytes;
    // And when there are too few samples even for that, what stays while everything else comes and goes.
    let by_age = lenient && !sites.iter().any(is_likely);
    let grows = |site: &Site| {
        is_certain(site)
            || lenient && is_likely(site)
            || by_age && total_growth > 0.0 && site.growth.stays()
    };
    let all = whole(&sites, grows, total_growth);
    for site in sites.iter_mut().filter(|site| grows(site) && all > 0.0) {
        site.share_of_growth = site.growth.grown_bytes / all;
    }
    sites.sort_by(|a, b| {
        let key = |site: &Site| (site.share_of_growth, site.growth.now.bytes);
        key(b)
            .partial_cmp(&key(a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let largest = sites.first().map_or(0.0, |site| site.share_of_growth);
    if largest < SPREAD_SHARE
        && let Some(site) = below(&all_placed, total_growth, turning)
    {
        // What is below it is told by it.
        sites.retain(|other| !other.stacks.iter().all(|stack| site.stacks.contains(stack)));
        sites.insert(0, site);
    }
    sites
}

/// Where no site has so much of the growth, it is spread.
const SPREAD_SHARE: f64 = 0.2;

/// Of growth that is spread over many sites (what a parser builds is allocated all over it), the innermost function
/// below which most of it is, where that grows for certain and the counters know of it. `turning`: sites at which most
/// comes and goes.
fn below(all: &[Placed], total_growth: f64, turning: usize) -> Option<Site> {
    let sampled: f64 = all.iter().map(|placed| placed.growth.grown_bytes).sum();
    if sampled <= 0.0 || total_growth <= 0.5 * sampled {
        return None;
    }
    let mut stacks_of: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, placed) in all.iter().enumerate() {
        let places = placed.frames.iter().enumerate();
        // Of a function that calls itself the outermost call.
        let by_name: BTreeMap<String, usize> = places
            .filter(|(_, frame)| is_a_place(frame))
            .map(|(at, frame)| (key_of(frame), at))
            .collect();
        for (name, at) in by_name {
            stacks_of.entry(name).or_default().push((number, at));
        }
    }
    let grown = |stacks: &Vec<(usize, usize)>| -> f64 {
        let of = stacks.iter().map(|(number, _)| all[*number].growth);
        of.map(|growth| growth.grown_bytes).sum()
    };
    let depth = |stacks: &Vec<(usize, usize)>| stacks.iter().map(|(_, at)| at).sum::<usize>();
    let spread = stacks_of.values();
    let spread = spread.filter(|of| of.len() > 1 && grown(of) >= CALLER_SHARE * sampled);
    let stacks = spread.min_by_key(|stacks| (stacks.len(), depth(stacks)))?;
    let placed = stacks.iter().map(|(number, at)| Placed {
        growth: all[*number].growth,
        frames: &all[*number].frames[*at..],
        through: &[],
    });
    let mut site = join(placed.collect());
    let share = freed_share(stacks.iter().map(|(number, _)| all[*number].growth));
    site.growth.freed_bytes = share * site.growth.allocated_bytes;
    site.share_of_growth = site.growth.grown_bytes / total_growth.max(sampled);
    site.growth.grows_among(turning).then_some(site)
}

/// Of what grows: what comes and goes beside it, in the same function, is no turnover of a cache that fills.
fn freed_share<'a>(growths: impl Iterator<Item = &'a SiteGrowth>) -> f64 {
    let (mut freed, mut grown) = (0.0, 0.0);
    for growth in growths {
        let weight = growth.grown_bytes.max(0.0);
        freed += weight * growth.freed_share();
        grown += weight;
    }
    if grown > 0.0 { freed / grown } else { 0.0 }
}

/// It says more than that a thread, or an interpreter, runs.
fn is_a_place(frame: &Frame) -> bool {
    let name = frame.function.as_deref().unwrap_or_default();
    !is_start(name) && name != "main" && !evaluates(frame)
}

fn key_of(frame: &Frame) -> String {
    format!("{} {}", frame_name(frame), frame.module)
}

/// Takes from sites at which most comes and goes what they grew beyond what was counted, each by its variance: the
/// estimates that are likeliest given their sum. Of a cache that was filled in the first moment, when a sample stood
/// for much, the first level may be 25 % too low: its "growth" was 49 MB of 28 that were counted. Their errors
/// stay: the count is exact, but it swings with them.
fn correct(sites: &mut [Site], counted: f64) {
    let variance_of = |site: &Site| site.growth.grown_error.powi(2);
    let variance: f64 = sites.iter().map(variance_of).sum();
    let beyond = sites
        .iter()
        .map(|site| site.growth.grown_bytes)
        .sum::<f64>()
        - counted;
    if variance <= 0.0 || beyond <= 0.0 {
        return;
    }
    for site in sites.iter_mut().filter(|site| site.growth.turns_over()) {
        site.growth.grown_bytes -= beyond * variance_of(site) / variance;
    }
}

/// What the shares are of: the growth of the sites that grow for certain, unless the counters know of more than
/// chance explains. A site's samples and their sum have the same error, so a share of the sampled growth is far
/// more exact than one of the counted growth: a leak of 15.9 MiB by counters and 10.6 (2.8) by 73 samples, all at
/// one site, is not "67 % there".
fn whole(sites: &[Site], grows: impl Fn(&Site) -> bool, counted: f64) -> f64 {
    let growing = || sites.iter().filter(|site| grows(site));
    let sampled: f64 = growing().map(|site| site.growth.grown_bytes).sum();
    let variance: f64 = growing().map(|site| site.growth.grown_error.powi(2)).sum();
    // Too few samples have too small a variance as well: that of what is counted is what they are held against.
    let expected = match sampled > 0.0 {
        true => variance * (counted / sampled).max(1.0),
        false => 0.0,
    };
    match counted - sampled <= CHANCE_ERRORS * expected.sqrt() {
        true => sampled,
        false => counted,
    }
}

/// Standard errors within which samples and counters say the same.
const CHANCE_ERRORS: f64 = 3.0;

/// One stack, and where it is named.
#[derive(Clone, Copy)]
struct Placed<'a> {
    growth: &'a SiteGrowth,
    frames: &'a [Frame],
    /// Innermost first.
    through: &'a [Frame],
}

fn join(mut placed: Vec<Placed>) -> Site {
    placed.sort_by(|a, b| b.growth.grown_bytes.total_cmp(&a.growth.grown_bytes));
    let stacks: Vec<&SiteGrowth> = placed.iter().map(|placed| placed.growth).collect();
    let mut sum = SiteGrowth::default();
    let mut variance = 0.0;
    let any_grows = stacks.iter().any(|growth| growth.grows());
    for growth in &stacks {
        sum.grown_bytes += growth.grown_bytes;
        sum.grown_squares += growth.grown_squares;
        variance += growth.grown_error * growth.grown_error;
        // What comes and goes at another line of the function is no turnover of what grows.
        if growth.grows() || !any_grows {
            sum.allocated_bytes += growth.allocated_bytes;
            sum.freed_bytes += growth.freed_bytes;
            sum.freed_samples += growth.freed_samples;
            sum.turnover_s = sum.turnover_s.max(growth.turnover_s);
        }
        sum.lifetime_s_max = sum.lifetime_s_max.max(growth.lifetime_s_max);
        sum.now = sum.now.with(&growth.now);
    }
    // Ages do not add up: those of the stack that holds most stand for the site.
    let largest = stacks
        .iter()
        .max_by(|a, b| a.now.bytes.total_cmp(&b.now.bytes));
    sum.ages = largest.map(|growth| growth.ages).unwrap_or_default();
    sum.stack = stacks.first().map_or(0, |growth| growth.stack);
    sum.grown_error = variance.sqrt();
    let keys = stacks.iter().map(|growth| growth.stack).collect();
    let first = placed.first();
    let frames = first.map_or(Vec::new(), |placed| placed.frames.to_vec());
    let through = first.map_or(&[][..], |placed| placed.through);
    let through = through.iter().rev().filter(|frame| !is_wrapper(frame));
    let through = through.cloned().collect();
    Site {
        frames,
        through,
        growth: sum,
        stacks: keys,
        ..Site::default()
    }
}

#[cfg(test)]
mod tests;
