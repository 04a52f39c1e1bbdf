//! The dashboard and the alert rules: only metrics that there are, only labels that they have, and PromQL that
//! Prometheus itself parses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use super::store::package;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/grafana")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("the file")
}

/// Every expression of the dashboard's panels and annotations, with the variables put in as "all" of them.
pub fn dashboard_expressions() -> Vec<String> {
    let board: serde_json::Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let mut found = Vec::new();
    collect(&board, &mut found);
    let all = |text: &String| text.replace("$arm", ".*").replace("$host", ".*");
    found.iter().map(all).collect()
}

fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            let own = map.get("expr").and_then(serde_json::Value::as_str);
            found.extend(own.map(str::to_owned));
            map.values().for_each(|v| collect(v, found));
        }
        serde_json::Value::Array(all) => all.iter().for_each(|v| collect(v, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboard_and_the_rules_is_one_that_observe_writes() {
    let name = Regex::new(r"\bhighwater_[a-z0-9_]+").expect("a regex");
    let known: BTreeSet<String> = highwater::cli::observe::page::names().into_iter().collect();
    let texts = [
        read("dashboard.json"),
        read("alerts.yml"),
        read("alerts.test.yml"),
    ];
    for text in &texts {
        let used: BTreeSet<&str> = name.find_iter(text).map(|m| m.as_str()).collect();
        assert!(used.len() > 8, "{used:?}");
        for one in used {
            assert!(
                known.contains(one),
                "{one} is no metric of highwater observe"
            );
        }
    }
    let page = include_str!("../../../docs/reference/metrics.md");
    let told: BTreeSet<&str> = name.find_iter(page).map(|m| m.as_str()).collect();
    let odd: Vec<&&str> = told
        .iter()
        .filter(|told| !known.iter().any(|known| known.starts_with(**told)))
        .collect();
    assert!(odd.is_empty(), "docs/reference/metrics.md names {odd:?}");
}

#[test]
fn variables_and_panels_are_whole() {
    let board: serde_json::Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let mut ids = BTreeSet::new();
    for panel in board["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let grid = &panel["gridPos"];
        let right = grid["x"]
            .as_u64()
            .zip(grid["w"].as_u64())
            .map(|(x, w)| x + w);
        assert!(right.is_some_and(|right| right <= 24), "{panel}");
        if panel["type"] != "row" {
            assert!(!panel["targets"].as_array().expect("targets").is_empty());
            assert!(
                !panel["description"].as_str().unwrap_or("").is_empty(),
                "{panel}"
            );
        }
    }
    let variable = Regex::new(r"\$\{?([a-z_]+)").expect("a regex");
    let list = board["templating"]["list"].as_array().expect("variables");
    let names: BTreeSet<&str> = list.iter().filter_map(|v| v["name"].as_str()).collect();
    for used in variable.captures_iter(&read("dashboard.json")) {
        let name = &used[1];
        assert!(
            names.contains(name) || name == "__all",
            "${name} is no variable"
        );
    }
}

/// Where Prometheus is installed or can be had: its own parser, and the rules on made-up series.
#[test]
fn prometheus_parses_every_expression_and_the_rules_fire_as_told() {
    let Some(programs) = package("prometheus") else {
        return;
    };
    let scratch = tempfile::tempdir().expect("a folder");
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (n, expression) in dashboard_expressions().iter().enumerate() {
        let quoted = serde_json::to_string(expression).expect("text");
        rules += &format!("  - record: x:panel:{n}\n    expr: {quoted}\n");
    }
    let file = scratch.path().join("dashboard.yml");
    std::fs::write(&file, rules).expect("the rules");
    let alerts = folder().join("alerts.yml");
    let tests = folder().join("alerts.test.yml");
    for arguments in [
        ["check", "rules", &file.display().to_string()],
        ["check", "rules", &alerts.display().to_string()],
        ["test", "rules", &tests.display().to_string()],
    ] {
        let done = Command::new(programs.join("promtool"))
            .args(arguments)
            .output()
            .expect("promtool runs");
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {words} {done:?}");
    }
}
