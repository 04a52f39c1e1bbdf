//! Are the shares of growth right, over many seeds? A leak among traffic, both seen through samples only, looked
//! at as often as an explanation of a quarter of a minute does.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::history::History;
use super::rank::{Named, Site, rank};
use heap::HeapSnapshot;
use heap::probe;
use heap::probe::{Block, ProbeSnapshot};
use symbols::frame::Frame;

const SEEDS: u64 = 100;
const SNAPSHOTS: u64 = 40;
const SNAPSHOT_NS: u64 = 300_000_000;
/// Stack of the leak; of the traffic, from here on.
const LEAK: u64 = 1;
const TRAFFIC: u64 = 2;
const TRAFFIC_BLOCKS: u64 = 4096;
const BLOCK_BYTES: u64 = 1_000;

/// A program: bytes that one snapshot finds more of the leak, how many sites its traffic has, mean of sampling.
struct Program {
    leak_bytes: u64,
    sites: u64,
    mean_bytes: f64,
}

fn sampled(
    random: &mut ChaCha8Rng,
    stack: u64,
    blocks: u64,
    time_ns: u64,
    mean: f64,
) -> Vec<Block> {
    let weight = 1.0 / -(-(BLOCK_BYTES as f64) / mean).exp_m1();
    let block = Block {
        address: 0,
        requested_bytes: BLOCK_BYTES,
        usable_bytes: BLOCK_BYTES,
        weight,
        time_ns,
        stack,
        role: 0,
    };
    // From one hit to the next: as good as a draw for each block, and faster.
    let mut gap = || (random.random::<f64>().ln() / (-1.0 / weight).ln_1p()) as u64;
    let (mut at, mut hits) = (gap(), Vec::new());
    while at < blocks {
        hits.push(block);
        at += 1 + gap();
    }
    hits
}

/// What happened at a site, of which a share was freed again.
fn site(freed_share: f64) -> probe::Site {
    probe::Site {
        allocated_bytes: 100_000_000,
        freed_bytes: (freed_share * 1e8) as u64,
        ..probe::Site::default()
    }
}

/// The sites as they are reported at the end.
fn sites(program: &Program, seed: u64) -> Vec<Site> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut history, mut last) = (History::default(), HeapSnapshot::default());
    let mut leaked = Vec::new();
    for snapshot in 0..SNAPSHOTS {
        let time_ns = 1_000_000_000 + snapshot * SNAPSHOT_NS;
        let fresh = program.leak_bytes / BLOCK_BYTES;
        leaked.extend(sampled(
            &mut random,
            LEAK,
            fresh,
            time_ns,
            program.mean_bytes,
        ));
        let mut blocks = leaked.clone();
        for stack in TRAFFIC..TRAFFIC + program.sites {
            let live = TRAFFIC_BLOCKS / program.sites;
            blocks.extend(sampled(
                &mut random,
                stack,
                live,
                time_ns,
                program.mean_bytes,
            ));
        }
        let truth = (snapshot + 1) * program.leak_bytes + TRAFFIC_BLOCKS * BLOCK_BYTES;
        let mut stacks = BTreeMap::from([(LEAK, site(0.0))]);
        stacks.extend((TRAFFIC..TRAFFIC + program.sites).map(|stack| (stack, site(0.99))));
        last = HeapSnapshot {
            time_ns,
            probe: Some(ProbeSnapshot {
                blocks,
                stacks,
                allocs: 1,
                live_bytes_exact: Some(truth as i64),
                ..ProbeSnapshot::default()
            }),
            ..HeapSnapshot::default()
        };
        history.add(time_ns as f64 / 1e9, &last);
    }
    let window = history.window().unwrap();
    let named = |stack: u64| Frame {
        function: Some(stack.to_string()),
        ..Frame::default()
    };
    let frames: BTreeMap<u64, Vec<Frame>> = (LEAK..TRAFFIC + program.sites)
        .map(|stack| (stack, vec![named(stack)]))
        .collect();
    rank(
        &history.heap_sites(window, &last),
        &Named {
            frames: Some(&frames),
            ..Named::default()
        },
        history.live_growth(window),
    )
}

/// Of the seeds, at how many the leak has more than four fifths of the growth; and at how many traffic has a part
/// in it.
fn right(program: &Program, leaks: bool) -> (u64, u64) {
    let (mut right, mut blamed) = (0, 0);
    for seed in 0..SEEDS {
        let sites = sites(program, seed);
        let share_of = |site: &Site| site.share_of_growth;
        let leak = sites.iter().find(|site| site.growth.stack == LEAK);
        right += u64::from(leaks && leak.is_some_and(|site| share_of(site) > 0.8));
        let traffic = sites.iter().filter(|site| site.growth.stack != LEAK);
        blamed += u64::from(traffic.map(share_of).any(|share| share > 0.0));
    }
    (right, blamed)
}

#[test]
fn growth_is_all_the_leaks_among_traffic_of_one_site_or_of_twenty() {
    for sites in [1, 20] {
        let program = Program {
            leak_bytes: 500_000,
            sites,
            mean_bytes: 200_000.0,
        };
        let (right, blamed) = right(&program, true);
        println!(
            "{sites} sites of traffic: {right} of {SEEDS} right, {blamed} with traffic blamed"
        );
        assert!(
            right >= SEEDS - 3,
            "{right} of {SEEDS}, {sites} sites of traffic"
        );
        assert!(
            blamed <= SEEDS / 20,
            "{blamed} of {SEEDS}, {sites} sites of traffic"
        );
    }
}

#[test]
fn where_nothing_grows_nobody_is_blamed() {
    for sites in [1, 20] {
        let program = Program {
            leak_bytes: 0,
            sites,
            mean_bytes: 200_000.0,
        };
        let (_, blamed) = right(&program, false);
        println!("{sites} sites of traffic: {blamed} of {SEEDS} blamed");
        assert!(
            blamed <= SEEDS / 16,
            "{blamed} of {SEEDS}, {sites} sites of traffic"
        );
    }
}
