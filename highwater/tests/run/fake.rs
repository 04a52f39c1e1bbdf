//! The whole pipeline on simulated processes: hours pass in a second, and the truth is known.

use super::scene::Scene;

/// `hours` of three processes an arm, each arm a curve.
fn experiment(duration: &str, arms: &[(&str, &str)], more: &str) -> String {
    let mut text = format!(
        "name = \"fake\"\nhypothesis = \"it is fragmentation\"\ncontrol = \"{}\"\nreplicas = 3\n\
         duration = \"{duration}\"\ninterval = \"10s\"\nwarmup = \"1m\"\n{more}\n\
         [subject]\nkind = \"fake\"\n",
        arms[0].0
    );
    for (name, curve) in arms {
        text.push_str(&format!(
            "[[arms]]\nname = \"{name}\"\ncurve = \"{curve}\"\n"
        ));
    }
    text
}

fn label<'a>(json: &'a serde_json::Value, arm: &str) -> &'a str {
    let arms = json["arms"].as_array().expect("arms");
    let row = arms.iter().find(|row| row["arm"] == arm).expect("the arm");
    row["memory"]["label"]
        .as_str()
        .or(row["label"].as_str())
        .expect("a label")
}

#[test]
fn known_curves_get_their_labels() {
    let scene = Scene::new();
    let arms = [
        ("leaks", "64MiB + 80KiB/s + noise 1%"),
        ("flat", "64MiB + noise 1%"),
        ("fills", "20MiB + fill 100MiB tau 10m + noise 0.5%"),
    ];
    let said = scene.run(&experiment("3h", &arms, ""), &["--json", "--quiet"]);
    assert_eq!(said.code, 0, "{said:?}");
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("one JSON value");
    assert_eq!(json["schema"], "highwater.run/2");
    assert_eq!(label(&json, "leaks"), "growing");
    assert_eq!(label(&json, "flat"), "flat");
    assert_eq!(label(&json, "fills"), "plateauing");
}

#[test]
fn the_same_seed_gives_the_same_record() {
    let read = || {
        let scene = Scene::new();
        let arms = [
            ("a", "64MiB + noise 2%"),
            ("b", "32MiB + 10KiB/s + noise 2%"),
        ];
        let said = scene.run(&experiment("20m", &arms, "seed = 7"), &["--quiet"]);
        assert_eq!(said.code, 0, "{said:?}");
        let run = scene.record();
        let values = |process: &record::run::Process| -> Vec<u64> {
            let rss = process.samples.get("rss_bytes").expect("samples");
            rss.iter().map(|(_, value)| *value as u64).collect()
        };
        let processes = run.processes.iter().filter(|p| !p.arm.is_empty());
        processes
            .map(|p| (p.arm.clone(), p.replica, values(p)))
            .collect::<Vec<_>>()
    };
    let (one, two) = (read(), read());
    assert_eq!(one.len(), 6);
    assert_eq!(one, two);
}

#[test]
fn a_guard_aborts_its_arm_and_the_others_go_on() {
    let scene = Scene::new();
    let arms = [("calm", "64MiB + noise 1%"), ("wild", "64MiB + 1MiB/s")];
    let guard = "[[guard]]\nrss_max = \"200MiB\"\n";
    let text = experiment("20m", &arms, "") + guard;
    let said = scene.run(&text, &[]);
    assert!(
        said.err.contains("arm wild is aborted") && said.err.contains("rss_max"),
        "{said:?}"
    );
    let run = scene.record();
    let last = |arm: &str| {
        let of_arm = run.processes.iter().filter(|p| p.arm == arm);
        of_arm
            .filter_map(|p| p.samples["rss_bytes"].last())
            .map(|s| s.0)
            .max()
            .expect("samples")
    };
    let apart_s = (last("calm").0 - last("wild").0) as f64 / 1e9;
    assert!(apart_s > 900.0, "calm went on only {apart_s} s longer");
}

#[test]
fn a_guard_on_the_trend_aborts_what_grows() {
    let scene = Scene::new();
    let arms = [
        ("calm", "64MiB + noise 1%"),
        ("wild", "64MiB + 100KiB/s + noise 1%"),
    ];
    let guard = "[[guard]]\ntrend = [\"flat\", \"plateauing\"]\nafter = \"20m\"\n";
    let said = scene.run(&(experiment("2h", &arms, "") + guard), &[]);
    assert!(
        said.err.contains("arm wild is aborted") && said.err.contains("growing"),
        "{said:?}"
    );
    assert!(!said.err.contains("arm calm is aborted"), "{said:?}");
}

#[test]
fn the_arm_to_adopt_decides_the_exit_code() {
    let arms = [
        ("old", "64MiB + 80KiB/s + noise 1%"),
        ("new", "64MiB + noise 1%"),
    ];
    let verify = "[[verify]]\ntrend = [\"flat\", \"plateauing\"]\n";
    for (adopt, code) in [("new", 0), ("old", 1)] {
        let scene = Scene::new();
        let text = experiment("2h", &arms, &format!("adopt = \"{adopt}\"")) + verify;
        assert_eq!(
            scene.run(&text, &["--quiet"]).code,
            code,
            "adopting {adopt}"
        );
    }
}

#[test]
fn too_short_to_tell_is_said_and_is_no_failure() {
    let scene = Scene::new();
    let arms = [
        ("a", "64MiB + noise 3%"),
        ("b", "64MiB + 1KiB/s + noise 3%"),
    ];
    let text = experiment("50s", &arms, "").replace("warmup = \"1m\"", "warmup = \"0s\"");
    let said = scene.run(&text, &[]);
    assert_eq!(said.code, 3, "{said:?}");
}

#[test]
fn the_run_enters_the_ledger_and_can_be_reported_in_every_format() {
    let scene = Scene::new();
    let arms = [
        ("a", "64MiB + 80KiB/s + noise 1%"),
        ("b", "64MiB + noise 1%"),
    ];
    let said = scene.run(&experiment("2h", &arms, ""), &[]);
    assert_eq!(said.code, 0, "{said:?}");
    let id = scene.run_folder().id();
    let log = scene.highwater(&["log", "--format", "md"]);
    assert!(
        log.code == 0 && log.out.contains(&id) && log.out.contains("concluded"),
        "{log:?}"
    );
    for (format, shows) in [
        ("text", "growing"),
        ("md", "| "),
        ("json", "highwater.run/2"),
        ("csv", "growing"),
        ("junit", "<testsuite"),
        ("html", "<!DOCTYPE html>"),
    ] {
        let said = scene.highwater(&["report", &id, "--format", format]);
        assert!(
            said.code == 0 && said.out.contains(shows),
            "{format}: {said:?}"
        );
    }
    let samples = scene.highwater(&["report", &id, "--samples"]);
    let lines = samples
        .out
        .lines()
        .filter(|line| line.contains("rss_bytes"))
        .count();
    assert!(lines > 2 * 3 * 600, "{lines} lines of RSS");
    let against = scene.highwater(&["report", &id, "--against", &id]);
    assert_eq!(against.code, 0, "{against:?}");
}

/// `EXPERIMENT --until-decided`, with its JSON.
fn until_decided(scene: &Scene, text: &str, more: &[&str]) -> (i32, serde_json::Value) {
    let flags = [&["--until-decided", "--json", "--quiet"], more].concat();
    let said = scene.run(text, &flags);
    let json = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    (said.code, json)
}

#[test]
fn a_run_until_decided_ends_when_it_is_and_says_so() {
    let scene = Scene::new();
    let arms = [
        ("old", "64MiB + 80KiB/s + noise 1%"),
        ("new", "64MiB + noise 1%"),
    ];
    let (code, json) = until_decided(&scene, &experiment("20m", &arms, ""), &["--at-most", "10h"]);
    assert_eq!(code, 0, "{json}");
    let run = scene.record();
    let took_s = (run.last.0 - run.begun.0) as f64 / 1e9;
    assert!((600.0..7200.0).contains(&took_s), "{took_s}");
    let end = run.end.expect("an end").words;
    assert!(
        end.starts_with("decided: new < old after") && end.ends_with("of at most 10 h"),
        "{end}"
    );
    let taught = json["learnings"].to_string();
    assert!(taught.contains("Stopped when it was decided"), "{taught}");
    let log = scene.highwater(&["log", "--format", "md"]);
    assert!(log.out.contains("Stopped when it was decided"), "{log:?}");
}

#[test]
fn a_run_that_is_not_decided_in_time_says_what_is_missing() {
    let scene = Scene::new();
    // Three processes that differ by more than their arms do.
    let arms = [("a", "64MiB + noise 6%"), ("b", "65MiB + noise 6%")];
    let text = experiment("20m", &arms, "");
    let (code, json) = until_decided(&scene, &text, &["--at-most", "30m"]);
    assert_eq!((code, &json["decided"]), (3, &false.into()), "{json}");
    let needs = json["needs"].as_str().expect("what would decide it");
    assert!(needs.contains("more"), "{needs}");
    let id = scene.run_folder().id();
    let report = scene.highwater(&["report", &id]);
    assert_eq!(report.code, 3, "{report:?}");
    assert!(
        report.out.contains("Not decided within 30 min"),
        "{report:?}"
    );
    let plan = scene.highwater(&[
        "run",
        "experiment.toml",
        "--until-decided",
        "--at-most",
        "72h",
        "--dry-run",
    ]);
    assert!(
        plan.code == 0 && plan.out.contains("until decided: the first decision"),
        "{plan:?}"
    );
    assert!(
        plan.out.contains("duration = \"72h\"") || plan.out.contains("at most 3 d"),
        "{plan:?}"
    );
}
