//! Records of earlier schemas.

use std::path::{Path, PathBuf};

use observe::snapshot::EventKind;
use record::{Folder, ReadOptions, Reader, Recorder, SCHEMA};

use crate::build::{begin, experiment, snapshot, started, time};

/// `run-schema-1.db` was written with the tables of `src/record/schema/1.sql` by `bless_schema_1` below and is kept
/// as it was: the file of a highwater of that time.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/run-schema-1.db")
}

fn old_run() -> (tempfile::TempDir, Folder) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(fixture(), folder.path().join("run.db")).expect("a copy");
    let found = Folder::open(folder.path()).expect("a folder");
    (folder, found)
}

fn version(folder: &Folder) -> i64 {
    let db = rusqlite::Connection::open(folder.database()).expect("a database");
    db.pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a version")
}

#[test]
fn schema_1_is_brought_up_to_date_and_nothing_is_lost() {
    let (_keep, folder) = old_run();
    assert_eq!(version(&folder), 1);
    let run = Reader::read(&folder, &ReadOptions::default()).expect("an old run");
    assert_eq!(version(&folder), SCHEMA);
    assert_eq!(run.experiment.name, "relay");
    assert_eq!(run.processes.len(), 2);
    assert_eq!(
        (run.last, run.events[0].kind.clone()),
        (time(5), EventKind::Ready)
    );
    for process in &run.processes {
        let rss: Vec<_> = process.samples["rss_bytes"]
            .iter()
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(rss, (1..=5).map(time).collect::<Vec<_>>());
        assert_eq!(
            process.samples["rss_bytes"][2].1,
            4096.0 * (300 + process.id.0) as f64
        );
    }
    assert_eq!(run.processes[0].samples["rare"], [(time(3), 0.5)]);
    assert_eq!(
        run.processes[0].facts["exe"],
        [(time(1), "/bin/relay".to_owned())]
    );
    assert_eq!(run.processes[0].histograms.len(), 1);
}

#[test]
fn an_old_run_can_be_gone_on_with() {
    let (_keep, folder) = old_run();
    let mut recorder = Recorder::open(&folder).expect("a record");
    let ids: Vec<_> = Reader::open(&folder)
        .expect("a reader")
        .targets()
        .expect("targets")
        .iter()
        .map(|target| target.process)
        .collect();
    recorder.snapshot(&snapshot(6, &ids)).expect("a snapshot");
    let run = Reader::read(&folder, &ReadOptions::metrics(["rss_bytes"])).expect("a run");
    assert_eq!(run.processes[0].samples["rss_bytes"].len(), 6);
}

/// The documented table `sample` reads the same in every schema, with any SQLite.
#[test]
fn other_programs_see_the_documented_sample() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let id = started(&mut recorder, "glibc", 1);
    (1..=3).for_each(|n| recorder.snapshot(&snapshot(n, &[id])).expect("a snapshot"));
    let db = rusqlite::Connection::open(folder.database()).expect("a database");
    let sql =
        "SELECT process, time, metric, value FROM sample WHERE metric = 'rss_bytes' ORDER BY time";
    let mut statement = db.prepare(sql).expect("the view");
    let rows = statement
        .query_map([], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get::<_, String>(2)?, r.get(3)?))
        })
        .expect("rows");
    let rows: Vec<(i64, i64, String, f64)> = rows.collect::<Result<_, _>>().expect("rows");
    let row = |n: i64| {
        (
            id.0,
            time(n).0,
            "rss_bytes".to_owned(),
            4096.0 * (n * 100 + id.0) as f64,
        )
    };
    assert_eq!(rows, [row(1), row(2), row(3)]);
}

/// Each table and column of a fresh record stands in docs/reference/record.md, and nothing else does.
#[test]
fn the_page_describes_every_table() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, _recorder) = begin(runs.path());
    let db = rusqlite::Connection::open(folder.database()).expect("a database");
    let names = |sql: &str| -> Vec<String> {
        let mut statement = db.prepare(sql).expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("names")
    };
    let page = include_str!("../../../docs/reference/record.md");
    assert!(page.contains(&format!("## Tables (schema {SCHEMA})")));
    let sections: Vec<&str> = page
        .split("\n### `")
        .skip(1)
        .filter_map(|section| section.split("\n## ").next())
        .collect();
    let tables = names("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')");
    assert_eq!(sections.len(), tables.len(), "{tables:?}");
    for table in tables {
        let section = sections
            .iter()
            .find(|section| section.starts_with(&format!("{table}`")));
        let section = section.unwrap_or_else(|| panic!("{table} is not on the page"));
        let described: Vec<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        assert_eq!(
            described,
            names(&format!("SELECT name FROM pragma_table_info('{table}')")),
            "{table}"
        );
        let optional: Vec<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` ? |"))
            .map(|(name, _)| name)
            .collect();
        let sql = "SELECT name FROM pragma_table_info('TABLE') WHERE \"notnull\" = 0 AND pk = 0";
        if table != "sample" {
            assert_eq!(optional, names(&sql.replace("TABLE", &table)), "{table}");
        }
    }
}

/// A schema is a promise: a new one is a new file with a new fixture, never an edit.
#[test]
#[ignore = "writes the fixture anew; only ever needed once"]
fn bless_schema_1() {
    if std::env::var_os("HIGHWATER_BLESS").is_none() {
        return;
    }
    let db = rusqlite::Connection::open(fixture()).expect("a new file");
    db.execute_batch(include_str!("../../../crates/record/src/schema/1.sql"))
        .expect("tables");
    let frozen = experiment::file::freeze(&experiment());
    let meta = [
        ("experiment", frozen.as_str()),
        ("clock.begun", "1795281243250000000"),
        ("clock.boottime_ns", "77"),
        ("clock.boot_id", "boot"),
        ("machine.cpus", "4"),
    ];
    for (key, value) in meta {
        db.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
            .expect("meta");
    }
    for process in 1..=2 {
        let sql = "INSERT INTO process VALUES (?, 'glibc', ?, 0, 'subject', ?, 7, ?, NULL, NULL, '[\"./relay\"]', \
                   NULL, NULL, NULL, NULL)";
        db.execute(sql, (process, process, 1000 + process, time(0).0))
            .expect("a process");
    }
    db.execute_batch("INSERT INTO metric VALUES (1, 'rss_bytes'), (2, 'rare'), (3, 'latency')")
        .expect("metrics");
    for n in 1..=5 {
        for process in 1..=2i64 {
            let value = 4096.0 * (n * 100 + process) as f64;
            db.execute(
                "INSERT INTO sample VALUES (?, ?, 1, ?)",
                (process, time(n).0, value),
            )
            .expect("a sample");
        }
    }
    db.execute("INSERT INTO sample VALUES (1, ?, 2, 0.5)", [time(3).0])
        .expect("a sample");
    db.execute(
        "INSERT INTO fact VALUES (1, 'exe', ?, '/bin/relay')",
        [time(1).0],
    )
    .expect("a fact");
    let sql = "INSERT INTO histogram VALUES (1, 1, 3, ?, ?, 10, 0, 0, x'00')";
    db.execute(sql, (time(1).0, time(2).0))
        .expect("a histogram");
    db.execute(
        "INSERT INTO event VALUES (1, ?, 1, 'ready', 'ready')",
        [time(1).0],
    )
    .expect("an event");
    db.execute_batch("PRAGMA application_id = 0x68777472; PRAGMA user_version = 1")
        .expect("a version");
}

/// Kinds had other names: `looks-lost` is what 0.1.0 wrote of snapshots that the record could not take.
#[test]
fn events_under_an_old_name_are_read_under_the_new_one() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    recorder
        .event(&crate::build::event(
            1,
            None,
            EventKind::Unknown("looks-lost".into()),
            "the disk was full",
        ))
        .expect("an event");
    recorder
        .event(&crate::build::event(
            2,
            None,
            EventKind::SnapshotsLost,
            "again",
        ))
        .expect("an event");
    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    let kinds: Vec<&EventKind> = run.events.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds, [&EventKind::SnapshotsLost; 2]);
    let db = rusqlite::Connection::open(folder.database()).expect("a database");
    let newest: String = db
        .query_row("SELECT kind FROM event ORDER BY id DESC", [], |row| {
            row.get(0)
        })
        .expect("a row");
    assert_eq!(newest, "snapshots-lost");
}
