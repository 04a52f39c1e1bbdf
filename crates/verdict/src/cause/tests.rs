//! Cases with a known cause, part by part.
// Long because each cause has a test of its own, and all share the builders at the top.

mod beside;
mod callers;
mod level;
mod past;

use super::*;
use memory::account::LiveBy;
use memory::sites::{Ages, Outstanding, SiteGrowth};
use observe::fact::sanitizer::Sanitizer;
use symbols::frame::Frame;

const MIB: f64 = 1_048_576.0;

fn grown(mib: f64) -> Growth {
    Growth {
        bytes: mib * MIB,
        over_s: 38.0,
        slope_per_hour: mib * MIB * 70.0,
        still: mib > 0.0,
        level: 20.0 * MIB,
        peak: 20.0 * MIB,
        peak_early: 20.0 * MIB,
        peak_late: 20.0 * MIB,
        fall: 0.0,
        even: false,
        noise: 1000.0,
    }
}

fn case(growths: &[(Part, f64)]) -> Case {
    let account = Account {
        rss_bytes: 50.0 * MIB,
        live: 20.0 * MIB,
        held: 5.0 * MIB,
        anonymous: 25.0 * MIB,
        live_by: LiveBy::ProbeExact,
        ..Account::default()
    };
    Case {
        observed_s: 60.0,
        snapshots: 60,
        account,
        growth: growths
            .iter()
            .map(|(part, mib)| (*part, grown(*mib)))
            .collect(),
        rss: Some(grown(1.0)),
        sight: Sight::Sees,
        ..Case::default()
    }
}

pub(super) fn site(name: &str, freed_share: f64, lost: Option<(usize, usize)>) -> Site {
    Site {
        frames: vec![Frame {
            function: Some(name.into()),
            ..Frame::default()
        }],
        growth: SiteGrowth {
            now: Outstanding {
                bytes: MIB,
                variance: 0.0,
                third: 0.0,
                blocks: 9.0,
                squares: 2.0 * MIB,
                samples: 60,
            },
            grown_bytes: MIB / 2.0,
            grown_squares: MIB,
            allocated_bytes: 100.0,
            freed_bytes: freed_share * 100.0,
            freed_samples: (freed_share * 100.0) as u64,
            ages: Ages {
                median_s: 30.0,
                max_s: 50.0,
                ..Ages::default()
            },
            ..SiteGrowth::default()
        },
        share_of_growth: 0.99,
        lost,
        ..Site::default()
    }
}

#[test]
fn lost_blocks_are_a_leak_and_kept_ones_fill() {
    let mut leak = case(&[(Part::LiveHeap, 5.0)]);
    leak.sites = vec![site("leak", 0.0, Some((30, 32)))];
    let verdict = judge(&leak);
    assert_eq!(verdict.cause, Cause::Leak);
    assert!(
        verdict.sentence.contains("30 of 32") && verdict.confidence > 0.9,
        "{verdict:?}"
    );
    leak.sites = vec![site("cache_put", 0.0, Some((0, 32)))];
    assert_eq!(judge(&leak).cause, Cause::Filling);
    leak.sites = vec![site("cache_put", 0.0, None)];
    assert_eq!(judge(&leak).cause, Cause::Filling);
    leak.sites = vec![site("half_freed", 0.9, None)];
    assert_eq!(judge(&leak).cause, Cause::Leak, "it has turned over");
    leak.sites[0].growth.turnover_s = 40.0;
    assert_eq!(
        judge(&leak).cause,
        Cause::Filling,
        "no older than its turnover"
    );
    leak.sites[0].growth.grown_squares = 1.5 * MIB;
    assert_eq!(judge(&leak).cause, Cause::Filling, "a vector that grows");
}

#[test]
fn blocks_of_many_uncertain_sites_are_told_together() {
    let mut spread = case(&[(Part::LiveHeap, 5.0)]);
    let uncertain = |lost| Site {
        share_of_growth: 0.0,
        ..site("each", 0.0, Some(lost))
    };
    spread.sites = vec![uncertain((2, 2)), uncertain((1, 2)), uncertain((3, 3))];
    assert_eq!(judge(&spread).cause, Cause::Leak);
    spread.sites = vec![uncertain((0, 9)), uncertain((1, 9)), uncertain((2, 9))];
    assert_eq!(judge(&spread).cause, Cause::Filling);
}

/// The probe was off for two thirds of the time, and what it had counted stood still.
#[test]
fn a_process_that_grows_by_no_part_for_certain_is_not_flat() {
    let mut grows = case(&[(Part::LiveHeap, 0.1)]);
    grows.rss = Some(grown(9.0));
    let verdict = judge(&grows);
    assert!(verdict.undecided && verdict.confidence < 0.3, "{verdict:?}");
    assert!(verdict.sentence.contains("RSS grows"), "{verdict:?}");
    grows.rss = Some(grown(2.0));
    assert!(
        !judge(&grows).undecided,
        "4 % of it are nothing to speak of"
    );
}

#[test]
fn the_part_that_grew_most_decides() {
    let cause = |growths: &[(Part, f64)]| judge(&case(growths)).cause;
    assert_eq!(
        cause(&[(Part::Fragmentation, 9.0), (Part::LiveHeap, 0.1)]),
        Cause::Retention
    );
    assert_eq!(cause(&[(Part::AllocatorHeld, 9.0)]), Cause::Retention);
    assert_eq!(cause(&[(Part::AnonymousMappings, 9.0)]), Cause::Mapping);
    assert_eq!(cause(&[(Part::ThreadStacks, 9.0)]), Cause::Stacks);
    assert_eq!(
        cause(&[(Part::FileMaps, 9.0), (Part::ThreadStacks, 2.0)]),
        Cause::Files
    );
    assert_eq!(cause(&[(Part::SharedMemory, 9.0)]), Cause::Mapping);
    assert_eq!(cause(&[(Part::LiveHeap, 0.1)]), Cause::Flat);
    // What one share of free heap loses to the other is no growth.
    assert_eq!(
        cause(&[(Part::Fragmentation, 9.0), (Part::AllocatorHeld, -9.0)]),
        Cause::Flat
    );
}

#[test]
fn shares_of_a_growth_are_its_cause_when_they_are_most_of_it() {
    let lazy = case(&[(Part::AnonymousMappings, 9.0), (Part::LazyFree, 8.0)]);
    assert_eq!(judge(&lazy).cause, Cause::Lazyfree);
    let mut huge = case(&[(Part::AnonymousMappings, 9.0), (Part::HugePages, 9.0)]);
    assert_eq!(
        judge(&huge).cause,
        Cause::Mapping,
        "written huge pages are ordinary memory"
    );
    huge.huge_untouched = Some(grown(8.5));
    assert_eq!(judge(&huge).cause, Cause::Hugepages);
}

#[test]
fn owners_of_anonymous_memory() {
    let mut case = case(&[(Part::AnonymousMappings, 9.0)]);
    case.owner = Owner::Linked("jemalloc".into());
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(verdict.sentence.contains("jemalloc"));
    case.owner = Owner::Runtime(Runtime::Go);
    assert_eq!(judge(&case).cause, Cause::Managed);
    case.owner = Owner::Unknown;
    case.managers.is_static = true;
    assert_eq!(judge(&case).cause, Cause::Blind);
    case.managers = MemoryManagers {
        sanitizer: Some(Sanitizer::Thread),
        ..MemoryManagers::default()
    };
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(
        verdict.next_step.contains("-fsanitize=thread"),
        "{verdict:?}"
    );
}

#[test]
fn a_heap_that_rises_in_every_quarter_is_retention() {
    let mut case = case(&[(Part::LiveHeap, 0.0), (Part::AllocatorHeld, 40.0)]);
    case.heap = Some(grown(40.0));
    let cause = |case: &Case| judge(case).cause;
    assert_eq!(cause(&case), Cause::Flat, "the heap was live at its peak");
    case.heap = Some(Growth {
        even: true,
        ..grown(40.0)
    });
    assert_eq!(cause(&case), Cause::Retention);
}

#[test]
fn a_lost_site_decides_beside_a_cache_that_grows_more() {
    let mut case = case(&[(Part::LiveHeap, 30.0)]);
    case.sites = vec![
        site("fill", 0.0, Some((0, 40))),
        site("drop", 0.6, Some((48, 48))),
    ];
    (case.sites[0].share_of_growth, case.sites[1].share_of_growth) = (0.6, 0.4);
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Leak);
    assert!(verdict.sentence.starts_with("leak at drop"), "{verdict:?}");
    assert!(
        verdict.sentence.contains("most of all grows fill"),
        "{verdict:?}"
    );
    case.growth.insert(Part::AnonymousMappings, grown(300.0));
    case.owner = Owner::Runtime(Runtime::Go);
    let managed = judge(&case);
    assert_eq!(managed.cause, Cause::Managed);
    assert!(managed.sentence.contains("lost at drop"), "{managed:?}");
    case.growth.remove(&Part::AnonymousMappings);
    (case.sites[0].share_of_growth, case.sites[1].share_of_growth) = (0.9, 0.1);
    assert_eq!(judge(&case).cause, Cause::Filling);
}

#[test]
fn a_leak_too_slow_for_the_account_is_told_by_its_blocks() {
    let mut slow = case(&[(Part::LiveHeap, 0.1)]);
    slow.account.rss_bytes = 2000.0 * MIB;
    slow.sites = vec![site("drip", 0.0, Some((40, 41)))];
    slow.sites[0].growth.ages.median_s = 30.0;
    let verdict = judge(&slow);
    assert_eq!(verdict.cause, Cause::Leak);
    assert!(
        verdict.sentence.contains("slow leak at drip"),
        "{verdict:?}"
    );
    let cause = |change: fn(&mut Site)| {
        let mut case = slow.clone();
        change(&mut case.sites[0]);
        judge(&case).cause
    };
    // Of what is lost some looks held, of what is held some looks lost.
    assert_eq!(cause(|site| site.lost = Some((15, 18))), Cause::Leak);
    assert_eq!(cause(|site| site.lost = Some((4, 4))), Cause::Leak);
    assert_eq!(cause(|site| site.lost = Some((2, 2))), Cause::Flat);
    assert_eq!(cause(|site| site.lost = Some((9, 41))), Cause::Flat);
    assert_eq!(cause(|site| site.lost = None), Cause::Flat);
    let mut several = slow.clone();
    several.sites[0].lost = Some((4, 4));
    let held = || site("held", 0.0, Some((0, 48)));
    several.sites.extend(std::iter::repeat_with(held).take(31));
    assert_eq!(judge(&several).cause, Cause::Flat, "one of 32 by chance");
    let is_over = |site: &mut Site| site.growth.ages.median_s = 55.0;
    assert_eq!(
        cause(is_over),
        Cause::Flat,
        "what was lost at the start is over"
    );
}

#[test]
fn what_the_live_heap_left_below_its_own_peak_is_no_retention() {
    let said = |live_peak_mib: f64| {
        let mut case = case(&[(Part::AllocatorHeld, 9.0)]);
        let level = 29.0 * MIB;
        case.heap = Some(Growth {
            level,
            ..grown(9.0)
        });
        let live = Growth {
            peak: live_peak_mib * MIB,
            ..grown(0.0)
        };
        case.growth.insert(Part::LiveHeap, live);
        judge(&case).cause
    };
    assert_eq!(said(20.0), Cause::Retention);
    assert_eq!(said(28.0), Cause::Flat);
}

#[test]
fn a_tooth_at_no_certain_site_is_no_growth() {
    let said = |fall_mib: f64, share_of_growth: f64| {
        let mut case = case(&[]);
        let growth = Growth {
            fall: fall_mib * MIB,
            ..grown(5.0)
        };
        case.growth.insert(Part::LiveHeap, growth);
        case.sites = vec![Site {
            share_of_growth,
            ..site("touch", 0.0, None)
        }];
        judge(&case).cause
    };
    assert_eq!(said(1.0, 0.0), Cause::Filling, "nameless");
    assert_eq!(said(20.0, 0.0), Cause::Flat);
    assert_eq!(said(20.0, 0.9), Cause::Filling);
}

#[test]
fn what_rises_while_nobody_watches_is_not_flat() {
    let said = |watched_share: f64, rss_mib: f64| {
        let mut case = case(&[]);
        case.rss = Some(grown(rss_mib));
        case.traps = Some(Traps {
            watched_share,
            ..Traps::default()
        });
        judge(&case).cause
    };
    assert_eq!(said(0.2, 5.0), Cause::Blind);
    assert_eq!(said(0.2, 0.0), Cause::Flat);
    assert_eq!(said(1.0, 5.0), Cause::Flat);
}

#[test]
fn a_site_that_adds_under_traffic_that_swings_fills() {
    let mut case = case(&[(Part::LiveHeap, -2.0)]);
    case.sites = vec![site("listen", 0.2, Some((0, 96)))];
    case.sites[0].growth.grown_bytes = 18.0 * MIB;
    assert_eq!(judge(&case).cause, Cause::Flat);
    case.lasting = Some(grown(20.0));
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Filling);
    assert!(verdict.sentence.contains("fluctuating load"), "{verdict:?}");
    let cause = |change: fn(&mut Case)| {
        let mut case = case.clone();
        change(&mut case);
        judge(&case).cause
    };
    assert_eq!(
        cause(|case| case.sites[0].lost = Some((40, 48))),
        Cause::Leak
    );
    let is_full = |case: &mut Case| case.sites[0].growth.ages.median_s = 50.0;
    assert_eq!(cause(is_full), Cause::Flat, "it came at the start");
    let turns = |case: &mut Case| case.sites[0].growth.freed_bytes = 60.0;
    assert_eq!(cause(turns), Cause::Flat, "a cache that turns over");
    let few = |case: &mut Case| case.sites[0].growth.grown_bytes = 5.0 * MIB;
    assert_eq!(
        cause(few),
        Cause::Flat,
        "nobody tells where the most of it is"
    );
    let uncertain = |case: &mut Case| case.sites[0].share_of_growth = 0.0;
    assert_eq!(cause(uncertain), Cause::Flat);
    let tooth = |case: &mut Case| case.lasting.as_mut().unwrap().fall = 50.0 * MIB;
    assert_eq!(cause(tooth), Cause::Flat);
}

#[test]
fn little_growth_of_a_large_process_counts_where_sites_tell_of_it() {
    let said = |grown_kib: f64, error_kib: f64| {
        let mut case = case(&[(Part::LiveHeap, 0.55)]);
        case.account.rss_bytes = 120.0 * MIB;
        case.sites = vec![site("file_report", 0.3, Some((0, 4)))];
        case.sites[0].growth.grown_bytes = grown_kib * 1024.0;
        case.sites[0].growth.grown_error = error_kib * 1024.0;
        judge(&case).cause
    };
    assert_eq!(said(540.0, 20.0), Cause::Filling);
    assert_eq!(said(200.0, 60.0), Cause::Filling, "few samples");
    assert_eq!(said(94.0, 46.0), Cause::Flat, "most of it is elsewhere");
}

#[test]
fn lost_native_blocks_come_before_a_heap_that_is_collected() {
    let said = |native_mib: f64, runtime: Runtime, lost: (usize, usize)| {
        let mut case = case(&[
            (Part::AnonymousMappings, 20.0),
            (Part::LiveHeap, native_mib),
        ]);
        case.owner = Owner::Runtime(runtime);
        case.sites = vec![site("push_token", 0.0, Some(lost))];
        judge(&case)
    };
    let leak = said(8.0, Runtime::Node, (93, 96));
    assert_eq!(leak.cause, Cause::Leak);
    assert!(
        leak.sentence.contains("the Node runtime's own heap"),
        "{leak:?}"
    );
    assert!(leak.next_step.contains("heap snapshots"), "{leak:?}");
    let little = said(2.0, Runtime::Node, (93, 96));
    assert_eq!(little.cause, Cause::Managed);
    assert!(little.sentence.contains("lost at push_token"), "{little:?}");
    let held = said(8.0, Runtime::Node, (0, 96));
    assert_eq!(held.cause, Cause::Managed);
    assert!(!held.sentence.contains("push_token"), "{held:?}");
    let counted = said(8.0, Runtime::Python, (93, 96));
    assert_eq!(counted.cause, Cause::Managed, "its heap's growth lasts");
}

#[test]
fn what_grows_on_musl_unseen_is_blind() {
    let mut case = case(&[(Part::AnonymousMappings, 9.0)]);
    case.managers.is_musl = true;
    case.no_uprobes = Some("run explain as root".to_owned());
    case.sight = Sight::Absent("it runs on musl".to_owned());
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(verdict.sentence.contains("musl"), "{verdict:?}");
    assert!(verdict.next_step.contains("as root"), "{verdict:?}");
    case.sight = Sight::Sees;
    assert_eq!(judge(&case).cause, Cause::Mapping);
}

#[test]
fn a_vector_that_doubles_has_not_turned_over() {
    let mut crew = case(&[(Part::LiveHeap, 5.0)]);
    crew.sites = vec![site("enter_order", 0.55, Some((0, 48)))];
    assert_eq!(judge(&crew).cause, Cause::Filling);
}

#[test]
fn too_few_snapshots_are_undecided() {
    let mut few = case(&[]);
    few.rss = None;
    let verdict = judge(&few);
    assert_eq!((verdict.cause, verdict.word()), (Cause::Flat, "undecided"));
    assert_eq!(judge(&case(&[])).word(), "flat");
}
