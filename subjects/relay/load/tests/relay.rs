//! The real relay among hosts and consumers that behave: what goes in comes out, in order, under
//! the relay's own numbers, and is still there after a restart.

mod relay_process;

use std::process::{Command, Stdio};
use std::time::Duration;

use highwater_load::Interval;
use relay_load::message::{BLOBS_GONE_EVERY, Source, number_of};
use relay_process::{Ended, Relay, free_port, hold, host, program, receive, send, wait_for};
use rustix::process::{Signal, kill_process};
use tempfile::tempdir;

const SEED: u64 = 9;

/// A host that sends messages `from` to `to` to its first connection and then waits.
fn host_of(from: u64, to: u64) -> u16 {
    host(move |connection, socket| {
        let source = Source::new(SEED, 1, 4);
        if connection == 0 {
            for number in from..to {
                assert!(send(socket, source.message(number, 0, 500 + number)));
            }
        }
        hold(socket);
    })
}

/// The number under which the relay sent a frame.
fn seq_of(frame: &[u8]) -> u64 {
    let mut rest = frame;
    let _header: ciborium::Value = ciborium::from_reader(&mut rest).unwrap();
    let body: ciborium::Value = ciborium::from_reader(&mut rest).unwrap();
    assert!(rest.is_empty());
    let fields = body.as_map().unwrap();
    let seq = fields
        .iter()
        .find(|(name, _)| name.as_text() == Some("seq"))
        .unwrap();
    u64::try_from(seq.1.as_integer().unwrap()).unwrap()
}

fn expect_clean(ended: &Ended) {
    assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    assert!(
        ended.stderr.contains("debug allocator: no leaks"),
        "{}",
        ended.stderr
    );
}

const DEBUG_WITHOUT_LEAK: [&str; 4] = ["--allocator", "debug", "--leak", "off"];

#[test]
fn events_come_out_in_order_under_the_relays_own_numbers() {
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{}", host_of(0, 300));
    let Some(relay) = Relay::start(data.path(), &upstreams, &DEBUG_WITHOUT_LEAK) else {
        return;
    };
    relay.wait_for_metric("relay_frames_published_total", 300);

    let mut consumer = relay.consumer("?cursor=0");
    for number in 0..300 {
        let frame = receive(&mut consumer).unwrap();
        assert_eq!(number_of(&frame), Some(number), "seed {SEED}");
        assert_eq!(seq_of(&frame), number + 1);
    }
    let mut filtered = relay.consumer("?cursor=0&collection=com.whtwnd.blog.entry");
    let article = receive(&mut filtered).unwrap();
    let needle = b"com.whtwnd.blog.entry";
    assert!(article.windows(needle.len()).any(|window| window == needle));

    let list = "/xrpc/com.atproto.sync.listReposByCollection";
    let (status, body) = relay.get(&format!("{list}?collection=app.bsky.feed.post&limit=3"));
    assert_eq!(status, 200);
    assert_eq!(body.matches("did:plc:").count(), 3, "{body}");
    let cursor = body
        .split("\"cursor\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let next = format!("{list}?collection=app.bsky.feed.post&cursor={cursor}");
    assert_eq!(
        relay.get(&next).1.matches("did:plc:").count(),
        1,
        "4 accounts in all"
    );
    assert_eq!(relay.get(&format!("{list}?collection=no")).0, 400);
    assert_eq!(relay.get("/nothing").0, 404);
    expect_clean(&relay.stop());
}

#[test]
fn a_late_consumer_gets_old_events_from_the_log() {
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{}", host_of(0, 400));
    let more = [&DEBUG_WITHOUT_LEAK[..], &["--backlog", "16"]].concat();
    let Some(relay) = Relay::start(data.path(), &upstreams, &more) else {
        return;
    };
    relay.wait_for_metric("relay_frames_published_total", 400);
    let mut consumer = relay.consumer("?cursor=100");
    for number in 100..400 {
        assert_eq!(number_of(&receive(&mut consumer).unwrap()), Some(number));
    }
    expect_clean(&relay.stop());
}

#[test]
fn numbers_go_on_after_sigkill_and_the_lock_left_behind_stops_nobody() {
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{}", host_of(0, 50));
    let Some(relay) = Relay::start(data.path(), &upstreams, &[]) else {
        return;
    };
    relay.wait_for_metric("relay_frames_published_total", 50);

    let second = Relay::spawn(data.path(), &upstreams, &[]).unwrap().wait();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        second.stderr.contains("another relay is running"),
        "{}",
        second.stderr
    );

    let port = relay.port.to_string();
    let elsewhere = tempdir().unwrap();
    let third = Relay::spawn(elsewhere.path(), &upstreams, &["--port", &port])
        .unwrap()
        .wait();
    assert_eq!(third.status.code(), Some(1));
    assert!(
        third.stderr.contains(&format!("port {port} is in use")),
        "{}",
        third.stderr
    );

    relay.signal(Signal::KILL);
    relay.wait();
    assert!(data.path().join("LOCK").exists());
    let upstreams = format!("127.0.0.1:{}", host_of(50, 60));
    let relay = Relay::start(data.path(), &upstreams, &[]).unwrap();
    relay.wait_for_metric("relay_frames_published_total", 10);
    let mut consumer = relay.consumer("?cursor=45");
    for seq in 46..=60 {
        let frame = receive(&mut consumer).unwrap();
        assert_eq!((seq_of(&frame), number_of(&frame)), (seq, Some(seq - 1)));
    }
}

#[test]
fn every_allocator_carries_the_load() {
    for allocator in [
        &["--allocator", "c", "--trim-every", "1"][..],
        &["--allocator", "smp"],
        &["--allocator", "page"],
        &["--allocator", "debug"],
        &["--frame-arena", "page"],
    ] {
        let data = tempdir().unwrap();
        let upstreams = format!("127.0.0.1:{}", host_of(0, 200));
        let Some(relay) = Relay::start(data.path(), &upstreams, allocator) else {
            return;
        };
        relay.wait_for_metric("relay_frames_published_total", 200);
        if allocator.contains(&"--trim-every") {
            relay.wait_for_metric("relay_malloc_trims_total", 1);
            assert!(relay.metric("relay_malloc_arena_bytes") > 0);
        }
        assert!(relay.metric("relay_process_rss_bytes") > 0);
        assert!(relay.stop().status.success(), "{allocator:?}");
    }
}

#[test]
fn the_leak_report_is_bounded_and_points_at_the_leak() {
    let leaks: u64 = 3000;
    let port = host(move |connection, socket| {
        let source = Source::new(SEED, 1, 4);
        for number in 0..if connection == 0 { leaks } else { 0 } {
            let message =
                source.message(number * BLOBS_GONE_EVERY + BLOBS_GONE_EVERY - 1, 0, number);
            assert!(send(socket, message));
        }
        hold(socket);
    });
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{port}");
    let Some(relay) = Relay::start(data.path(), &upstreams, &["--allocator", "debug"]) else {
        return;
    };
    relay.wait_for_metric("relay_frames_published_total", leaks);
    let ended = relay.stop();
    assert!(ended.status.success());
    let report = &ended.stderr;
    assert!(
        report.contains(&format!("{leaks} blocks leaked")),
        "{report}"
    );
    assert!(report.contains("collectBlobLinks"), "{report}");
    assert!(report.lines().count() < 60, "{report}");
}

#[test]
fn shutdown_over_http_wants_the_token() {
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{}", host_of(0, 1));
    let Some(relay) = Relay::start(data.path(), &upstreams, &["--admin-token", "s3cret"]) else {
        return;
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let url = format!("http://127.0.0.1:{}/admin/shutdown", relay.port);
    let post = |token: &str| {
        let request = agent
            .post(&url)
            .header("Authorization", format!("Bearer {token}"));
        request.send_empty().unwrap().status().as_u16()
    };
    assert_eq!(agent.get(&url).call().unwrap().status().as_u16(), 405);
    assert_eq!(post("guess"), 401);
    assert_eq!(post("s3cret"), 202);
    assert!(relay.wait().status.success());

    let relay = Relay::start(data.path(), &upstreams, &[]).unwrap();
    let url = format!("http://127.0.0.1:{}/admin/shutdown", relay.port);
    assert_eq!(
        agent.post(&url).send_empty().unwrap().status().as_u16(),
        403
    );
}

/// The load program beside a relay, in either order of starting, and SIGTERM in the middle.
fn load_and_relay(relay_first: bool, hosts: usize, rate: u32, patience: Duration) {
    if program().is_none() {
        return;
    }
    let (data, listen) = (tempdir().unwrap(), free_port());
    let upstreams = format!("127.0.0.1:{listen}x{hosts}");
    let relay = relay_first.then(|| Relay::start(data.path(), &upstreams, &[]).unwrap());
    // The load must know the relay's port before the relay chooses one.
    let port = relay.as_ref().map_or_else(free_port, |relay| relay.port);
    let load = Command::new(env!("CARGO_BIN_EXE_relay-load"))
        .args([
            "--listen",
            &format!("127.0.0.1:{listen}"),
            "--relay",
            &format!("127.0.0.1:{port}"),
        ])
        .args(["--hosts", &hosts.to_string(), "--rate", &rate.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let relay = relay.unwrap_or_else(|| {
        std::thread::sleep(Duration::from_millis(500));
        let more = ["--port", &port.to_string()];
        let mut relay = Relay::spawn(data.path(), &upstreams, &more).unwrap();
        relay.port = port;
        relay
    });
    wait_for("the relay", || {
        (relay.get("/_health").0 == 200).then_some(())
    });
    relay.wait_for_metric("relay_upstreams_connected", hosts as u64);
    relay.wait_for_metric("relay_frames_sent_total", u64::from(rate) * 2);
    assert_eq!(relay.metric("relay_frames_dropped_total"), 0);
    std::thread::sleep(patience);

    let ended = relay.stop(); // in the middle of the load
    assert!(ended.status.success(), "{}", ended.stderr);
    kill_process(rustix::process::Pid::from_child(&load), Signal::TERM).unwrap();
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Interval> = text
        .lines()
        .map(|line| Interval::parse(line).unwrap())
        .collect();
    let received: u64 = lines.iter().map(|line| line.requests).sum();
    let measured: u64 = lines
        .iter()
        .map(|line| line.decode_histogram().unwrap().len())
        .sum();
    assert!(received >= u64::from(rate), "{received} received");
    assert!(
        measured >= received,
        "every message received has its latency"
    );
}

#[test]
fn the_relay_may_start_first() {
    load_and_relay(true, 8, 100, Duration::ZERO);
}

#[test]
fn the_load_may_start_first() {
    load_and_relay(false, 8, 100, Duration::ZERO);
}

#[test]
#[ignore = "2,800 threads and as many connections for half a minute; make test-long"]
fn thousands_of_hosts_at_the_historys_rate() {
    load_and_relay(true, 2750, 700, Duration::from_secs(20));
}
