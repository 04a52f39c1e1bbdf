//! /proc as captured, as garbage, and as it is for real processes.

mod observed;

use observe::collector::{Observer, Options};
use observe::metric;
use observe::proc::ProcRoot;
use observe::proc::rollup::parse_rollup;
use observe::proc::stat::parse_stat;
use observe::proc::status::parse_status;
use observe::proc::tasks::parse_schedstat;
use observe::snapshot::{EventKind, Role, Snapshot, TimeNs};
use observed::{Child, SECOND, fixture_root, spawn, spawn_c, target, value, values};
use proptest::prelude::*;

fn snapshot_once(observer: &mut Observer, at: i64, process: &Child) -> Snapshot {
    observer.snapshot(TimeNs(at), &[process.target(1)])
}

fn observer() -> Observer {
    Observer::new(ProcRoot::default(), Options::default())
}

#[test]
fn a_captured_process_is_read_in_base_units() {
    let mut observer = Observer::new(fixture_root("6.18"), Options::default());
    let snapshot = observer.snapshot(TimeNs(5), &[target(1, 4242, 162_413)]);
    let expected = [
        (metric::RSS, 54_608 * 1024),
        (metric::RSS_ANON, 47_908 * 1024),
        (metric::PSS, 53_135 * 1024),
        (metric::PRIVATE_DIRTY, 47_908 * 1024),
        (metric::LAZY_FREE, 0),
        (metric::THREADS, 4),
        (metric::FILE_DESCRIPTORS, 5),
        (metric::MINOR_FAULTS, 13_152),
        (metric::MAJOR_FAULTS, 0),
        // 5 and 4 clock ticks of 10 ms: what every x86 and arm kernel tells user space.
        (metric::CPU_USER, 50_000_000),
        (metric::CPU_SYSTEM, 40_000_000),
        // The sum of schedstat's second number over task/: 18203 + 6813 + 0 + 0.
        (metric::RUN_DELAY, 25_016),
    ];
    for (metric, expected) in expected {
        assert_eq!(
            value(&snapshot, 1, metric),
            Some(expected as f64),
            "{}",
            metric.name
        );
    }
    let switches: u64 = ["4242", "4243", "4244", "4245"]
        .iter()
        .map(|tid| {
            let file = format!("4242/task/{tid}/status");
            let status = parse_status(&fixture_root("6.18").read(&file).unwrap());
            status.switches_voluntary.unwrap()
        })
        .sum();
    assert!(switches > 21, "the main thread alone has 21");
    assert_eq!(
        value(&snapshot, 1, metric::SWITCHES_VOLUNTARY),
        Some(switches as f64)
    );
}

#[test]
fn names_with_blanks_and_parentheses_do_not_shift_fields() {
    let text = fixture_root("6.18").read("4242/stat").unwrap();
    let plain = parse_stat(&text, 1).unwrap();
    let text = String::from_utf8(text).unwrap();
    for name in ["(a b) S 1 1 1 (", "", ") R 9", "\u{fffd}\n"] {
        let renamed = text.replace("(python3)", &format!("({name})"));
        assert_eq!(
            parse_stat(renamed.as_bytes(), 1).as_ref(),
            Ok(&plain),
            "{name:?}"
        );
    }
}

proptest! {
    #[test]
    fn parsers_take_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse_stat(&bytes, u64::MAX);
        let _ = parse_status(&bytes);
        let _ = parse_rollup(&bytes);
        let _ = parse_schedstat(&bytes);
    }

    #[test]
    fn parsers_take_real_text_with_holes(cut in 0usize..2000, at in 0usize..2000, byte: u8) {
        for file in ["stat", "status", "smaps_rollup", "schedstat"] {
            let mut text = fixture_root("6.18").read(&format!("4242/{file}")).unwrap();
            if let Some(slot) = text.get_mut(at) {
                *slot = byte;
            }
            text.truncate(cut);
            let _ = parse_stat(&text, 10_000_000);
            let _ = parse_status(&text);
            let _ = parse_rollup(&text);
            let _ = parse_schedstat(&text);
        }
    }
}

#[test]
fn a_real_process_that_grows_is_seen_to_grow() {
    let child = spawn_c("grow.c", &[]);
    let mut observer = observer();
    child.read_line(); // 8 MiB touched
    let before = snapshot_once(&mut observer, SECOND, &child);
    child.write_line();
    child.read_line(); // 64 MiB more touched
    let after = snapshot_once(&mut observer, 2 * SECOND, &child);
    let grown = |m| value(&after, 1, m).unwrap() - value(&before, 1, m).unwrap();
    let mib = 1024.0 * 1024.0;
    assert!(
        (60.0 * mib..70.0 * mib).contains(&grown(metric::RSS)),
        "{}",
        grown(metric::RSS)
    );
    assert!((60.0 * mib..70.0 * mib).contains(&grown(metric::RSS_ANON)));
    assert!(
        grown(metric::MINOR_FAULTS) >= 30.0,
        "huge pages need few faults, but some"
    );
    assert!(value(&before, 1, metric::FILE_DESCRIPTORS).unwrap() >= 3.0);
    assert!(
        before.events.is_empty() && after.events.is_empty(),
        "{:?}",
        after.events
    );
}

#[test]
fn the_end_of_a_process_is_said_once_and_others_go_on() {
    let (mut dies, lives) = (spawn("sleep", &["60"]), spawn("sleep", &["60"]));
    let mut observer = observer();
    let targets = [dies.target(1), lives.target(2)];
    let first = observer.snapshot(TimeNs(1), &targets);
    assert!(value(&first, 1, metric::RSS).is_some());
    dies.kill_and_reap();
    let second = observer.snapshot(TimeNs(2), &targets);
    let gone: Vec<_> = second
        .events
        .iter()
        .map(|e| (e.kind.clone(), e.process.unwrap().0))
        .collect();
    assert_eq!(gone, [(EventKind::Vanished, 1)]);
    assert!(value(&second, 1, metric::RSS).is_none());
    assert!(value(&second, 2, metric::RSS).is_some());
    assert!(observer.snapshot(TimeNs(3), &targets).events.is_empty());
}

#[test]
fn a_zombie_is_not_sampled() {
    let mut child = spawn("sleep", &["60"]);
    let mut observer = observer();
    snapshot_once(&mut observer, 1, &child);
    child.kill_and_leave();
    let snapshot = snapshot_once(&mut observer, 2, &child);
    assert!(snapshot.samples.is_empty());
    assert_eq!(snapshot.events[0].kind, EventKind::Vanished);
    assert!(
        snapshot.events[0].words.contains("exit code"),
        "{}",
        snapshot.events[0].words
    );
}

#[test]
fn a_pid_used_again_is_never_sampled() {
    let child = spawn("sleep", &["60"]);
    let mut wrong = child.target(1);
    wrong.start_ticks += 1;
    let snapshot = observer().snapshot(TimeNs(1), &[wrong]);
    assert!(snapshot.samples.is_empty());
    assert_eq!(snapshot.events[0].kind, EventKind::Vanished);
    assert!(
        snapshot.events[0].words.contains("another process"),
        "{}",
        snapshot.events[0].words
    );
}

#[test]
fn sums_over_threads_never_fall_while_threads_come_and_go() {
    let child = spawn_c("churn.c", &["-pthread"]);
    child.read_line();
    let options = Options {
        share_tasks: 1.0,
        ..Options::default()
    };
    let mut observer = Observer::new(ProcRoot::default(), options);
    let snapshots: Vec<Snapshot> = (0..40)
        .map(|second| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            snapshot_once(&mut observer, second * SECOND, &child)
        })
        .collect();
    for metric in [
        metric::SWITCHES_VOLUNTARY,
        metric::SWITCHES_INVOLUNTARY,
        metric::RUN_DELAY,
    ] {
        let sums = values(&snapshots, 1, metric);
        assert!(sums.len() > 10, "{}: {sums:?}", metric.name);
        assert!(sums.is_sorted(), "{}: {sums:?}", metric.name);
    }
    let voluntary = values(&snapshots, 1, metric::SWITCHES_VOLUNTARY);
    assert!(voluntary.last() > voluntary.first(), "{voluntary:?}");
}

#[test]
fn memory_is_still_seen_when_the_main_thread_has_ended() {
    let child = spawn_c("headless.c", &["-pthread"]);
    child.read_line();
    let mut observer = observer();
    let mut snapshot = snapshot_once(&mut observer, 1, &child);
    // The line comes from the second thread; the first may need a moment more to end.
    for _ in 0..100 {
        let stat = std::fs::read(format!("/proc/{}/stat", child.pid())).unwrap();
        if parse_stat(&stat, 1).unwrap().state == 'Z' {
            snapshot = snapshot_once(&mut observer, 2, &child);
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(snapshot.events.is_empty(), "{:?}", snapshot.events);
    let rss = value(&snapshot, 1, metric::RSS).unwrap();
    assert!(rss > 8.0 * 1024.0 * 1024.0, "{rss}");
}

#[test]
fn five_hundred_processes_are_in_one_snapshot() {
    // Two pipes for each child: more than the 1,024 descriptors that most users begin with.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let children: Vec<Child> = (0..500).map(|_| spawn("sleep", &["60"])).collect();
    let targets: Vec<_> = (1i64..)
        .zip(&children)
        .map(|(id, child)| child.target(id))
        .collect();
    let mut observer = observer();
    for second in 0..3 {
        let snapshot = observer.snapshot(TimeNs(second * SECOND), &targets);
        let seen = snapshot
            .samples
            .iter()
            .filter(|s| s.metric == metric::RSS.name)
            .count();
        assert_eq!(seen, 500);
        assert!(snapshot.events.is_empty(), "{:?}", snapshot.events.first());
    }
}

#[test]
fn the_cost_of_a_snapshot_is_a_sample_of_highwater_itself() {
    let pid = std::process::id() as i32;
    let start = observe::proc::read_start_ticks(&ProcRoot::default(), pid).unwrap();
    let mut own = target(9, pid, start);
    own.role = Role::Highwater;
    let snapshot = observer().snapshot(TimeNs(1), &[own]);
    assert!(value(&snapshot, 9, metric::SNAPSHOT_COST).unwrap() > 0.0);
    assert!(value(&snapshot, 9, metric::RSS).unwrap() > 0.0);
}
