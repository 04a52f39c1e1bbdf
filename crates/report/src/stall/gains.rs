//! What a fix would buy, for a terminal and in JSON.

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};

use memory::brief::brief;
use stalls::gain::{Between, Gains, Latency};
use stalls::naming::NamedFinding;
use units::written::nanoseconds;

pub fn text(gains: &Gains, rows: &[NamedFinding], columns: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(columns).unwrap_or(u16::MAX))
        .set_header(["without", "p50", "p99", "p99.9", "requests/s"]);
    let now = &gains.now;
    let as_it_is = [now.p50_ns, now.p99_ns].map(nanoseconds);
    let [p50, p99] = as_it_is;
    let p999 = now.p999_ns.map_or(String::new(), nanoseconds);
    table.add_row(["nothing: as it is".into(), p50, p99, p999, String::new()]);
    for (row, between) in rows.iter().zip(&gains.without) {
        table.add_row(cells(row, between, now));
    }
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nWhat a fix would buy: {} requests with one cause taken out of their time.\n{table}",
        gains.requests
    );
    let note = "95 % intervals, from \"nobody waits any more\" to \"what the holder did is done elsewhere too\". \
                Predicted from this watch: other waits may grow as requests come faster.";
    let options = textwrap::Options::new(columns)
        .initial_indent("  ")
        .subsequent_indent("  ");
    let _ = writeln!(out, "{}", textwrap::fill(note, options));
    out
}

fn cells(row: &NamedFinding, between: &Between, now: &Latency) -> [String; 5] {
    let function = row.culprit.function.as_deref();
    let cause = row.cause.word();
    let named = function.map_or(cause.to_owned(), |name| {
        format!("{cause} ({})", brief(name))
    });
    let range = |of: &dyn Fn(&Latency) -> f64| span(of(&between.low), of(&between.high));
    let p999 = between.low.p999_ns.zip(between.high.p999_ns);
    let most = between.throughput_most(now);
    [
        named,
        range(&|latency| latency.p50_ns),
        range(&|latency| latency.p99_ns),
        p999.map_or(String::new(), |(low, high)| span(low, high)),
        match most < 1.005 {
            true => "the same".to_owned(),
            false => format!("up to {most:.2} times"),
        },
    ]
}

/// "3.41 to 12.0 ms".
fn span(low: f64, high: f64) -> String {
    let (low, high) = (nanoseconds(low), nanoseconds(high));
    if low == high {
        return low;
    }
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

pub fn json(gains: &Gains, rows: &[NamedFinding]) -> Value {
    let latency = |of: &Latency| {
        json!({
            "p50_ns": of.p50_ns,
            "p99_ns": of.p99_ns,
            "p999_ns": of.p999_ns,
            "mean_ns": of.mean_ns,
        })
    };
    let without = rows.iter().zip(&gains.without).map(|(row, between)| {
        json!({
            "cause": row.cause.word(),
            "function": row.culprit.function,
            "low": latency(&between.low),
            "high": latency(&between.high),
            "throughput_most": between.throughput_most(&gains.now),
        })
    });
    json!({
        "requests": gains.requests,
        "now": latency(&gains.now),
        "without": without.collect::<Vec<_>>(),
    })
}
