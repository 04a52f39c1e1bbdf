//! Requests that are seen on the connections of the service itself, with nothing said by anybody.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use bpf::allowed::Allowed;
use serde_json::Value;

use super::watched::{Ended, Mode, Seen, c, highwater, watch_with};
use testkit::skipped;

/// `None`, with the reason printed: this machine does not tell of requests on connections.
fn handed(flags: &[&str], more: &[&str]) -> Option<Seen> {
    let seen = watch_with(Mode::Ebpf, c("handed"), flags, more)?;
    let missing = seen.found["self_checks"]["missing"].to_string();
    if missing.contains("requests on its connections") {
        skipped(&missing);
        return None;
    }
    Some(seen)
}

/// The share of the slow requests' time that went to it.
fn share(requests: &Value, what: &str) -> f64 {
    let went = requests["went"].as_array().unwrap();
    let ns = |part: &Value| part["ns"].as_f64().unwrap();
    let all: f64 = went.iter().map(ns).sum();
    let of = went.iter().filter(|part| part["what"] == what).map(ns);
    of.sum::<f64>() / all
}

/// All turns of the worker are alike: by what it does otherwise none is slow, by what requests take otherwise all are.
#[test]
fn a_worker_whose_turns_are_all_long_is_named_by_the_requests_that_wait_for_it() {
    let Some(seen) = handed(&[], &[]) else {
        return;
    };
    let row = seen.row("on-cpu");
    assert_eq!(row.text("/culprit/function"), "score_rows", "{row:#?}");
    let stalls = row.number("/count");
    assert!(stalls >= 5, "{row:#?}");
    let requests = &seen.found["requests"];
    assert_eq!(requests["source"], "connections");
    assert!(requests["count"].as_u64() > Some(200), "{requests:#}");
    // Of the time of requests in the log, as their clients have it.
    let slow = requests["slow"].as_array().unwrap();
    let long = |ns: u64| ns >= 50_000_000;
    let seen_long = slow
        .iter()
        .filter(|one| one["ns"].as_u64().is_some_and(long));
    let in_log = seen.truth.iter().filter(|(start, end)| long(end - start));
    let (seen_long, in_log) = (seen_long.count(), in_log.count());
    assert!(
        seen_long >= 5 && seen_long <= in_log,
        "{seen_long} of {in_log}"
    );
    let with_threads = 1.0 - share(requests, "outside") - share(requests, "not seen");
    assert!(with_threads > 0.9, "{:#}", requests["went"]);
    assert!(requests["gains"]["without"][0]["high"]["p99_ns"].is_number());
}

#[test]
fn of_a_service_whose_requests_are_all_short_no_row_is_made() {
    let Some(seen) = handed(&["fixed"], &[]) else {
        return;
    };
    assert!(
        seen.longer_than(20_000_000)
            .iter()
            .all(|cause| cause == "cpu-starvation")
    );
    assert_eq!(seen.found["requests"]["source"], "connections");
    assert!(seen.found["requests"]["count"].as_u64() > Some(200));
}

/// The loop waits for its clients and for the upstream at once: its wait alone says nothing. The connection is closed
/// with each reply.
#[test]
fn an_upstream_that_an_event_loop_waits_for_is_named() {
    let Some(seen) = handed(&["asks"], &[]) else {
        return;
    };
    let row = seen.row("network");
    let activity = row.text("/culprit/doing");
    assert!(
        activity.starts_with("network read from 127.0.0.1:"),
        "{row:#?}"
    );
    assert!(row.number("/count") >= 5, "{row:#?}");
    let requests = &seen.found["requests"];
    let with_nobody = share(requests, "outside") + share(requests, "not seen");
    assert!(with_nobody < 0.1, "{requests:#}");
}

/// Clients that nobody answers meanwhile make it seen.
#[test]
fn a_loop_within_the_loop_is_no_rest() {
    let Some(seen) = handed(&["nested"], &[]) else {
        return;
    };
    let row = seen.row("network");
    assert_eq!(row.text("/culprit/function"), "run_tool", "{row:#?}");
    let activity = row.text("/culprit/doing");
    assert_eq!(
        activity,
        "a wait for something else while requests lie there"
    );
}

/// What only another process can end is for that one.
#[test]
fn a_child_that_a_loop_waits_for_is_named() {
    let Some(seen) = handed(&["nested", "piped"], &[]) else {
        return;
    };
    let row = seen.row("process");
    assert_eq!(row.text("/culprit/function"), "run_tool", "{row:#?}");
    let activity = row.text("/culprit/doing");
    assert!(
        activity.starts_with("read from a pipe that handed"),
        "{row:#?}"
    );
    // The loop's epoll is closed with each answer: on a busy machine some are described too late.
    let with_it = share(&seen.found["requests"], "process");
    assert!(with_it > 0.4, "{:#}", seen.found["requests"]);
}

#[test]
fn a_recording_has_the_requests_and_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.hws");
    let file = file.to_str().unwrap();
    let Some(seen) = handed(&[], &["--record", file]) else {
        return;
    };
    let mut replay = Command::new(highwater());
    let output = replay.args(["stalls", "--json", "--replay", file]).output();
    let again: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(again, seen.found, "of the recording, and of the watch");
}

/// How a program is watched while it runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Watched {
    Not,
    ToItsEnd,
    /// Until the watch is killed, midway.
    Killed,
}

/// What the program of this seed printed, and how it ended.
fn talked(seed: u64, how: Watched) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let program = Command::new(c("talks"))
        .arg(folder.path())
        .args(["1500", &seed.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let watch = (how != Watched::Not).then(|| {
        let words = ["stalls", "--json", "--mode", "ebpf", "--duration", "20s"];
        let mut watch = Command::new(highwater());
        let watch = watch.args(words).args(["--pid", &program.id().to_string()]);
        Ended(watch.stdout(Stdio::piped()).spawn().unwrap())
    });
    if how == Watched::Killed {
        sleep(Duration::from_millis(1_200));
        watch.unwrap().0.kill().unwrap();
        return ended(program);
    }
    let ended = ended(program);
    if let Some(mut watch) = watch {
        let printed = watch.0.stdout.take().unwrap();
        let found: Value = serde_json::from_reader(printed).unwrap();
        let missing = found["self_checks"]["missing"].to_string();
        if !missing.contains("requests on its connections") {
            let count = found["requests"]["count"].as_u64();
            assert!(count > Some(500), "it was seen: {found:#}");
        }
    }
    ended
}

fn ended(program: Child) -> (String, Option<i32>) {
    let output = program.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.code())
}

/// Over TCP and Unix sockets, in pieces, with early answers, resets and refusals.
#[test]
fn a_program_says_and_ends_the_same_with_and_without_a_watch() {
    if let Err(why) = Allowed::try_all().bpf {
        return skipped(&format!("programs need root: {why}"));
    }
    for seed in [3, 20_261_128] {
        let plain = talked(seed, Watched::Not);
        assert!(
            plain.0.starts_with("client 0 served"),
            "seed {seed}: {plain:?}"
        );
        assert_eq!(plain.1, Some(7), "seed {seed}");
        for how in [Watched::ToItsEnd, Watched::Killed] {
            assert_eq!(talked(seed, how), plain, "seed {seed}, watched: {how:?}");
        }
    }
}
