//! A full disk: a clear error, everything recorded kept, and on it goes when there is room again.

use std::path::{Path, PathBuf};
use std::process::Command;

use observe::snapshot::{EventKind, ProcessId};
use record::{ReadOptions, Reader, RecordError, Recorder};

use crate::build::{begin, event, snapshot, started};
use testkit::skipped;

/// A small file system of its own, gone at the end.
struct Small {
    folder: tempfile::TempDir,
}

impl Small {
    /// `None`, with the reason printed, where this user may not mount.
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Small { folder }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                skipped(&format!("a small tmpfs cannot be mounted here: {why}"));
                None
            }
            Err(error) => {
                skipped(&format!("no mount command: {error}"));
                None
            }
        }
    }

    /// From now on nothing can be written, as on a medium that is only read.
    fn seal(&self) {
        let sealed = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(self.folder.path())
            .status();
        assert!(sealed.expect("mount").success(), "not remounted");
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

/// Snapshots until one fails: how many did not, and why it did.
fn fill(recorder: &mut Recorder, ids: &[ProcessId]) -> (i64, RecordError) {
    let mut written = 0;
    loop {
        match recorder.snapshot(&snapshot(written + 1, ids)) {
            Ok(()) => written += 1,
            Err(error) => return (written, error),
        }
        assert!(written < 100_000, "the disk never filled");
    }
}

#[test]
fn a_full_disk_loses_nothing_recorded() {
    let Some(disk) = Small::mount() else {
        return;
    };
    let (folder, mut recorder) = begin(&disk.path().join("runs"));
    let ids: Vec<_> = (1..=20)
        .map(|n| started(&mut recorder, "glibc", n))
        .collect();
    // Half of the room belongs to somebody else, who will go away.
    let ballast: PathBuf = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1u8; 450 * 1024]).expect("ballast");
    let (written, error) = fill(&mut recorder, &ids);
    assert!(written > 10, "{written}: full before it began");
    assert!(matches!(error, RecordError::Full { .. }), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains("the disk is full") && words.contains("is kept"),
        "{words}"
    );

    let snapshots = || -> usize {
        let run = Reader::read(&folder, &ReadOptions::metrics(["rss_bytes"]))
            .expect("readable while full");
        assert_eq!(run.processes.len(), 20);
        run.processes[19].samples["rss_bytes"].len()
    };
    assert_eq!(snapshots() as i64, written, "something recorded was lost");
    for n in 2..=4 {
        assert!(
            recorder
                .snapshot(&snapshot(written + n, &ids))
                .expect_err("still full")
                .may_pass()
        );
    }
    // A small event may still fit or not; either way it harms nothing.
    let _ = recorder.event(&event(written, None, EventKind::Note, &"x".repeat(100_000)));

    std::fs::remove_file(&ballast).expect("room");
    recorder
        .snapshot(&snapshot(written + 5, &ids))
        .expect("room again");
    assert_eq!(snapshots() as i64, written + 1);
    let run = Reader::read(&folder, &ReadOptions::metrics([])).expect("a run");
    let told = run
        .events
        .iter()
        .find(|event| event.kind == EventKind::SnapshotsLost)
        .expect("told");
    assert!(
        told.words.starts_with("the disk was full: 4 snapshots"),
        "{}",
        told.words
    );
    recorder
        .snapshot(&snapshot(written + 6, &ids))
        .expect("and on");
    let run = Reader::read(&folder, &ReadOptions::metrics([])).expect("a run");
    let told = run
        .events
        .iter()
        .filter(|event| event.kind == EventKind::SnapshotsLost)
        .count();
    assert_eq!(told, 1, "said once");
}

#[test]
fn a_run_folder_that_does_not_fit_is_refused() {
    let Some(disk) = Small::mount() else {
        return;
    };
    let file = disk.path().join("ballast");
    let full = std::fs::write(&file, vec![1u8; 2 << 20]);
    assert!(full.is_err(), "the disk holds more than it should");
    let experiment = crate::build::experiment();
    let runs = disk.path().join("runs");
    let begun = record::Folder::create(&runs, "2026-11-21", &experiment).and_then(|folder| {
        let (machine, clock) = (crate::build::machine(), crate::build::clock());
        record::Recorder::create(&folder, &experiment, &machine, &clock)
    });
    let error = begun.expect_err("no room").to_string();
    assert!(error.contains("the disk is full"), "{error}");
}

#[test]
fn a_run_on_a_read_only_disk_is_read() {
    let Some(disk) = Small::mount() else {
        return;
    };
    let (folder, mut finished) = begin(&disk.path().join("runs"));
    let id = started(&mut finished, "glibc", 1);
    finished.snapshot(&snapshot(1, &[id])).expect("a snapshot");
    let end = record::run::RunEnd {
        time: crate::build::time(2),
        words: "done".into(),
    };
    finished.ended(&end).expect("the end");
    drop(finished);
    // A copy of a run that was killed: its last snapshots are still in the log beside the file.
    let (killed, mut recorder) = begin(&disk.path().join("runs"));
    let id = started(&mut recorder, "glibc", 1);
    recorder.snapshot(&snapshot(1, &[id])).expect("a snapshot");
    let copy = disk.path().join("runs/2026-11-21-copy-1");
    std::fs::create_dir(&copy).expect("a folder");
    for name in ["run.db", "run.db-wal"] {
        std::fs::copy(killed.path().join(name), copy.join(name)).expect("a copy");
    }
    drop(recorder);
    disk.seal();
    let read = |folder: &record::Folder| Reader::read(folder, &ReadOptions::default());
    let run = read(&folder).expect("a finished run");
    assert_eq!(run.end, Some(end));
    assert_eq!(run.processes[0].samples["rss_bytes"].len(), 1);
    let copy = record::Folder::open(&copy).expect("a folder");
    match read(&copy) {
        Ok(run) => assert_eq!(run.processes[0].samples["rss_bytes"].len(), 1),
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains("cannot be opened or written"), "{words}");
        }
    }
    let refused = record::Recorder::open(&folder).expect_err("written to a sealed disk");
    assert!(
        refused.to_string().contains("cannot be opened or written"),
        "{refused}"
    );
}

/// A disk that stands still looks like this: whoever writes holds the record for longer than anybody waits.
#[test]
fn a_record_that_is_held_for_long_loses_snapshots_and_not_the_run() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let id = started(&mut recorder, "glibc", 1);
    let holder = rusqlite::Connection::open(folder.database()).expect("the file");
    holder.execute_batch("BEGIN IMMEDIATE").expect("held");
    let error = recorder.snapshot(&snapshot(1, &[id])).expect_err("held");
    assert!(error.may_pass(), "{error}");
    assert!(error.to_string().contains("goes on when it can"), "{error}");
    holder.execute_batch("COMMIT").expect("let go");
    recorder.snapshot(&snapshot(2, &[id])).expect("free again");
    let run = Reader::read(&folder, &ReadOptions::metrics(["rss_bytes"])).expect("a run");
    assert_eq!(run.processes[0].samples["rss_bytes"].len(), 1);
    let told = |event: &observe::snapshot::Event| {
        event
            .words
            .starts_with("the record could not be written: 1 snapshots")
    };
    assert!(run.events.iter().any(told), "{:?}", run.events);
}
