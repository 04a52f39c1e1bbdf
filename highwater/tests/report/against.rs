//! Two runs side by side.

use record::run::Run;
use report::{Extras, Report, against};

use crate::synthetic::{HOSTILE, hostile, judged, relay};

fn report(run: &Run) -> Report {
    Report::build(run, &judged::verdict(run), Extras::default())
}

fn runs() -> (Run, Run) {
    let (mut now, mut then) = (relay(), relay());
    now.arms.truncate(3);
    now.seed = 8;
    // mimalloc was not there before; jemalloc held twice as much.
    now.arms[1] = relay().arms[3].clone();
    then.arms.truncate(3);
    then.arms[2].curve = crate::synthetic::Curve::Leak {
        base: 600.0 * crate::synthetic::MIB,
        fill: 0.0,
        tau_s: 1.0,
        per_hour: 0.0,
    };
    (now.run(), then.run())
}

#[test]
fn what_changed_is_told_with_its_interval() {
    let (now, then) = runs();
    let comparison = against::compare(&report(&now), &report(&then));
    assert_eq!(comparison.arms.len(), 2);
    let jemalloc = &comparison.arms[1];
    let rss = jemalloc.rss.expect("both were measured");
    assert!((0.48..0.6).contains(&rss.value) && rss.hi < 1.0, "{rss:?}");
    assert_eq!(
        comparison.headline,
        "`jemalloc` hold less memory than before.".replace("hold", "holds")
    );
    assert_eq!(comparison.only_in_run, ["mimalloc-2.0.9"]);
    assert_eq!(comparison.only_in_other, ["glibc-arena2"]);
    let glibc = comparison.arms[0].rss.expect("both were measured");
    assert!(
        glibc.lo < 1.0 && 1.0 < glibc.hi,
        "the same arm does not differ: {glibc:?}"
    );
    snapbox::assert_data_eq!(
        against::text(&comparison, 100),
        snapbox::file!["golden/against.txt"].raw()
    );
}

#[test]
fn caveats_are_said() {
    let (now, mut then) = runs();
    then.machine.cpu = "another".into();
    then.last = now.begun;
    let caveats = against::compare(&report(&now), &report(&then)).caveats;
    assert!(
        caveats
            .iter()
            .any(|caveat| caveat.contains("different machines")),
        "{caveats:?}"
    );
    assert!(
        caveats
            .iter()
            .any(|caveat| caveat.contains("different ages")),
        "{caveats:?}"
    );
}

#[test]
fn json_has_its_schema_and_markdown_its_table() {
    let run = hostile();
    let comparison = against::compare(&report(&run), &report(&run));
    assert_eq!(against::json(&comparison)["schema"], "highwater.against/1");
    assert_eq!(against::json(&comparison)["arms"][1]["arm"], HOSTILE);
    let page = against::markdown(&comparison);
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 5);
    assert!(
        rows.iter().all(|row| row.matches('|').count() == 7),
        "{rows:#?}"
    );
    assert!(
        against::text(&comparison, 60)
            .lines()
            .all(|line| line.chars().count() <= 60)
    );
}
