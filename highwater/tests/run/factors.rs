//! An experiment with factors: every combination is run, and the report says which factor moves the memory.

use super::scene::Scene;

const EXPERIMENT: &str = r#"
name = "factors"
hypothesis = "it is the version"
replicas = 3
duration = "30m"
interval = "10s"
[subject]
kind = "fake"
[factors.version]
old = { curve = "64MiB + noise 1%" }
new = { curve = "128MiB + noise 1%" }
newest = { curve = "96MiB + noise 1%" }
[factors.setting]
off = {}
on = { environment = { SETTING = "1" } }
"#;

#[test]
fn the_factor_that_moves_memory_is_named() {
    let scene = Scene::new();
    let said = scene.run(EXPERIMENT, &[]);
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "What the factors do memory, 6 of 6 combinations:",
        "version explains 100 % of what differs: against old, new 2.00x [1.",
        "newest 1.50x [1.",
        "setting explains 0",
    ] {
        assert!(flat.contains(words), "no {words:?} in:\n{}", said.out);
    }
    let run = scene.record().id;
    let text = scene.highwater(&["report", &run, "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let version = &json["factors"][0]["factors"][0];
    assert_eq!(
        (&version["factor"], &version["reference"]),
        (&"version".into(), &"old".into())
    );
    assert!(version["variance_share"].as_f64() > Some(0.99), "{version}");
    assert_eq!(json["factors"][0]["interactions"], serde_json::json!([]));
    for format in ["md", "html"] {
        let text = scene.highwater(&["report", &run, "--format", format]).out;
        assert!(text.contains("What the factors do"), "{format}");
    }
}

#[test]
fn a_selection_of_the_combinations_is_run_where_not_all_can_be() {
    let scene = Scene::new();
    let text = EXPERIMENT.replacen("replicas = 3", "replicas = 2\narms_max = 4", 1);
    let said = scene.run(&text, &["--json", "--quiet"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["arms"].as_array().map(Vec::len), Some(4));
    let found = &json["factors"][0];
    assert_eq!(
        (
            &found["combinations_count"],
            &found["combinations_all_count"]
        ),
        (&4.into(), &6.into())
    );
    let new = &found["factors"][0]["levels"][0];
    assert_eq!(new["level"], "new");
    let ratio = new["ratio_value_lo_hi"][0].as_f64().expect("a ratio");
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
}
