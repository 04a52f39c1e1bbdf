//! Set-up, groups, growth, charts, events, advice.

use super::escape::{escaped, fenced, sentence, table};
use crate::adoption::Adoption;
use crate::groups::{Counts, Stretch, changed};
use crate::incidents::{Incident, LISTED_MAX, incidents};
use crate::pictures::Picture;
use crate::predictions;
use crate::{Report, event_word, text};
use series::shares::SHARES;
use units::written;
use units::written::{ByteScale, MISSING};
use verdict::run::ArmRow;

/// Names of processes said of one arm.
const NAMES_MAX: usize = 12;
/// Rows of the list of stretches; groups.csv has all.
const STRETCHES_MAX: usize = 200;
/// Characters of the words of an event.
const WORDS_MAX: usize = 240;

/// What the experiment predicted, beside what was measured; empty without a prediction.
pub fn predicted(report: &Report) -> String {
    let outcomes = &report.verdict.predictions;
    if outcomes.is_empty() {
        return String::new();
    }
    let row = |outcome| {
        predictions::cells(report, outcome)
            .map(|cell| escaped(&cell))
            .to_vec()
    };
    let rows: Vec<Vec<String>> = outcomes.iter().map(row).collect();
    format!(
        "{}\n\n{}",
        sentence(&predictions::score(report)),
        table(&predictions::TITLES, 1, &rows)
    )
}

/// What was done, on what.
pub fn setup(report: &Report) -> String {
    let (s, m) = (&report.summary, &report.summary.machine);
    let snapshots = format!(
        "every {} for {}, the first {} left out; the unit of comparison is a process, not a sample",
        written::seconds(s.interval_s),
        written::seconds(s.took_s),
        written::seconds(s.warmup_s),
    );
    let host = format!(
        "{}, {} CPUs, {}",
        m.cpu,
        m.cpus,
        written::bytes(m.memory_bytes as f64)
    );
    let thp = match m.transparent_huge_pages.as_str() {
        "" => String::new(),
        setting => format!("; transparent huge pages: {setting}"),
    };
    let kernel = format!("{}, {}{thp}", m.kernel, m.distribution);
    let own = text::own(report);
    let own = own.trim_start_matches("highwater itself: ");
    let rows = [
        ("Run", format!("{}, started {}", s.run, s.begun)),
        ("Hypothesis", s.hypothesis.clone()),
        ("Why", s.why.clone()),
        ("Evidence so far", s.evidence.clone()),
        ("Host", host),
        ("Kernel", kernel),
        ("Arms", arms_words(report)),
        ("Processes", s.manner.to_owned()),
        ("Load", s.load.clone().unwrap_or_default()),
        ("Snapshots", snapshots),
        ("End", s.end.clone().unwrap_or_else(|| text::NO_END.into())),
        ("highwater", format!("{}; its own cost: {own}", s.version)),
    ];
    let rows = rows.iter().filter(|(_, words)| !words.trim().is_empty());
    let rows: Vec<Vec<String>> = rows
        .map(|(name, words)| vec![(*name).to_owned(), escaped(words)])
        .collect();
    format!("## Set-up\n\n{}", table(&["", ""], usize::MAX, &rows))
}

fn arms_words(report: &Report) -> String {
    let s = &report.summary;
    let word = if s.replicas == 1 {
        "process"
    } else {
        "processes"
    };
    let most = if s.manner.is_empty() { "" } else { "up to " };
    format!(
        "{} of {most}{} {word}, control {}, seed {}",
        report.arms.len(),
        s.replicas,
        s.control,
        s.seed
    )
}

/// Who is in each arm, what was asked for and what really ran; and every stretch, when members changed.
pub fn groups(report: &Report) -> String {
    let titles = [
        "Arm",
        "Processes",
        "Allocator asked for",
        "Really run",
        "Settings",
        "Restarts",
    ];
    let rows: Vec<Vec<String>> = report
        .verdict
        .arms
        .iter()
        .map(|row| group(report, row))
        .collect();
    let mut out = table(&titles, 5, &rows);
    if changed(&report.groups) {
        out += "\n\nMembers changed while the run went on. Each snapshot records which process was in which arm:\n\n";
        out += &stretches(report);
    }
    out
}

fn group(report: &Report, row: &ArmRow) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for one in report
        .groups
        .iter()
        .filter(|one| one.arm == row.arm && one.counts == Counts::Yes)
    {
        if !names.contains(&one.process.as_str()) {
            names.push(&one.process);
        }
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    let mut shown = names[..names.len() - more].join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    let plan = report.arms.iter().find(|plan| plan.name == row.arm);
    let allocator = plan.map_or("", |plan| &plan.allocator);
    let allocator = if allocator.is_empty() {
        "as the program comes"
    } else {
        allocator
    };
    let settings = plan
        .map(|plan| plan.environment.join(" "))
        .unwrap_or_default();
    let proved = match row.proved.is_empty() {
        true => "not proved".to_owned(),
        false => row.proved.join("; "),
    };
    let control = if row.is_control { " (control)" } else { "" };
    vec![
        format!("{}{control}", escaped(&row.arm)),
        escaped(&format!("{}: {shown}", names.len())),
        escaped(allocator),
        escaped(&proved),
        escaped(&settings),
        row.restarted.to_string(),
    ]
}

fn stretches(report: &Report) -> String {
    let titles = ["Process", "Arm", "From", "Until", "How it ended", "Counts"];
    let mut all: Vec<&Stretch> = report.groups.iter().collect();
    all.sort_by(|a, b| {
        a.process
            .cmp(&b.process)
            .then(a.from_s.total_cmp(&b.from_s))
    });
    let row = |one: &&Stretch| {
        let until = one.until_s.map_or("the end".to_owned(), written::seconds);
        vec![
            escaped(&one.process),
            escaped(&one.arm),
            written::seconds(one.from_s),
            until,
            escaped(&one.end),
            escaped(&one.counts.words()),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(STRETCHES_MAX).map(row).collect();
    let more = all.len().saturating_sub(STRETCHES_MAX);
    let mut out = table(&titles, usize::MAX, &rows);
    if more > 0 {
        out += &format!("\n\nand {more} more; `--format csv` writes them all.");
    }
    out
}

/// Levels at fixed shares of the run.
pub fn growth(report: &Report) -> String {
    let took_s = report.summary.took_s;
    let levels = report
        .growth
        .iter()
        .flat_map(|arm| arm.levels.iter().flatten());
    let scale = ByteScale::of_column(levels.map(|level| level.mean));
    let age = |share: &f64| {
        format!(
            "{} (1/{:.0})",
            written::seconds(took_s * share),
            1.0 / share
        )
    };
    let mut titles = vec!["Arm".to_owned()];
    titles.extend(SHARES.iter().map(|share| match *share {
        1.0 => written::seconds(took_s),
        _ => age(share),
    }));
    titles.push(format!(
        "Grown since {}",
        written::seconds(took_s * SHARES[0])
    ));
    let rows = report.growth.iter().map(|arm| {
        let level = |level: &Option<series::shares::Level>| {
            level.map_or(MISSING.to_owned(), |l| {
                let range = written::interval(l.lowest / scale.bytes, l.highest / scale.bytes);
                let range = range
                    .filter(|_| l.processes > 1)
                    .map(|range| format!(" {range}"));
                written::digits(l.mean / scale.bytes) + &range.unwrap_or_default()
            })
        };
        let grown = arm.grown.map_or(MISSING.to_owned(), |g| {
            written::signed(g.mean / scale.bytes)
        });
        let mut row = vec![escaped(&arm.arm)];
        row.extend(arm.levels.iter().map(level));
        row.push(grown);
        row
    });
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    format!(
        "RSS in {} by the age of the run: mean over the processes and, in brackets, the lowest and the highest.\n\n{}",
        scale.word,
        table(&titles, 1, &rows.collect::<Vec<_>>())
    )
}

/// The pictures, by the names of their files.
pub fn charts(pictures: &[Picture]) -> String {
    let shown = pictures.iter().map(|picture| {
        format!(
            "![{}]({}.png)\n\n{}",
            picture.title,
            address(&picture.name),
            picture.caption
        )
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

/// A file's name as a relative address: what has a meaning there is written as %XX.
fn address(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let byte = |b: u8| match plain(b) {
        true => (b as char).to_string(),
        false => format!("%{b:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// What happened, numbered as on the charts.
pub fn events(report: &Report) -> String {
    let all = incidents(report);
    if all.is_empty() {
        return String::new();
    }
    let titles = ["No.", "At", "Process", "Event", "What happened"];
    let row = |one: &Incident| {
        let words = crate::visible::shortened(&one.words, WORDS_MAX);
        vec![
            one.number.to_string(),
            written::seconds(one.t_s),
            escaped(&one.process),
            event_word(&one.kind),
            escaped(&words),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(LISTED_MAX).map(row).collect();
    let mut out = table(&titles, usize::MAX, &rows);
    if all.len() > LISTED_MAX {
        out += &format!(
            "\n\nand {} more; `--format csv` writes them all.",
            all.len() - LISTED_MAX
        );
    }
    out
}

/// The recommendation with its commands.
pub fn advice(report: &Report) -> String {
    let advice = &report.recommendation;
    let mut parts = vec![sentence(&advice.words)];
    if !advice.cautions.is_empty() {
        let lines: Vec<String> = advice.cautions.iter().map(|line| sentence(line)).collect();
        parts.push(format!("- {}", lines.join("\n- ")));
    }
    if let Some(adoption) = &report.adoption {
        if !adoption.commands.is_empty() {
            parts.push(fenced("sh", &adoption.commands.join("\n")));
        }
        parts.extend(by_hand(adoption));
    }
    if !report.summary.revert.is_empty() {
        parts.push("The experiment's own words on taking it back:".into());
        parts.push(fenced("", &report.summary.revert.join("\n")));
    }
    parts.join("\n\n")
}

/// The drop-in in plain text, and what it cannot do.
fn by_hand(adoption: &Adoption) -> Vec<String> {
    let notes = adoption.notes.iter().map(|note| sentence(note));
    if adoption.drop_in.is_empty() {
        return notes.collect();
    }
    let words =
        "By hand, as `/etc/systemd/system/UNIT.d/highwater.conf`, one unit after the other:";
    let mut parts = vec![words.to_owned(), fenced("ini", &adoption.drop_in)];
    parts.extend(notes);
    parts.push(fenced("sh", &adoption.apply.join("\n")));
    parts.push("To take it back:".into());
    parts.push(fenced("sh", &adoption.back.join("\n")));
    parts
}

pub fn again(report: &Report) -> String {
    match report.extras.reproduce.is_empty() {
        true => String::new(),
        false => fenced("sh", &report.extras.reproduce.join("\n")),
    }
}
