//! What only lost blocks point to is lost with them: the owners' site is to blame, not the function that made what
//! they hold.
//!
//! A session that nobody frees has a buffer that nobody frees. The buffer may be most of the bytes; but it is the
//! session that was forgotten. So a site whose lost blocks are pointed to, by blocks that are lost too, goes to
//! the function that called it, where that one loses blocks of its own.

use std::collections::BTreeMap;

use super::blame::is_start;
use super::rank::{Site, frame_name};
use super::wrappers::is_wrapper;
use symbols::frame::Frame;

/// Of a site's lost blocks, those that must be pointed to; and of its older blocks, those that must be lost.
const OWNED_SHARE: f64 = 0.8;
const LOST_SHARE: f64 = 0.8;

/// Adds sites that are owned to the site that owns them. `pointed`: of the lost blocks of each stack, those that
/// something points to.
pub fn give_to_owners(sites: &mut Vec<Site>, pointed: &BTreeMap<u64, usize>) {
    // What an owner owns may own in turn; a ring of sites ends when each was looked at once.
    for _ in 0..sites.len() {
        let owned = sites
            .iter()
            .enumerate()
            .find_map(|(index, site)| Some((index, owner(sites, index, site, pointed)?)));
        let Some((index, owner)) = owned else { return };
        let site = sites.remove(index);
        add(&mut sites[owner - usize::from(owner > index)], site);
    }
}

fn owner(
    sites: &[Site],
    index: usize,
    site: &Site,
    pointed: &BTreeMap<u64, usize>,
) -> Option<usize> {
    let (lost, _) = site.lost.filter(|_| is_lost(site))?;
    let held: usize = site.stacks.iter().filter_map(|key| pointed.get(key)).sum();
    if (held as f64) < OWNED_SHARE * lost as f64 {
        return None;
    }
    let caller = caller(&site.frames)?;
    let is_owner = |(at, other): (usize, &Site)| {
        let first = other.frames.first();
        let same = first.is_some_and(|frame| {
            frame_name(frame) == frame_name(caller) && frame.module == caller.module
        });
        at != index && same && is_lost(other) && other.share_of_growth > 0.0
    };
    sites
        .iter()
        .enumerate()
        .find(|&(at, other)| is_owner((at, other)))
        .map(|(at, _)| at)
}

/// The next function of the program further out.
fn caller(frames: &[Frame]) -> Option<&Frame> {
    let own = frame_name(frames.first()?);
    let outer = frames.iter().skip(1);
    let mut callers = outer.filter(|frame| !is_wrapper(frame) && frame_name(frame) != own);
    callers.next().filter(|frame| {
        frame
            .function
            .as_deref()
            .is_some_and(|name| !is_start(name))
    })
}

fn is_lost(site: &Site) -> bool {
    let (lost, asked) = site.lost.unwrap_or_default();
    asked > 0 && lost as f64 >= LOST_SHARE * asked as f64
}

fn add(owner: &mut Site, site: Site) {
    let (lost, asked) = site.lost.unwrap_or_default();
    let own = owner.lost.unwrap_or_default();
    owner.lost = Some((own.0 + lost, own.1 + asked));
    owner.share_of_growth += site.share_of_growth;
    owner.growth.take_in(&site.growth);
    owner.stacks.extend(site.stacks);
    owner.owns.extend(site.frames.into_iter().take(1));
    owner.owns.extend(site.owns);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(stack: u64, names: &[&str], share: f64, lost: (usize, usize)) -> Site {
        let frame = |name: &&str| Frame {
            function: Some((*name).into()),
            ..Frame::default()
        };
        Site {
            frames: names.iter().map(frame).collect(),
            share_of_growth: share,
            stacks: vec![stack],
            lost: Some(lost),
            ..Site::default()
        }
    }

    fn given(pointed: usize, owner_lost: usize) -> Vec<(String, f64)> {
        let mut sites = vec![
            site(
                1,
                &["Dancer::Dancer()", "std::make", "minuet", "main"],
                0.9,
                (40, 40),
            ),
            site(2, &["minuet", "main"], 0.1, (owner_lost, 30)),
        ];
        give_to_owners(&mut sites, &BTreeMap::from([(1, pointed), (2, 30)]));
        sites
            .iter()
            .map(|site| (site.name(), site.share_of_growth))
            .collect()
    }

    #[test]
    fn what_lost_blocks_hold_goes_to_their_site() {
        assert_eq!(given(40, 30), [("minuet".to_owned(), 1.0)]);
    }

    #[test]
    fn what_nothing_points_to_was_lost_by_itself() {
        assert_eq!(given(3, 30)[0].0, "Dancer::Dancer()");
    }

    #[test]
    fn a_caller_that_loses_nothing_owns_nothing() {
        assert_eq!(given(40, 0).len(), 2);
    }
}
