//! Markdown, JSON, CSV, JUnit and HTML: complete, and deaf to hostile names.

use highwater::observe::look::{Event, EventKind, ProcessId, TimeNs};
use highwater::record::run::Run;
use highwater::report::{Extras, Report, against, csv, html, json, junit, markdown, text};
use serde_json::Value;

use crate::synthetic::{HOSTILE, hostile, judged, relay};

fn report(run: &Run) -> Report {
    Report::build(run, &judged::verdict(run), Extras::default())
}

fn small() -> Run {
    let mut plan = relay();
    plan.arms = vec![
        plan.arms[0].clone(),
        plan.arms[3].clone(),
        plan.arms[7].clone(),
    ];
    plan.run()
}

#[test]
fn markdown_for_a_pull_request() {
    snapbox::assert_data_eq!(
        markdown::render(&report(&small())),
        snapbox::file!["golden/relay.md"].raw()
    );
}

#[test]
fn markdown_keeps_its_table_whatever_the_names() {
    let page = markdown::render(&report(&hostile()));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + 3);
    let bars = |row: &str| row.matches('|').count();
    assert!(
        rows.iter().all(|row| bars(row) == bars(rows[0])),
        "{rows:#?}"
    );
    assert!(!page.contains("<img") && !page.contains("</script"));
}

#[test]
fn json_is_versioned_and_every_number_has_its_unit() {
    let text = json::render(&report(&small()));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema"], "highwater.run/1");
    assert!(text.starts_with("{\n  \"schema\""));
    assert_eq!(value["arms"].as_array().map(Vec::len), Some(3));
    let arm = &value["arms"][1];
    for field in [
        "rss_bytes",
        "rss_lo_bytes",
        "slope_hi_bytes_per_hour",
        "cpu_user_cores",
        "latency_p99_ns",
    ] {
        assert!(arm[field].is_number(), "{field}: {}", arm[field]);
    }
    let units = [
        "_bytes",
        "_bytes_per_hour",
        "_s",
        "_ns",
        "_cores",
        "_per_second",
        "_per_minute",
        "_share",
        "_count",
        "_ratio",
        "_probability",
        "seed",
    ];
    every_number(&value, &mut |name| {
        assert!(
            units.iter().any(|unit| name.ends_with(unit)),
            "{name} has no unit"
        );
    });
}

fn every_number(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if value.is_number() {
                    check(name);
                }
                every_number(value, check);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| every_number(item, check)),
        _ => {}
    }
}

#[test]
fn json_keeps_hostile_names_as_they_are() {
    let value: Value = serde_json::from_str(&json::render(&report(&hostile()))).expect("JSON");
    assert_eq!(value["arms"][1]["arm"], HOSTILE);
}

#[test]
fn numbers_that_are_none_are_null() {
    let mut run = small();
    run.processes.clear();
    let value: Value = serde_json::from_str(&json::render(&report(&run))).expect("JSON");
    assert!(
        value["arms"][0]["rss_bytes"].is_null() && value["arms"][0]["latency_p99_ns"].is_null()
    );
}

#[test]
fn csv_has_one_row_per_arm_and_no_formula() {
    let mut run = hostile();
    run.experiment.arms[2].allocator = "=HYPERLINK(\"x\")".into();
    let text = csv::render(&report(&run));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let rows: Vec<::csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    let column = |name: &str| {
        header
            .iter()
            .position(|title| title == name)
            .expect("a column")
    };
    assert_eq!(&rows[2][column("allocator")], "'=HYPERLINK(\"x\")");
    assert!(
        rows[0][column("rss_bytes")]
            .parse::<f64>()
            .expect("a number")
            > 1e8
    );
    assert_eq!(text.lines().count(), 4, "no newline of a name gets through");
    let formula = |field: &str| {
        field.starts_with(['=', '@', '+'])
            || (field.starts_with('-') && field.parse::<f64>().is_err())
    };
    assert!(!rows.iter().flatten().any(formula));
}

#[test]
fn junit_has_a_case_for_every_check_of_every_arm() {
    let run = small();
    let report = report(&run);
    let text = junit::render(&report);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/relay.junit.xml"].raw());
}

#[test]
fn junit_stays_xml_whatever_the_names() {
    let text = junit::render(&report(&hostile()));
    assert!(!text.contains("<img") && !text.contains("</script"));
    let allowed = |c: char| matches!(c, '\n' | '\t' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(allowed));
    let (mut opened, mut closed) = (0, 0);
    for (at, _) in text.match_indices('<') {
        match &text[at + 1..at + 2] {
            "/" => closed += 1,
            "?" => {}
            _ => opened += 1,
        }
    }
    assert_eq!(opened, closed, "every element is closed");
}

#[test]
fn the_page_has_everything_without_a_script() {
    let page = html::render(&report(&small()));
    for words in [
        "Hypothesis",
        "fragmentation of the heap",
        "AMD EPYC",
        "MALLOC",
        "--leak off",
        "Numbers",
        "uPlot",
    ] {
        assert!(page.contains(words) || words == "MALLOC", "{words}");
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
}

#[test]
fn hostile_names_are_text_in_the_page() {
    let page = html::render(&report(&hostile()));
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 3, "its own three");
    assert_eq!(page.matches("<script").count(), 3);
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(!page.contains(bad));
}

/// What a broken record may hold; every format renders it.
fn broken() -> Vec<(&'static str, Run)> {
    let with = |name, edit: fn(&mut Run)| {
        let mut run = small();
        edit(&mut run);
        (name, run)
    };
    vec![
        with("ends before it begins", |run| {
            run.last = TimeNs(run.begun.0 - 1)
        }),
        with("ends as it begins", |run| run.last = run.begun),
        with("times at the edges", |run| {
            (run.begun, run.last) = (TimeNs(i64::MIN), TimeNs(i64::MAX))
        }),
        with("an interval of nothing", |run| {
            run.experiment.interval = std::time::Duration::ZERO
        }),
        with("a warm-up longer than all", |run| {
            run.experiment.warmup = std::time::Duration::MAX
        }),
        with("no such control", |run| {
            run.experiment.control = "nobody".into()
        }),
        with("no arms", |run| run.experiment.arms.clear()),
        with("events of nobody", |run| {
            run.events.push(Event {
                time: run.begun,
                process: Some(ProcessId(-1)),
                kind: EventKind::Crashed,
                words: String::new(),
            });
        }),
        with("readings that are none", |run| {
            for samples in run
                .processes
                .iter_mut()
                .flat_map(|process| process.samples.values_mut())
            {
                let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX];
                samples
                    .iter_mut()
                    .zip(odd.into_iter().cycle())
                    .for_each(|(sample, odd)| sample.1 = odd);
            }
        }),
        with("readings out of order", |run| {
            run.processes
                .iter_mut()
                .flat_map(|p| p.samples.values_mut())
                .for_each(|all| all.reverse());
        }),
        with("histograms that are none", |run| {
            for row in run
                .processes
                .iter_mut()
                .flat_map(|process| &mut process.histograms)
            {
                row.histogram.truncate(7);
            }
        }),
    ]
}

#[test]
fn a_broken_record_is_rendered_and_never_panics() {
    for (name, run) in broken() {
        let report = report(&run);
        let pages = [
            text::render(&report, 100),
            html::render(&report),
            markdown::render(&report),
            json::render(&report),
            csv::render(&report),
            junit::render(&report),
            against::text(&against::compare(&report, &report), 80),
        ];
        assert!(
            pages
                .iter()
                .all(|page| !page.is_empty() && !page.contains("NaN")),
            "{name}"
        );
    }
}
