//! Runs of our own: the same numbers and words as `report`, however the run is named; and what is no record.

use serde_json::Value;

use super::scene::{Said, Scene};

const EXPERIMENT: &str = "\
name = \"two\"\nhypothesis = \"it is fragmentation\"\ncontrol = \"old\"\nreplicas = 3\nduration = \"2h\"\n\
interval = \"10s\"\nwarmup = \"1m\"\n[subject]\nkind = \"fake\"\n\
[[arms]]\nname = \"old\"\ncurve = \"64MiB + 80KiB/s + noise 1%\"\n\
[[arms]]\nname = \"new\"\ncurve = \"64MiB + noise 1%\"\n";

fn ran() -> (Scene, String) {
    let scene = Scene::new();
    let said = scene.run(EXPERIMENT, &["--quiet"]);
    assert_eq!(said.code, 0, "{said:?}");
    let id = scene.run_folder().id();
    (scene, id)
}

fn lines(said: &Said) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).expect("a JSON object a line");
    said.out.lines().map(parse).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn a_run_is_judged_as_its_report_judges_it() {
    let (scene, id) = ran();
    let folder = format!("runs/{id}");
    let record = format!("{folder}/run.db");
    let report: Value =
        serde_json::from_str(&scene.highwater(&["report", &id, "--json"]).out).expect("JSON");
    let first = scene.highwater(&["verdict", &id, "--json"]);
    for word in [&folder, &record, "latest"] {
        let said = scene.highwater(&["verdict", word, "--json"]);
        assert_eq!(
            (said.code, &said.out),
            (0, &first.out),
            "{word}: {}",
            said.err
        );
    }
    let said = lines(&first);
    assert_eq!(
        (
            of(&said, "series").len(),
            of(&said, "arm").len(),
            of(&said, "pair").len()
        ),
        (6, 2, 1)
    );
    for (arm, row) in of(&said, "arm")
        .iter()
        .zip(report["arms"].as_array().expect("arms"))
    {
        assert_eq!(arm["id"], row["arm"]);
        assert_eq!(arm["label"], row["label"]);
        assert_eq!(arm["level_bytes"], row["rss_bytes"]);
        assert_eq!(arm["slope_bytes_per_hour"], row["slope_bytes_per_hour"]);
    }
    assert_eq!(
        of(&said, "pair")[0]["ratio"],
        report["pairs"][0]["rss_ratio"]
    );
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(of(&said, "audit").len(), findings.len());
    let table = scene.highwater(&["verdict", &id]);
    let headline = report["headline"].as_str().expect("a headline");
    assert!(table.out.contains(headline), "{}\n{headline}", table.out);
}

#[test]
fn a_part_of_a_run_is_what_was_seen_by_then() {
    let (scene, id) = ran();
    let window = |flags: &[&str]| {
        let said = scene.highwater(&[&["verdict", &id, "--json"], flags].concat());
        assert_eq!(said.code, 0, "{said:?}");
        let said = lines(&said);
        of(&said, "series")[0]["evidence"]["window_s"]
            .as_f64()
            .expect("a window")
    };
    let whole = window(&[]);
    assert!((7000.0..7200.0).contains(&whole), "{whole}");
    let early = window(&["--until", "1800"]);
    assert!((1700.0..1800.0).contains(&early), "{early}");
    let half = lines(&scene.highwater(&["verdict", &id, "--json", "--at", "0.5,1"]));
    let ids: Vec<&Value> = of(&half, "series").iter().map(|line| &line["id"]).collect();
    assert_eq!(ids[..2], ["old/0@0.5", "old/0@1"]);
    let one = lines(&scene.highwater(&["verdict", &id, "--json", "--only", "new/1"]));
    assert_eq!(of(&one, "series").len(), 1);
}

#[test]
fn what_is_no_record_is_said() {
    let (scene, id) = ran();
    let path = |name: &str| scene.folder.path().join(name);
    let database = path(&format!("runs/{id}/run.db"));
    for name in ["garbage", "empty", "newer", "bare"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    std::fs::write(
        path("garbage/run.db"),
        b"no database at all, but long enough for one",
    )
    .expect("a file");
    std::fs::write(path("empty/run.db"), b"").expect("a file");
    std::fs::copy(&database, path("newer/run.db")).expect("a copy");
    let newer = rusqlite::Connection::open(path("newer/run.db")).expect("it opens");
    newer
        .pragma_update(None, "user_version", 99)
        .expect("a version");
    drop(newer);
    std::fs::copy(&database, path("copy.db")).expect("a copy");
    for (word, code, part) in [
        ("garbage", 4, "not a record of highwater"),
        ("empty/run.db", 4, "never started"),
        ("newer", 4, "update highwater"),
        ("bare", 4, "no record here"),
        ("copy.db", 2, "give its folder"),
        ("no-such-run", 4, "is no file, and no run under runs"),
    ] {
        let said = scene.highwater(&["verdict", word]);
        assert_eq!(said.code, code, "{word}: {said:?}");
        assert!(said.err.contains(part), "{word}: {}", said.err);
    }
    let flags = scene.highwater(&["verdict", &id, "--unit", "MiB"]);
    assert_eq!(flags.code, 2, "{flags:?}");
    let unknown = scene.highwater(&["verdict", &id, "--pairs", "old:mew"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("is it new?"),
        "{unknown:?}"
    );
}
