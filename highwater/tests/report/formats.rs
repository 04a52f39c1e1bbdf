//! Markdown, JSON, CSV, JUnit and HTML: complete, and deaf to hostile names.

use highwater::record::run::Run;
use highwater::report::{Extras, Report, csv, html, json, junit, markdown};
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
