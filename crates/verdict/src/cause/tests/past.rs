//! Calls that do not come by the probe.

use super::*;

#[test]
fn what_is_in_use_and_was_never_counted_went_past_the_probe() {
    let mut past = case(&[(Part::Fragmentation, 9.0)]);
    past.uncounted = Some(grown(8.5));
    past.past_the_probe = vec!["plugin.so".into()];
    let verdict = judge(&past);
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(
        verdict.sentence.contains("in plugin.so, which"),
        "{}",
        verdict.sentence
    );
    past.past_the_probe.clear();
    assert_eq!(judge(&past).cause, Cause::Blind);
    past.uncounted = Some(grown(3.0));
    assert_eq!(
        judge(&past).cause,
        Cause::Retention,
        "the smaller part of it"
    );
    past.growth = [(Part::LiveHeap, grown(9.0))].into();
    past.uncounted = Some(grown(8.5));
    past.account.live_by = LiveBy::HeadersBesideProbe;
    assert_eq!(judge(&past).cause, Cause::Blind);
}

#[test]
fn parts_beyond_what_is_resident_are_no_percentage() {
    let mut case = case(&[]);
    case.account.live = 5000.0 * MIB;
    let limitations = judge(&case).limitations.join("; ");
    assert!(
        limitations.contains("more than is resident") && !limitations.contains('%'),
        "{limitations}"
    );
}

#[test]
fn more_live_than_there_can_be_names_no_site() {
    let mut over = case(&[(Part::LiveHeap, 5.0)]);
    over.sites = vec![site("request_buffer", 0.0, Some((48, 48)))];
    assert_eq!(judge(&over).cause, Cause::Leak);
    over.overcount = Some(Overcount {
        counted: 5000.0 * MIB,
        most: 20.0 * MIB,
        by_headers: true,
    });
    over.freed_past = vec!["plugin.so".into()];
    let verdict = judge(&over);
    assert_eq!(verdict.cause, Cause::Blind);
    let said = format!("{} {}", verdict.sentence, verdict.next_step);
    assert!(
        said.contains("plugin.so calls the C library's free"),
        "{said}"
    );
    assert!(!said.contains("request_buffer"), "{said}");
    over.freed_past.clear();
    assert_eq!(judge(&over).cause, Cause::Blind);
    // Files are measured without the probe.
    over.growth = [(Part::FileMaps, grown(9.0))].into();
    let files = judge(&over);
    assert_eq!(files.cause, Cause::Files);
    assert!(
        files
            .limitations
            .iter()
            .any(|limitation| limitation.contains("4.88 GiB live")),
        "{files:?}"
    );
    over.growth.clear();
    assert_eq!(
        judge(&over).cause,
        Cause::Flat,
        "no slow leak of blocks that look lost"
    );
}
