//! The metrics page as a reader takes it: the format's rules, and where it is there, Python's strict reader.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

const STRICT: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(sum(len(family.samples) for family in parse(sys.stdin.read())))";

/// Where `make reader-tests` puts the reader, if this Python has none of its own.
const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python");

/// A page of a program whose threads have names that a label must not break on.
fn page() -> String {
    let names = [
        "other",
        "main",
        "a\"b",
        "back\\slash",
        "worker-1",
        "worker-2",
        "\u{e9}t\u{e9}",
        "7",
    ];
    for name in names {
        let thread = std::thread::Builder::new().name(name.into());
        let work = || {
            let blocks: Vec<Vec<u8>> = (0..4_000).map(|size| vec![1; size]).collect();
            std::hint::black_box(blocks).len()
        };
        assert_eq!(thread.spawn(work).unwrap().join().unwrap(), 4_000);
    }
    let mut page = String::new();
    highwater_alloc::openmetrics(&mut page).unwrap();
    page + "# EOF\n"
}

/// Samples by family: the rest of the name, the labels, the value.
type Families = BTreeMap<String, Vec<(String, String, f64)>>;

fn families(page: &str) -> Families {
    let mut families = Families::new();
    let mut family = String::new();
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap().to_owned();
            let old = families.insert(family.clone(), Vec::new());
            assert!(old.is_none(), "{family} twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let end = name
                .strip_prefix(&family)
                .unwrap_or_else(|| panic!("{line} after {family}"));
            let sample = (
                end.to_owned(),
                labels.to_owned(),
                value.parse::<f64>().unwrap(),
            );
            families.get_mut(&family).unwrap().push(sample);
        }
    }
    families
}

#[test]
fn the_page_keeps_the_rules_of_openmetrics() {
    let page = page();
    for (family, samples) in families(&page) {
        let series: BTreeSet<_> = samples
            .iter()
            .map(|(end, labels, _)| (end, labels))
            .collect();
        assert_eq!(series.len(), samples.len(), "{family} has a series twice");
        let values = |end: &str| -> Vec<f64> {
            let of = samples.iter().filter(|sample| sample.0 == end);
            of.map(|sample| sample.2).collect()
        };
        let buckets = values("_bucket");
        if !buckets.is_empty() {
            assert!(buckets.is_sorted(), "{family}");
            let last = samples.iter().rfind(|sample| sample.0 == "_bucket");
            assert!(last.unwrap().1.contains("+Inf"), "{family}");
            // Either both or none.
            assert_eq!(values("_sum").len(), values("_count").len(), "{family}");
        }
    }
}

#[test]
fn a_histogram_has_the_same_buckets_at_every_snapshot() {
    let bounds = |page: &str| -> Vec<String> {
        let families = families(page);
        let all = families.values().flatten();
        all.filter(|(end, ..)| end == "_bucket")
            .map(|(_, labels, _)| labels.clone())
            .collect()
    };
    let first = bounds(&page());
    assert_eq!(first, bounds(&page()));
    assert!(first.len() > 40 || !cfg!(feature = "meter"));
}

#[test]
fn python_s_strict_reader_takes_the_page() {
    let python = Command::new("python3")
        .args(["-c", STRICT])
        .env("PYTHONPATH", READER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        return skipped("no python3");
    };
    let page = page();
    let written = python.stdin.take().unwrap().write_all(page.as_bytes());
    let done = python.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    if words.contains("No module named") {
        return skipped("no prometheus_client for python3");
    }
    assert!(written.is_ok() && done.status.success(), "{words}\n{page}");
    let lines = page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(
        String::from_utf8_lossy(&done.stdout).trim(),
        lines.to_string()
    );
}

fn skipped(why: &str) {
    let line = format!("\nSKIPPED the page under a strict reader: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
