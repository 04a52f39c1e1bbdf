//! What the heap probe read of a run, in every form of the report.

use observe::snapshot::Role;
use record::run::Run;
use report::charts::ArmBand;
use report::{html, json, markdown, text};
use serde_json::Value;

use super::formats::{report, small};
use crate::synthetic::MIB;

/// Two arms that leak at one place, and one that does not.
fn probed() -> Run {
    let mut run = small();
    let fixed = run.experiment.arms[2].name.clone();
    for process in &mut run.processes {
        let Some(rss) = process.samples.get("rss_bytes").cloned() else {
            continue;
        };
        let of = |share: f64, more: f64| {
            let part = |(time, bytes): &(_, f64)| (*time, bytes * share + more);
            rss.iter().map(part).collect::<Vec<_>>()
        };
        let parts = [
            ("live_heap_bytes", of(0.7, 0.0)),
            ("allocator_held_bytes", of(0.0, 12.0 * MIB)),
            ("fragmentation_bytes", of(0.1, 0.0)),
            ("probe_bytes", of(0.0, 2.5 * MIB)),
        ];
        let parts = parts.map(|(name, points)| (name.to_string(), points));
        process.samples.extend(parts);
        let (cause, place, sentence) = match process.arm == fixed {
            true => ("flat", "", "nothing grows"),
            false => (
                "leak",
                "Circuit::extend",
                "leak at Circuit::extend: the live heap grows; arms with another allocator cannot help",
            ),
        };
        let mut fact = |key: &str, value: &str| {
            let value = vec![(process.started, value.to_string())];
            process.facts.insert(key.to_string(), value);
        };
        fact("heap.cause", cause);
        fact("heap.place", place);
        fact("heap.sentence", sentence);
    }
    run
}

#[test]
fn on_a_terminal() {
    let text = text::render(&report(&probed()), 100);
    let text = anstream::adapter::strip_str(&text).to_string();
    snapbox::assert_data_eq!(text, snapbox::file!["golden/heap.txt"].raw());
}

#[test]
fn an_arm_that_grows_for_another_reason_is_told_of() {
    let heaps = |run: &Run| {
        let learnings = report(run).verdict.learnings;
        let heap = |words: &String| words.starts_with("Heap probe in");
        learnings.into_iter().filter(heap).collect::<Vec<_>>()
    };
    let mut run = probed();
    assert_eq!(heaps(&run).len(), 1, "the control's alone");
    let other = run.experiment.arms[1].name.clone();
    for process in run.processes.iter_mut().filter(|p| p.arm == other) {
        let mut fact = |key: &str, value: &str| {
            if let Some(told) = process.facts.get_mut(key) {
                told[0].1 = value.to_string();
            }
        };
        fact("heap.cause", "retention");
        fact("heap.sentence", "retention: the live heap is flat");
    }
    let told = heaps(&run);
    assert!(
        told[0].ends_with("The same in 0 of 2 other arms."),
        "{told:?}"
    );
    let words = format!("Heap probe in `{other}`: retention: the live heap is flat.");
    assert_eq!(told[1..], [words]);
}

#[test]
fn in_markdown_and_on_the_page() {
    let page = markdown::render(&report(&probed()));
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("Circuit::extend"))
        .collect();
    assert_eq!(
        rows.len(),
        3,
        "a row for each leaking arm, and what was learnt: {rows:#?}"
    );
    let html = html::render(&report(&probed()));
    let cell = "leak at Circuit::extend (3 of 3)</td>";
    assert_eq!(html.matches(cell).count(), 2, "{html}");
}

/// As in the table of the arms: a dash, and words only where a minus stands.
#[test]
fn intervals_on_the_page() {
    let html = html::render(&report(&probed()));
    let section = |id: &str| {
        let from = html
            .find(&format!("aria-labelledby=\"{id}\""))
            .expect("a section");
        html[from..].split("</section>").next().expect("its text")
    };
    for id in ["arms", "heap"] {
        let intervals: Vec<&str> = section(id)
            .split("<span class=\"interval\">")
            .skip(1)
            .filter_map(|rest| rest.split("</span>").next())
            .collect();
        assert!(intervals.len() > 4, "{id}: {intervals:?}");
        for interval in intervals {
            let apart = if interval.contains('-') {
                " to "
            } else {
                "–"
            };
            assert_eq!(interval.split(apart).count(), 2, "{id}: {interval}");
        }
    }
}

#[test]
fn in_json() {
    let lines = json::render(&report(&probed()));
    let value: Value = serde_json::from_str(&lines).expect("JSON");
    let heap = &value["arms"][0]["heap"];
    assert_eq!(heap["causes"][0]["place"], "Circuit::extend");
    assert_eq!(heap["causes"][0]["processes"], 3);
    let live = heap["live_heap"]["level_bytes"]["value"]
        .as_f64()
        .expect("a level");
    let rss = value["arms"][0]["rss_bytes"].as_f64().expect("a level");
    assert!((live / rss - 0.7).abs() < 0.02, "{live} of {rss}");
    assert_eq!(heap["allocator_held"]["label"], "flat");
}

/// One process a snapshot is read, so that no two processes have a reading at one time.
#[test]
fn the_page_shows_the_parts_of_the_heap_that_the_probe_read() {
    let mut run = small();
    assert!(!html::render(&report(&run)).contains("id=\"chart-heap"));
    let subjects = run.processes.iter_mut();
    let subjects = subjects.filter(|process| process.role == Role::Subject);
    for (turn, process) in subjects.enumerate() {
        let rss = process.samples["rss_bytes"].clone();
        let read = rss.into_iter().skip(turn).step_by(6);
        let live = read.map(|(time, bytes)| (time, bytes / 2.0)).collect();
        process.samples.insert("live_heap_bytes".into(), live);
    }
    let charts = report(&run).charts;
    let titles: Vec<&str> = charts.heap.iter().map(|part| part.title).collect();
    assert_eq!(titles, ["Live heap"]);
    let last = |band: &ArmBand| band.mean.iter().rev().find_map(|v| *v);
    let live = &charts.heap[0].panel.arms;
    for (live, rss) in live.iter().zip(&charts.rss.arms) {
        let ratio = last(live).unwrap() / last(rss).unwrap();
        assert!((0.4..0.6).contains(&ratio), "{ratio} of RSS");
    }
    assert!(html::render(&report(&run)).contains("id=\"chart-heap-live\""));
}

/// A large process is read rarely, and the later the more so.
#[test]
fn a_line_of_few_readings_has_no_holes() {
    let mut run = small();
    let reads = |at: usize| [0, 20, 45, 75, 110, 150].contains(&at);
    for process in &mut run.processes {
        let Some(rss) = process.samples.get("rss_bytes").cloned() else {
            continue;
        };
        let all = rss.into_iter().enumerate();
        let read = all.filter(|(at, _)| reads(*at)).map(|(_, reading)| reading);
        let live = read.collect();
        process.samples.insert("live_heap_bytes".into(), live);
    }
    for arm in &report(&run).charts.heap[0].panel.arms {
        let seen: Vec<bool> = arm.mean.iter().map(Option::is_some).collect();
        let from = seen.iter().position(|seen| *seen).unwrap();
        let to = seen.iter().rposition(|seen| *seen).unwrap();
        assert!(
            to > from && seen[from..=to].iter().all(|seen| *seen),
            "{seen:?}"
        );
    }
}
