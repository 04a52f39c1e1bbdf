//! The report on a terminal.

use observe::metric;
use record::run::Run;
use report::{Extras, Report, text};

use crate::synthetic::{hostile, judged, relay};

fn render(run: &Run, width: usize) -> String {
    let report = Report::build(run, &judged::verdict(run), Extras::default());
    text::render(&report, width)
}

fn plain(run: &Run, width: usize) -> String {
    anstream::adapter::strip_str(&render(run, width)).to_string()
}

#[test]
fn a_hundred_columns() {
    snapbox::assert_data_eq!(
        plain(&relay().run(), 100),
        snapbox::file!["golden/relay-100.txt"].raw()
    );
}

#[test]
fn eighty_columns_fold_the_tables() {
    snapbox::assert_data_eq!(
        plain(&relay().run(), 80),
        snapbox::file!["golden/relay-80.txt"].raw()
    );
}

#[test]
fn narrow_terminals_get_one_block_per_arm() {
    let mut plan = relay();
    plan.arms.truncate(2);
    snapbox::assert_data_eq!(
        plain(&plan.run(), 60),
        snapbox::file!["golden/relay-60.txt"].raw()
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut untold = relay().run();
    untold
        .processes
        .iter_mut()
        .for_each(|p| p.histograms.clear());
    untold.processes.iter_mut().for_each(|p| p.samples.clear());
    let runs = [relay().run(), hostile(), untold];
    for (run, width) in runs
        .iter()
        .flat_map(|run| [100, 90, 80, 72, 60, 50, 40].map(|width| (run, width)))
    {
        for line in plain(run, width).lines() {
            let columns = line.chars().count();
            assert!(columns <= width, "{columns} columns of {width}: {line}");
        }
    }
}

#[test]
fn a_column_of_nothing_is_left_out_where_one_arm_was_not_read() {
    let mut run = relay().run();
    let control = run.experiment.control.clone();
    for process in run.processes.iter_mut().filter(|p| p.arm == control) {
        process.samples.remove(metric::HUGE_PAGES.name);
    }
    let text = plain(&run, 100);
    assert!(text.contains("None where measured: huge pages."), "{text}");
}

#[test]
fn names_cannot_speak_to_the_terminal() {
    let run = hostile();
    let text = render(&run, 100);
    assert!(text.contains("\u{1b}["), "it has styles of its own");
    let plain = plain(&run, 100);
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(!plain.contains(bad), "{plain:?}");
    assert!(plain.contains("\\x1b[31m") && plain.contains("\\u{202e}"));
    // Of escape sequences, only styles: no title, no cursor, no link.
    for (at, _) in text.match_indices('\u{1b}') {
        let end = text[at..]
            .find(|c: char| c.is_ascii_alphabetic())
            .expect("a sequence ends");
        assert_eq!(&text[at + end..at + end + 1], "m");
    }
}

#[test]
fn a_run_of_nothing_is_a_report_too() {
    let mut run = relay().run();
    run.processes.clear();
    run.events.clear();
    let text = plain(&run, 100);
    assert!(text.starts_with("Undecided: "), "{text}");
    assert!(text.contains("no process was started"));
}
