//! What an observation cost its subject: the same lines, and the same JSON, for `explain` and `stalls`.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::observe::overhead::{Overhead, Stopped, share_of};
use crate::units::written::{bytes, nanoseconds};

/// Lines that end with a newline each.
pub fn text(overhead: &Overhead, columns: usize) -> String {
    let mut out = String::from("what this cost the subject:\n");
    line(&mut out, "CPU", &cpu(overhead), columns);
    for item in &overhead.items {
        let words = format!(
            "{} ({}): {}, {} {}; {}",
            item.name,
            item.basis.word(),
            nanoseconds(item.cpu_s * 1e9),
            item.events,
            item.of,
            item.how
        );
        line(&mut out, "", &words, columns);
    }
    if !overhead.unmeasured.is_empty() {
        let words = format!("not measured: {}", overhead.unmeasured.join("; "));
        line(&mut out, "", &words, columns);
    }
    let memory = format!(
        "{} in the process, {} of the kernel's (measured)",
        bytes(overhead.subject_bytes as f64),
        bytes(overhead.kernel_bytes as f64)
    );
    line(&mut out, "memory", &memory, columns);
    line(&mut out, "stopped", &paused(overhead), columns);
    line(&mut out, "breakpoints", &breakpoints(overhead), columns);
    line(&mut out, "budget", &budget(overhead), columns);
    let own = format!(
        "{:.2} s of CPU, {} resident at most (measured)",
        overhead.own_cpu_s,
        bytes(overhead.own_rss_peak_bytes as f64)
    );
    line(&mut out, "highwater", &own, columns);
    out
}

fn line(out: &mut String, name: &str, words: &str, columns: usize) {
    let lead = format!("  {name:<12}");
    let options = textwrap::Options::new(columns)
        .initial_indent(&lead)
        .subsequent_indent("              ");
    let _ = writeln!(out, "{}", textwrap::fill(words, options));
}

fn cpu(overhead: &Overhead) -> String {
    if overhead.items.is_empty() {
        return match overhead.unmeasured.is_empty() {
            true => "nothing runs in it, and nothing traps it".to_owned(),
            false => "not measured".to_owned(),
        };
    }
    format!(
        "{} ({}), {} of the {:.2} s that it used",
        nanoseconds(overhead.added_s() * 1e9),
        overhead.basis().word(),
        share(overhead.added_share()),
        overhead.subject_cpu_s
    )
}

/// A budget may be far below a percent.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if percent >= 0.01 || percent == 0.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.6} %"),
    }
}

fn paused(overhead: &Overhead) -> String {
    let readings = overhead.map_readings;
    match readings.count {
        0 => "never".to_owned(),
        count => format!(
            "never; its memory map was read {count} times, {} at the longest, and while it is read an mmap of it \
             may wait (measured)",
            nanoseconds(readings.longest_ns as f64)
        ),
    }
}

fn breakpoints(overhead: &Overhead) -> String {
    match overhead.breakpoints {
        0 => "none".to_owned(),
        count => format!("{count} instructions, all restored when highwater ends"),
    }
}

fn budget(overhead: &Overhead) -> String {
    let allowed = share(overhead.budget_share);
    match &overhead.stopped {
        None if is_probed(overhead) => format!(
            "{allowed} of its CPU time; after ten seconds in a row over it the probe switches itself off"
        ),
        None if overhead.items.is_empty() && !overhead.unmeasured.is_empty() => {
            "none, for what it costs is not measured".to_owned()
        }
        None => format!(
            "{allowed} of its CPU time, or of one core where that is more; {} used",
            share(share_of(
                overhead.added_s(),
                overhead.subject_cpu_s,
                overhead.observed_s
            ))
        ),
        Some(stopped) => stopped_words(stopped, &allowed),
    }
}

/// The preloaded probe holds itself against the program's own CPU time.
fn is_probed(overhead: &Overhead) -> bool {
    overhead.items.iter().any(|item| item.name == "counting")
}

fn stopped_words(stopped: &Stopped, allowed: &str) -> String {
    format!(
        "{} stopped after {:.1} s: it cost {}, the budget is {allowed}; the answer is from what was seen until then",
        stopped.mechanism,
        stopped.after_s,
        share(stopped.cost_share)
    )
}

/// Units stand in the names.
pub fn json(overhead: &Overhead) -> Value {
    let items = overhead.items.iter().map(|item| {
        json!({"name": item.name, "cpu_s": item.cpu_s, "basis": item.basis.word(),
            "events": item.events, "of": item.of, "how": item.how})
    });
    let readings = overhead.map_readings;
    json!({
        "observed_s": overhead.observed_s,
        "subject_cpu_s": overhead.subject_cpu_s,
        "added_cpu_s": overhead.added_s(),
        "added_cpu_share": overhead.added_share(),
        "basis": overhead.basis().word(),
        "items": items.collect::<Vec<_>>(),
        "unmeasured": overhead.unmeasured,
        "subject_memory_bytes": overhead.subject_bytes,
        "kernel_memory_bytes": overhead.kernel_bytes,
        "stopped_ns": 0,
        "breakpoints": overhead.breakpoints,
        "map_readings": {"count": readings.count, "total_ns": readings.total_ns,
            "longest_ns": readings.longest_ns},
        "own_cpu_s": overhead.own_cpu_s,
        "own_rss_peak_bytes": overhead.own_rss_peak_bytes,
        "budget_share": overhead.budget_share,
        "stopped": overhead.stopped.as_ref().map(|stopped| json!({
            "mechanism": stopped.mechanism, "after_s": stopped.after_s,
            "cost_share": stopped.cost_share})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::overhead::{Basis, Item};

    #[test]
    fn a_cost_that_nobody_measured_is_not_said_to_be_none() {
        let overhead = Overhead {
            unmeasured: vec!["breakpoints of --span"],
            breakpoints: 2,
            budget_share: 0.05,
            ..Overhead::default()
        };
        let text = text(&overhead, 200);
        for words in [
            "not measured: breakpoints of --span",
            "2 instructions",
            "none, for what it costs",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("nothing traps it"), "{text}");
    }

    #[test]
    fn a_stop_over_the_budget_is_said_with_both_numbers() {
        let overhead = Overhead {
            subject_cpu_s: 1.0,
            items: vec![Item {
                name: "uprobes",
                cpu_s: 0.25,
                basis: Basis::Estimated,
                events: 7,
                of: "hits",
                how: "tried".into(),
            }],
            budget_share: 0.000_001,
            stopped: Some(Stopped {
                mechanism: "uprobes",
                after_s: 2.0,
                cost_share: 0.25,
            }),
            ..Overhead::default()
        };
        let text = text(&overhead, 200);
        assert!(
            text.contains("uprobes stopped after 2.0 s: it cost 25.00 %, the budget is 0.000100 %"),
            "{text}"
        );
        assert!(text.contains("25.00 % of the 1.00 s"), "{text}");
        assert_eq!(json(&overhead)["items"][0]["events"], 7);
    }
}
