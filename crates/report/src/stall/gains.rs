//! What a fix would buy, for a terminal and in JSON.

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};

use memory::brief::brief;
use stalls::gain::{Between, Gains, Latency};
use stalls::naming::NamedFinding;
use units::written::nanoseconds;

/// The rows, and those that one fix would end.
type Fixes<'a> = (&'a [NamedFinding], &'a [Vec<usize>]);

pub fn text(gains: &Gains, (rows, fixes): Fixes, columns: usize) -> String {
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
    for (fix, between) in fixes.iter().zip(&gains.without) {
        table.add_row(cells(rows, fix, between, now));
    }
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nWhat a fix would buy: {} requests with one cause taken out of their time.\n{table}",
        gains.requests
    );
    let note = "95 % intervals, from \"no request waits any more\" to \"what the holder did is done elsewhere too\". \
                Predicted from this watch: other waits may grow as requests come faster.";
    let options = textwrap::Options::new(columns)
        .initial_indent("  ")
        .subsequent_indent("  ");
    let _ = writeln!(out, "{}", textwrap::fill(note, options));
    out
}

fn causes(rows: &[NamedFinding], fix: &[usize]) -> Vec<&'static str> {
    let mut words: Vec<&str> = fix.iter().map(|row| rows[*row].cause.word()).collect();
    words.dedup();
    words
}

fn cells(rows: &[NamedFinding], fix: &[usize], between: &Between, now: &Latency) -> [String; 5] {
    let function = rows[fix[0]].culprit.function.as_deref();
    let cause = causes(rows, fix).join(", ");
    let named = function.map_or(cause.clone(), |name| format!("{cause} ({})", brief(name)));
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

pub fn json(gains: &Gains, (rows, fixes): Fixes) -> Value {
    let latency = |of: &Latency| {
        json!({
            "p50_ns": of.p50_ns,
            "p99_ns": of.p99_ns,
            "p999_ns": of.p999_ns,
            "mean_ns": of.mean_ns,
        })
    };
    let without = fixes.iter().zip(&gains.without).map(|(fix, between)| {
        json!({
            "causes": causes(rows, fix),
            "rows": fix,
            "function": rows[fix[0]].culprit.function,
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

#[cfg(test)]
mod tests {
    use super::*;
    use stalls::cause::Cause;
    use stalls::naming::NamedCulprit;

    fn row(cause: Cause, function: &str, activity: &str) -> NamedFinding {
        NamedFinding {
            cause,
            count: 1,
            threads: 1,
            longest_ns: 1,
            total_ns: 1,
            period_ns: None,
            episodes: 1,
            agreeing: 1,
            open: false,
            inferred: false,
            culprit: NamedCulprit {
                function: Some(function.into()),
                activity: activity.into(),
                ..NamedCulprit::default()
            },
            chain: Vec::new(),
            ran_instead: Vec::new(),
            waiters: Vec::new(),
            stalled: Vec::new(),
        }
    }

    fn latency(ms: f64) -> Latency {
        Latency {
            p50_ns: ms * 1e5,
            p99_ns: ms * 1e6,
            p999_ns: None,
            mean_ns: ms * 2e5,
        }
    }

    #[test]
    fn rows_of_one_fix_are_one_line() {
        let post = "network read from 127.0.0.1:4318";
        let rows = [
            row(Cause::Lock, "on_end", post),
            row(Cause::CpuStarvation, "", ""),
            row(Cause::Network, "send", post),
        ];
        let fixes = [vec![0, 2], vec![1]];
        let same = Between {
            low: latency(250.0),
            high: latency(250.0),
        };
        let less = Between {
            low: latency(3.0),
            high: latency(12.0),
        };
        let gains = Gains {
            requests: 400,
            now: latency(250.0),
            without: vec![less, same],
        };
        let words = text(&gains, (&rows, &fixes), 120);
        assert!(words.contains("lock, network (on_end)"), "{words}");
        assert!(words.contains("3.00 to 12.0 ms"), "{words}");
        assert!(words.contains("up to 83.33 times"), "{words}");
        assert!(words.contains("the same"), "{words}");
        let value = json(&gains, (&rows, &fixes));
        assert_eq!(value["without"][0]["causes"], json!(["lock", "network"]));
        assert_eq!(value["without"][0]["rows"], json!([0, 2]));
        assert_eq!(value["without"][0]["high"]["p99_ns"], 12e6);
        assert!(value["now"]["p999_ns"].is_null());
    }
}
