//! A replay as text: the self-check first, then the arms, what is not distinguished, and what could not be seen.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::Report;
use super::runs::Played;
use replay::{End, Forecast, Planned, Range, TRUSTED_CURVE_SHARE, TRUSTED_SHARE, alike};
use trace::Trace;
use units::written::{ByteScale, bytes, count, counted, digits, percent, seconds};

/// Columns of text.
const WIDTH: usize = 100;

/// All of it.
pub fn of(report: &Report) -> String {
    let mut parts = vec![head(report), self_check(report), table(report)];
    parts.extend(findings(report));
    parts.extend(apart(report));
    if !report.notes.is_empty() {
        let notes = report.notes.iter().map(|note| item(note));
        parts.push(format!(
            "Not seen, or left out\n{}",
            notes.collect::<Vec<_>>().join("\n")
        ));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn fill(text: &str) -> String {
    textwrap::fill(text, WIDTH)
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
pub fn forecasts(report: &Report) -> Vec<(&Played, Option<Forecast>)> {
    let played = report.played.iter();
    played
        .map(|played| (played, Forecast::of(&played.runs, &report.trace)))
        .collect()
}

fn table(report: &Report) -> String {
    let mut rows = forecasts(report);
    let mean = |row: &(&Played, Option<Forecast>)| {
        row.1.as_ref().map_or(f64::MAX, |f| f.mean_bytes.median)
    };
    rows.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    let known = || rows.iter().filter_map(|(_, forecast)| forecast.as_ref());
    let scale = ByteScale::of_column(known().flat_map(|f| [f.mean_bytes.median, f.peak_bytes.max]));
    let recorded = rows.iter().find(|(played, _)| played.is_recorded);
    let recorded = recorded
        .and_then(|(_, forecast)| forecast.as_ref())
        .map(|f| f.mean_bytes.median);
    let mut table = Table::new();
    table.load_style(NOTHING);
    let unit = scale.word;
    table.set_header([
        "Arm (* recorded)".to_owned(),
        format!("mean {unit} [range]"),
        "x recorded".to_owned(),
        format!("end {unit}"),
        format!("peak {unit}"),
        "faults k".to_owned(),
        "CPU s".to_owned(),
        "system".to_owned(),
    ]);
    for (played, forecast) in &rows {
        table.add_row(row(played, forecast.as_ref(), scale, recorded));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let title = "Predicted anonymous memory of the process. CPU and faults are the replay's alone.";
    format!("{title}\n\n{}", lines.join("\n"))
}

fn row(
    played: &Played,
    forecast: Option<&Forecast>,
    scale: ByteScale,
    recorded: Option<f64>,
) -> Vec<String> {
    let star = if played.is_recorded { " *" } else { "" };
    let name = format!("{}{star}", played.arm.name);
    let Some(forecast) = forecast else {
        let mut row = vec![name, how(played)];
        row.resize(8, String::new());
        return row;
    };
    let number = |value: f64| scale.number(value);
    let ranged = |range: Range| match range.min < range.max {
        true => format!(
            "{} [{}, {}]",
            number(range.median),
            number(range.min),
            number(range.max)
        ),
        false => number(range.median),
    };
    let cpu = (forecast.user_ns.median + forecast.system_ns.median) / 1e9;
    vec![
        name,
        ranged(forecast.mean_bytes),
        recorded.map_or("-".to_owned(), |recorded| {
            digits(forecast.mean_bytes.median / recorded)
        }),
        number(forecast.end_bytes.median),
        number(forecast.peak_bytes.median),
        digits(forecast.minor_faults.median / 1e3),
        digits(cpu),
        digits(forecast.system_ns.median / 1e9),
    ]
}

fn how(played: &Played) -> String {
    match played.runs.last().map(|ran| &ran.end) {
        Some(End::Crashed(_)) => "crashed",
        Some(End::TooLarge) => "too large",
        Some(End::TooLong) => "too long",
        Some(End::NotTheArm(_)) => "not loaded",
        _ => "did not run",
    }
    .to_owned()
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

/// Arms that the replay does not tell apart: in the order of their memory, the longest rows of which every pair is
/// alike.
fn apart(report: &Report) -> Option<String> {
    let rows = forecasts(report);
    let mut rows: Vec<_> = rows
        .iter()
        .filter_map(|(played, f)| Some((played.arm.name.as_str(), f.as_ref()?)))
        .collect();
    rows.sort_by(|a, b| a.1.mean_bytes.median.total_cmp(&b.1.mean_bytes.median));
    let mut lines = Vec::new();
    let mut covered = 0;
    for start in 0..rows.len() {
        let fits = |end: &usize| {
            rows[start..*end]
                .iter()
                .all(|(_, f)| alike(f, rows[*end].1))
        };
        let end = (start + 1..rows.len())
            .take_while(fits)
            .last()
            .unwrap_or(start);
        if end > start && end + 1 > covered {
            let names: Vec<&str> = rows[start..=end].iter().map(|(name, _)| *name).collect();
            lines.push(item(&names.join(", ")));
            covered = end + 1;
        }
    }
    (!lines.is_empty()).then(|| {
        let title = format!(
            "Not distinguished (mean memory within {} of each other, or their replays overlap)",
            percent(TRUSTED_SHARE)
        );
        format!("{title}\n{}", lines.join("\n"))
    })
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
