//! A terminal that goes away, a disk behind stdout that is full, names that a terminal would obey, a run that somebody
//! else looks after: none of it ends a run or says nothing.

use std::fs::File;
use std::process::Stdio;

use super::scene::{Scene, program, said, wait};
use record::Reader;
use testkit::skipped;

const FAKE: &str = "name = \"fake\"\nhypothesis = \"a \\u001b[31mred\\u001b[0m \\u202e one\"\ncontrol = \"a\"\n\
    duration = \"1m\"\n[subject]\nkind = \"fake\"\n[[arms]]\nname = \"a\"\ncurve = \"64MiB\"\n\
    [[arms]]\nname = \"b\"\ncurve = \"32MiB\"\n";

fn service(more: &str) -> String {
    format!(
        "name = \"served\"\ncontrol = \"a\"\nduration = \"10m\"\nwarmup = \"1s\"\nreplicas = 1\ninterval = \"100ms\"\n\
         {more}\n[[arms]]\nname = \"a\"\n"
    )
}

fn flat() -> String {
    service(&format!("[subject]\ncommand = [{:?}]", program("flat")))
}

/// A pipe whose other end is closed.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::create("/dev/full").expect("/dev/full").into()
}

#[test]
fn a_run_outlives_whoever_reads_its_progress() {
    for stderr in [broken, full] {
        let scene = Scene::new();
        scene.experiment(FAKE);
        let mut command = scene.command(&["run", "experiment.toml"]);
        let said = said(command.stderr(stderr()).output().expect("it starts"));
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains("`b` needs less"), "{said:?}");
    }
}

#[test]
fn an_answer_that_nobody_can_read_is_no_panic() {
    let scene = Scene::new();
    assert_eq!(scene.run(FAKE, &[]).code, 0);
    for verb in [
        &["run", "experiment.toml"][..],
        &["run", "experiment.toml", "--dry-run"],
        &["report", "latest"],
        &["log"],
        &["allocators", "list"],
        &["doctor"],
        &["man"],
    ] {
        let run = |out: Stdio| said(scene.command(verb).stdout(out).output().expect("it starts"));
        let closed = run(broken());
        assert_eq!(closed.code, 0, "{verb:?}: {closed:?}");
        let full = run(full());
        assert_eq!(full.code, 4, "{verb:?}: {full:?}");
        assert!(full.err.contains("writing to stdout"), "{verb:?}: {full:?}");
    }
}

#[test]
fn a_dry_run_says_what_a_run_would_meet_and_obeys_no_name() {
    let scene = Scene::new();
    let said = scene.run(FAKE, &["--dry-run"]);
    assert!(
        said.out
            .starts_with("fake: a \\x1b[31mred\\x1b[0m \\u{202e} one\n"),
        "{said:?}"
    );
    let missing =
        "[subject]\ncommand = [\"./No-Such\"]\n[load]\ncommand = [\"./Load\", \"--URL\", \"A b\"]";
    let said = scene.run(&service(missing), &["--dry-run"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("load (per process): ./Load --URL 'A b'"),
        "{said:?}"
    );
    assert!(said.err.contains("would not start here now"), "{said:?}");
    assert!(
        said.err.contains("arm a: ") && said.err.contains("No-Such: no such file"),
        "{said:?}"
    );
    let slip = ["--dry-run", "--set", "arms.a.environment.MALLOC_ARENA_MX=2"];
    let said = scene.run(&flat(), &slip);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.err.contains("the nearest is MALLOC_ARENA_MAX"),
        "{said:?}"
    );
}

/// Signals that are ignored here (`nohup`) are ignored by whatever is started.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("own status");
    let words = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let ignored = words.and_then(|words| u64::from_str_radix(words.trim(), 16).ok());
    ignored.expect("a set of signals") & 1 != 0
}

#[test]
fn a_closed_terminal_ends_a_run_in_order() {
    if ignores_hangups() {
        return skipped("SIGHUP is ignored here (nohup), and so by what is started");
    }
    let scene = Scene::new();
    let mut child = scene.start(&flat(), &[]);
    let pid = rustix::process::Pid::from_child(&child);
    let folder = scene.run_folder();
    wait("some snapshots", || {
        let snapshots = Reader::open(&folder).ok()?.last_snapshot().ok()??.0;
        (snapshots.0 > 25).then_some(())
    });
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("a signal");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(scene.verdict_code()), "{ended:?}");
    let end = scene.record().end.expect("an end").words;
    assert_eq!(end, "interrupted");
    let said = scene.highwater(&["report", "latest"]);
    assert!(
        said.out
            .replace('\n', " ")
            .contains("End, of 10 min planned: interrupted."),
        "{said:?}"
    );
    // It ended with its processes: there is nothing to go on with, and the record stays as it is.
    let resumed = scene.highwater(&["run", "--resume", "latest"]);
    assert_eq!(resumed.code, 4, "{resumed:?}");
    assert!(
        resumed.err.contains("none of its processes lives any more"),
        "{resumed:?}"
    );
    assert_eq!(scene.record().end.expect("the end stays").words, end);
}

#[test]
fn a_run_has_one_supervisor() {
    let scene = Scene::new();
    let mut child = scene.start(&flat(), &[]);
    let folder = scene.run_folder();
    let said = scene.highwater(&["run", "--resume", &folder.id()]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(
        said.err
            .contains("another `highwater run` manages this run"),
        "{said:?}"
    );
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .expect("a signal");
    child.wait().expect("it ends");
}

#[test]
fn a_run_that_is_not_there_brings_those_that_are() {
    let scene = Scene::new();
    let said = scene.highwater(&["report", "latest"]);
    assert!(said.err.contains("--runs names another folder"), "{said:?}");
    scene.run(FAKE, &[]);
    let said = scene.highwater(&["report", "2026"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(
        said.err
            .contains(&format!("the newest in runs: {}", scene.run_folder().id())),
        "{said:?}"
    );
}
