//! The service and its collector together: requests in, spans out, and every fault does what it says.

mod running;

use running::{Running, service, start};
use search::corpus::{BROAD, Corpus, NARROW};

fn collector(folder: &std::path::Path, delay: &str) -> Running {
    let folder = folder.to_str().unwrap();
    start(
        env!("CARGO_BIN_EXE_search-collector"),
        &["--folder", folder, "--delay", delay],
    )
}

fn traced(folder: &std::path::Path, collector: &Running, more: &[&str]) -> Running {
    let address = collector.address.to_string();
    let authority = folder.join("ca.pem");
    let to = [
        "--collector",
        &address,
        "--collector-ca",
        authority.to_str().unwrap(),
    ];
    service(&folder.join("data"), &[&to[..], more].concat())
}

#[test]
fn every_page_is_answered_and_its_spans_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = collector(folder.path(), "1ms");
    let service = traced(folder.path(), &collector, &["--sync", "50ms"]);
    let corpus = Corpus::new(1, 200, 20);
    let uri = corpus.uri(3);

    let found: serde_json::Value =
        serde_json::from_str(&service.get(&format!("/search?q={}", corpus.word(50))).1).unwrap();
    assert!(found.as_array().unwrap().len() >= 20, "{found}");
    assert!(found[0]["snippet"].as_str().unwrap().contains("<b>"));
    let (status, near) = service.get(&format!("/similar?uri={uri}"));
    assert_eq!(status, 200);
    let near: serde_json::Value = serde_json::from_str(&near).unwrap();
    assert_eq!(
        near[0]["uri"],
        uri.as_str(),
        "a document is nearest to itself"
    );
    assert!(near[0]["near"].as_f64().unwrap() > 0.999);
    let (_, document) = service.get(&format!("/document?uri={uri}"));
    assert!(document.contains(&uri));
    service.wait_for("search_flushes_total", 1);
    assert!(service.get("/popular").1.contains(corpus.word(50)));
    assert!(service.get("/dashboard").1.contains("\"days\":[{"));
    assert!(service.get("/activity").1.contains("perSecond"));
    assert_eq!(service.get("/nothing").0, 404);
    assert_eq!(service.get("/search?q=%20").0, 400);
    // Edits come in while all this goes on.
    service.wait_for("search_edits_total", 1);

    service.wait_for("search_spans_exported_total", 10);
    service.term();
    let (_, status) = service.wait();
    assert!(status.success(), "{status}");
    let told = collector.line();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(
        told["spans"]["http.request"].as_u64().unwrap() > 0,
        "{told}"
    );
}

#[test]
fn answers_are_of_the_sizes_of_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let all = [
        "--data",
        data.to_str().unwrap(),
        "--documents",
        "1200",
        "--events",
        "0.001",
    ];
    let service = start(env!("CARGO_BIN_EXE_search"), &all);
    let corpus = Corpus::new(1, 1_200, 300);
    for rank in [NARROW.start, NARROW.start + 100, NARROW.start + 200] {
        let bytes = service
            .get(&format!("/search?q={}", corpus.word(rank)))
            .1
            .len();
        assert!(
            (19_000..23_500).contains(&bytes),
            "narrow, rank {rank}: {bytes}"
        );
    }
    for rank in [BROAD.start, BROAD.start + 7, BROAD.end - 1] {
        let bytes = service
            .get(&format!("/search?q={}", corpus.word(rank)))
            .1
            .len();
        assert!(
            (28_000..35_000).contains(&bytes),
            "broad, rank {rank}: {bytes}"
        );
    }
}

#[test]
fn the_end_exports_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let collector = collector(folder.path(), "0s");
    let service = traced(folder.path(), &collector, &[]);
    // Within half a second of the last export, most likely; whenever it is, nothing is lost.
    for _ in 0..20 {
        assert_eq!(service.get("/activity").0, 200);
    }
    service.term();
    assert!(service.wait().1.success());
    collector.term();
    let told = collector.wait().0;
    let requests: u64 = told
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["spans"]["http.request"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(requests, 20, "{told}");
}

#[test]
fn tracing_off_makes_no_spans_and_a_collector_that_is_gone_costs_only_spans() {
    let folder = tempfile::tempdir().unwrap();
    let collector = collector(folder.path(), "0s");
    let off = traced(folder.path(), &collector, &["--tracing-off"]);
    assert!(!off.get("/metrics").1.contains("search_spans"));
    drop(off);
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();

    let service = traced(folder.path(), &collector, &["--fault", "exporter-lock"]);
    drop(collector);
    assert_eq!(service.get("/activity").0, 200);
    service.wait_for("search_spans_failed_total", 1);
    assert_eq!(service.get("/activity").0, 200);
    service.term();
    assert!(service.wait().1.success());
}

#[test]
fn a_certificate_of_someone_else_is_not_trusted() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let right = collector(folder.path(), "0s");
    let _wrong = collector(other.path(), "0s");
    let address = right.address.to_string();
    let authority = other.path().join("ca.pem");
    let to = [
        "--collector",
        &address,
        "--collector-ca",
        authority.to_str().unwrap(),
    ];
    let service = service(&folder.path().join("data"), &to);
    assert_eq!(service.get("/activity").0, 200);
    service.wait_for("search_spans_failed_total", 1);
    assert_eq!(service.figure("search_spans_exported_total"), 0);
}

#[test]
fn every_fault_answers_the_same_pages() {
    let corpus = Corpus::new(1, 200, 20);
    let pages = [
        format!("/search?q={}", corpus.word(BROAD.start)),
        format!("/similar?uri={}", corpus.uri(9)),
    ];
    let answers = |fault: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        // No edits: they come at their own times.
        let plan = [&["--events", "0.001", "--sync", "1h"][..], fault].concat();
        let service = service(&folder.path().join("data"), &plan);
        pages.each_ref().map(|page| service.get(page))
    };
    let right = answers(&[]);
    assert!(right.iter().all(|(status, _)| *status == 200), "{right:?}");
    for fault in [
        "shared-connection",
        "missing-index",
        "small-buffer",
        "no-cache",
    ] {
        assert_eq!(answers(&["--fault", fault]), right, "{fault}");
    }
    // All compared with, the same ten are nearest; numbers that are computed in another order may differ.
    let brute = answers(&["--fault", "brute-force-vectors"]);
    let uris = |page: &str| -> Vec<String> {
        let rows: serde_json::Value = serde_json::from_str(page).unwrap();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["uri"].to_string())
            .collect()
    };
    assert_eq!(uris(&brute[1].1)[0], uris(&right[1].1)[0]);
}
