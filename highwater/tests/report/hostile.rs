//! Names that somebody else chose, and records that are not whole: every format stays what it is.

use observe::snapshot::{Event, EventKind, ProcessId, TimeNs};
use record::run::Run;
use report::pictures::pictures;
use report::{against, csv, html, json, junit, markdown, text};
use serde_json::Value;

use super::formats::{report, small};
use super::groups::groups;
use crate::synthetic::{HOSTILE, hostile};

/// The tables of a document: rows that follow each other.
fn tables(page: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = page.lines().collect();
    let is_row = |line: &&str| line.starts_with('|');
    let chunks = lines.chunk_by(|a, b| is_row(a) == is_row(b));
    chunks
        .filter(|chunk| is_row(&chunk[0]))
        .map(<[&str]>::to_vec)
        .collect()
}

/// The document without what stands between fences, which is read as it is.
fn without_code(page: &str) -> String {
    let mut fence: Option<String> = None;
    let mut kept = String::new();
    for line in page.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        match &fence {
            None if ticks >= 3 => fence = Some("`".repeat(ticks)),
            None => kept += &format!("{line}\n"),
            Some(open) if line == open => fence = None,
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "every fence is closed");
    kept
}

#[test]
fn markdown_keeps_its_tables_whatever_the_names() {
    let page = markdown::render(&report(&hostile()));
    let tables = tables(&page);
    let titles: Vec<&str> = tables
        .iter()
        .map(|table| table[0].split(" | ").next().unwrap_or(""))
        .collect();
    assert_eq!(titles.len(), 6, "{titles:?}");
    for table in tables {
        let bars = |row: &str| row.matches('|').count();
        assert!(
            table.len() > 2 && table.iter().all(|row| bars(row) == bars(table[0])),
            "{table:#?}"
        );
    }
    let prose = without_code(&page);
    assert!(!prose.contains("<img") && !prose.contains("</script"));
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(!page.contains(bad));
}

#[test]
fn hostile_names_of_processes_leave_no_format() {
    let report = report(&groups([HOSTILE; 3]));
    let page = markdown::render(&report);
    for table in tables(&page) {
        let bars = |row: &str| row.matches('|').count();
        assert!(
            table.iter().all(|row| bars(row) == bars(table[0])),
            "{table:#?}"
        );
    }
    assert!(
        !without_code(&page).contains("<img")
            && !page.contains('\u{1b}')
            && !page.contains('\u{202e}')
    );
    for text in [
        csv::groups(&report),
        csv::events(&report),
        csv::diagnostics(&report),
    ] {
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let width = reader.headers().expect("a header").len();
        let rows: Vec<::csv::StringRecord> =
            reader.records().map(|row| row.expect("a row")).collect();
        assert_eq!(
            rows.len(),
            text.lines().count() - 1,
            "no newline of a name gets through"
        );
        assert!(rows.iter().all(|row| row.len() == width));
        let starts = |field: &str| field.starts_with(['=', '@', '+']);
        assert!(!rows.iter().flatten().any(starts), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
    let drawn = pictures(&report, "").expect("pictures");
    // One is enough: letters are drawn by the same code in all, slowly without optimisation.
    assert_eq!(&drawn[0].png().expect("a PNG")[1..4], b"PNG");
    for picture in drawn {
        assert!(
            !picture.svg.contains("<img") && !picture.svg.contains('\u{1b}'),
            "{}",
            picture.name
        );
    }
}

#[test]
fn json_keeps_hostile_names_as_they_are() {
    let value: Value = serde_json::from_str(&json::render(&report(&hostile()))).expect("JSON");
    assert_eq!(value["arms"][1]["arm"], HOSTILE);
}

#[test]
fn csv_has_one_row_per_arm_and_no_formula() {
    let mut run = hostile();
    run.experiment.arms[2].allocator = "=HYPERLINK(\"x\")".into();
    let text = csv::render(&report(&run));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let rows: Vec<::csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    let column = |name: &str| {
        header
            .iter()
            .position(|title| title == name)
            .expect("a column")
    };
    assert_eq!(&rows[2][column("allocator")], "'=HYPERLINK(\"x\")");
    assert!(
        rows[0][column("rss_bytes")]
            .parse::<f64>()
            .expect("a number")
            > 1e8
    );
    assert_eq!(text.lines().count(), 4, "no newline of a name gets through");
    let formula = |field: &str| {
        field.starts_with(['=', '@', '+'])
            || (field.starts_with('-') && field.parse::<f64>().is_err())
    };
    assert!(!rows.iter().flatten().any(formula));
}

#[test]
fn junit_stays_xml_whatever_the_names() {
    let text = junit::render(&report(&hostile()));
    assert!(!text.contains("<img") && !text.contains("</script"));
    let allowed = |c: char| matches!(c, '\n' | '\t' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(allowed));
    let (mut opened, mut closed) = (0, 0);
    for (at, _) in text.match_indices('<') {
        match &text[at + 1..at + 2] {
            "/" => closed += 1,
            "?" => {}
            _ => opened += 1,
        }
    }
    assert_eq!(opened, closed, "every element is closed");
}

#[test]
fn hostile_names_are_text_in_the_page() {
    let page = html::render(&report(&hostile()));
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 3, "its own three");
    assert_eq!(page.matches("<script").count(), 3);
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(!page.contains(bad));
}

/// What a broken record may hold; every format renders it.
fn broken() -> Vec<(&'static str, Run)> {
    let with = |name, edit: fn(&mut Run)| {
        let mut run = small();
        edit(&mut run);
        (name, run)
    };
    vec![
        with("ends before it begins", |run| {
            run.last = TimeNs(run.begun.0 - 1)
        }),
        with("ends as it begins", |run| run.last = run.begun),
        with("times at the edges", |run| {
            (run.begun, run.last) = (TimeNs(i64::MIN), TimeNs(i64::MAX))
        }),
        with("an interval of nothing", |run| {
            run.experiment.interval = std::time::Duration::ZERO
        }),
        with("a warm-up longer than all", |run| {
            run.experiment.warmup = std::time::Duration::MAX
        }),
        with("no such control", |run| {
            run.experiment.control = "nobody".into()
        }),
        with("no arms", |run| run.experiment.arms.clear()),
        with("events of nobody", |run| {
            run.events.push(Event {
                time: run.begun,
                process: Some(ProcessId(-1)),
                kind: EventKind::Crashed,
                words: String::new(),
            });
        }),
        with("readings that are none", |run| {
            for samples in run
                .processes
                .iter_mut()
                .flat_map(|process| process.samples.values_mut())
            {
                let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX];
                samples
                    .iter_mut()
                    .zip(odd.into_iter().cycle())
                    .for_each(|(sample, odd)| sample.1 = odd);
            }
        }),
        with("readings out of order", |run| {
            run.processes
                .iter_mut()
                .flat_map(|p| p.samples.values_mut())
                .for_each(|all| all.reverse());
        }),
        with("histograms that are none", |run| {
            for row in run
                .processes
                .iter_mut()
                .flat_map(|process| &mut process.histograms)
            {
                row.histogram.truncate(7);
            }
        }),
    ]
}

#[test]
fn a_broken_record_is_rendered_and_never_panics() {
    for (name, run) in broken() {
        let report = report(&run);
        let pages = [
            text::render(&report, 100),
            html::render(&report),
            markdown::render(&report),
            json::render(&report),
            csv::render(&report),
            csv::groups(&report),
            csv::events(&report),
            csv::diagnostics(&report),
            junit::render(&report),
            against::text(&against::compare(&report, &report), 80),
        ];
        assert!(pictures(&report, "").is_ok(), "{name}");
        assert!(
            pages
                .iter()
                .all(|page| !page.is_empty() && !page.contains("NaN")),
            "{name}"
        );
    }
}
