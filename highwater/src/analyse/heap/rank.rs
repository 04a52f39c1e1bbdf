//! Sites by function: stacks that differ only further out belong to one site.

use std::collections::BTreeMap;

use super::sites::{Outstanding, SiteGrowth};
use super::wrappers::leading;
use crate::observe::heap::symbols::Frame;

/// A site as it is reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// Innermost first, wrappers skipped; of the stack that grew most.
    pub frames: Vec<Frame>,
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

/// `function`, or `module+0x1f` where there is no symbol.
pub fn frame_name(frame: &Frame) -> String {
    match &frame.function {
        Some(function) => function.clone(),
        None if frame.module.is_empty() => format!("{:#x}", frame.offset),
        None => format!("{}+{:#x}", frame.module, frame.offset),
    }
}

/// `frames`: those of each stack by its key, wrappers included. `total_growth`: of the live heap, by
/// the exact counter when there is one; what of it no site explains stays out of every share.
/// Ordered by growth, then by size.
pub fn rank(
    growths: &[SiteGrowth],
    frames: &BTreeMap<u64, Vec<Frame>>,
    total_growth: f64,
) -> Vec<Site> {
    let mut by_name: BTreeMap<String, Vec<(SiteGrowth, Vec<Frame>)>> = BTreeMap::new();
    for growth in growths {
        let stack = frames.get(&growth.stack).map_or(&[][..], Vec::as_slice);
        let shown = stack[leading(stack)..].to_vec();
        let name = shown.first().map_or_else(String::new, |frame| {
            format!("{} {}", frame_name(frame), frame.module)
        });
        by_name
            .entry(name)
            .or_default()
            .push((growth.clone(), shown));
    }
    let mut sites: Vec<Site> = by_name.into_values().map(join).collect();
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
    sites
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

fn join(mut stacks: Vec<(SiteGrowth, Vec<Frame>)>) -> Site {
    stacks.sort_by(|a, b| b.0.grown_bytes.total_cmp(&a.0.grown_bytes));
    let keys = stacks.iter().map(|(growth, _)| growth.stack).collect();
    let frames = stacks
        .first()
        .map(|(_, frames)| frames.clone())
        .unwrap_or_default();
    let mut sum = SiteGrowth::default();
    let mut variance = 0.0;
    let any_grows = stacks.iter().any(|(growth, _)| growth.grows());
    for (growth, _) in &stacks {
        sum.grown_bytes += growth.grown_bytes;
        sum.grown_blocks += growth.grown_blocks;
        variance += growth.grown_error * growth.grown_error;
        // What comes and goes at another line of the function is no turnover of what grows.
        if growth.grows() || !any_grows {
            sum.allocated_bytes += growth.allocated_bytes;
            sum.freed_bytes += growth.freed_bytes;
            sum.freed_samples += growth.freed_samples;
        }
        sum.lifetime_s_max = sum.lifetime_s_max.max(growth.lifetime_s_max);
        sum.now = added(sum.now, growth.now);
    }
    // Ages do not add up: those of the stack that holds most stand for the site.
    let largest = stacks
        .iter()
        .max_by(|a, b| a.0.now.bytes.total_cmp(&b.0.now.bytes));
    sum.ages = largest.map(|(growth, _)| growth.ages).unwrap_or_default();
    sum.stack = stacks.first().map_or(0, |(growth, _)| growth.stack);
    sum.grown_error = variance.sqrt();
    Site {
        frames,
        growth: sum,
        stacks: keys,
        ..Site::default()
    }
}

fn added(a: Outstanding, b: Outstanding) -> Outstanding {
    Outstanding {
        bytes: a.bytes + b.bytes,
        variance: a.variance + b.variance,
        third: a.third + b.third,
        blocks: a.blocks + b.blocks,
        samples: a.samples + b.samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(stack: u64, bytes: f64) -> SiteGrowth {
        let now = Outstanding {
            bytes,
            variance: 1.0,
            third: 0.0,
            blocks: 1.0,
            samples: 50,
        };
        SiteGrowth {
            stack,
            now,
            grown_bytes: bytes,
            grown_error: bytes / 10.0,
            ..SiteGrowth::default()
        }
    }

    #[test]
    fn stacks_of_one_function_are_one_site() {
        let frame = |name: &str| Frame {
            function: Some(name.into()),
            ..Frame::default()
        };
        let frames = BTreeMap::from([
            (1, vec![frame("malloc"), frame("leak"), frame("a")]),
            (2, vec![frame("malloc"), frame("leak"), frame("b")]),
            (3, vec![frame("malloc"), frame("other")]),
        ]);
        let growths = [grown(1, 30.0), grown(2, 60.0), grown(3, 10.0)];
        let sites = rank(&growths, &frames, 50.0);
        assert_eq!(sites[0].name(), "leak");
        assert_eq!(
            sites[0].frames[1].function.as_deref(),
            Some("b"),
            "the larger one stands for it"
        );
        assert!((sites[0].share_of_growth - 0.9).abs() < 1e-9);
        assert!((sites[1].share_of_growth - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_counters_say_beyond_chance_is_nobodys() {
        let share =
            |counted| rank(&[grown(1, 100.0)], &BTreeMap::new(), counted)[0].share_of_growth;
        assert_eq!(share(120.0), 1.0, "two standard errors of 10");
        assert_eq!(share(200.0), 0.5);
    }
}
