//! Markdown, JSON, CSV, JUnit and HTML: complete, and deaf to hostile names.

use highwater::observe::look::{Event, EventKind, ProcessId, Role, TimeNs};
use highwater::record::run::{Process, Run};
use highwater::report::pictures::pictures;
use highwater::report::{Extras, Report, against, csv, html, json, junit, markdown, text};
use highwater::subject::experiment::{AttachGroup, SubjectKind};
use serde_json::Value;

use crate::synthetic::{HOSTILE, hostile, judged, relay};

fn report(run: &Run) -> Report {
    Report::build(run, &judged::verdict(run), Extras::default())
}

fn small() -> Run {
    let mut plan = relay();
    plan.arms = vec![
        plan.arms[0].clone(),
        plan.arms[3].clone(),
        plan.arms[7].clone(),
    ];
    plan.run()
}

#[test]
fn markdown_for_a_pull_request() {
    snapbox::assert_data_eq!(
        markdown::render(&report(&small())),
        snapbox::file!["golden/relay.md"].raw()
    );
}

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

/// Two groups that somebody else runs, under these names; one member restarted, one moved, one is not its arm.
fn groups(names: [&str; 3]) -> Run {
    let mut run = small();
    run.experiment.subject.kind = SubjectKind::Attach;
    run.experiment.subject.attach = vec![AttachGroup {
        units: vec!["tor@*.service".into()],
        ..AttachGroup::default()
    }];
    for process in &mut run.processes {
        process.start_ticks = 1000 + process.id.0 as u64;
        let name = format!("{} {}", names[0], process.id.0);
        process
            .facts
            .insert("member.name".into(), vec![(process.started, name)]);
    }
    let own = |arm: usize| run.experiment.arms[arm].name.clone();
    let (control, other) = (own(0), own(1));
    let find = |arm: &str, run: &Run| {
        let is_it = |p: &Process| p.role == Role::Subject && p.arm == arm && p.replica == 0;
        run.processes.iter().position(is_it).expect("a process")
    };
    // Half way, one of the other arm comes to the control without a restart.
    let (from, middle) = (find(&other, &run), TimeNs((run.begun.0 + run.last.0) / 2));
    let mut moved = run.processes[from].clone();
    (moved.id, moved.arm, moved.replica, moved.started) =
        (ProcessId(900), control.clone(), 7, middle);
    for samples in moved.samples.values_mut() {
        samples.retain(|(time, _)| *time >= middle);
    }
    let old = &mut run.processes[from];
    (old.ended, old.exit) = (Some(middle), Some(format!("moved to {control}")));
    for samples in old.samples.values_mut() {
        samples.retain(|(time, _)| *time < middle);
    }
    let event = |id, kind, words: &str| Event {
        time: middle,
        process: Some(id),
        kind,
        words: words.into(),
    };
    let old = run.processes[from].id;
    run.events.push(event(old, EventKind::Moved, names[1]));
    run.processes.push(moved);
    let out = find(&own(2), &run);
    let fact = (middle, names[2].to_owned());
    run.processes[out]
        .facts
        .insert("member.left_out".into(), vec![fact]);
    run
}

const PLAIN: [&str; 3] = ["relay", "moves to arm glibc", "is left out: it runs glibc"];

#[test]
fn markdown_of_groups_that_changed() {
    snapbox::assert_data_eq!(
        markdown::render(&report(&groups(PLAIN))),
        snapbox::file!["golden/groups.md"].raw()
    );
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
fn charts_are_drawn_for_what_was_read_with_numbered_marks() {
    let drawn = pictures(&report(&groups(PLAIN)), "x-").expect("pictures");
    let names: Vec<&str> = drawn.iter().map(|picture| picture.name.as_str()).collect();
    assert_eq!(
        names,
        ["x-memory", "x-cpu", "x-faults", "x-latency", "x-heat"]
    );
    for part in [
        "Resident memory",
        "MiB",
        "glibc",
        "minutes since the run began",
        "polyline",
        "polygon",
    ] {
        assert!(drawn[0].svg.contains(part), "{part}");
    }
    let page = markdown::render_with(&report(&groups(PLAIN)), &drawn);
    assert!(page.contains("![Resident memory](x-memory.png)"));
    let mut run = small();
    run.processes.clear();
    assert_eq!(pictures(&report(&run), "").expect("no picture"), []);
}

#[test]
fn groups_as_csv_know_every_stretch() {
    let text = csv::groups(&report(&groups(PLAIN)));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let at = |name: &str| {
        header
            .iter()
            .position(|title| title == name)
            .expect("a column")
    };
    let rows: Vec<::csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 10);
    let counted = |words: &str| {
        rows.iter()
            .filter(|row| row[at("counts")].starts_with(words))
            .count()
    };
    assert_eq!(
        (
            counted("yes"),
            counted("no: it came without"),
            counted("no: is left out")
        ),
        (8, 1, 1)
    );
    assert_eq!(
        rows.iter()
            .filter(|row| row[at("end")].starts_with("moved to"))
            .count(),
        1
    );
}

#[test]
fn json_is_versioned_and_every_number_has_its_unit() {
    let text = json::render(&report(&small()));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema"], "highwater.run/1");
    assert!(text.starts_with("{\n  \"schema\""));
    assert_eq!(value["arms"].as_array().map(Vec::len), Some(3));
    let arm = &value["arms"][1];
    for field in [
        "rss_bytes",
        "rss_lo_bytes",
        "slope_hi_bytes_per_hour",
        "cpu_user_cores",
        "latency_p99_ns",
    ] {
        assert!(arm[field].is_number(), "{field}: {}", arm[field]);
    }
    let units = [
        "_bytes",
        "_bytes_per_hour",
        "_s",
        "_ns",
        "_cores",
        "_per_second",
        "_per_minute",
        "_share",
        "_count",
        "_ratio",
        "_probability",
        "seed",
    ];
    every_number(&value, &mut |name| {
        assert!(
            units.iter().any(|unit| name.ends_with(unit)),
            "{name} has no unit"
        );
    });
}

fn every_number(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if value.is_number() {
                    check(name);
                }
                every_number(value, check);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| every_number(item, check)),
        _ => {}
    }
}

#[test]
fn json_keeps_hostile_names_as_they_are() {
    let value: Value = serde_json::from_str(&json::render(&report(&hostile()))).expect("JSON");
    assert_eq!(value["arms"][1]["arm"], HOSTILE);
}

#[test]
fn numbers_that_are_none_are_null() {
    let mut run = small();
    run.processes.clear();
    let value: Value = serde_json::from_str(&json::render(&report(&run))).expect("JSON");
    assert!(
        value["arms"][0]["rss_bytes"].is_null() && value["arms"][0]["latency_p99_ns"].is_null()
    );
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
fn junit_has_a_case_for_every_check_of_every_arm() {
    let run = small();
    let report = report(&run);
    let text = junit::render(&report);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/relay.junit.xml"].raw());
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
fn the_page_has_everything_without_a_script() {
    let page = html::render(&report(&small()));
    for words in [
        "Hypothesis",
        "fragmentation of the heap",
        "AMD EPYC",
        "MALLOC",
        "--leak off",
        "Numbers",
        "uPlot",
    ] {
        assert!(page.contains(words) || words == "MALLOC", "{words}");
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
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

#[test]
fn events_of_a_kind_that_is_not_known_are_counted_and_named() {
    let mut run = small();
    let event = Event {
        time: run.begun,
        process: None,
        kind: EventKind::Unknown("migrated".into()),
        words: "to another host".into(),
    };
    run.events.extend([event.clone(), event]);
    let report = report(&run);
    let found = highwater::verdict::run::audited::findings(&run);
    let what = &found.last().expect("a finding").what;
    assert_eq!(
        what,
        "2 events of a kind that this highwater does not know: `migrated`"
    );
    let json: Value = serde_json::from_str(&json::render(&report)).expect("JSON");
    let named = |event: &&Value| event["kind"] == "migrated";
    assert_eq!(
        json["events"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(named)
            .count(),
        2
    );
}
