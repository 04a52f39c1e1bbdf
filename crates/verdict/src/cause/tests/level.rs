//! Memory that stays where nothing grows.

use super::*;

#[test]
fn memory_that_stays_after_a_peak_is_retention() {
    let mut case = case(&[(Part::LiveHeap, 0.0)]);
    case.account.live = 2.0 * MIB;
    case.account.held = 40.0 * MIB;
    assert_eq!(judge(&case).cause, Cause::Flat, "the peak comes again");
    let live = Growth {
        peak_late: 3.0 * MIB,
        ..grown(0.0)
    };
    case.growth.insert(Part::LiveHeap, live);
    assert_eq!(judge(&case).cause, Cause::Retention, "the peak was 20 MiB");
    case.growth.insert(Part::LiveHeap, grown(0.0));
    case.live_at_most = Some(21.0 * MIB);
    assert_eq!(
        judge(&case).cause,
        Cause::Flat,
        "it may come between snapshots"
    );
    case.live_at_most = Some(19.0 * MIB);
    assert_eq!(judge(&case).cause, Cause::Retention, "it cannot have come");
    case.live_at_most = None;
    case.growth.insert(Part::LiveHeap, live);
    case.account.live = 15.0 * MIB;
    assert_eq!(
        judge(&case).cause,
        Cause::Flat,
        "a heap that is full of use is no retention"
    );
    case.account.lazy_free = 30.0 * MIB;
    assert_eq!(judge(&case).cause, Cause::Lazyfree);
}

#[test]
fn most_of_rss_that_is_free_heap_in_every_snapshot_is_retention_whenever_it_became_so() {
    let mut case = case(&[(Part::LiveHeap, 0.0)]);
    case.account.live = 1.0 * MIB;
    case.account.held = 42.0 * MIB;
    assert_eq!(
        judge(&case).cause,
        Cause::Flat,
        "by the probe's counters its use is told"
    );
    case.account.live_by = LiveBy::Headers;
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Retention);
    assert!(
        verdict
            .sentence
            .contains("no more than 20.0 MiB was live in any of 60"),
        "{verdict:?}"
    );
    case.snapshots = 10;
    assert!(
        judge(&case).confidence < 0.6,
        "ten snapshots may miss a peak"
    );
    case.account.held = 39.0 * MIB;
    assert_eq!(judge(&case).cause, Cause::Flat, "20 MiB were live");
}

#[test]
fn of_an_allocator_watched_from_midway_flat_does_not_mean_that_all_is_in_use() {
    let mut attached = case(&[]);
    attached.rss = Some(grown(0.0));
    attached.account.anonymous = 40.0 * MIB;
    attached.restart = "highwater explain -- /srv/app".to_owned();
    let traps = Traps::default();
    attached.traps = Some(traps);
    let verdict = judge(&attached);
    assert_eq!(verdict.cause, Cause::Flat);
    assert!(verdict.sentence.contains("is not known"), "{verdict:?}");
    assert!(
        verdict.next_step.contains("explain -- /srv/app"),
        "{verdict:?}"
    );
    attached.traps = Some(Traps {
        at_start: true,
        ..traps
    });
    assert!(judge(&attached).next_step.contains("nothing to do"));
}
