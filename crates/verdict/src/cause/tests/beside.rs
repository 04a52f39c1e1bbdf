//! What a site beside the largest changes.

use super::*;
use ::heap::linked::traps::Traps;

fn of_share(share_of_growth: f64, of: Site) -> Site {
    Site {
        share_of_growth,
        ..of
    }
}

#[test]
fn a_certain_leak_leads_before_a_larger_site_that_fills() {
    let mut beside = case(&[(Part::LiveHeap, 5.0)]);
    let cache = || of_share(0.95, site("cache_put", 0.0, Some((0, 48))));
    beside.sites = vec![cache(), of_share(0.05, site("drip", 0.0, Some((48, 48))))];
    let verdict = judge(&beside);
    assert_eq!(verdict.cause, Cause::Leak);
    for said in [
        "leak at drip",
        "48 of 48",
        "cache_put, which is still referenced",
    ] {
        assert!(verdict.sentence.contains(said), "{verdict:?}");
    }
    beside.sites = vec![cache(), of_share(0.05, site("drip", 0.0, Some((3, 48))))];
    assert_eq!(
        judge(&beside).cause,
        Cause::Filling,
        "three of 48 by chance"
    );
}

#[test]
fn a_site_with_little_of_the_growth_is_not_its_cause() {
    let mut unknown = case(&[(Part::LiveHeap, 5.0)]);
    unknown.sites = vec![of_share(0.03, site("serve", 0.0, Some((0, 48))))];
    let verdict = judge(&unknown);
    assert!(verdict.confidence < 0.5, "{verdict:?}");
    assert!(
        verdict.sentence.contains("explain little of it"),
        "{verdict:?}"
    );
    assert!(!verdict.sentence.contains("serve fills"), "{verdict:?}");
    assert!(verdict.next_step.contains("--duration"), "{verdict:?}");
    unknown.rss = Some(grown(5.0));
    unknown.traps = Some(Traps {
        watched_share: 0.014,
        ..Traps::default()
    });
    let verdict = judge(&unknown);
    assert!(verdict.next_step.contains("--budget"), "{verdict:?}");
}

/// Half of what is made at a place is freed at once, and the other half never.
#[test]
fn lost_blocks_of_a_place_where_others_are_freed_at_once_are_a_leak() {
    let mut half = case(&[(Part::LiveHeap, 5.0)]);
    let lost = |freed_share, lost| of_share(0.0, site("parser_start", freed_share, Some(lost)));
    half.sites = vec![lost(0.55, (48, 48))];
    half.sites[0].growth.turnover_s = 0.1;
    let verdict = judge(&half);
    assert_eq!(verdict.cause, Cause::Leak);
    assert!(
        verdict.sentence.starts_with("leak at parser_start"),
        "{verdict:?}"
    );
    half.sites[0].lost = Some((4, 48));
    assert_eq!(judge(&half).cause, Cause::Filling);
    // What is freed becomes as old as what is there: it may be next.
    half.sites = vec![lost(0.55, (48, 48))];
    half.sites[0].growth.turnover_s = 60.0;
    assert!(!judge(&half).sentence.starts_with("leak at parser_start"));
}

#[test]
fn threads_that_become_more_are_said_beside_what_grows() {
    let said = |part, first, last| {
        let mut case = case(&[(part, 9.0)]);
        (case.threads_first, case.threads_last) = (first, last);
        let verdict = judge(&case);
        let threads = |one: &&String| one.contains("threads rose from");
        verdict.limitations.iter().filter(threads).count()
    };
    assert_eq!(said(Part::AnonymousMappings, 93, 286), 1);
    assert_eq!(said(Part::AnonymousMappings, 93, 99), 0);
    assert_eq!(said(Part::AnonymousMappings, 4, 12), 0);
    assert_eq!(
        said(Part::ThreadStacks, 93, 286),
        0,
        "it is in the sentence"
    );
}
