//! The arms as CSV: one row per arm, one header row, every number with its unit in the column's
//! name.
//!
//! A text that a spreadsheet would take for a formula begins with an apostrophe; control characters
//! are spelled.

mod tables;

use super::Report;
use super::json;
use super::visible::visible;

pub use tables::{diagnostics, events, groups};

/// Columns of the table; the names are those of `highwater.run/2`.
const COLUMNS: &[&str] = &[
    "arm",
    "is_control",
    "allocator",
    "label",
    "confidence_probability",
    "rss_bytes",
    "rss_lo_bytes",
    "rss_hi_bytes",
    "slope_bytes_per_hour",
    "slope_lo_bytes_per_hour",
    "slope_hi_bytes_per_hour",
    "rss_peak_bytes",
    "cpu_user_cores",
    "cpu_system_cores",
    "minor_faults_per_second",
    "major_faults_per_second",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
    "pauses_per_minute",
    "requests_per_second",
    "errors_count",
    "dropped_count",
    "lazy_free_share",
    "huge_pages_share",
    "started_count",
    "crashed_count",
    "restarted_count",
    "aborted",
    "defects",
    "protections",
];

/// The table.
pub fn render(report: &Report) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let value = json::value(report);
    let arms = value["arms"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    // Writing into memory cannot fail, and every record has as many fields as the header.
    let _ = writer.write_record(COLUMNS);
    for arm in arms {
        let _ = writer.write_record(COLUMNS.iter().map(|column| field(&arm[*column])));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn field(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => harmless(text),
        serde_json::Value::Array(texts) => {
            let texts: Vec<&str> = texts.iter().filter_map(|text| text.as_str()).collect();
            harmless(&texts.join("; "))
        }
        other => other.to_string(),
    }
}

/// Text that no spreadsheet evaluates.
fn harmless(text: &str) -> String {
    let text = visible(text);
    match text.trim_start().starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn formulas_become_text() {
        let cases = [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" -2", "' -2"),
            ("\t=1", "\\t=1"),
            ("glibc-2.36", "glibc-2.36"),
        ];
        for (text, expected) in cases {
            assert_eq!(harmless(text), expected);
        }
    }
}
