//! Which caller of a function is to blame for what grows there.
//!
//! A program has allocating functions of its own, under names that nobody knows: `reed`, which calls `fern`, which
//! calls malloc. Where what one caller gets through them stays and what another one gets through them is freed
//! again, the functions do their duty: the site is the caller at which the stacks part.

use std::collections::BTreeMap;

use super::sites::SiteGrowth;
use crate::observe::heap::probe::Site;
use crate::observe::heap::symbols::Frame;

/// Growing stacks that are compared, those that grew most first.
const COMPARED_MAX: usize = 256;
/// Freed share and samples from which a stack's blocks come back.
const COMES_BACK: f64 = 0.9;
const COMES_BACK_SAMPLES: u64 = 8;

/// By growing stack: how many of its innermost addresses it shares with a stack whose blocks come back.
pub fn shared_addresses(
    growths: &[SiteGrowth],
    sites: &BTreeMap<u64, Site>,
) -> BTreeMap<u64, usize> {
    let comes_back = |site: &&Site| {
        site.freed_samples >= COMES_BACK_SAMPLES
            && site.freed_bytes as f64 >= COMES_BACK * site.allocated_bytes as f64
    };
    let back: Vec<&[u64]> = sites
        .values()
        .filter(comes_back)
        .map(|site| site.addresses.as_slice())
        .collect();
    let mut growing: Vec<&SiteGrowth> = growths
        .iter()
        .filter(|growth| growth.grown_bytes > 0.0 && !growth.turns_over())
        .collect();
    growing.sort_by(|a, b| b.grown_bytes.total_cmp(&a.grown_bytes));
    let shared = |growth: &SiteGrowth| {
        let own = &sites.get(&growth.stack)?.addresses;
        let most = back.iter().map(|other| alike(own, other)).max()?;
        // One that ends within another one was cut short: nothing tells where they part.
        (most > 0 && most < own.len()).then_some((growth.stack, most))
    };
    growing
        .into_iter()
        .take(COMPARED_MAX)
        .filter_map(shared)
        .collect()
}

fn alike(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first frame behind so many addresses: an address may be several frames, of which only the last is not
/// inlined. `None` where no function of the program is left there.
pub fn frame_behind(frames: &[Frame], addresses: usize) -> Option<usize> {
    let ends = frames.iter().enumerate().filter(|(_, f)| !f.inlined);
    let mut ends = ends.map(|(index, _)| index + 1);
    let index = ends.nth(addresses.checked_sub(1)?)?;
    let name = frames.get(index)?.function.as_deref();
    name.is_some_and(|name| !is_start(name)).then_some(index)
}

/// What every program and thread begins with says nothing.
pub fn is_start(name: &str) -> bool {
    matches!(name, "_start" | "start_thread" | "clone" | "clone3")
        || name.starts_with("__libc_start")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(addresses: &[u64], freed_samples: u64) -> Site {
        Site {
            addresses: addresses.to_vec(),
            allocated_bytes: 100_000,
            freed_bytes: freed_samples * 1000,
            freed_samples,
            ..Site::default()
        }
    }

    fn growing(stack: u64) -> SiteGrowth {
        SiteGrowth {
            stack,
            grown_bytes: 5000.0,
            ..SiteGrowth::default()
        }
    }

    #[test]
    fn stacks_part_where_one_comes_back() {
        let lost = [1, 2, 3, 50, 9];
        let shared = |other: Site| {
            let sites = BTreeMap::from([(7, site(&lost, 0)), (8, other)]);
            shared_addresses(&[growing(7)], &sites).get(&7).copied()
        };
        assert_eq!(shared(site(&[1, 2, 3, 60, 9], 95)), Some(3));
        assert_eq!(shared(site(&[1, 2, 3, 60, 9], 50)), None, "it stays too");
        assert_eq!(shared(site(&[4, 2, 3, 60, 9], 95)), None, "elsewhere");
        assert_eq!(shared(site(&lost, 95)), None, "the same stack");
    }

    #[test]
    fn inlined_frames_belong_to_one_address() {
        let frame = |name: &str, inlined| Frame {
            function: Some(name.into()),
            inlined,
            ..Frame::default()
        };
        let frames = [
            frame("malloc", false),
            frame("moss", true),
            frame("fern", false),
            frame("lantern", false),
            frame("_start", false),
        ];
        assert_eq!(frame_behind(&frames, 1), Some(1));
        assert_eq!(frame_behind(&frames, 2), Some(3));
        assert_eq!(frame_behind(&frames, 3), None, "a start is nobody");
        assert_eq!(frame_behind(&frames, 9), None);
    }
}
