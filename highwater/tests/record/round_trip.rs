use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use experiment::file::redact::redact_experiment;
use observe::snapshot::{EventKind, ProcessId, Role, TimeNs};
use record::folder::list;
use record::run::RunEnd;
use record::{EventId, FindingRow, Folder, ReadOptions, Reader, Recorder, SnapshotId, export};

use crate::build::{
    begin, clock, event, experiment, fact, histogram, machine, sample, snapshot, started, time,
};

#[test]
fn what_is_written_comes_back() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let a = started(&mut recorder, "glibc", 1);
    let b = started(&mut recorder, "jemalloc", 1);
    let mut first = snapshot(1, &[a, b]);
    first
        .samples
        .push(sample(a, "openmetrics:x{le=\"0.5\",who=\"a,b\"}", 0.125));
    first.samples.push(sample(a, "nothing", f64::NAN));
    first.samples.push(sample(a, "huge", f64::INFINITY));
    first.samples.push(sample(a, "negative", -3.5));
    first.facts = vec![fact(a, "allocator.version", "glibc 2.36")];
    first.histograms = vec![histogram(a, 1)];
    first.events = vec![event(
        1,
        Some(a),
        EventKind::Ready,
        "ready after \x1b[31m2 s",
    )];
    recorder.snapshot(&first).expect("a snapshot");
    let mut second = snapshot(2, &[a, b]);
    second.facts = vec![fact(a, "allocator.version", "glibc 2.37")];
    recorder.snapshot(&second).expect("a snapshot");
    recorder
        .event(&event(3, None, EventKind::OomKilled, "http://u:p@h died"))
        .expect("an event");
    recorder
        .process_ended(b, time(3), Some("signal 9 (KILL)"))
        .expect("an end");

    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    assert_eq!(run.id, "2026-11-21-relay-1");
    assert_eq!(run.folder, folder.path());
    assert_eq!(run.experiment, redact_experiment(&experiment()));
    assert_eq!((run.begun.0, run.last), (clock().wall_ns, time(2)));
    assert_eq!(run.machine, machine());
    assert_eq!(run.end, None);
    assert_eq!(run.processes.len(), 2);
    let (one, two) = (&run.processes[0], &run.processes[1]);
    assert_eq!(
        (one.id, one.arm.as_str(), one.role),
        (a, "glibc", Role::Subject)
    );
    assert_eq!(one.start_ticks, u64::MAX - 7);
    assert_eq!(one.command, ["./relay", "--token=[redacted]", "a b"]);
    let rss = |n: i64, p: ProcessId| (time(n), 4096.0 * (n * 100 + p.0) as f64);
    assert_eq!(one.samples["rss_bytes"], [rss(1, a), rss(2, a)]);
    assert_eq!(two.samples["rss_bytes"], [rss(1, b), rss(2, b)]);
    assert_eq!(
        one.samples["openmetrics:x{le=\"0.5\",who=\"a,b\"}"],
        [(time(1), 0.125)]
    );
    assert_eq!(one.samples["huge"], [(time(1), f64::INFINITY)]);
    assert_eq!(one.samples["negative"], [(time(1), -3.5)]);
    assert!(!one.samples.contains_key("nothing"));
    let versions = [
        (time(1), "glibc 2.36".to_owned()),
        (time(2), "glibc 2.37".to_owned()),
    ];
    assert_eq!(one.facts["allocator.version"], versions);
    assert_eq!(one.histograms, [histogram(a, 1)]);
    assert_eq!(two.ended, Some(time(3)));
    assert_eq!(two.exit.as_deref(), Some("signal 9 (KILL)"));
    assert_eq!(run.events[0], first.events[0]);
    assert_eq!(run.events[1].words, "http://[redacted]@h died");
}

#[test]
fn an_end_is_written_and_taken_back() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let end = RunEnd {
        time: time(4),
        words: "finished".into(),
    };
    recorder.ended(&end).expect("the end");
    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    assert_eq!(run.end, Some(end));
    recorder.resumed().expect("resumed");
    assert_eq!(
        Reader::read(&folder, &ReadOptions::default())
            .expect("a run")
            .end,
        None
    );
}

#[test]
fn folders_are_private_and_count_up() {
    let runs = tempfile::tempdir().expect("a folder");
    let below = runs.path().join("new/runs");
    let claims: Vec<Folder> = std::thread::scope(|scope| {
        let one = || Folder::create(&below, "2026-11-21", &experiment()).expect("a folder");
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let mut ids: Vec<String> = claims.iter().map(Folder::id).collect();
    ids.sort();
    let expected: Vec<String> = (1..=8).map(|n| format!("2026-11-21-relay-{n}")).collect();
    assert_eq!(ids, expected);
    let mode =
        |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(claims[0].path()), 0o700);
    assert_eq!(mode(&claims[0].logs()), 0o700);
    assert_eq!(mode(&claims[0].experiment_file()), 0o600);
    let frozen = std::fs::read_to_string(claims[0].experiment_file()).expect("a file");
    assert!(frozen.contains("RELAY_TOKEN = \"[redacted]\"") && !frozen.contains("hunter2"));
}

#[test]
fn a_run_is_found_by_path_name_or_as_the_latest() {
    let runs = tempfile::tempdir().expect("a folder");
    let (first, _one) = begin(runs.path());
    std::thread::sleep(Duration::from_millis(20)); // file times tell the runs apart
    let (second, _two) = begin(runs.path());
    std::fs::create_dir(runs.path().join("zzz-not-a-run")).expect("a folder");
    let canonical = |folder: &Folder| folder.path().canonicalize().expect("a path");
    let find = |word: &str| {
        Folder::find(runs.path(), word)
            .expect(word)
            .path()
            .to_path_buf()
    };
    assert_eq!(find("latest"), canonical(&second));
    assert_eq!(find(&first.id()), canonical(&first));
    assert_eq!(find(&first.path().to_string_lossy()), canonical(&first));
    assert_eq!(find(&first.database().to_string_lossy()), canonical(&first));
    assert_eq!(list(runs.path()).expect("a list").len(), 2);
    let missing = Folder::find(runs.path(), "2026-01-01-none-1")
        .unwrap_err()
        .to_string();
    assert!(missing.contains("no record here"), "{missing}");
}

#[test]
fn the_loop_reads_only_what_is_new() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let a = started(&mut recorder, "glibc", 1);
    let b = started(&mut recorder, "glibc", 2);
    let reader = Reader::open(&folder).expect("a reader");
    assert_eq!(reader.last_snapshot().expect("snapshots"), None);
    let targets = reader.targets().expect("targets");
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0].pid, 1001);
    assert_eq!(targets[0].start_ticks, u64::MAX - 7);
    assert_eq!(
        targets[0].load_lines.as_deref(),
        Some(std::path::Path::new("/tmp/lines"))
    );
    for n in 1..=3 {
        recorder
            .snapshot(&snapshot(n, &[a, b]))
            .expect("a snapshot");
    }
    let (rows, upto) = reader
        .samples_since(SnapshotId::default(), &["rss_bytes"])
        .expect("rows");
    assert_eq!(rows.len(), 6);
    assert!(rows.is_sorted_by_key(|row| row.time));
    assert_eq!(
        reader.samples_since(upto, &["rss_bytes"]).expect("rows").0,
        []
    );
    recorder.process_ended(b, time(4), None).expect("an end");
    recorder.snapshot(&snapshot(4, &[a])).expect("a snapshot");
    let (rows, _) = reader
        .samples_since(upto, &["rss_bytes", "unheard"])
        .expect("rows");
    assert_eq!(
        rows.iter()
            .map(|row| (row.process, row.time))
            .collect::<Vec<_>>(),
        [(a, time(4))]
    );
    assert_eq!(reader.targets().expect("targets").len(), 1);
    let latest = reader.latest(&["rss_bytes"]).expect("rows");
    let mut latest: Vec<_> = latest.iter().map(|row| (row.process, row.time)).collect();
    latest.sort();
    assert_eq!(latest, [(a, time(4)), (b, time(3))]);

    recorder
        .event(&event(1, None, EventKind::Note, "one"))
        .expect("an event");
    let (events, upto) = reader.events_since(EventId::default()).expect("events");
    assert_eq!(events.len(), 1);
    recorder
        .event(&event(0, None, EventKind::Note, "two, of an earlier time"))
        .expect("an event");
    let (events, _) = reader.events_since(upto).expect("events");
    assert_eq!(events[0].words, "two, of an earlier time");
}

#[test]
fn options_choose_metrics_and_thin_out_snapshots() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let a = started(&mut recorder, "glibc", 1);
    for n in 0..100 {
        let mut snapshot = snapshot(n, &[a]);
        snapshot.histograms = vec![histogram(a, n)];
        recorder.snapshot(&snapshot).expect("a snapshot");
    }
    let read = |options: &ReadOptions| Reader::read(&folder, options).expect("a run");
    let rss = ReadOptions::metrics(["rss_bytes"]);
    let run = read(&rss);
    assert_eq!(
        run.processes[0].samples.keys().collect::<Vec<_>>(),
        ["rss_bytes"]
    );
    assert_eq!(run.processes[0].samples["rss_bytes"].len(), 100);
    let thin = read(&rss.clone().every(Duration::from_secs(10)));
    let times: Vec<TimeNs> = thin.processes[0].samples["rss_bytes"]
        .iter()
        .map(|p| p.0)
        .collect();
    assert_eq!(times, (0..10).map(|n| time(n * 10)).collect::<Vec<_>>());
    assert_eq!(
        thin.last,
        time(99),
        "thinning does not move the end of the run"
    );
    let cpu = read(&ReadOptions {
        without_histograms: true,
        ..ReadOptions::metrics(["cpu_*"])
    });
    assert_eq!(
        cpu.processes[0].samples.keys().collect::<Vec<_>>(),
        ["cpu_user_ns"]
    );
    assert!(cpu.processes[0].histograms.is_empty());
    assert_eq!(run.processes[0].histograms.len(), 100);
    assert!(
        read(&ReadOptions::metrics([])).processes[0]
            .samples
            .is_empty()
    );
}

#[test]
fn of_two_samples_at_once_the_later_counts() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let a = started(&mut recorder, "glibc", 1);
    let mut twice = snapshot(1, &[]);
    twice.samples = vec![sample(a, "m", 1.0), sample(a, "m", 2.0)];
    twice.facts = vec![fact(a, "exe", "x"), fact(a, "exe", "y")];
    recorder.snapshot(&twice).expect("a snapshot");
    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    assert_eq!(run.processes[0].samples["m"], [(time(1), 2.0)]);
    assert_eq!(run.processes[0].facts["exe"], [(time(1), "y".to_owned())]);
}

#[test]
fn two_writers_take_turns() {
    const SNAPSHOTS: i64 = 150;
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut supervisor) = begin(runs.path());
    let a = started(&mut supervisor, "glibc", 1);
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut collector = Recorder::open(&folder).expect("a second writer");
            (1..=SNAPSHOTS)
                .for_each(|n| collector.snapshot(&snapshot(n, &[a])).expect("a snapshot"));
        });
        for n in 1..=SNAPSHOTS {
            supervisor
                .event(&event(n, Some(a), EventKind::Note, "tick"))
                .expect("an event");
        }
        collector.join().expect("no panic");
    });
    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    assert_eq!(
        run.processes[0].samples["rss_bytes"].len() as i64,
        SNAPSHOTS
    );
    assert_eq!(run.events.len() as i64, SNAPSHOTS);
}

#[test]
fn findings_are_kept() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let finding = FindingRow {
        time: time(1),
        source: "audit".into(),
        what: "two processes were restarted".into(),
        processes: vec!["glibc/1".into(), "glibc/2".into()],
        effect: "their ages differ from the others'".into(),
    };
    recorder.finding(&finding).expect("a finding");
    assert_eq!(
        Reader::open(&folder)
            .expect("a reader")
            .findings()
            .expect("findings"),
        [finding]
    );
}

#[test]
fn the_export_is_long_form_csv() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let a = started(&mut recorder, "glibc", 1);
    let b = started(&mut recorder, "jemalloc", 2);
    for n in 1..=300 {
        let mut snapshot = snapshot(n, &[a, b]);
        snapshot
            .samples
            .push(sample(a, "openmetrics:x{who=\"a,b\"}", 0.5));
        recorder.snapshot(&snapshot).expect("a snapshot");
    }
    let reader = Reader::open(&folder).expect("a reader");
    let lines = |options: &ReadOptions| -> Vec<String> {
        let lines = export::samples_csv(&reader, options).expect("an export");
        lines.collect::<Result<_, _>>().expect("lines")
    };
    let all = lines(&ReadOptions::default());
    assert_eq!(all.len(), 1 + 300 * 5);
    assert_eq!(
        all[0],
        "time,arm,replica,incarnation,role,pid,process,metric,value\n"
    );
    let first = "2026-11-21T17:14:04.25Z,jemalloc,2,0,subject,1002,2,rss_bytes,417792\n";
    assert!(all.contains(&first.to_owned()), "{}", all[2]);
    let quoted =
        "2026-11-21T17:14:04.25Z,glibc,1,0,subject,1001,1,\"openmetrics:x{who=\"\"a,b\"\"}\",0.5\n";
    assert!(all.contains(&quoted.to_owned()));
    let thin = lines(&ReadOptions::metrics(["rss_bytes"]).every(Duration::from_secs(100)));
    assert_eq!(thin.len(), 1 + 3 * 2);
}

/// A newer highwater may write kinds that this one has no name for: an event is a row, not a table.
#[test]
fn an_event_of_a_newer_kind_is_kept_under_its_name() {
    let runs = tempfile::tempdir().expect("a folder");
    let (folder, mut recorder) = begin(runs.path());
    let newer = EventKind::Unknown("migrated".into());
    recorder
        .event(&event(1, None, newer.clone(), "to another host"))
        .expect("an event");
    recorder
        .event(&event(2, None, EventKind::OomKilled, "died"))
        .expect("an event");
    let db = rusqlite::Connection::open(folder.database()).expect("a database");
    let word: String = db
        .query_row("SELECT kind FROM event ORDER BY id", [], |row| row.get(0))
        .expect("a row");
    assert_eq!(word, "migrated");
    let run = Reader::read(&folder, &ReadOptions::default()).expect("a run");
    let kinds: Vec<&EventKind> = run.events.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds, [&newer, &EventKind::OomKilled]);
}
