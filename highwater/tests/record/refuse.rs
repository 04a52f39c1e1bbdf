//! Files that are no record, or not one of ours, or not whole.

use std::path::Path;

use record::{Folder, ReadOptions, Reader, Recorder, SCHEMA};

use crate::build::{begin, snapshot, started};

/// What reading the folder says; writing must refuse it as well.
fn words(folder: &Path) -> String {
    let read = Folder::open(folder).and_then(|f| Reader::read(&f, &ReadOptions::default()));
    let written = Folder::open(folder).and_then(|f| Recorder::open(&f));
    assert!(written.is_err(), "it was opened for writing");
    read.expect_err("it was read").to_string()
}

fn with_database(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("run.db"), bytes).expect("a file");
    let words = words(folder.path());
    (folder, words)
}

/// A finished record as bytes: one file, nothing beside it.
fn record() -> Vec<u8> {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let id = started(&mut recorder, "glibc", 1);
    (1..=2000).for_each(|n| recorder.snapshot(&snapshot(n, &[id])).expect("a snapshot"));
    drop(recorder);
    std::fs::read(folder.database()).expect("a file")
}

#[test]
fn a_newer_schema_is_refused_in_words() {
    let mut bytes = record();
    bytes[60..64].copy_from_slice(&(SCHEMA as u32 + 3).to_be_bytes()); // user_version of the SQLite header
    let (_folder, words) = with_database(&bytes);
    let (newer, known) = (SCHEMA + 3, SCHEMA);
    let expected = format!(
        "made by a newer highwater (schema {newer}, this one reads 1..{known}): update highwater"
    );
    assert!(words.ends_with(&expected), "{words}");
}

#[test]
fn what_is_not_a_record_is_named() {
    assert!(
        with_database(b"")
            .1
            .contains("empty: the run was never started")
    );
    assert!(
        with_database(&[7; 5000])
            .1
            .contains("not a record of highwater (no SQLite file)")
    );
    let text = "SQLite format 3\0 and then a poem about something else";
    assert!(!with_database(text.as_bytes()).1.is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    assert!(words(folder.path()).contains("no record here; a run folder holds a file run.db"));
    let other = folder.path().join("run.db");
    let db = rusqlite::Connection::open(&other).expect("a database");
    db.execute_batch("CREATE TABLE cat (name); PRAGMA user_version = 1")
        .expect("a table");
    drop(db);
    assert!(words(folder.path()).contains("a SQLite file of another program"));
}

#[test]
fn an_interrupted_beginning_reads_as_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = rusqlite::Connection::open(folder.path().join("run.db")).expect("a database");
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .expect("WAL");
    drop(db);
    assert!(words(folder.path()).contains("empty: the run was never started"));
}

/// Cut anywhere, a record is read as far as it goes or refused in words; nothing panics and nothing hangs.
#[test]
fn a_truncated_record_never_panics() {
    let bytes = record();
    let mut refused = 0;
    for part in 1..40 {
        let folder = tempfile::tempdir().expect("a folder");
        let cut = bytes.len() * part / 40;
        std::fs::write(folder.path().join("run.db"), &bytes[..cut]).expect("a file");
        let folder = Folder::open(folder.path()).expect("a folder");
        if let Err(error) = Reader::read(&folder, &ReadOptions::default()) {
            refused += 1;
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }
    assert!(refused > 30, "only {refused} of 39 were noticed");
}

/// Bytes overwritten at seeded places.
#[test]
fn a_scribbled_record_never_panics() {
    let good = record();
    let mut state = 20_261_121u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..60 {
        let mut bytes = good.clone();
        for _ in 0..8 {
            let at = random(bytes.len() - 100) + 100;
            let end = (at + random(60)).min(bytes.len());
            let value = random(256) as u8;
            bytes[at..end].fill(value);
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("run.db"), &bytes).expect("a file");
        let folder = Folder::open(folder.path()).expect("a folder");
        let _ = Reader::read(&folder, &ReadOptions::default());
        if let Ok(reader) = Reader::open(&folder) {
            let _ = (
                reader.targets(),
                reader.latest(&["rss_bytes"]),
                reader.findings(),
            );
        }
    }
}

#[test]
fn a_record_is_begun_only_once() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, _recorder) = begin(runs.path());
    let experiment = crate::build::experiment();
    let again = Recorder::create(
        &folder,
        &experiment,
        &crate::build::machine(),
        &crate::build::clock(),
    );
    assert!(
        again
            .expect_err("it was begun twice")
            .to_string()
            .contains("exists")
    );
}
