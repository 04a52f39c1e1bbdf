//! A replay as text: the self-check first, what is wrong and what could not be seen, then the remedies.

use std::path::Path;

use super::Report;
use super::experiment;
use super::runs::Played;
use super::table;
use super::tuning::Tuned;
use super::wording::{WIDTH, fill};
use replay::{Against, End, Forecast, Planned, TRUSTED_CURVE_SHARE, TRUSTED_SHARE};
use trace::Trace;
use units::written::{bytes, count, counted, percent, seconds};

/// All of it.
pub fn of(report: &Report) -> String {
    let mut parts = vec![head(report), self_check(report)];
    parts.extend(findings(report));
    if !report.notes.is_empty() {
        let notes = report.notes.iter().map(|note| item(note));
        parts.push(format!(
            "Not seen, or left out\n{}",
            notes.collect::<Vec<_>>().join("\n")
        ));
    }
    parts.push(table::of(report));
    let found = report.tuned.iter().filter(|tuned| !tuned.front.is_empty());
    parts.extend(found.map(tuned));
    if !report.factors.is_empty() {
        let lines = report::factors::lines(&report.factors);
        let lines: Vec<String> = lines.iter().map(|line| item(line)).collect();
        parts.push(format!("{}\n{}", report::factors::TITLE, lines.join("\n")));
    }
    parts.extend(report.score.map(|score| fill(&score.words())));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn item(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent("  ")
        .subsequent_indent("    ");
    textwrap::fill(text, options)
}

fn head(report: &Report) -> String {
    let (trace, planned) = (&report.trace, &report.planned);
    let runs: usize = report.played.iter().map(|played| played.runs.len()).sum();
    let threads = counted(planned.threads as u64, "thread", "threads");
    fill(&format!(
        "{}: {} on {}, {}, {} in {threads}. {} in {}.",
        trace.path.display(),
        trace.about("program").unwrap_or("a program"),
        trace.about("allocator").unwrap_or("an unknown allocator"),
        seconds(trace.facts.length_ns as f64 / 1e9),
        counted(planned.operations, "operation", "operations"),
        counted(runs as u64, "replay", "replays"),
        seconds(report.elapsed.as_secs_f64()),
    ))
}

fn self_check(report: &Report) -> String {
    let check = match &report.check {
        Ok(check) => check,
        Err(why) => return fill(&format!("Self-check: NOT TRUSTED. {}.", upper(why))),
    };
    let limits = (percent(TRUSTED_SHARE), percent(TRUSTED_CURVE_SHARE));
    let compared = format!(
        "on the recorded allocator the replay has {} on average and {} at the end, the program had {} and {}. The mean \
         is off by {} (limit {}), the average of {} samples by {} (limit {}; 1 MiB is allowed for both)",
        bytes(check.replayed_mean_bytes),
        bytes(check.replayed_end_bytes),
        bytes(check.recorded_mean_bytes),
        bytes(check.recorded_end_bytes),
        percent(check.mean_off_share),
        limits.0,
        report.trace.samples.len(),
        percent(check.off_share),
        limits.1,
    );
    fill(&match &check.why_not {
        None => format!("Self-check: trusted; {compared}."),
        Some(why) => format!("Self-check: NOT TRUSTED; {compared}. Probably {why}."),
    })
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Each arm with what it predicts; those that never finished have none.
pub fn forecasts<'a>(played: &'a [Played], trace: &Trace) -> Vec<(&'a Played, Option<Forecast>)> {
    played
        .iter()
        .map(|played| (played, Forecast::of(&played.runs, trace)))
        .collect()
}

/// What a search came to: how many were tried, and which were replayed again.
fn tuned(tuned: &Tuned) -> String {
    let head = fill(&format!(
        "Settings of {}: {} tried in {}. Of those with the least memory for their CPU, the least memory first, these \
         were replayed again and are in the table:",
        tuned.allocator,
        tuned.tried.len(),
        seconds(tuned.elapsed.as_secs_f64()),
    ));
    let lines = tuned.front.iter().map(|name| item(name));
    std::iter::once(head)
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// What to do next. `written`: the experiment file, and the arms in it.
pub fn next(report: &Report, written: Option<(&Path, &[String])>) -> String {
    let trace = report.trace.path.display();
    let is_less = report.remedies.iter().any(|r| r.against == Against::Less);
    let words = match written {
        Some((path, arms)) => {
            let list = arms.join(", ");
            let path = path.display();
            let why = experiment::unpredicted(report);
            let without = why.map_or(String::new(), |why| format!(", without predictions: {why}"));
            return format!(
                "{}\n  highwater run {path}\n",
                fill(&format!(
                    "Written to {path}: {list}{without}. Complete its [subject] and [load], then prove it:"
                ))
            );
        }
        None if is_less => "A replay predicts, an experiment proves:",
        None => "No arm has distinguishably less memory. To check that on the real program:",
    };
    format!(
        "{}\n  highwater replay {trace} --experiment proof.toml\n  highwater run proof.toml\n",
        fill(words)
    )
}

/// What is wrong with an arm.
fn findings(report: &Report) -> Option<String> {
    let mut lines = Vec::new();
    for played in &report.played {
        let name = &played.arm.name;
        if let Some(ran) = played.runs.iter().find(|ran| ran.end != End::Finished) {
            lines.push(item(&format!(
                "{name} {}",
                problem(&ran.end, ran.done_share)
            )));
        }
        let failed = played.runs.iter().map(|ran| ran.failed).max().unwrap_or(0);
        if failed > 0 {
            let times = counted(failed, "allocation", "allocations");
            lines.push(item(&format!(
                "{name} returned null for {times} that the program got"
            )));
        }
        let finished = || played.runs.iter().filter(|ran| ran.end == End::Finished);
        let is_unread = finished().count() > 0 && finished().all(|ran| ran.clock_reads == 0);
        if is_unread && played.arm.library.path.is_some() {
            lines.push(item(&format!(
                "{name} never read the clock of the trace: if it purges by time, that is not in its numbers"
            )));
        }
    }
    lines.extend(defects(report));
    (!lines.is_empty()).then(|| format!("Findings\n{}", lines.join("\n")))
}

/// Arms with known defects, which the catalogue words.
fn defects(report: &Report) -> Option<String> {
    let has = |played: &&Played| !played.arm.library.defects.is_empty();
    let mut names: Vec<&str> = report
        .played
        .iter()
        .filter(has)
        .map(|played| played.arm.library.spec.as_str())
        .collect();
    names.dedup();
    let list = names.join(", ");
    (!names.is_empty()).then(|| {
        item(&format!(
            "known defects (highwater allocators list): {list}"
        ))
    })
}

/// Why an arm has no forecast.
pub fn problem(end: &End, done_share: f64) -> String {
    let done = percent(done_share);
    match end {
        End::Finished => "finished".to_owned(),
        End::Crashed(signal) => {
            format!(
                "crashed on this trace: signal {signal} after {done} of it. Do not run the program on it"
            )
        }
        End::TooLarge => format!(
            "came over the limit of memory after {done} of the trace and was ended; --max-memory raises it"
        ),
        End::TooLong => format!(
            "came over the limit of time after {done} of the trace and was ended; --timeout raises it"
        ),
        End::Refused(why) => format!("was not replayed: {why}"),
        End::NotTheArm(path) => format!("was not replayed: malloc was answered by {path}"),
    }
}

/// Searches that came to nothing.
pub fn unsearched(tuned: &[Tuned]) -> Vec<String> {
    let empty = tuned.iter().filter(|tuned| tuned.front.is_empty());
    let note = |tuned: &Tuned| match tuned.tried.len() {
        0 => format!(
            "no settings of {} ran to the end of the trace; --budget is the time for them",
            tuned.allocator
        ),
        count => format!(
            "{count} settings of {} were tried and none replayed again, since it was interrupted; --json lists them",
            tuned.allocator
        ),
    };
    empty.map(note).collect()
}

/// What the replay could not see.
pub fn unseen(trace: &Trace, planned: &Planned) -> Vec<String> {
    let mut notes = Vec::new();
    let unseen = &planned.unseen;
    if unseen.guessed_bytes > 0 {
        let share = unseen.guessed_bytes as f64 / unseen.large_bytes.max(1) as f64;
        notes.push(format!(
            "of blocks of 32 KiB and more, the part that the program writes to is a guess for {} of their bytes",
            percent(share)
        ));
    }
    let lost = trace.facts.lost_nested + unseen.damage.lost_events;
    if lost > 0 {
        notes.push(format!(
            "{} of the trace are missing",
            counted(lost, "event", "events")
        ));
    }
    if unseen.pairing.unknown_frees + unseen.pairing.unseen_frees > 0 {
        notes.push(format!(
            "{} frees belong to no block of the trace, and {} blocks have no free",
            count(unseen.pairing.unknown_frees as f64),
            count(unseen.pairing.unseen_frees as f64)
        ));
    }
    notes.extend(unseen.damage.lines());
    if let Some(why) = trace.facts.stopped() {
        notes.push(format!("recording ended before the program did: {why}"));
    }
    if trace.facts.others > 0 {
        let others = counted(
            u64::from(trace.facts.others),
            "other process",
            "other processes",
        );
        notes.push(format!("{others} of the program were not recorded"));
    }
    notes.extend(huge_pages(trace));
    notes.extend(calls(trace));
    notes
}

/// Transparent huge pages change what an allocator's memory is.
fn huge_pages(trace: &Trace) -> Option<String> {
    let here = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let here = here.split(['[', ']']).nth(1)?.to_owned();
    let there = trace
        .about("thp")
        .filter(|there| !there.is_empty() && **there != here)?;
    Some(format!(
        "transparent huge pages were {there} where the program ran, and are {here} here: memory may differ"
    ))
}

/// Calls by which a program adapts to its allocator.
fn calls(trace: &Trace) -> Vec<String> {
    let kinds = [
        (
            "usable_size",
            "malloc_usable_size: its requests may differ under another allocator",
        ),
        (
            "mallctl",
            "mallctl: what it sets in jemalloc is not replayed",
        ),
        ("mallopt", "mallopt: what it sets in glibc is not replayed"),
        (
            "malloc_trim",
            "malloc_trim: what it gives back to the kernel is not replayed",
        ),
    ];
    let named =
        |(fact, words): &(&str, &str)| Some(format!("{} can call {words}", trace.about(fact)?));
    kinds.iter().filter_map(named).collect()
}
