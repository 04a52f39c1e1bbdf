//! Markdown, JSON, CSV, JUnit and HTML: complete.

use observe::snapshot::{Event, EventKind};
use record::run::Run;
use report::{Extras, Report, html, json, junit, markdown};
use serde_json::Value;

use crate::synthetic::{judged, relay};

pub fn report(run: &Run) -> Report {
    Report::build(run, &judged::verdict(run), Extras::default())
}

pub fn small() -> Run {
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
fn json_is_versioned_and_every_number_has_its_unit() {
    let text = json::render(&report(&small()));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema"], "highwater.run/2");
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
fn numbers_that_are_none_are_null() {
    let mut run = small();
    run.processes.clear();
    let value: Value = serde_json::from_str(&json::render(&report(&run))).expect("JSON");
    assert!(
        value["arms"][0]["rss_bytes"].is_null() && value["arms"][0]["latency_p99_ns"].is_null()
    );
}

#[test]
fn junit_has_a_case_for_every_check_of_every_arm() {
    let run = small();
    let report = report(&run);
    let text = junit::render(&report);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/relay.junit.xml"].raw());
}

#[test]
fn the_page_has_everything_without_a_script() {
    // The control, an arm with a setting, and one with a command of its own.
    let mut plan = relay();
    plan.arms = [0, 1, 7].map(|arm| plan.arms[arm].clone()).to_vec();
    let page = html::render(&report(&plan.run()));
    for words in [
        "Hypothesis",
        "fragmentation of the heap",
        "AMD EPYC",
        "MALLOC_ARENA_MAX=2",
        "--leak off",
        "Numbers",
        "uPlot",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
}

#[test]
fn events_of_a_kind_that_is_not_known_are_counted_and_named() {
    let mut run = small();
    let event = Event {
        time: run.begun,
        process: None,
        kind: EventKind::Unknown("migrated".into()),
        words: "to another host".into(),
    };
    run.events.extend([event.clone(), event]);
    let report = report(&run);
    let found = verdict::run::audited::findings(&run);
    let what = &found.last().expect("a finding").what;
    assert_eq!(
        what,
        "2 events of a kind that this highwater does not know: `migrated`"
    );
    let json: Value = serde_json::from_str(&json::render(&report)).expect("JSON");
    let named = |event: &&Value| event["kind"] == "migrated";
    assert_eq!(
        json["events"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(named)
            .count(),
        2
    );
}
