//! The live heap beneath its traffic.
//!
//! Requests that become larger and smaller by turns swing the live heap by more than a leak adds, so that its levels
//! say nothing. Their sites are known by what becomes of their blocks: nearly all is freed again, within a small part
//! of the window. Without them the rest must rise evenly like anything that grows. What one site gives up in favour of
//! another one over a longer time stays in, and so do teeth longer than a quarter of the window.

use super::growth::{Growth, growth};
use super::history::Moment;
use heap::probe::{ProbeSnapshot, Site};

/// Freed share and samples from which a site is traffic.
const COMES_BACK: f64 = 0.9;
const COMES_BACK_SAMPLES: u64 = 8;
/// Share of its freed blocks that lived no longer than a quarter of the window, of which levels are medians.
const SHORT_SHARE: f64 = 0.9;
const SHORT_WINDOWS: f64 = 0.25;

/// Growth of what is live less what traffic holds, as sampled; `None` where there is no traffic, or too few snapshots.
pub fn lasting(moments: &[Moment], window_s: f64, probe: &ProbeSnapshot) -> Option<Growth> {
    let traffic: Vec<u64> = probe
        .stacks
        .iter()
        .filter(|(_, site)| is_traffic(site, window_s))
        .map(|(&stack, _)| stack)
        .collect();
    let held = |moment: &Moment| -> f64 {
        let of_traffic = traffic
            .iter()
            .filter_map(|stack| moment.outstanding.get(stack));
        of_traffic.map(|outstanding| outstanding.bytes).sum()
    };
    let points: Vec<(f64, f64)> = moments
        .iter()
        .map(|moment| (moment.at_s, moment.account.live - held(moment)))
        .collect();
    growth(&points).filter(|_| !traffic.is_empty())
}

fn is_traffic(site: &Site, window_s: f64) -> bool {
    site.freed_samples >= COMES_BACK_SAMPLES
        && site.freed_bytes as f64 >= COMES_BACK * site.allocated_bytes as f64
        && site.lifetime_s(SHORT_SHARE) <= SHORT_WINDOWS * window_s
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::account::Account;
    use super::super::sites::{ByStack, Outstanding};
    use super::*;

    /// A minute in which a site of traffic swings as `traffic` says, and the live heap holds that and `rest`.
    fn told(traffic: fn(f64) -> f64, rest: fn(f64) -> f64, freed_bytes: u64) -> Option<Growth> {
        let moment = |second: u32| {
            let at_s = f64::from(second);
            let bytes = traffic(at_s);
            let outstanding = Outstanding {
                bytes,
                ..Outstanding::default()
            };
            Moment {
                at_s,
                time_ns: 0,
                account: Account {
                    live: bytes + rest(at_s),
                    ..Account::default()
                },
                allocated_bytes: None,
                outstanding: ByStack::from([(7, outstanding)]),
                mapped: BTreeMap::new(),
                files: BTreeMap::new(),
                threads: 1,
                outside: None,
                objects: None,
            }
        };
        let site = Site {
            allocated_bytes: 100,
            freed_bytes,
            freed_samples: 90,
            lifetime_ns_max: 4_000_000_000,
            lifetimes: vec![0; 40].into_iter().chain([90]).collect(),
            ..Site::default()
        };
        let probe = ProbeSnapshot {
            stacks: [(7, site)].into(),
            ..ProbeSnapshot::default()
        };
        let moments: Vec<Moment> = (0..60).map(moment).collect();
        lasting(&moments, 51.0, &probe)
    }

    #[test]
    fn a_leak_beneath_traffic_that_swings_rises_evenly() {
        // Falls by three times what the leak adds.
        let swings = |t: f64| 2e7 * (1.0 - (t % 45.0) / 45.0);
        let leak = told(swings, |t| 1e5 * t, 95).unwrap();
        assert!(
            leak.still && (leak.bytes / leak.over_s - 1e5).abs() < 5e3,
            "{leak:?}"
        );
        let full = told(swings, |t| 1e5 * t.min(25.0), 95).unwrap();
        assert!(!full.still, "a cache that is full: {full:?}");
        let flat = told(swings, |_| 1e6, 95).unwrap();
        assert!(!flat.still, "{flat:?}");
    }

    #[test]
    fn what_hardly_comes_back_is_no_traffic() {
        // One site gives up what another one takes.
        assert_eq!(told(|t| 1e7 - 1e5 * t, |t| 1e5 * t, 60), None);
    }
}
