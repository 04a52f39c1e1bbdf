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

/// Each level of the setting sets the variables of all versions: what one of them does not read is a warning.
#[test]
fn a_version_and_its_setting_are_factors_of_one_experiment() {
    let scene = Scene::new();
    let text = r#"
name = "mimalloc"
[subject]
command = "sleep 1"
[factors.version]
"2.0.9" = { allocator = "mimalloc@2.0.9" }
"2.1.7" = { allocator = "mimalloc@2.1.7" }
[factors.purge]
default = {}
0 = { environment = { MIMALLOC_PURGE_DELAY = "0", MIMALLOC_DECOMMIT_DELAY = "0" } }
"#;
    scene.experiment(text);
    let said = scene.highwater(&["run", "experiment.toml", "--dry-run"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("2.1.7+0"), "{said:?}");
    assert!(
        said.err.contains("does not read MIMALLOC_PURGE_DELAY"),
        "{said:?}"
    );
    scene.experiment(&text.replace("MIMALLOC_PURGE_DELAY", "MIMALLOC_PRUGE_DELAY"));
    let said = scene.highwater(&["run", "experiment.toml", "--dry-run"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("MIMALLOC_PRUGE_DELAY"), "{said:?}");
}

/// An arm that crashed early had little memory: that is no effect of its level.
#[test]
fn arms_that_ended_early_are_left_out() {
    let scene = Scene::new();
    let text = EXPERIMENT.replace(
        "newest = { curve = \"96MiB + noise 1%\" }",
        "newest = { curve = \"6MiB + noise 1% + crash at 3m\" }",
    );
    let said = scene.run(&text, &[]);
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "memory: nothing was measured of level newest of factor version; left out, since they ended early: \
                 newest+off, newest+on";
    assert!(flat.contains(words), "{said:?}");
}
