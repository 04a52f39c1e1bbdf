//! Predictions of an experiment file, compared with what its run measures, and kept in the ledger.

use super::scene::Scene;

/// Flat arms of 64, 50 and 64 MiB, one that fills, and one of which nothing is predicted. The third is killed early.
const EXPERIMENT: &str = r#"
name = "predicted"
hypothesis = "b needs less"
control = "a"
replicas = 3
duration = "30m"
interval = "10s"
[subject]
kind = "fake"
[[arms]]
name = "a"
curve = "64MiB + noise 1%"
prediction = { mean = "62MiB", lo = "58MiB", hi = "68MiB" }
[[arms]]
name = "b"
curve = "50MiB + noise 1%"
prediction = { mean = "32MiB", lo = "30MiB", hi = "34MiB" }
[[arms]]
name = "short"
curve = "64MiB + crash at 2m"
prediction = { mean = "64MiB", lo = "60MiB", hi = "70MiB" }
[[arms]]
name = "steps"
curve = "20MiB + step 100MiB at 10m"
prediction = { mean = "20MiB", lo = "18MiB", hi = "22MiB", over = "8m" }
[[arms]]
name = "free"
curve = "64MiB"
"#;

fn json(scene: &Scene, arguments: &[&str]) -> serde_json::Value {
    let said = scene.highwater(arguments);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[test]
fn predictions_are_compared_and_the_ledger_keeps_the_score() {
    let scene = Scene::new();
    let said = scene.run(EXPERIMENT, &[]);
    let lines = [
        "a: 62.0 MiB [58.0, 68.0] predicted, 64.",
        "measured: inside, predicted 3.",
        " % too low",
        "b: 32.0 MiB [30.0, 34.0] predicted, 50.",
        "measured: above, predicted 36 % too low; against a 0.52x predicted, 0.78x measured",
        "short: 64.0 MiB [60.0, 70.0] predicted, unknown: the prediction is for the first 30 min of a process; it was \
         sampled from 0 s to 1 min 50 s of its life",
        "steps: 20.0 MiB [18.0, 22.0] predicted, 20.0 MiB",
        "2 of 3 measured means lie within the predicted interval.",
        "Predictions in this ledger: 2 of 3 measured means",
    ];
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in lines {
        assert!(flat.contains(words), "no {words:?} in:\n{}", said.out);
    }
    assert!(!flat.contains("free: "), "{}", said.out);

    let log = json(&scene, &["log", "--json"]);
    let entry = &log["entries"][0]["predictions"];
    assert_eq!(entry.as_array().map(Vec::len), Some(3), "{entry}");
    assert_eq!(log["score"]["compared_count"], 3);
    assert_eq!(log["score"]["inside_count"], 2);
    let listed = scene.highwater(&["log"]).out;
    assert!(listed.contains("2 of 3 measured means"), "{listed}");

    let run = scene.record().id;
    let reported = json(&scene, &["report", &run, "--json"]);
    let outcomes = reported["predictions"].as_array().expect("predictions");
    let words: Vec<&str> = outcomes
        .iter()
        .filter_map(|one| one["outcome"].as_str())
        .collect();
    assert_eq!(words, ["inside", "above", "unknown", "inside"]);
    assert_eq!(outcomes[3]["over_s"], 480.0);
    let error = outcomes[1]["error_share"].as_f64().expect("an error");
    assert!((error + 0.36).abs() < 0.01, "{error}");
    for format in ["md", "html"] {
        let text = scene.highwater(&["report", &run, "--format", format]).out;
        for words in [
            "Predicted and measured",
            "0.52 / 0.78",
            "2 of 3 measured means",
        ] {
            assert!(text.contains(words), "no {words:?} in {format}:\n{text}");
        }
    }
}

#[test]
fn what_predicts_nothing_says_nothing_of_it() {
    let scene = Scene::new();
    let text: String = EXPERIMENT
        .lines()
        .filter(|line| !line.starts_with("prediction"))
        .map(|line| format!("{line}\n"))
        .collect();
    let said = scene.run(&text, &[]);
    assert!(!said.out.contains("Predict"), "{said:?}");
    assert!(json(&scene, &["log", "--json"])["score"].is_null());
    let run = scene.record().id;
    for format in ["md", "html"] {
        let text = scene.highwater(&["report", &run, "--format", format]).out;
        assert!(!text.contains("Predicted and measured"), "{format}");
    }
}

#[test]
fn an_entry_without_predictions_stays_readable_for_the_version_before() {
    let scene = Scene::new();
    let folder = scene.folder.path().join("ledger");
    std::fs::create_dir(&folder).expect("a folder");
    let old = "schema = \"highwater.ledger/1\"\nid = \"old\"\ndate = \"2026-11-21\"\nstatus = \"active\"\ngoal = \"g\"\n";
    std::fs::write(folder.join("old.toml"), old).expect("an entry");
    let log = json(&scene, &["log", "--json"]);
    assert_eq!(log["entries"][0]["schema"], "highwater.ledger/2");
    assert!(log["score"].is_null());
    let said = scene.highwater(&["log", "attempt", "old", "again"]);
    assert_eq!(said.code, 0, "{said:?}");
    let text = std::fs::read_to_string(folder.join("old.toml")).expect("an entry");
    assert!(text.contains("highwater.ledger/1"), "{text}");
}

#[test]
fn a_program_that_ends_by_itself_is_compared_over_its_life() {
    let scene = Scene::new();
    let text = EXPERIMENT
        .lines()
        .filter(|line| !line.starts_with("prediction"))
        .map(|line| match line.strip_prefix("curve = \"") {
            Some(_) => "curve = \"64MiB + exit at 12m\"\nprediction = { mean = \"62MiB\", lo = \"58MiB\", hi = \
                        \"68MiB\", over = \"life\" }",
            None => line,
        })
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    let text = text.replace("kind = \"fake\"", "kind = \"fake\"\nends = true");
    let said = scene.run(&text, &[]);
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("5 of 5 measured means lie within the predicted interval")
            && flat.contains("over its whole life"),
        "{said:?}"
    );
    // Its end is none that came too early.
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!flat.contains("ended early"), "{said:?}");
}

/// Exit code 0 in every arm is an end that came too early, unless the experiment is about a program that ends.
#[test]
fn a_server_that_gives_up_everywhere_has_ended_early() {
    let scene = Scene::new();
    let text = EXPERIMENT
        .lines()
        .filter(|line| !line.starts_with("prediction"))
        .map(|line| line.replace("curve = \"64MiB", "curve = \"exit at 12m + 64MiB"))
        .map(|line| line.replace("curve = \"50MiB", "curve = \"exit at 12m + 50MiB"))
        .map(|line| line.replace("curve = \"20MiB", "curve = \"exit at 12m + 20MiB") + "\n")
        .collect::<String>();
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("ended early"), "{said:?}");
}

#[test]
fn a_process_that_was_stopped_has_no_whole_life() {
    let scene = Scene::new();
    let life = EXPERIMENT.replace("hi = \"68MiB\" }", "hi = \"68MiB\", over = \"life\" }");
    let said = scene.run(&life, &[]);
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "a: 62.0 MiB [58.0, 68.0] predicted, unknown: the prediction is for the whole life of a process, and \
                 none was seen to its end with exit code 0";
    assert!(flat.contains(words), "{said:?}");
}
