//! What an observation cost its subject: the same lines, and the same JSON, for `explain` and `stalls`.

use std::fmt::Write;

use serde_json::{Value, json};

use heap::probe::SAMPLES_SHARE_MIN;
use observe::overhead::{Basis, KERNEL_BYTES_MAX, Overhead, StopCause, Stopped, Times, share_of};
use units::written::{bytes, nanoseconds};

/// Lines that end with a newline each.
pub fn text(overhead: &Overhead, columns: usize) -> String {
    let mut out = String::from("what this cost the subject:\n");
    line(&mut out, "CPU", &cpu(overhead), columns);
    for item in &overhead.items {
        let words = format!(
            "{} ({}): {}, {} {}; {}",
            item.name,
            item.basis.word(),
            cpu_time(item.cpu_s, item.cpu_s_between),
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
    line(&mut out, "memory", &memory(overhead), columns);
    line(&mut out, "stopped", &stops(overhead), columns);
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
            true => "nothing runs in it, and no breakpoint is in it".to_owned(),
            false => "not measured".to_owned(),
        };
    }
    let between = overhead.added_between_s();
    // "At most" says that the least is nothing.
    let (cpu_s, between) = match overhead.basis() {
        Basis::AtMost => (between.1, None),
        _ => (
            overhead.added_s(),
            Some(between).filter(|(least, most)| least < most),
        ),
    };
    let (added, basis) = (cpu_time(cpu_s, between), overhead.basis().word());
    let used_s = overhead.subject_cpu_s;
    match overhead.added_share() {
        // As a share of next to nothing it alarms and says nothing: the budget is in shares of a core.
        more if more > 1.0 => format!("{added} ({basis}); it used {used_s:.2} s itself"),
        share_of => format!(
            "{added} ({basis}), {} of the {used_s:.2} s that it used",
            share(share_of)
        ),
    }
}

/// "5.0 ms", or "3.0 ms to 7.5 ms" where the error of an estimate is known.
fn cpu_time(cpu_s: f64, between_s: Option<(f64, f64)>) -> String {
    match between_s {
        Some((least_s, most_s)) => format!(
            "{} to {}",
            nanoseconds(least_s * 1e9),
            nanoseconds(most_s * 1e9)
        ),
        None => nanoseconds(cpu_s * 1e9),
    }
}

/// A budget may be far below a percent.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if percent >= 0.01 || percent == 0.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.6} %"),
    }
}

fn memory(overhead: &Overhead) -> String {
    let process = bytes(overhead.subject_bytes as f64);
    let process = match overhead.subject_bytes_max {
        Some(most) => format!(
            "{process} in the process, with a mapping of {} at most",
            bytes(most as f64)
        ),
        None => format!("{process} in the process"),
    };
    format!(
        "{process}; {} of the kernel's, of {} at most (measured)",
        bytes(overhead.kernel_bytes as f64),
        bytes(KERNEL_BYTES_MAX as f64)
    )
}

/// highwater stops no process: its runtime does, where that is allowed. What the kernel does may make one wait.
fn stops(overhead: &Overhead) -> String {
    let longest = |times: Times| nanoseconds(times.longest_ns as f64);
    let pauses = overhead.pauses;
    let mut words = vec![match pauses.count {
        0 => "by nothing".to_owned(),
        count => format!(
            "{count} times by its runtime, which was asked what is in its heap (--allow-pause): {} in all, {} at the \
             longest (measured)",
            nanoseconds(pauses.total_ns as f64),
            longest(pauses)
        ),
    }];
    let readings = overhead.map_readings;
    if readings.count > 0 {
        words.push(format!(
            "its memory map was read {} times, {} at the longest, and while it is read an mmap of it may wait \
             (measured)",
            readings.count,
            longest(readings)
        ));
    }
    let changes = overhead.breakpoint_changes;
    if changes.count > 0 {
        words.push(format!(
            "breakpoints were put in or taken out by {} calls, {} at the longest, and in a part of each an mmap, a \
             page fault or a fork of it may wait (measured)",
            changes.count,
            longest(changes)
        ));
    }
    words.join("; ")
}

fn breakpoints(overhead: &Overhead) -> String {
    match overhead.breakpoints {
        0 => "none".to_owned(),
        count => format!("{count} instructions, all restored when highwater ends"),
    }
}

fn budget(overhead: &Overhead) -> String {
    let allowed = share(overhead.budget_share);
    match &overhead.stopped[..] {
        [] if is_probed(overhead) => format!(
            "{allowed} of its CPU time, or {} of one core where that is more; over it the probe samples less, and \
             where that is not enough switches itself off",
            share(SAMPLES_SHARE_MIN)
        ),
        [] if overhead.items.is_empty() && !overhead.unmeasured.is_empty() => {
            "none, for what it costs is not measured".to_owned()
        }
        [] => format!(
            "{allowed} of its CPU time, or of one core where that is more; {} used",
            share(share_of(
                overhead.added_s(),
                overhead.subject_cpu_s,
                overhead.observed_s
            ))
        ),
        stopped => {
            let words = stopped
                .iter()
                .map(|stopped| stopped_words(stopped, &allowed));
            words.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The preloaded probe holds itself against the program's own CPU time.
fn is_probed(overhead: &Overhead) -> bool {
    overhead.items.iter().any(|item| item.name == "counting")
}

fn stopped_words(stopped: &Stopped, allowed: &str) -> String {
    if stopped.cause == StopCause::HoldersEnded {
        return format!(
            "{} stopped after {:.1} s: another program ended a process hw-breakpoints, which held them; the answer is \
             from what was seen until then",
            stopped.mechanism, stopped.after_s
        );
    }
    format!(
        "{} stopped after {:.1} s: it cost {}, most of it by {}, and the budget is {allowed}; the answer is from what \
         was seen until then",
        stopped.mechanism,
        stopped.after_s,
        share(stopped.cost_share),
        stopped.mostly
    )
}

fn stopped_json(stopped: &Stopped) -> Value {
    let cause = match stopped.cause {
        StopCause::OverBudget => "over-budget",
        StopCause::HoldersEnded => "holders-ended",
    };
    json!({"mechanism": stopped.mechanism, "cause": cause, "after_s": stopped.after_s,
        "cost_share": stopped.cost_share, "mostly": stopped.mostly})
}

/// Units stand in the names.
pub fn json(overhead: &Overhead) -> Value {
    let items = overhead.items.iter().map(|item| {
        let (least_s, most_s) = item.between_s();
        json!({"name": item.name, "cpu_s": item.cpu_s, "cpu_s_min": least_s, "cpu_s_max": most_s,
            "basis": item.basis.word(),
            "events": item.events, "of": item.of, "how": item.how})
    });
    json!({
        "observed_s": overhead.observed_s,
        "subject_cpu_s": overhead.subject_cpu_s,
        "added_cpu_s": overhead.added_s(),
        "added_cpu_s_min": overhead.added_between_s().0,
        "added_cpu_s_max": overhead.added_between_s().1,
        "added_cpu_share": overhead.added_share(),
        "basis": overhead.basis().word(),
        "items": items.collect::<Vec<_>>(),
        "unmeasured": overhead.unmeasured,
        "subject_memory_bytes": overhead.subject_bytes,
        "subject_memory_bytes_max": overhead.subject_bytes_max,
        "kernel_memory_bytes": overhead.kernel_bytes,
        "kernel_memory_bytes_max": KERNEL_BYTES_MAX,
        "breakpoints": overhead.breakpoints,
        "map_readings": times(overhead.map_readings),
        "breakpoint_changes": times(overhead.breakpoint_changes),
        "pauses": times(overhead.pauses),
        "own_cpu_s": overhead.own_cpu_s,
        "own_rss_peak_bytes": overhead.own_rss_peak_bytes,
        "budget_share": overhead.budget_share,
        "stopped": overhead.stopped.last().map(stopped_json),
        "stopped_before": overhead.stopped.iter().rev().skip(1).rev().map(stopped_json).collect::<Vec<_>>(),
    })
}

fn times(times: Times) -> Value {
    json!({"count": times.count, "total_ns": times.total_ns, "longest_ns": times.longest_ns})
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::overhead::Item;

    #[test]
    fn what_may_make_it_wait_is_said_with_its_longest_time() {
        let mut overhead = Overhead::default();
        assert!(text(&overhead, 200).contains("stopped     by nothing\n"));
        overhead.map_readings.add(2_000_000);
        overhead.breakpoint_changes.add(30_000_000);
        let text = text(&overhead, 400);
        for words in ["read 1 times, 2.00 ms", "by 1 calls, 30.0 ms"] {
            assert!(text.contains(words), "{text}");
        }
        let json = json(&overhead);
        assert_eq!(json["breakpoint_changes"]["longest_ns"], 30_000_000);
        assert!(
            json.get("stopped_ns").is_none(),
            "no constant beside measurements"
        );
    }

    #[test]
    fn a_runtime_that_stopped_the_program_is_said() {
        let mut overhead = Overhead::default();
        overhead.pauses.add(400_000_000);
        overhead.pauses.add(100_000_000);
        let text = text(&overhead, 400);
        assert!(text.contains("2 times by its runtime"), "{text}");
        assert!(text.contains("500 ms in all, 400 ms"), "{text}");
        assert!(!text.contains("by nothing"), "{text}");
    }

    #[test]
    fn a_cost_that_nobody_measured_is_not_said_to_be_none() {
        let overhead = Overhead {
            unmeasured: vec!["samples of the CPU clock"],
            breakpoints: 2,
            budget_share: 0.05,
            ..Overhead::default()
        };
        let text = text(&overhead, 200);
        for words in [
            "not measured: samples of the CPU clock",
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
                cpu_s_between: Some((0.125, 0.375)),
                basis: Basis::Estimated,
                events: 7,
                of: "hits",
                how: "tried".into(),
            }],
            budget_share: 0.000_001,
            stopped: vec![Stopped {
                mechanism: "uprobes",
                cause: StopCause::OverBudget,
                after_s: 2.0,
                cost_share: 0.25,
                mostly: "uprobes",
            }],
            ..Overhead::default()
        };
        let text = text(&overhead, 200);
        assert!(
            text.contains(
                "uprobes stopped after 2.0 s: it cost 25.00 %, most of it by uprobes, and"
            ),
            "{text}"
        );
        assert!(
            text.contains("125 ms to 375 ms (estimated), 25.00 % of the 1.00 s"),
            "{text}"
        );
        assert_eq!(json(&overhead)["items"][0]["events"], 7);
    }
}
