//! The command over small services whose own log is the truth: cause, culprit and durations.
//!
//! The services live in `services/`; one with `fixed` has the same threads and no fault. On a
//! machine that is busy a wait for a CPU is real: rows of `cpu-starvation` are let pass everywhere.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::watched::{
    BOTH, Ended, Mode, Seen, attached, built, c, go, rust, services, two_pairs, watch, watch_with,
    woven,
};
use testkit::skipped;

/// The programs' runs are timed by the kernel; a budget that they cannot keep ends the watch, and nothing else.
#[test]
fn a_watch_says_what_it_cost_and_ends_over_its_budget() {
    let mut service = two_pairs();
    let Some(found) = attached("ebpf", service.0.id(), &[]) else {
        return;
    };
    let item = &found["overhead"]["items"][0];
    assert_eq!(item["name"], "scheduler programs");
    assert!(
        item["events"].as_u64() > Some(0) && item["cpu_s"].as_f64() > Some(0.0),
        "{item}"
    );
    assert!(found["overhead"]["kernel_memory_bytes"].as_u64() > Some(1 << 20));
    assert!(
        found["overhead"]["stopped"].is_null(),
        "{}",
        found["overhead"]
    );
    let Some(found) = attached("ebpf", service.0.id(), &["--budget", "0.000001"]) else {
        return;
    };
    let stopped = &found["overhead"]["stopped"];
    assert_eq!(stopped["mechanism"], "the watch", "{}", found["overhead"]);
    let watched_ns = found["self_checks"]["watched_ns"].as_u64();
    assert!(
        watched_ns < Some(4_000_000_000),
        "of five seconds: {watched_ns:?}"
    );
    assert!(service.0.try_wait().unwrap().is_none(), "it goes on");
}

#[test]
fn an_exporter_that_posts_under_the_mutex_is_named() {
    for mode in BOTH {
        let Some(seen) = watch(mode, c("exporter"), &[]) else {
            continue;
        };
        let row = seen.row("lock");
        assert!(
            row.text("/culprit/doing")
                .starts_with("network read from 127.0.0.1:")
        );
        let stack = row.list("/culprit/stack");
        assert!(stack.iter().any(|f| f == "ship_batch"), "{stack:?}");
        if mode == Mode::Ebpf {
            // The function that held, not the deeper one that waited for the network meanwhile.
            assert_eq!(row.text("/culprit/function"), "ship_batch");
        }
        assert_eq!(row.number("/threads"), 8);
        seen.agrees_with_the_truth(&row);
    }
}

#[test]
fn a_mutex_without_an_owner_word_is_walked_or_inferred() {
    for mode in BOTH {
        let Some(service) = rust("mutex") else {
            return;
        };
        let Some(seen) = watch(mode, service, &[]) else {
            continue;
        };
        let row = seen.row("lock");
        let inferred = row.0.pointer("/inferred").and_then(Value::as_bool);
        assert_eq!(inferred, Some(mode == Mode::Rootless), "and says so");
        if mode == Mode::Rootless {
            // On a loaded machine the guess may be another thread; how often is in corpus/stalls.
            continue;
        }
        assert!(
            row.text("/culprit/doing")
                .starts_with("network read from 127.0.0.1:")
        );
        let stack = row.list("/culprit/stack");
        assert!(stack.iter().any(|f| f.ends_with("push_spans")), "{stack:?}");
    }
}

#[test]
fn a_quiet_service_and_a_mended_one_have_no_stalls() {
    for mode in BOTH {
        for (name, flags) in [
            ("requests", "quiet"),
            ("exporter", "fixed"),
            ("hired", "fixed"),
        ] {
            let Some(seen) = watch(mode, c(name), &[flags]) else {
                continue;
            };
            // The fault's own last 400 ms; on a loaded machine a holder loses its CPU for less.
            let long = seen.longer_than(300_000_000);
            let other: Vec<_> = long.iter().filter(|c| *c != "cpu-starvation").collect();
            assert!(
                other.is_empty(),
                "{name} {flags:?}: {:#}",
                seen.found["findings"]
            );
        }
    }
}

#[test]
#[ignore = "each takes ten seconds of a service: make test-long"]
fn disks_faults_and_chains_are_told_apart() {
    for mode in BOTH {
        // Where a disk is busy with others, the write before it may take longer than fdatasync.
        let synced = &["fdatasync of ", "write of "][..];
        for (flag, cause, activities) in [
            ("fsync", "disk", synced),
            ("commit", "disk", synced),
            ("faults", "page-fault", &["major "]),
            ("chain", "lock", synced),
        ] {
            // Whom a condition waits for is a guess there, and on a loaded machine no good one.
            if mode == Mode::Rootless && flag == "commit" {
                continue;
            }
            let Some(seen) = watch(mode, c("requests"), &[flag]) else {
                continue;
            };
            let row = seen.row(cause);
            let said = row.text("/culprit/doing");
            assert!(
                activities.iter().any(|activity| said.contains(activity)),
                "{flag}: {row:?}"
            );
            if flag == "fsync" {
                assert_eq!(row.text("/culprit/function"), "write_and_sync", "{row:?}");
            }
        }
    }
}

#[test]
#[ignore = "takes ten seconds of a service, and as long a purge as a loaded machine lets it: make test-long"]
fn a_purge_under_a_lock_is_the_allocators() {
    let Some(seen) = watch(Mode::Ebpf, c("requests"), &["purge"]) else {
        return;
    };
    let row = seen.row("allocator");
    assert_eq!(row.text("/culprit/function"), "release_pages");
    assert!(
        !seen.longer_than(100_000_000).contains(&"lock".to_string()),
        "one cause"
    );
}

#[test]
fn locks_that_look_like_queues_are_locks() {
    for (mode, kind, function) in [
        (Mode::Ebpf, "writer", "crane_reload"),
        (Mode::Ebpf, "parked", "godwit_flush"),
        (Mode::Tracepoints, "parked", "godwit_flush"),
    ] {
        let Some(seen) = watch(mode, woven(), &[kind, "hold=150"]) else {
            continue;
        };
        let row = seen.row("lock");
        assert_eq!(row.text("/culprit/function"), function, "{:#}", row.0);
    }
}

/// It keeps no log.
fn circle(mode: Mode) -> Option<Value> {
    let child = Command::new(c("circle")).args(["-", "12"]).spawn().unwrap();
    let child = Ended(child);
    sleep(Duration::from_millis(800));
    attached(mode.word(), child.0.id(), &[])
}

/// The deadlock is there 2.6 s after the start, 1.8 s into the watch at the latest; then no thread switches any more.
#[test]
fn a_deadlock_is_named_though_nothing_happens_any_more() {
    for mode in BOTH {
        let Some(found) = circle(mode) else {
            continue;
        };
        let seen = Seen {
            found,
            truth: Vec::new(),
        };
        let row = seen.row("lock");
        let activity = row.text("/culprit/doing");
        assert!(activity.starts_with("deadlock"), "{:#}", row.0);
        assert_eq!(row.text("/culprit/function"), "smelt", "{:#}", row.0);
        assert!(row.number("/longest_ns") > 2_000_000_000, "{:#}", row.0);
        assert_eq!(row.0["open"], true, "{:#}", row.0);
    }
}

/// Whatever it was in: a stop is no rest.
#[test]
fn a_process_that_a_signal_stops_says_so() {
    let idle = Ended(Command::new("sleep").arg("30").spawn().unwrap());
    let pid = idle.0.id();
    let stops = std::thread::spawn(move || {
        let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        let send = |signal| rustix::process::kill_process(process, signal).unwrap();
        for _ in 0..8 {
            sleep(Duration::from_millis(500));
            send(rustix::process::Signal::STOP);
            sleep(Duration::from_millis(300));
            send(rustix::process::Signal::CONT);
        }
    });
    let found = attached(Mode::Ebpf.word(), pid, &[]);
    stops.join().unwrap();
    let Some(found) = found else { return };
    let seen = Seen {
        found,
        truth: Vec::new(),
    };
    let row = seen.row("sleep");
    let activity = row.text("/culprit/doing");
    assert_eq!(activity, "stopped by a signal or a debugger", "{:#}", row.0);
    assert!(row.number("/count") >= 3, "{:#}", row.0);
    assert!(row.number("/longest_ns") >= 250_000_000, "{:#}", row.0);
}

/// Each thread makes one request and ends: nobody idles, and nobody is there twice.
#[test]
fn a_server_that_starts_a_thread_for_each_request_is_one_too() {
    for mode in BOTH {
        let Some(seen) = watch(mode, c("hired"), &[]) else {
            continue;
        };
        let row = seen.row("lock");
        assert_eq!(row.text("/culprit/function"), "sort_all", "{:#}", row.0);
        // The log is of the service's whole life, which is longer than the watch, and of requests without a CPU as
        // well; without privileges not every thread is looked at in time.
        let part = if mode == Mode::Ebpf { 3 } else { 6 };
        let rows = seen.found["findings"].as_array().unwrap();
        let threads = rows.iter().filter_map(|row| row["threads"].as_u64());
        let (stalled, said) = (seen.truth.len() as u64, threads.sum::<u64>());
        assert!(said * part > stalled, "{said} of {stalled}: {:#}", row.0);
        // One that was woken and found the lock taken again waits twice (nobody hands a pthread mutex over).
        let (threads, count) = (row.number("/threads"), row.number("/count"));
        assert!(
            threads <= count && 10 * threads > 9 * count,
            "{threads} threads, {count} times"
        );
        let longest_ns = seen.truth.iter().map(|(start, end)| end - start).max();
        assert!(
            row.number("/longest_ns") < longest_ns.unwrap() + 30_000_000,
            "it ended with the thread: {:#}",
            row.0
        );
    }
}

/// A program on a tracepoint can take its events from everybody else who reads them.
#[test]
fn an_ebpf_watch_leaves_others_their_tracepoints() {
    let parked = |mode| watch(mode, woven(), &["parked", "hold=150"]);
    let beside = std::thread::spawn(move || parked(Mode::Ebpf));
    let Some(seen) = parked(Mode::Tracepoints) else {
        return;
    };
    if beside.join().unwrap().is_none() {
        return;
    }
    // Eight threads at a time: without wakers next to none is known to wait for a lock.
    let row = seen.row("lock");
    assert!(row.number("/count") >= 24, "{:#}", row.0);
}

#[test]
#[ignore = "six watches of five seconds: make test-long"]
fn what_looks_like_them_and_is_mended_is_none() {
    for mode in [Mode::Ebpf, Mode::Tracepoints] {
        for kind in ["writer", "parked", "crowd"] {
            let Some(seen) = watch(mode, woven(), &[kind, "hold=400", "fixed"]) else {
                continue;
            };
            let locks = seen.longer_than(200_000_000);
            assert!(
                !locks.contains(&"lock".to_string()),
                "{kind}: {:#}",
                seen.found["findings"]
            );
        }
    }
}

#[test]
#[ignore = "wants musl-gcc, and watches twice: make test-long"]
fn musls_mutex_names_its_owner_where_it_keeps_one() {
    let source = services().join("exporter.c");
    let program = built().join("exporter-musl");
    let status = Command::new("musl-gcc")
        .args(["-O1", "-g", "-static", "-o"])
        .args([&program, &source])
        .status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        skipped(&format!(
            "musl-gcc (musl-tools) did not build the service: {status:?}"
        ));
        return;
    }
    for (flags, inferred) in [(&["recursive"][..], false), (&[][..], true)] {
        let Some(seen) = watch(Mode::Rootless, program.clone(), flags) else {
            return;
        };
        let row = seen.row("lock");
        assert_eq!(row.0["inferred"], inferred, "{:#}", row.0);
    }
}

#[test]
#[ignore = "its purges are as long as the machine lets them: make test-long"]
fn a_threads_own_purge_is_one_row() {
    let Some(seen) = watch(Mode::Ebpf, woven(), &["ownfree"]) else {
        return;
    };
    let rows = seen.found["findings"].as_array().unwrap();
    let own = |row: &&Value| row["cause"] == "allocator" || row["cause"] == "on-cpu";
    assert_eq!(
        rows.iter().filter(own).count(),
        1,
        "{:#}",
        seen.found["findings"]
    );
    seen.row("allocator");
}

#[test]
fn a_slow_calls_time_is_handed_out_whole_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (folded, flame, trace) = (file("folded"), file("flame.svg"), file("trace.json"));
    let more = [
        "--span",
        "end_span",
        "--threshold",
        "100ms",
        "--folded",
        &folded,
        "--flamegraph",
        &flame,
        "--trace",
        &trace,
    ];
    let Some(seen) = watch_with(Mode::Ebpf, c("exporter"), &[], &more) else {
        return;
    };
    let overhead = &seen.found["overhead"];
    assert!(
        overhead["items"].to_string().contains("uprobes of --span"),
        "{overhead:#}"
    );
    assert!(overhead["breakpoints"].as_u64() > Some(1), "{overhead:#}");
    let slow = seen.found["requests"]["slow"].as_array().unwrap();
    assert!(!slow.is_empty(), "{:#}", seen.found["requests"]);
    let ns = |value: &Value| value["ns"].as_u64().unwrap();
    for call in slow {
        let went = call["went"].as_array().unwrap();
        let sum: u64 = went.iter().map(ns).sum();
        let parts_in_100 = sum * 100 / ns(call);
        assert!((98..=102).contains(&parts_in_100), "{call:#}");
    }
    assert_eq!(seen.found["requests"]["went"][0]["what"], "lock");
    let gains = &seen.found["requests"]["gains"];
    let mean_ns = |of: &Value| of["mean_ns"].as_f64().unwrap();
    let rows = gains["without"].as_array().unwrap();
    let lock = rows.iter().find(|row| row["causes"][0] == "lock").unwrap();
    assert!(
        mean_ns(&gains["now"]) > 500e3 && mean_ns(&lock["high"]) < mean_ns(&gains["now"]) / 2.0,
        "{gains:#}"
    );
    let lines = fs::read_to_string(folded).unwrap();
    assert!(
        lines
            .lines()
            .any(|l| l.starts_with("lock;") && l.contains("end_span")),
        "{lines}"
    );
    assert!(fs::read_to_string(flame).unwrap().contains("end_span"));
    let trace: Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
    assert!(
        count("s") > 0 && count("s") == count("f"),
        "arrows have two ends"
    );
}

#[test]
#[ignore = "wants root and a Go compiler, and builds with it: make test-long"]
fn a_goroutine_that_holds_a_mutex_is_named() {
    // As released programs are: the runtime's own tables lead to its scheduler, and to names.
    for options in [&[][..], &["-ldflags=-s -w"]] {
        let Some(service) = go("gomutex", options) else {
            return;
        };
        let Some(seen) = watch(Mode::Ebpf, service, &[]) else {
            return;
        };
        let row = seen.row("lock");
        assert_eq!(
            row.text("/culprit/function"),
            "main.shipSpans",
            "{options:?}"
        );
    }
}
