//! Findings for a terminal: a line as each ends, then the table.

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table};

use super::SelfChecks;
use super::requests::{Requests, Slow};
use crate::wrapped::wrapped;
use memory::brief::brief;
use stalls::cause::Cause;
use stalls::group::{ON_CPU_LEAST_NS, ON_CPU_TIMES};
use stalls::naming::{NamedCulprit, NamedFinding};
use stalls::request::TIMES_MEDIAN;
use units::written::{counted, nanoseconds};

const HEADER: [&str; 6] = ["cause", "stalls", "threads", "longest", "total", "every"];
/// From here on there is room for the culprit beside the numbers.
const NARROW: usize = 100;
/// One or two slow requests may be anything's.
const UNEXPLAINED_MIN: usize = 3;

/// One line for stalls that just ended: "  12.3 s  lock  1.48 s  8 threads  exporter in ...".
pub fn line(since_start_ns: u64, row: &NamedFinding) -> String {
    let threads = counted(row.threads as u64, "thread", "threads");
    let open = if row.open { " (ongoing)" } else { "" };
    format!(
        "{:>7.1} s  {:<14} {:>9}  {threads:<10}  {}{open}",
        since_start_ns as f64 / 1e9,
        row.cause.word(),
        nanoseconds(row.longest_ns as f64),
        culprit(row),
    )
}

/// `requests`: what is known of them.
pub fn summary(
    rows: &[NamedFinding],
    mode: &str,
    checks: &SelfChecks,
    requests: Option<&Requests>,
    width: usize,
) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        let seconds = checks.watched_ns as f64 / 1e9;
        let threads = counted(checks.threads as u64, "thread", "threads");
        let _ = writeln!(
            text,
            "No stalls in {seconds:.0} s of {threads} (mode {mode})."
        );
        text.push_str(&requests.map(unexplained).unwrap_or_default());
    } else {
        match width < NARROW {
            true => narrow_table(&mut text, rows, width),
            false => wide_table(&mut text, rows, width),
        }
        for row in rows {
            details(&mut text, row, width);
        }
    }
    footer(&mut text, mode, checks, width);
    text
}

fn wide_table(text: &mut String, rows: &[NamedFinding], width: usize) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(HEADER.into_iter().chain(["culprit"]));
    for row in rows {
        table.add_row(cells(row).into_iter().chain([culprit(row)]));
    }
    let _ = writeln!(text, "{table}");
}

/// The culprit below its numbers: a column beside them would be a word wide.
fn narrow_table(text: &mut String, rows: &[NamedFinding], width: usize) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(HEADER);
    for row in rows {
        table.add_row(cells(row));
    }
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let _ = writeln!(text, "{}", header.trim_end());
    for (line, row) in lines.zip(rows) {
        let words = wrapped(&format!("    {}", culprit(row)), width, "      ");
        let _ = writeln!(text, "{}\n{words}", line.trim_end());
    }
}

/// Slow requests without a row are said at once: "no stalls" alone would deny them. Where all are slow, none is slower
/// than the others.
fn unexplained(requests: &Requests) -> String {
    let usual = requests.usual.as_ref();
    let usual = usual.filter(|usual| usual.median_ns >= ON_CPU_LEAST_NS);
    let usual_ns = requests.slow_from_ns / TIMES_MEDIAN;
    let least_ns = usual_ns.saturating_mul(ON_CPU_TIMES).max(ON_CPU_LEAST_NS);
    let is_slow = |slow: &&Slow| slow.ns >= least_ns;
    match requests.slow.iter().filter(is_slow).count() {
        count if count < UNEXPLAINED_MIN => {
            usual.map_or(String::new(), |usual| format!("{}\n", usual.sentence()))
        }
        count => format!(
            "But {count} requests took {} or more. Below is where their time went.\n",
            nanoseconds(least_ns as f64)
        ),
    }
}

fn cells(row: &NamedFinding) -> [String; 6] {
    let every = row.period_ns.map_or(String::new(), |period| {
        format!("{} (n={})", nanoseconds(period as f64), row.episodes)
    });
    let open = if row.open { " (ongoing)" } else { "" };
    [
        format!("{}{open}", row.cause.word()),
        row.count.to_string(),
        row.threads.to_string(),
        nanoseconds(row.longest_ns as f64),
        nanoseconds(row.total_ns as f64),
        every,
    ]
}

/// "exporter in export_batch: network read from 127.0.0.1:4318"
fn culprit(row: &NamedFinding) -> String {
    let culprit = &row.culprit;
    // Who ran instead is in the words of what was done.
    let mut words = match row.cause {
        Cause::CpuStarvation => String::new(),
        _ => culprit.thread.clone(),
    };
    if let Some(function) = &culprit.function {
        let lead = if words.is_empty() { "" } else { " in " };
        let _ = write!(words, "{lead}{}", brief(function));
        if !culprit.callers.is_empty() {
            let _ = write!(words, ", called by {}", callers(&culprit.callers));
        }
    }
    if !culprit.activity.is_empty() {
        let lead = if words.is_empty() { "" } else { ": " };
        let _ = write!(words, "{lead}{}", activity(culprit));
    }
    if row.inferred {
        let _ = write!(
            words,
            " (inferred, {} of {} episodes)",
            row.agreeing, row.episodes
        );
    }
    match (words.is_empty(), row.cause) {
        (true, Cause::Lock) => {
            "holder not seen: none of the threads (an async task keeps a lock over its waits)"
                .into()
        }
        (true, _) => "not seen".into(),
        (false, _) => words,
    }
}

/// What was done; a function that stands before it is not said again.
fn activity(culprit: &NamedCulprit) -> String {
    match culprit.activity.strip_prefix("on CPU in ") {
        Some(name) if Some(name) == culprit.function.as_deref() => "on CPU".to_owned(),
        Some(name) => format!("on CPU in {}", brief(name)),
        None => culprit.activity.clone(),
    }
}

/// The nearest and the program's own.
fn callers(all: &[String]) -> String {
    let outer = all.last().filter(|_| all.len() > 1);
    let shown = all.first().into_iter().chain(outer);
    shown
        .map(|name| brief(name))
        .collect::<Vec<_>>()
        .join(" < ")
}

/// Frames of a stack that are shown; all are in the JSON.
const FRAMES_SHOWN: usize = 12;

fn stack_line(stack: &[String], marked: Option<&str>) -> String {
    let names = |frames: &[String]| frames.iter().map(|name| brief(name)).collect::<Vec<_>>();
    // Up to the function that the row names and its caller, where they are further out.
    let marked = stack.iter().position(|name| Some(name.as_str()) == marked);
    let (mut shown, mut left) = (names(&stack[..stack.len().min(FRAMES_SHOWN)]), stack.len());
    left -= shown.len();
    if let Some(at) = marked.filter(|at| *at >= FRAMES_SHOWN) {
        const AROUND: usize = 2;
        shown.truncate(FRAMES_SHOWN - AROUND);
        let further = &stack[at..stack.len().min(at + AROUND)];
        shown.push(format!("… {} more", at - shown.len()));
        shown.extend(names(further));
        left = stack.len() - at - further.len();
    }
    if left > 0 {
        shown.push(format!("… {left} more"));
    }
    shown.join(" < ")
}

fn details(text: &mut String, row: &NamedFinding, width: usize) {
    let mut lines = Vec::new();
    if row.chain.len() > 1 {
        let hops = row
            .chain
            .iter()
            .map(|hop| format!("{} waits for {}", hop.thread, hop.waited_for));
        lines.push(("chain", hops.collect::<Vec<_>>().join("; ")));
    }
    if !row.ran_instead.is_empty() {
        let others = row.ran_instead.iter().take(4);
        let others = others.map(|(name, ns)| format!("{name} {}", nanoseconds(*ns as f64)));
        lines.push(("ran instead", others.collect::<Vec<_>>().join(", ")));
    }
    if !row.culprit.stack.is_empty() {
        let named = row.culprit.function.as_deref();
        lines.push(("culprit's stack", stack_line(&row.culprit.stack, named)));
    }
    let other = |stack: &[String]| !stack.is_empty() && stack != row.culprit.stack;
    if let Some((stack, _)) = row.waiters.iter().find(|(stack, _)| other(stack)) {
        lines.push(("waiters' stack", stack_line(stack, None)));
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", row.cause.word());
    for (word, words) in lines {
        let lead = format!("  {word}: ");
        let line = format!("{lead}{words}");
        let _ = writeln!(text, "{}", wrapped(&line, width, "    "));
    }
}

/// Below this share the host's other guests are no cause of stalls worth a word.
const STOLEN_SHARE: f64 = 0.01;

/// What was not seen, or not kept: how many, the word for one and for many, and what became of them.
fn losses(checks: &SelfChecks) -> [(u64, &'static str, &'static str, &'static str); 7] {
    [
        (
            checks.missed_switches,
            "switch record",
            "switch records",
            "missed",
        ),
        (checks.lost_samples, "sample", "samples", "of stacks lost"),
        (checks.unresolved_stacks, "stack", "stacks", "without names"),
        (
            checks.dropped_segments,
            "part",
            "parts",
            "of timelines dropped for memory",
        ),
        (
            checks.dropped_stalls,
            "stall",
            "stalls",
            "dropped for memory",
        ),
        (checks.unwatched_threads, "thread", "threads", "not watched"),
        (
            checks.below_the_rule as u64,
            "cause",
            "causes",
            "below the threshold for a row",
        ),
    ]
}

/// `difference`: the kernel's count less ours, as a share of the kernel's. The kernel counts from when a thread is in a
/// CPU's queue, and we from its waking: on a machine whose CPUs sleep, ours is many times as much.
fn beside_kernel(difference: f64) -> String {
    const ALIKE: f64 = 0.5;
    if difference.abs() <= ALIKE {
        return format!(
            "agrees with the kernel's count within {:.1} %",
            100.0 * difference.abs()
        );
    }
    if difference > 0.0 {
        return format!(
            "is {:.0} % below the kernel's count: some was not seen",
            100.0 * difference
        );
    }
    let times = 1.0 - difference;
    format!(
        "is {times:.1} times the kernel's count, which does not contain how long a sleeping CPU takes to wake"
    )
}

fn footer(text: &mut String, mode: &str, checks: &SelfChecks, width: usize) {
    let share = checks.cpu_ns as f64 / checks.watched_ns.max(1) as f64;
    let mut words = format!(
        "Mode {mode}; {} watched; own cost {:.1} % of a CPU; {} lost",
        counted(checks.threads as u64, "thread", "threads"),
        100.0 * share,
        counted(checks.lost_records, "record", "records"),
    );
    if let Some(difference) = checks.run_delay_difference {
        let _ = write!(words, "; run-queue wait {}", beside_kernel(difference));
    }
    for (count, one, many, became) in losses(checks) {
        if count > 0 {
            let _ = write!(words, "; {} {became}", counted(count, one, many));
        }
    }
    if checks.left_out_below_ns > 0 {
        let below = checks.left_out_below_ns / 1_000;
        let _ = write!(
            words,
            "; waits below {below} us left out at times, there were too many"
        );
    }
    if let Some(share) = checks.stolen_share.filter(|share| *share >= STOLEN_SHARE) {
        let _ = write!(
            words,
            "; this machine's host gave {:.0} % of the CPU time to other virtual machines, so threads that \
             seem to run may be paused",
            100.0 * share
        );
    }
    let _ = writeln!(text, "\n{}", wrapped(&format!("{words}."), width, ""));
    for missing in &checks.missing {
        let _ = writeln!(
            text,
            "{}",
            wrapped(&format!("Missing: {missing}."), width, "")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Usual;
    use super::*;

    #[test]
    fn time_without_a_cpu_is_set_beside_the_kernels_count() {
        assert_eq!(
            beside_kernel(-0.03),
            "agrees with the kernel's count within 3.0 %"
        );
        assert!(beside_kernel(0.8).starts_with("is 80 % below the kernel's count"));
        let more = beside_kernel(-11.6);
        assert!(
            more.starts_with("is 12.6 times the kernel's count"),
            "{more}"
        );
    }

    #[test]
    fn no_stalls_is_not_all_that_is_said_where_requests_were_slow() {
        let slow = |ms: u64| Slow {
            name: String::new(),
            start_ns: 0,
            ns: ms * 1_000_000,
            thread: String::new(),
            tid: None,
            went: Vec::new(),
        };
        let text = |times: &[u64]| {
            let requests = Requests {
                slow: times.iter().map(|ms| slow(*ms)).collect(),
                ..Requests::default()
            };
            summary(&[], "ebpf", &SelfChecks::default(), Some(&requests), 80)
        };
        assert!(text(&[240, 100, 20, 3]).contains("But 3 requests took 20.0 ms or more"));
        assert!(!text(&[240, 100, 19]).contains("But"));
        // Beside what is usual there they are not.
        let requests = Requests {
            slow: [240, 100, 60].map(slow).into(),
            slow_from_ns: 24_000_000,
            ..Requests::default()
        };
        let text = summary(&[], "ebpf", &SelfChecks::default(), Some(&requests), 80);
        assert!(!text.contains("But"), "{text}");
        let usual = Usual::of(60_000_000, 9, [("lock", 400)].into_iter());
        let mut requests = Requests {
            slow: [5_000, 4_000, 3_000].map(slow).into(),
            slow_from_ns: 180_000_000,
            usual: Some(usual),
            ..Requests::default()
        };
        let text = summary(&[], "ebpf", &SelfChecks::default(), Some(&requests), 80);
        assert!(
            text.contains("But 3 requests took 600 ms or more"),
            "{text}"
        );
        requests.slow.clear();
        let text = summary(&[], "ebpf", &SelfChecks::default(), Some(&requests), 80);
        assert!(
            text.contains("An ordinary request took 60.0 ms: lock 100 %."),
            "{text}"
        );
    }
}
