//! The real relay among hosts and consumers that misbehave. In each test one good host sends an
//! event now and then: it must keep coming through, the offender must be dropped and counted, and
//! at the end the debug allocator must have nothing to report.

mod relay_process;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use relay_load::message::Source;
use relay_process::{Relay, hold, host, raw_host, receive, send, send_raw, wait_for};
use tempfile::tempdir;
use tungstenite::WebSocket;

const SEED: u64 = 21;

/// Sends an event every 5 ms for as long as the relay listens.
fn good_host() -> u16 {
    host(|connection, socket| {
        let source = Source::new(SEED, 1, 4);
        let first = connection as u64 * 1_000_000;
        for number in first.. {
            if !send(socket, source.message(number, 0, number + 1)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

fn start(bad_port: u16, more: &[&str]) -> Option<(tempfile::TempDir, Relay)> {
    let data = tempdir().unwrap();
    let upstreams = format!("127.0.0.1:{},127.0.0.1:{bad_port}", good_host());
    let arguments = [&["--allocator", "debug", "--leak", "off"][..], more].concat();
    let relay = Relay::start(data.path(), &upstreams, &arguments)?;
    Some((data, relay))
}

/// The good host still gets through, and the relay ends without a leak.
fn expect_unharmed(relay: Relay) {
    let before = relay.metric("relay_frames_published_total");
    relay.wait_for_metric("relay_frames_published_total", before + 20);
    let ended = relay.stop();
    assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    assert!(
        ended.stderr.contains("debug allocator: no leaks"),
        "{}",
        ended.stderr
    );
}

/// A host that misbehaves in this way is dropped for this reason, again and again.
fn expect_dropped(
    reason: &str,
    scene: impl Fn(usize, &mut WebSocket<TcpStream>) + Send + Sync + 'static,
) {
    let Some((_data, relay)) = start(host(scene), &["--peer-timeout", "1"]) else {
        return;
    };
    relay.wait_for_metric(
        &format!("relay_upstream_drops_total{{reason=\"{reason}\"}}"),
        2,
    );
    expect_unharmed(relay);
}

#[test]
fn a_flipped_byte() {
    let port = host(|connection, socket| {
        let mut message = Source::new(SEED, 1, 1).message(1, 0, 1);
        let middle = message.len() / 2 + connection;
        message[middle] ^= 1;
        send(socket, message);
        hold(socket);
    });
    let Some((_data, relay)) = start(port, &[]) else {
        return;
    };
    relay.wait_for_metric("relay_frames_rejected_total{reason=\"cid\"}", 2);
    relay.wait_for_metric("relay_upstream_drops_total{reason=\"rejected\"}", 2);
    expect_unharmed(relay);
}

#[test]
fn bytes_that_are_no_event() {
    expect_dropped("rejected", |connection, socket| {
        let nonsense = [
            vec![0xff; 40],
            vec![],
            vec![0x9f; 4000],
            b"\xa0\xa0".to_vec(),
        ];
        send(socket, nonsense[connection % nonsense.len()].clone());
        hold(socket);
    });
}

#[test]
fn a_huge_length() {
    expect_dropped("too_large", |_, socket| {
        send_raw(socket, &[0x82, 127, 0, 0, 0xff, 0, 0, 0, 0, 0]);
        hold(socket);
    });
}

#[test]
fn half_a_frame_and_gone() {
    expect_dropped("closed", |_, socket| {
        send_raw(socket, &[0x82, 126, 0x40, 0]);
        send_raw(socket, &[7; 5000]);
    });
}

#[test]
fn half_a_frame_and_silence() {
    expect_dropped("stalled", |_, socket| {
        send_raw(socket, &[0x82, 126, 0x40, 0]);
        send_raw(socket, &[7; 5000]);
        hold(socket);
    });
}

#[test]
fn a_frame_that_drips() {
    expect_dropped("stalled", |_, socket| {
        send_raw(socket, &[0x82, 126, 0x40, 0]);
        while socket.get_mut().write_all(&[7]).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn silence_without_an_answer_to_pings() {
    expect_dropped("stalled", |_, socket| {
        // Reads past the library, so that nothing is answered.
        hold(socket);
    });
}

#[test]
fn frames_that_break_the_protocol() {
    expect_dropped("protocol", |connection, socket| {
        let frames: [&[u8]; 4] = [
            &[0x82, 0x81, 1, 2, 3, 4, 5], // masked, which only clients do
            &[0xf2, 1, 5],                // reserved bits
            &[0x00, 1, 5],                // continues nothing
            &[0x81, 1, b'x'],             // text
        ];
        send_raw(socket, frames[connection % frames.len()]);
        hold(socket);
    });
}

#[test]
fn no_websocket_at_all() {
    let port = raw_host(|connection, mut stream| {
        let answers = [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "220 smtp ready\r\n\r\n",
            "",
        ];
        let mut request = [0; 512];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(answers[connection % answers.len()].as_bytes());
    });
    let Some((_data, relay)) = start(port, &[]) else {
        return;
    };
    relay.wait_for_metric("relay_upstream_drops_total{reason=\"handshake\"}", 3);
    expect_unharmed(relay);
}

#[test]
fn fragments_and_pings_are_no_offence() {
    let port = host(|connection, socket| {
        if connection == 0 {
            let message = Source::new(SEED + 1, 1, 1).message(7_777_777, 0, 1);
            let (first, last) = message.split_at(100);
            send_raw(socket, &[0x02, 100]);
            send_raw(socket, first);
            send_raw(socket, &[0x89, 2, b'h', b'i']); // a ping in between
            send_raw(socket, &[0x80, 126]);
            send_raw(socket, &(last.len() as u16).to_be_bytes());
            send_raw(socket, last);
            let pong = socket.read().unwrap();
            assert_eq!(pong.into_data().as_ref(), b"hi");
        }
        hold(socket);
    });
    let Some((_data, relay)) = start(port, &[]) else {
        return;
    };
    let mut consumer = relay.consumer("?cursor=0");
    wait_for("the message in two pieces", || {
        let frame = receive(&mut consumer)?;
        (relay_load::message::number_of(&frame) == Some(7_777_777)).then_some(())
    });
    expect_unharmed(relay);
}

#[test]
fn a_consumer_that_dies() {
    let Some((_data, relay)) = start(1, &[]) else {
        return;
    };
    let mut staying = relay.consumer("");
    let mut dying = relay.consumer("");
    receive(&mut dying).unwrap();
    drop(dying);
    relay.wait_for_metric("relay_consumer_drops_total{reason=\"gone\"}", 1);
    for _ in 0..20 {
        receive(&mut staying).unwrap();
    }
    expect_unharmed(relay);
}

#[test]
fn a_consumer_that_does_not_read_is_dropped_and_delays_nobody() {
    // Large events fill its socket soon, and a short backlog laps it.
    let port = host(|connection, socket| {
        let source = Source::new(SEED, 1, 4);
        let large: Vec<Vec<u8>> = (0..400)
            .map(|number| source.message(number, 0, number))
            .filter(|message| message.len() > 20_000)
            .collect();
        let numbered = connection as u64;
        while large.iter().all(|message| send(socket, message.clone())) {
            std::thread::sleep(Duration::from_millis(2 + numbered));
        }
    });
    let Some((_data, relay)) = start(port, &["--backlog", "32"]) else {
        return;
    };
    let sleeping = relay.consumer("");
    let mut reading = relay.consumer("");
    wait_for("the sleeper to be dropped", || {
        receive(&mut reading).expect("the reader stays connected");
        (relay.metric("relay_consumer_drops_total{reason=\"slow\"}") == 1).then_some(())
    });
    assert_eq!(relay.metric("relay_consumers_connected"), 1);
    drop(sleeping);
    drop(reading);
    expect_unharmed(relay);
}

#[test]
fn a_consumer_that_talks_nonsense() {
    let Some((_data, relay)) = start(1, &[]) else {
        return;
    };
    let mut consumer = relay.consumer("");
    send_raw(&mut consumer, &[0xff; 64]);
    relay.wait_for_metric("relay_consumer_drops_total{reason=\"protocol\"}", 1);
    let mut consumer = relay.consumer("");
    send_raw(&mut consumer, &[0x89, 0x80, 1, 2, 3, 4]); // a masked ping is answered
    wait_for("the pong", || {
        consumer.read().ok().filter(|message| message.is_pong())
    });
    expect_unharmed(relay);
}

#[test]
fn http_peers_that_stall_or_flood() {
    let Some((_data, relay)) = start(1, &[]) else {
        return;
    };
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", relay.port)).unwrap())
        .collect();
    for mut stream in &silent {
        let _ = stream.write_all(b"GET /metr");
    }
    assert_eq!(relay.get("/_health").0, 200);
    let mut flood = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
    let _ = flood.write_all(&[b'x'; 100_000]);
    assert_eq!(relay.get("/_health").0, 200);
    drop(silent);
    expect_unharmed(relay);
}
