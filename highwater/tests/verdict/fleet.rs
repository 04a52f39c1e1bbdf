//! A real Prometheus and a real VictoriaMetrics: scraping processes that leak and that do not, and holding a
//! week that is judged the same as the same numbers in a file.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::scene::{PATIENCE, Scene, program};
use super::store::{Running, Store, ask, package, prometheus, victoria};
use testkit::free_port;

/// Samples of each process before it is judged: twenty seconds, longer on a machine so busy that scrapes fail.
const SAMPLES: f64 = 40.0;

fn verdicts(store: &Store, flags: &[&str]) -> Vec<Value> {
    let scene = Scene::new();
    let said =
        scene.highwater(&[&["verdict", "--prometheus", &store.url, "--json"], flags].concat());
    assert_eq!(said.code, 0, "{flags:?}: {said:?}");
    let parse = |line: &str| serde_json::from_str(line).expect("a JSON object a line");
    said.out.lines().map(parse).collect()
}

fn find<'a>(lines: &'a [Value], kind: &str, id: &str) -> &'a Value {
    let is = |line: &&Value| line["kind"] == kind && line["id"] == id;
    lines
        .iter()
        .find(is)
        .unwrap_or_else(|| panic!("no {kind} {id} in {lines:#?}"))
}

/// Two processes that leak 400 KiB/s and two that stand still, scraped by both stores.
#[test]
fn processes_that_leak_are_told_from_those_that_do_not() {
    let Some(prometheus_bin) = package("prometheus") else {
        return;
    };
    let exposes = program("exposes");
    let life = (4 * PATIENCE.as_secs()).to_string();
    let mut targets = Vec::new();
    let _processes: Vec<Running> = [("old", "400"), ("old", "400"), ("new", "0"), ("new", "0")]
        .map(|(version, rate)| {
            let port = free_port().to_string();
            let process =
                Running::start(Command::new(&exposes).args([&port, "20000", rate, &life]));
            targets.push((version, port));
            process
        })
        .into();
    let config = scrape_config(&targets);
    let folder = tempfile::tempdir().expect("a folder");
    let mut stores = vec![prometheus(&prometheus_bin, folder.path(), &config)];
    if let Some(bin) = package("victoria-metrics") {
        stores.push(victoria(&bin, folder.path(), &config));
    }
    for store in &stores {
        super::scene::wait("samples of every process", || {
            let query = "min(count_over_time(process_resident_memory_bytes[1h]))";
            let all = ask(&store.url, "count(process_resident_memory_bytes)") >= 4.0;
            (all && ask(&store.url, query) >= SAMPLES).then_some(())
        });
        let said = verdicts(
            store,
            &[
                "--match",
                "job=api",
                "--arm-label",
                "version",
                "--all-pairs",
                "--start",
                "-1h",
            ],
        );
        let (old, new) = (find(&said, "arm", "old"), find(&said, "arm", "new"));
        assert_eq!(
            (&old["label"], &new["label"]),
            (&"growing".into(), &"flat".into()),
            "{said:#?}"
        );
        let (lo, hi) = (
            old["slope_lo"].as_f64().unwrap_or(0.0),
            old["slope_hi"].as_f64().unwrap_or(0.0),
        );
        let truth = 400.0 * 1024.0 * 3600.0;
        assert!(
            lo < 1.03 * truth && 0.97 * truth < hi,
            "{lo} to {hi} does not hold {truth}"
        );
        let id = format!("127.0.0.1:{}", targets[0].1);
        assert_eq!(find(&said, "series", &id)["labels"]["version"], "old");
        let pair = find(&said, "pair", "new:old");
        assert_eq!(pair["decided"], true, "{pair}");
    }
}

fn scrape_config(targets: &[(&str, String)]) -> String {
    let mut text = "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n- job_name: api\n  static_configs:\n".to_owned();
    for (version, port) in targets {
        let _ = writeln!(
            text,
            "  - {{targets: ['127.0.0.1:{port}'], labels: {{version: {version}}}}}"
        );
    }
    text
}

/// A reading: seconds since the epoch, bytes.
type Readings = Vec<(i64, f64)>;

/// A week of a leak, of nothing, of a fill, of a restarted leak and of a gap, a reading a minute.
fn week(seed: u64) -> Vec<(String, Readings, Vec<i64>)> {
    const BEGUN: i64 = 1_790_000_000;
    let mib = 1_048_576.0;
    let mut state = seed;
    let mut noise = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
    let minutes = 9 * 1440;
    let restart = 5 * 1440;
    let mut make = |id: &str, of: &dyn Fn(i64) -> Option<f64>, starts: Vec<i64>| {
        let mut reading = |m: i64| Some((BEGUN + 60 * m, ((of(m)? + 2.0 * noise()) * mib).round()));
        let readings: Readings = (0..minutes).filter_map(&mut reading).collect();
        (id.to_owned(), readings, starts)
    };
    let part = |m: i64| m as f64 / minutes as f64;
    vec![
        make("leak", &|m| Some(200.0 + 80.0 * part(m)), vec![BEGUN - 60]),
        make("flat", &|_| Some(300.0), vec![BEGUN - 86_400]),
        make(
            "fill",
            &|m| Some(100.0 + 200.0 * (1.0 - (-8.0 * part(m)).exp())),
            vec![BEGUN - 60],
        ),
        make(
            "restarted",
            &|m| Some(150.0 + 90.0 * part(if m < restart { m } else { m - restart })),
            vec![BEGUN - 60, BEGUN + 60 * restart - 5],
        ),
        make(
            "gap",
            &|m| (!(3000..4500).contains(&m)).then(|| 250.0 + 60.0 * part(m)),
            vec![BEGUN - 60],
        ),
    ]
}

/// Samples as `promtool tsdb create-blocks-from openmetrics` takes them.
fn openmetrics(week: &[(String, Readings, Vec<i64>)]) -> String {
    let mut text = "# TYPE process_resident_memory_bytes gauge\n".to_owned();
    for (id, readings, _) in week {
        for (t, value) in readings {
            let _ = writeln!(
                text,
                "process_resident_memory_bytes{{instance=\"{id}\"}} {value} {t}"
            );
        }
    }
    text += "# TYPE process_start_time_seconds gauge\n";
    for (id, readings, starts) in week {
        for (t, _) in readings {
            let start = starts.iter().rev().find(|s| *s <= t).expect("it started");
            let _ = writeln!(
                text,
                "process_start_time_seconds{{instance=\"{id}\"}} {start} {t}"
            );
        }
    }
    text + "# EOF\n"
}

fn csv(week: &[(String, Readings, Vec<i64>)]) -> (String, String) {
    let (mut text, mut meta) = (
        "id,t_s,rss_b\n".to_owned(),
        "id,limit_kib,restarts_s\n".to_owned(),
    );
    for (id, readings, starts) in week {
        for (t, value) in readings {
            let _ = writeln!(text, "{id},{t},{value}");
        }
        let starts: Vec<String> = starts.iter().map(i64::to_string).collect();
        let _ = writeln!(meta, "{id},,{}", starts.join(";"));
    }
    (text, meta)
}

fn backfill(promtool: &Path, folder: &Path, text: &str) {
    let file = folder.join("week.om");
    std::fs::write(&file, text).expect("the samples");
    // Blocks of two hours, as is usual, take twenty times as long.
    let done = Command::new(promtool)
        .args([
            "tsdb",
            "create-blocks-from",
            "--max-block-duration=240h",
            "openmetrics",
        ])
        .args([&file, &folder.join("data")])
        .output()
        .expect("promtool runs");
    assert!(done.status.success(), "{done:?}");
}

/// The same numbers out of a file and out of each store: read raw, the verdicts are equal to the last digit;
/// a range query a minute apart gives the same labels.
#[test]
fn a_week_in_a_store_is_judged_as_the_same_week_in_a_file() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let week = week(7);
    let folder = tempfile::tempdir().expect("a folder");
    let text = openmetrics(&week);
    backfill(&bin.join("promtool"), folder.path(), &text);
    let store = prometheus(&bin, folder.path(), "scrape_configs: []\n");
    let truth = in_a_file(&week);
    let labels = ["growing", "flat", "plateauing", "growing", "growing"];
    let window = ["--start", "1790000000", "--end", "1790777600"];
    let check = |store: &Store| {
        let raw = verdicts(store, &window);
        let coarse = verdicts(store, &[&window[..], &["--step", "60s"]].concat());
        let expression = [
            "--query",
            "process_resident_memory_bytes + 0",
            "--step",
            "60",
        ];
        let ranged = verdicts(store, &[&window[..], &expression[..]].concat());
        for ((id, ..), label) in week.iter().zip(labels) {
            let (own, file) = (find(&raw, "series", id), find(&truth, "series", id));
            assert_eq!(file["label"], label, "{file}");
            assert_eq!(own["evidence"], file["evidence"], "{id} of {}", store.url);
            assert_eq!(own["slope_bytes_per_hour"], file["slope_bytes_per_hour"]);
            assert_eq!(
                find(&coarse, "series", id)["label"],
                label,
                "{id}, a step of a minute"
            );
            if id != "restarted" {
                assert_eq!(
                    find(&ranged, "series", id)["label"],
                    label,
                    "{id}, a range query"
                );
            }
        }
    };
    check(&store);
    let Some(bin) = package("victoria-metrics") else {
        return;
    };
    let other = victoria(&bin, folder.path(), "scrape_configs: []\n");
    import(&other, &week);
    check(&other);
}

fn in_a_file(week: &[(String, Readings, Vec<i64>)]) -> Vec<Value> {
    let scene = Scene::new();
    let (text, meta) = csv(week);
    std::fs::write(scene.folder.path().join("week.csv"), text).expect("a file");
    std::fs::write(scene.folder.path().join("meta.csv"), meta).expect("a file");
    let said = scene.highwater(&["verdict", "week.csv", "--meta", "meta.csv", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let parse = |line: &str| serde_json::from_str(line).expect("a JSON object a line");
    said.out.lines().map(parse).collect()
}

/// Into VictoriaMetrics by its own import, one JSON line a series.
fn import(store: &Store, week: &[(String, Readings, Vec<i64>)]) {
    let mut body = String::new();
    for (id, readings, starts) in week {
        let times: Vec<i64> = readings.iter().map(|r| r.0 * 1000).collect();
        let values: Vec<f64> = readings.iter().map(|r| r.1).collect();
        let start = |t: &i64| {
            *starts
                .iter()
                .rev()
                .find(|s| **s * 1000 <= *t)
                .expect("it started") as f64
        };
        let begun: Vec<f64> = times.iter().map(start).collect();
        for (name, values) in [
            ("process_resident_memory_bytes", values),
            ("process_start_time_seconds", begun),
        ] {
            let metric = serde_json::json!({"__name__": name, "instance": id});
            let line = serde_json::json!({"metric": metric, "values": values, "timestamps": times});
            let _ = writeln!(body, "{line}");
        }
    }
    let url = |path: &str| format!("{}{path}", store.url);
    ureq::post(url("/api/v1/import"))
        .send(body.as_bytes())
        .expect("it takes them");
    // What was imported is found by queries after a flush.
    ureq::get(url("/internal/force_flush"))
        .call()
        .expect("it flushes");
}
