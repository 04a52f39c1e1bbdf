//! The remedies as a table of 80 columns, the least memory first.

use super::Report;
use super::runs::Played;
use super::wording::{fill, how};
use replay::{INTERVAL_SHARE, Remedy, TRUSTED_SHARE};
use units::written::{ByteScale, counted, digits, percent};

/// Columns of the name; the rest of a longer one stands below.
const NAME: usize = 30;

/// The table, and how it is to be read.
pub fn of(report: &Report) -> String {
    let bounds = report.remedies.iter();
    let scale = ByteScale::of_column(bounds.flat_map(|r| [r.mean_bytes.value, r.end_bytes.value]));
    let mut lines = vec![
        format!(
            "Remedies, the least memory first (source: replay; {})",
            scale.word
        ),
        String::new(),
        line(
            "",
            [
                "mean",
                "[interval]",
                "end",
                "x today",
                "",
                "faults x",
                "CPU x",
            ]
            .map(str::to_owned),
        ),
    ];
    for remedy in &report.remedies {
        lines.push(row(&report.played[remedy.index], remedy, scale));
    }
    lines.extend(unfinished(report));
    lines.push(String::new());
    lines.push(legend(report));
    lines.join("\n")
}

fn line(name: &str, cells: [String; 7]) -> String {
    let [mean, interval, end, ratio, word, faults, cpu] = cells;
    let text = format!(
        "{name:NAME$} {mean:>5} {interval:>13} {end:>5} {ratio:>4} {word:5} {faults:>6} {cpu:>4}"
    );
    text.trim_end().to_owned()
}

fn row(played: &Played, remedy: &Remedy, scale: ByteScale) -> String {
    let number = |value: f64| scale.number(value);
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), digits);
    let star = if played.is_recorded { " *" } else { "" };
    let mean = remedy.mean_bytes;
    let options = textwrap::Options::new(NAME)
        .subsequent_indent(" ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let name = format!("{}{star}", played.arm.name);
    let mut parts = textwrap::wrap(&name, options).into_iter();
    let first = parts.next().unwrap_or_default();
    let cells = [
        number(mean.value),
        format!("[{}, {}]", number(mean.lo), number(mean.hi)),
        number(remedy.end_bytes.value),
        ratio(remedy.mean_ratio),
        remedy.against.word().to_owned(),
        ratio(remedy.faults_ratio),
        ratio(remedy.cpu_ratio),
    ];
    let mut lines = vec![line(&first, cells)];
    lines.extend(parts.map(|part| part.into_owned()));
    lines.join("\n")
}

/// Arms without a forecast, in a word each.
fn unfinished(report: &Report) -> Vec<String> {
    let is_ranked = |index: usize| report.remedies.iter().any(|remedy| remedy.index == index);
    let all = report.played.iter().enumerate();
    all.filter(|(index, _)| !is_ranked(*index))
        .map(|(_, played)| format!("{:NAME$}  {}", played.arm.name, how(played)))
        .collect()
}

fn legend(report: &Report) -> String {
    let repeats = counted(u64::from(report.repeat), "replay", "replays");
    let like = report.remedies.iter().filter(|r| r.is_like_best).count();
    let mut text = format!(
        "* is what was recorded, and \"today\" in the table. Memory is the process's anonymous resident memory. An \
         interval is the range of {repeats} and {} beyond it; it held 31 of 32 means of eight programs. \"same\" is \
         not distinguished from today: the means are within {}, or the replays overlap. x, faults and CPU are times \
         today's; faults and CPU are the allocator's alone.",
        percent(INTERVAL_SHARE),
        percent(TRUSTED_SHARE),
    );
    if like > 1 {
        let arms = counted(like as u64 - 1, "arm is", "arms are");
        text.push_str(&format!(
            " {arms} not distinguished from the first: choose among them by CPU."
        ));
    }
    fill(&text)
}
