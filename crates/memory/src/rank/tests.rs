//! Ranks of made growths.

use super::*;
use crate::sites::Outstanding;

fn grown(stack: u64, bytes: f64) -> SiteGrowth {
    let now = Outstanding {
        bytes,
        variance: 1.0,
        third: 0.0,
        blocks: 1.0,
        squares: 0.0,
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
    let named = Named {
        frames: Some(&frames),
        ..Named::default()
    };
    let sites = rank(&growths, &named, 50.0);
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
fn the_caller_whose_blocks_stay_is_named_and_what_it_goes_through_said() {
    let frame = |name: &str| Frame {
        function: Some(name.into()),
        ..Frame::default()
    };
    let stack = |caller: &str| vec![frame("malloc"), frame("fern"), frame("reed"), frame(caller)];
    let frames = BTreeMap::from([(1, stack("lantern")), (2, stack("candle"))]);
    let addresses = |&(stack, addresses): &(u64, usize)| (stack, Shared { addresses, left: 0 });
    let named = |shared: &[(u64, usize)]| Named {
        frames: Some(&frames),
        shared: shared.iter().map(addresses).collect(),
    };
    let growths = [grown(1, 60.0), grown(2, 0.0)];
    let blamed = &rank(&growths, &named(&[(1, 3)]), 60.0)[0];
    let through: Vec<String> = blamed.through.iter().map(frame_name).collect();
    assert_eq!(
        (blamed.name().as_str(), through.join(" ")),
        ("lantern", "reed fern".into())
    );
    // Two callers whose blocks stay: the function itself.
    let growths = [grown(1, 60.0), grown(2, 60.0)];
    assert_eq!(
        rank(&growths, &named(&[(1, 3), (2, 3)]), 120.0)[0].name(),
        "fern"
    );
}

#[test]
fn what_was_not_counted_is_taken_from_what_comes_and_goes() {
    let mut cache = grown(1, 50.0);
    cache.grown_error = 30.0;
    (cache.allocated_bytes, cache.freed_bytes) = (1e3, 9e2);
    let leak = grown(2, 40.0);
    let frame = |name: &str| Frame {
        function: Some(name.into()),
        ..Frame::default()
    };
    let frames = BTreeMap::from([(1, vec![frame("fetch")]), (2, vec![frame("note")])]);
    let named = Named {
        frames: Some(&frames),
        ..Named::default()
    };
    let sites = rank(&[cache, leak], &named, 30.0);
    let grown = |stack| {
        let site = sites.iter().find(|site| site.growth.stack == stack);
        site.unwrap().growth.grown_bytes
    };
    assert!(grown(1) < 0.0 && grown(2) == 40.0, "{sites:?}");
}

#[test]
fn growth_that_is_spread_is_told_by_the_function_below_which_it_is() {
    let frame = |name: String| Frame {
        function: Some(name),
        ..Frame::default()
    };
    let stack = |number: u64| {
        let parser = ["parse", "load", "serve", "main"].map(|name| frame(name.to_owned()));
        let own = [frame("malloc".to_owned()), frame(format!("node_{number}"))];
        (number, [&own[..], &parser[..]].concat())
    };
    let mut frames: BTreeMap<u64, Vec<Frame>> = (0..30).map(stack).collect();
    let elsewhere = ["malloc", "log", "serve", "main"];
    frames.insert(30, elsewhere.map(|name| frame(name.to_owned())).to_vec());
    let mut growths: Vec<SiteGrowth> = (0..31).map(|stack| grown(stack, 10.0)).collect();
    for growth in &mut growths {
        growth.grown_error = 8.0;
    }
    let named = Named {
        frames: Some(&frames),
        ..Named::default()
    };
    let sites = rank(&growths, &named, 310.0);
    assert_eq!(
        (sites[0].name().as_str(), sites[0].stacks.len()),
        ("parse", 30)
    );
    assert!((sites[0].share_of_growth - 30.0 / 31.0).abs() < 1e-9);
    // A cache whose entries are made at many places, beside what comes and goes.
    let mut filling = growths.clone();
    for (stack, growth) in filling.iter_mut().enumerate().take(30) {
        let is_cache = stack % 2 == 0;
        growth.grown_bytes = if is_cache { 20.0 } else { 0.1 };
        (growth.allocated_bytes, growth.freed_bytes) = match is_cache {
            true => (20.0, 0.0),
            false => (5_000.0, 4_999.9),
        };
    }
    let fills = &rank(&filling, &named, 310.0)[0];
    assert_eq!(fills.name(), "parse");
    assert!(fills.growth.freed_share() < 0.01, "{:?}", fills.growth);
    // One that stands out speaks for itself, and chance for nobody.
    growths[3].grown_bytes = 200.0;
    assert_eq!(rank(&growths, &named, 500.0)[0].name(), "node_3");
    for growth in &mut growths {
        (growth.grown_bytes, growth.grown_error) = (1.0, 8.0);
    }
    assert!(
        rank(&growths, &named, 31.0)
            .iter()
            .all(|site| site.name() != "parse")
    );
}

#[test]
fn what_counters_say_beyond_chance_is_nobodys() {
    let share = |counted| rank(&[grown(1, 100.0)], &Named::default(), counted)[0].share_of_growth;
    assert_eq!(share(120.0), 1.0, "two standard errors of 10");
    assert_eq!(share(200.0), 0.5);
}
