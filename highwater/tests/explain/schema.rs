//! `highwater.explain/2`, field by field: what docs/reference/explain.md promises to a program that reads it.

use serde_json::Value;

const CAUSES: [&str; 13] = [
    "leak",
    "filling",
    "retention",
    "mapping",
    "stacks",
    "files",
    "sockets",
    "kernel",
    "lazyfree",
    "hugepages",
    "managed",
    "flat",
    "blind",
];
/// Parts that add up to RSS, then those that lie inside of them.
const PARTS: [&str; 9] = [
    "live_heap",
    "allocator_held",
    "fragmentation",
    "thread_stacks",
    "anonymous_mappings",
    "file_maps",
    "shared_memory",
    "probe",
    "unexplained",
];
const OF_WHICH: [&str; 2] = ["lazy_free", "huge_pages"];

/// What is wrong with an explanation, a line each; empty when it is as promised.
pub fn faults(json: &Value) -> Vec<String> {
    let mut faults = Faults::default();
    faults.require(json["schema"] == "highwater.explain/2", "schema", json);
    verdict(&json["verdict"], &mut faults);
    for key in ["rss_bytes", "snapshots", "pid"] {
        faults.require(json[key].is_u64(), key, &json[key]);
    }
    faults.require(is_share(&json["coverage"]), "coverage", &json["coverage"]);
    parts(json, &mut faults);
    rows(json, "sites", &mut faults, site);
    rows(json, "classes", &mut faults, class);
    rows(json, "outside", &mut faults, outside);
    rows(json, "allocators", &mut faults, allocator);
    if !json["probe"].is_null() {
        probe(&json["probe"], &mut faults);
    }
    overhead(&json["overhead"], &mut faults);
    for key in ["notes", "runtimes"] {
        rows(json, key, &mut faults, text);
    }
    faults.0
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn require(&mut self, is_right: bool, what: &str, found: &Value) {
        if !is_right {
            self.0.push(format!("{what}: {found}"));
        }
    }
}

fn outside(held: &Value, faults: &mut Faults) {
    faults.require(is_words(&held["name"]), "outside.name", held);
    let kinds = [
        "unread",
        "unsent",
        "files",
        "unnamed_files",
        "cache",
        "kernel",
    ];
    let is_known = held["kind"]
        .as_str()
        .is_some_and(|kind| kinds.contains(&kind));
    faults.require(is_known, "outside.kind", held);
    faults.require(held["grown_bytes"].is_u64(), "outside.grown_bytes", held);
}

fn class(class: &Value, faults: &mut Faults) {
    faults.require(is_words(&class["name"]), "class.name", class);
    for key in ["objects", "bytes", "grown_objects", "grown_bytes"] {
        faults.require(class[key].is_u64(), key, class);
    }
}

fn is_share(value: &Value) -> bool {
    value
        .as_f64()
        .is_some_and(|share| (0.0..=1.0).contains(&share))
}

fn is_words(value: &Value) -> bool {
    value.as_str().is_some_and(|words| !words.trim().is_empty())
}

fn is_number_or_null(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.is_null()
}

fn text(value: &Value, faults: &mut Faults) {
    faults.require(is_words(value), "a text", value);
}

fn rows(json: &Value, key: &str, faults: &mut Faults, row: impl Fn(&Value, &mut Faults)) {
    match json[key].as_array() {
        Some(all) => all.iter().for_each(|one| row(one, faults)),
        None => faults.require(false, key, &json[key]),
    }
}

fn verdict(verdict: &Value, faults: &mut Faults) {
    let is_cause = verdict["cause"]
        .as_str()
        .is_some_and(|word| CAUSES.contains(&word));
    faults.require(is_cause, "verdict.cause", &verdict["cause"]);
    let confidence = &verdict["confidence"];
    faults.require(is_share(confidence), "verdict.confidence", confidence);
    for key in ["sentence", "next_step"] {
        faults.require(is_words(&verdict[key]), key, &verdict[key]);
    }
}

fn parts(json: &Value, faults: &mut Faults) {
    let named = |part: &Value| part["name"].as_str().unwrap_or_default().to_owned();
    let all = json["parts"].as_array().cloned().unwrap_or_default();
    let (inside, summed): (Vec<_>, Vec<_>) = all.iter().partition(|part| part["of_which"] == true);
    let names: Vec<String> = summed.iter().map(|part| named(part)).collect();
    faults.require(names == PARTS, "parts", &json["parts"]);
    let names: Vec<String> = inside.iter().map(|part| named(part)).collect();
    faults.require(names == OF_WHICH, "parts of which", &json["parts"]);
    for part in &all {
        let slope = &part["slope_bytes_per_hour"];
        faults.require(
            part["bytes"].is_i64() || part["bytes"].is_u64(),
            "bytes of a part",
            part,
        );
        faults.require(is_number_or_null(slope), "slope of a part", part);
    }
}

fn site(site: &Value, faults: &mut Faults) {
    faults.require(is_share(&site["share_of_growth"]), "share_of_growth", site);
    let bytes = |key: &str| site[key].as_i64();
    let (lo, middle, hi) = (
        bytes("outstanding_bytes_lo"),
        bytes("outstanding_bytes"),
        bytes("outstanding_bytes_hi"),
    );
    let is_ordered = lo.is_some() && Some(0) <= lo && lo <= middle && middle <= hi;
    faults.require(is_ordered, "outstanding_bytes", site);
    rows(site, "through", faults, text);
    rows(site, "owns", faults, text);
    let frames = site["frames"].as_array().cloned().unwrap_or_default();
    for frame in &frames {
        faults.require(is_words(&frame["function"]), "function of a frame", frame);
        let file = frame["file"].is_string() || frame["file"].is_null();
        faults.require(
            file && is_number_or_null(&frame["line"]),
            "file and line",
            frame,
        );
    }
}

fn allocator(allocator: &Value, faults: &mut Faults) {
    faults.require(
        is_words(&allocator["name"]),
        "name of an allocator",
        allocator,
    );
    let version = &allocator["version"];
    faults.require(
        version.is_string() || version.is_null(),
        "version",
        allocator,
    );
    let how = allocator["how"].as_str().unwrap_or_default();
    faults.require(
        ["preloaded", "linked", "libc"].contains(&how),
        "how",
        allocator,
    );
    faults.require(allocator["seen"].is_boolean(), "seen", allocator);
}

fn probe(probe: &Value, faults: &mut Faults) {
    for key in ["metadata_bytes", "samples", "dropped"] {
        faults.require(probe[key].is_u64(), key, probe);
    }
}

fn overhead(overhead: &Value, faults: &mut Faults) {
    for key in [
        "subject_memory_bytes",
        "kernel_memory_bytes",
        "breakpoints",
        "own_rss_peak_bytes",
    ] {
        faults.require(overhead[key].is_u64(), key, overhead);
    }
    for key in [
        "observed_s",
        "subject_cpu_s",
        "added_cpu_s",
        "own_cpu_s",
        "budget_share",
    ] {
        let number = overhead[key].as_f64();
        faults.require(number.is_some_and(|number| number >= 0.0), key, overhead);
    }
    rows(overhead, "items", faults, |item, faults| {
        let basis = item["basis"].as_str().unwrap_or_default();
        faults.require(
            ["measured", "estimated", "at most"].contains(&basis),
            "basis",
            item,
        );
        faults.require(
            item["events"].is_u64() && is_words(&item["how"]),
            "item",
            item,
        );
    });
}

#[test]
fn a_fault_is_found() {
    let empty = faults(&Value::Null);
    assert!(empty.len() > 8, "{empty:?}");
    let verdict = serde_json::json!({"verdict": {"cause": "leek", "confidence": 1.5}});
    let found = faults(&verdict).join("; ");
    assert!(found.contains("leek") && found.contains("1.5"), "{found}");
}
