//! Parts of the arms' heaps beside each other: the same columns for the terminal, the page and Markdown.

use serde_json::{Value, json};

use super::column::Column;
use series::estimate::Estimate;
use units::written;
use units::written::ByteScale;
use verdict::run::heap::{ArmHeap, HeapCause, HeapPart};
use verdict::run::{ArmRow, RunVerdict};

/// What is said above the columns.
pub const TITLE: &str = "What the heap holds, by the probe";
/// What is said above them on the page.
pub const CAPTION: &str = "Per process: bytes allocated by the program, free in whole pages (held), and free \
                           between live blocks (fragmentation), and their growth.";
/// The column of words among numbers.
pub const CAUSE: &str = "Cause";

fn parts(heap: &ArmHeap) -> [(&'static str, &HeapPart); 3] {
    [
        ("Live", &heap.live),
        ("Held", &heap.held),
        ("Fragmentation", &heap.fragmentation),
    ]
}

/// One arm's heap; none when no arm had a probe.
pub fn columns(verdict: &RunVerdict, row: &ArmRow) -> Vec<Column> {
    let read = || verdict.arms.iter().filter_map(|arm| arm.heap.as_ref());
    let Some(names) = read().next().map(parts) else {
        return Vec::new();
    };
    let own = row.heap.as_ref().map(parts);
    let all = || read().flat_map(parts).map(|(_, part)| part);
    // One unit for all parts: they are read beside each other.
    let scale = |of: fn(&HeapPart) -> Option<Estimate>| {
        ByteScale::of_column(all().filter_map(of).map(|estimate| estimate.value.abs()))
    };
    let level = scale(|part| part.level);
    let slope = scale(|part| part.slope_per_hour);
    let mut columns = Vec::new();
    for (at, (name, _)) in names.iter().enumerate() {
        let part = own.map(|parts| parts[at].1);
        let size = part.and_then(|part| part.level);
        let growth = part.and_then(|part| part.slope_per_hour);
        let title = format!("{name} {}", level.word);
        columns.push(Column::estimate(&title, size, level.bytes, written::digits));
        let title = format!("{name} {}/h", slope.word);
        columns.push(Column::estimate(
            &title,
            growth,
            slope.bytes,
            written::signed,
        ));
    }
    columns
}

/// The same with the causes, for where words wrap.
pub fn columns_and_causes(verdict: &RunVerdict, row: &ArmRow) -> Vec<Column> {
    let mut columns = columns(verdict, row);
    if !columns.is_empty() {
        columns.insert(0, Column::plain(CAUSE, causes(row)));
    }
    columns
}

/// "leak at parse_header (2 of 2)": by how many of the arm's processes.
pub fn causes(row: &ArmRow) -> Option<String> {
    let causes = &row.heap.as_ref()?.causes;
    let words: Vec<String> = causes.iter().map(|cause| words(cause, row)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn words(cause: &HeapCause, row: &ArmRow) -> String {
    let place = cause.place.as_ref();
    let place = place
        .map(|place| format!(" at {place}"))
        .unwrap_or_default();
    format!(
        "{}{place} ({} of {})",
        cause.cause, cause.processes, row.started
    )
}

/// What the probe itself takes of each process; empty without one.
pub fn cost(verdict: &RunVerdict) -> String {
    let heaps = verdict.arms.iter().filter_map(|row| row.heap.as_ref());
    match heaps.filter_map(|heap| heap.probe_bytes).reduce(f64::max) {
        None => String::new(),
        Some(bytes) => format!(
            " The heap probe is in every RSS, with at most {}.",
            written::bytes(bytes)
        ),
    }
}

pub fn json(heap: &ArmHeap) -> Value {
    let part = |part: &HeapPart| {
        json!({
            "label": part.label.word(),
            "level_bytes": part.level,
            "slope_bytes_per_hour": part.slope_per_hour,
        })
    };
    json!({
        "live_heap": part(&heap.live),
        "allocator_held": part(&heap.held),
        "fragmentation": part(&heap.fragmentation),
        "probe_bytes": heap.probe_bytes,
        "causes": heap.causes,
    })
}
