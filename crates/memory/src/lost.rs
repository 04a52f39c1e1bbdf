//! Whether so many of a site's older blocks are out of reach that the program cannot hold them.
//!
//! Of a collection that is held a few blocks look lost as well: on their way from one owner to another, or held in a
//! way that is not read. Of what is lost some look held: a stack that nobody wrote over, an allocator's list of what
//! it handed out last still points there. So one rule for few and for many: *lost* is what chance does not make of a
//! collection that is held.

use std::collections::BTreeMap;

use heap::HeapSnapshot;
use heap::probe::Block;

use crate::history::History;
use crate::owned::give_to_owners;
use crate::rank::Site;
use crate::sites::SiteGrowth;

/// Of the blocks of collections that are held, those that look lost at most; how many did is in
/// bench/results/2026-11-24-first-runs.md.
const MISSED: f64 = 0.1;

/// So many of the sites that grow most are asked after. What is lost is often one small block that leads to larger ones
/// (a box with its vectors): only to that one nothing points any more. A function that is called from several places
/// makes as many sites of each. A search reads all memory once, however many blocks are asked after.
const SITES_ASKED: usize = 32;

/// Blocks that are asked after at each of the sites that grow most.
const ASKED_PER_SITE: usize = 48;
/// So many blocks from before a survey do without later ones.
const ENOUGH: usize = 8;
/// The last pointer to a young block may lie in a register, or the block's owner be on its way.
pub const ASKED_AGE_MIN_S: f64 = 2.0;

/// The chance that of `asked` blocks of a collection that is held so many or more look lost (binomial).
pub fn chance_if_held(lost: usize, asked: usize) -> f64 {
    let odds = MISSED / (1.0 - MISSED);
    let mut exactly = (1.0 - MISSED).powi(asked.min(i32::MAX as usize) as i32);
    let mut fewer = 0.0;
    for count in 0..lost {
        fewer += exactly;
        exactly *= odds * (asked - count.min(asked)) as f64 / (count + 1) as f64;
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

/// The older blocks of the sites that grow most, which the program may hold or not. Where there are enough, those from
/// before `since_ns`: only of them an earlier survey can tell.
pub fn blocks_to_ask(history: &History, snapshot: &HeapSnapshot, since_ns: u64) -> Vec<Block> {
    let (Some(probe), Some(window)) = (&snapshot.probe, history.window()) else {
        return Vec::new();
    };
    // What was freed while nobody looked would look lost.
    if probe.traps.is_some_and(|traps| !traps.tells_live()) {
        return Vec::new();
    }
    let mut growths = history.heap_sites(window, snapshot);
    growths.retain(|site| site.grows() || site.stays());
    growths.sort_by(|a, b| b.grown_bytes.total_cmp(&a.grown_bytes));
    let is_old = |block: &&Block| age_s(snapshot, block.time_ns) >= ASKED_AGE_MIN_S;
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

/// How long before a snapshot a moment was, seconds.
pub fn age_s(snapshot: &HeapSnapshot, time_ns: u64) -> f64 {
    snapshot.time_ns.saturating_sub(time_ns) as f64 / 1e9
}

/// Bytes of a block that a pointer to it may point to. The last usable word is the header of glibc's next
/// block, to which lists of free blocks point.
pub fn pointed_bytes(block: &Block) -> u64 {
    let usable = block.usable_bytes.saturating_sub(8);
    block.requested_bytes.min(usable).max(1)
}

/// Owners that must have been asked after.
const OWNERS_MIN: usize = 8;

/// What was found out about the older blocks of the sites that grow most.
pub struct Asked<'a> {
    /// (lost, asked) by stack.
    pub lost: &'a BTreeMap<u64, (usize, usize)>,
    /// Of the lost ones by stack, those that something points to.
    pub pointed: &'a BTreeMap<u64, usize>,
    /// Of every block that was asked after it was known that nobody had freed it.
    pub are_live: bool,
}

/// Says of each site how many of its older blocks are lost, and puts those first that are, where no site's growth is
/// certain. `is_overcounted`: the probe counts what was freed past it; samples of such blocks are no growth, and are
/// not lost either.
pub fn tell_lost(
    sites: &mut Vec<Site>,
    growths: &[SiteGrowth],
    asked: &Asked<'_>,
    is_overcounted: bool,
) {
    if is_overcounted {
        sites.iter_mut().for_each(|site| site.share_of_growth = 0.0);
    } else if asked.are_live {
        for site in sites.iter_mut() {
            site.lost = of_site(site, asked.lost, growths);
        }
    }
    give_to_owners(sites, asked.pointed);
    if sites.iter().all(|site| site.share_of_growth == 0.0) {
        let is_lost = |site: &Site| site.lost.is_some_and(|(lost, asked)| 2 * lost > asked);
        sites.sort_by_key(|site| !(site.growth.stays() && is_lost(site)));
    }
}

/// Of the older blocks of a site, those out of reach. Where only the owners are lost by what can be told
/// (they alone point to the rest, in heaps whose blocks cannot be listed), the owners speak for the site.
fn of_site(
    site: &Site,
    by_stack: &BTreeMap<u64, (usize, usize)>,
    growths: &[SiteGrowth],
) -> Option<(usize, usize)> {
    let asked = site
        .stacks
        .iter()
        .filter_map(|stack| Some((stack, *by_stack.get(stack)?)));
    let blocks = |stack: &u64| {
        let growth = growths.iter().find(|growth| growth.stack == *stack);
        growth.map_or(0.0, |growth| growth.now.blocks)
    };
    let most = site.stacks.iter().map(blocks).fold(0.0, f64::max);
    let is_owner = |(stack, (lost, asked)): &(&u64, (usize, usize))| {
        *asked >= OWNERS_MIN && *lost as f64 >= 0.9 * *asked as f64 && blocks(stack) >= 0.5 * most
    };
    let all = asked
        .clone()
        .map(|(_, of)| of)
        .reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
    let owners = asked.filter(is_owner).map(|(_, of)| of).max();
    let is_settled = 2 * all.0 >= all.1;
    Some(owners.filter(|_| !is_settled).unwrap_or(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Outstanding;

    #[test]
    fn it_is_the_binomial_tail() {
        assert_eq!(chance_if_held(0, 10), 1.0);
        assert!((chance_if_held(4, 4) - 1e-4).abs() < 1e-9);
        assert!((chance_if_held(1, 10) - (1.0 - 0.9f64.powi(10))).abs() < 1e-9);
        assert!((chance_if_held(2, 3) - 0.028).abs() < 1e-9);
        assert!(chance_if_held(15, 48) < 1e-3 && chance_if_held(10, 48) > 1e-2);
    }

    fn site(stack: u64, blocks: f64, share_of_growth: f64) -> (Site, SiteGrowth) {
        let growth = SiteGrowth {
            stack,
            now: Outstanding {
                blocks,
                ..Outstanding::default()
            },
            ..SiteGrowth::default()
        };
        let site = Site {
            stacks: vec![stack],
            share_of_growth,
            ..Site::default()
        };
        (site, growth)
    }

    /// The lost of two sites, by stack 1 and 2, of which `found` was found out.
    fn told(
        found: &[(u64, (usize, usize))],
        are_live: bool,
        is_over: bool,
    ) -> Vec<Option<(usize, usize)>> {
        let (a, b) = (site(1, 10.0, 0.6), site(2, 10.0, 0.4));
        let (mut sites, growths) = (vec![a.0, b.0], [a.1, b.1]);
        let asked = Asked {
            lost: &found.iter().copied().collect(),
            pointed: &BTreeMap::new(),
            are_live,
        };
        tell_lost(&mut sites, &growths, &asked, is_over);
        assert_eq!(
            sites.iter().all(|site| site.share_of_growth == 0.0),
            is_over
        );
        sites.iter().map(|site| site.lost).collect()
    }

    #[test]
    fn a_site_is_told_what_was_found_of_its_stacks() {
        let found = [(1, (9, 10))];
        assert_eq!(told(&found, true, false), [Some((9, 10)), None]);
        assert_eq!(
            told(&found, false, false),
            [None, None],
            "frees went unseen"
        );
        assert_eq!(told(&found, true, true), [None, None], "it counts too much");
    }

    #[test]
    fn owners_of_which_nearly_all_are_lost_speak_for_a_site() {
        let (mut site, owner) = site(1, 10.0, 1.0);
        let owned = SiteGrowth {
            stack: 2,
            now: Outstanding {
                blocks: 15.0,
                ..Outstanding::default()
            },
            ..SiteGrowth::default()
        };
        site.stacks = vec![1, 2];
        let lost = |owners: (usize, usize)| {
            let found = [(1, owners), (2, (0, 40))].into();
            of_site(&site, &found, &[owner.clone(), owned.clone()])
        };
        assert_eq!(lost((10, 10)), Some((10, 10)));
        assert_eq!(lost((5, 10)), Some((5, 50)), "half of them are held");
        assert_eq!(lost((4, 4)), Some((4, 44)), "too few to speak for others");
    }

    #[test]
    fn only_older_blocks_are_asked_after() {
        let snapshot = HeapSnapshot {
            time_ns: 9_000_000_000,
            ..HeapSnapshot::default()
        };
        assert_eq!(age_s(&snapshot, 6_500_000_000), 2.5);
        assert_eq!(age_s(&snapshot, 10_000_000_000), 0.0);
        assert!(blocks_to_ask(&History::default(), &snapshot, 0).is_empty());
    }
}
