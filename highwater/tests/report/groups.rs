//! Groups of processes that somebody else runs, in Markdown, CSV and pictures.

use experiment::file::{AttachGroup, SubjectKind};
use observe::snapshot::{Event, EventKind, ProcessId, Role, TimeNs};
use record::run::{Process, Run};
use report::pictures::pictures;
use report::{csv, markdown};

use super::formats::{report, small};

/// Two groups that somebody else runs, under these names; one member restarted, one moved, one is not its arm.
pub fn groups(names: [&str; 3]) -> Run {
    let mut run = small();
    run.experiment.subject.kind = SubjectKind::Attach;
    run.experiment.subject.attach = vec![AttachGroup {
        units: vec!["tor@*.service".into()],
        ..AttachGroup::default()
    }];
    for process in &mut run.processes {
        process.start_ticks = 1000 + process.id.0 as u64;
        let name = format!("{} {}", names[0], process.id.0);
        process
            .facts
            .insert("member.name".into(), vec![(process.started, name)]);
    }
    let own = |arm: usize| run.experiment.arms[arm].name.clone();
    let (control, other) = (own(0), own(1));
    let find = |arm: &str, run: &Run| {
        let is_it = |p: &Process| p.role == Role::Subject && p.arm == arm && p.replica == 0;
        run.processes.iter().position(is_it).expect("a process")
    };
    // Half way, one of the other arm comes to the control without a restart.
    let (from, middle) = (find(&other, &run), TimeNs((run.begun.0 + run.last.0) / 2));
    let mut moved = run.processes[from].clone();
    (moved.id, moved.arm, moved.replica, moved.started) =
        (ProcessId(900), control.clone(), 7, middle);
    for samples in moved.samples.values_mut() {
        samples.retain(|(time, _)| *time >= middle);
    }
    let old = &mut run.processes[from];
    (old.ended, old.exit) = (Some(middle), Some(format!("moved to {control}")));
    for samples in old.samples.values_mut() {
        samples.retain(|(time, _)| *time < middle);
    }
    let event = |id, kind, words: &str| Event {
        time: middle,
        process: Some(id),
        kind,
        words: words.into(),
    };
    let old = run.processes[from].id;
    run.events.push(event(old, EventKind::Moved, names[1]));
    run.processes.push(moved);
    let out = find(&own(2), &run);
    let fact = (middle, names[2].to_owned());
    run.processes[out]
        .facts
        .insert("member.left_out".into(), vec![fact]);
    run
}

const PLAIN: [&str; 3] = ["relay", "moves to arm glibc", "is left out: it runs glibc"];

#[test]
fn markdown_of_groups_that_changed() {
    snapbox::assert_data_eq!(
        markdown::render(&report(&groups(PLAIN))),
        snapbox::file!["golden/groups.md"].raw()
    );
}

#[test]
fn charts_are_drawn_for_what_was_read_with_numbered_marks() {
    let drawn = pictures(&report(&groups(PLAIN)), "x-").expect("pictures");
    let names: Vec<&str> = drawn.iter().map(|picture| picture.name.as_str()).collect();
    assert_eq!(
        names,
        ["x-memory", "x-cpu", "x-faults", "x-latency", "x-heat"]
    );
    for part in [
        "Resident memory",
        "MiB",
        "glibc",
        "minutes since the run began",
        "polyline",
        "polygon",
    ] {
        assert!(drawn[0].svg.contains(part), "{part}");
    }
    let page = markdown::render_with(&report(&groups(PLAIN)), &drawn);
    assert!(page.contains("![Resident memory](x-memory.png)"));
    let mut run = small();
    run.processes.clear();
    assert_eq!(pictures(&report(&run), "").expect("no picture"), []);
}

#[test]
fn groups_as_csv_know_every_stretch() {
    let text = csv::groups(&report(&groups(PLAIN)));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let at = |name: &str| {
        header
            .iter()
            .position(|title| title == name)
            .expect("a column")
    };
    let rows: Vec<::csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 10);
    let counted = |words: &str| {
        rows.iter()
            .filter(|row| row[at("counts")].starts_with(words))
            .count()
    };
    assert_eq!(
        (
            counted("yes"),
            counted("no: it came without"),
            counted("no: is left out")
        ),
        (8, 1, 1)
    );
    assert_eq!(
        rows.iter()
            .filter(|row| row[at("end")].starts_with("moved to"))
            .count(),
        1
    );
}
