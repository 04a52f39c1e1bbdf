//! SIGKILL at random moments: every snapshot that was acknowledged is there, and whole.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use observe::snapshot::{EventKind, ProcessId};
use record::run::Run;
use record::{Folder, ReadOptions, Reader, Recorder};

use crate::build::{begin, event, snapshot, started, time};

const PROCESSES: i64 = 40;
const ROUNDS: u64 = 25;
const SEED: u64 = 4;
const FOLDER: &str = "HIGHWATER_TEST_RECORD";
const FIRST: &str = "HIGHWATER_TEST_FIRST_SNAPSHOT";

fn ids() -> Vec<ProcessId> {
    (1..=PROCESSES).map(ProcessId).collect()
}

/// Not a test of its own: the writer that is killed. Says the number of each snapshot once it is committed.
#[test]
#[ignore = "started by the tests below"]
fn child_writes_snapshots() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let first: i64 = std::env::var(FIRST)
        .expect("a number")
        .parse()
        .expect("a number");
    let mut recorder =
        Recorder::open(&Folder::open(Path::new(&folder)).expect("a folder")).expect("a record");
    // Bounded: should the parent die, this one ends as well.
    for n in first..first + 20_000 {
        let mut snapshot = snapshot(n, &ids());
        snapshot.events = vec![event(n, None, EventKind::Note, "snapshot")];
        recorder.snapshot(&snapshot).expect("a snapshot");
        if writeln!(std::io::stdout(), "snapshot {n}").is_err() {
            return;
        }
    }
}

/// Runs the writer, kills it after `life`, and returns the last snapshot that it had acknowledged.
fn write_and_kill(folder: &Folder, first: i64, life: Duration) -> i64 {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--ignored",
            "--exact",
            "kill::child_writes_snapshots",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a writer");
    let lines = BufReader::new(child.stdout.take().expect("its output"));
    let reading = std::thread::spawn(move || {
        let snapshots = lines
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("snapshot ")?.parse().ok());
        snapshots.last().unwrap_or(0)
    });
    std::thread::sleep(life);
    child.kill().expect("SIGKILL"); // by handle: this child and no other
    child.wait().expect("it ended");
    let last: i64 = reading.join().expect("no panic");
    last.max(first - 1)
}

#[test]
fn a_killed_collector_loses_no_acknowledged_snapshot() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut supervisor) = begin(runs.path());
    for n in 1..=PROCESSES {
        let id = started(&mut supervisor, "glibc", n as u32);
        assert_eq!(id, ProcessId(n));
    }
    let mut next = 1;
    let mut state = SEED;
    for round in 0..ROUNDS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // From before the writer has opened the file to some hundred snapshots later.
        let life = Duration::from_micros((state >> 33) % 250_000);
        let acknowledged = write_and_kill(&folder, next, life);
        // The supervisor goes on at once, beside whatever the dead writer left behind.
        supervisor
            .event(&event(next, None, EventKind::CollectorRestarted, "killed"))
            .expect("an event");
        let run = Reader::read(&folder, &ReadOptions::default()).expect("the record opens");
        let context = format!("seed {SEED}, round {round}, lived {life:?}");
        next = 1 + whole_snapshots(&run, acknowledged, &context);
    }
    assert!(
        next > 100,
        "the writer was always killed too early to prove anything ({next} snapshots)"
    );
    let db = rusqlite::Connection::open(folder.database()).expect("the file");
    let words: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(words, "ok");
}

/// The last snapshot, when every one until there is in the record as a whole.
fn whole_snapshots(run: &Run, acknowledged: i64, context: &str) -> i64 {
    let times = |p: usize, metric: &str| -> Vec<i64> {
        let Some(points) = run.processes[p].samples.get(metric) else {
            return Vec::new();
        };
        points
            .iter()
            .map(|(at, _)| (at.0 - time(0).0) / 1_000_000_000)
            .collect()
    };
    let snapshots = times(0, "rss_bytes");
    let last = snapshots.last().copied().unwrap_or(0);
    assert!(
        last >= acknowledged,
        "{context}: {acknowledged} was acknowledged, {last} is there"
    );
    assert!(
        last <= acknowledged + 1,
        "{context}: {last} is more than one snapshot ahead"
    );
    assert_eq!(
        snapshots,
        (1..=last).collect::<Vec<_>>(),
        "{context}: a snapshot is missing"
    );
    for p in 0..PROCESSES as usize {
        assert_eq!(
            times(p, "rss_bytes"),
            snapshots,
            "{context}: a snapshot is not whole"
        );
        assert_eq!(
            times(p, "cpu_user_ns"),
            snapshots,
            "{context}: a snapshot is not whole"
        );
    }
    let noted = run
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Note)
        .count();
    assert_eq!(
        noted as i64, last,
        "{context}: events and samples of a snapshot differ"
    );
    last
}
