//! What a run lost of itself is a finding of its report.

use observe::snapshot::{Event, EventKind};
use record::run::{Run, RunEnd};
use report::incidents::{incidents, marks};
use report::{csv, event_word, html, markdown};
use verdict::run::audited::findings;

use super::formats::{report, small};
use crate::synthetic::{at, relay};

fn told(run: &Run, part: &str) -> Option<String> {
    let mut found = findings(run).into_iter();
    found.find(|f| f.what.contains(part)).map(|f| f.what)
}

#[test]
fn snapshots_that_the_record_could_not_take() {
    let mut run = relay().run();
    let words =
        "the disk was full: 12 snapshots of the last 12 s are missing; everything else is kept";
    assert_eq!(told(&run, "snapshots of the last"), None);
    run.events.push(Event {
        time: run.last,
        process: None,
        kind: EventKind::SnapshotsLost,
        words: words.into(),
    });
    assert_eq!(told(&run, "snapshots of the last").as_deref(), Some(words));
}

/// As whatever else could not be kept: a mark on the charts, a row that stands out, an entry of the documents.
#[test]
fn lost_snapshots_are_incidents() {
    for kind in [EventKind::Degraded, EventKind::SnapshotsLost] {
        let mut run = small();
        run.events.clear();
        run.events.push(Event {
            time: run.last,
            process: None,
            kind: kind.clone(),
            words: "the disk was full".into(),
        });
        let report = report(&run);
        assert_eq!(incidents(&report).len(), 1, "{kind:?}");
        assert_eq!(marks(&report).len(), 1, "{kind:?}");
        assert!(html::render(&report).contains("<tr class=\"incident\">"));
        assert!(markdown::render(&report).contains(&event_word(&kind)));
        let row = format!(",{},", event_word(&kind));
        assert!(csv::events(&report).contains(&row), "{kind:?}");
    }
}

#[test]
fn an_end_that_nobody_saw() {
    let ended = |after_s: f64, probe: bool| {
        let mut run = relay().run();
        run.experiment.probe = probe;
        let last_s = (run.last.0 - at(0.0).0) as f64 / 1e9;
        run.end = Some(RunEnd {
            time: at(last_s + after_s),
            words: "the duration is over".into(),
        });
        told(&run, "of the run")
    };
    assert_eq!(ended(2.0, false), None);
    let words = ended(90.0, false).expect("a finding");
    assert_eq!(words, "no snapshot in the last 1 min 30 s of the run");
    assert_eq!(ended(30.0, true), None, "heaps are judged then");
}
