//! Odd and hostile requests on the HTTP side: an answer or a hang-up, in bounded memory, while the game goes on.

mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use server::{Client, Server, is_hung_up, tap};
use treasure::protocol::{Answer, Request, parse_answer};
use tungstenite::{Message, WebSocket};

const BROKEN: &str = "treasure_dropped_total{reason=\"broken\"}";

fn http(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.http)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// All that comes until the other side hangs up.
fn heard(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn websocket(server: &Server) -> WebSocket<TcpStream> {
    let url = format!("ws://127.0.0.1:{}/ws", server.http);
    tungstenite::client(url, http(server)).unwrap().0
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut stream = http(&server);
    let one = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let other = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let requests = format!("{one}{other}").repeat(50) + last;
    stream.write_all(requests.as_bytes()).unwrap();
    let text = heard(stream);
    let statuses: Vec<&str> = text
        .match_indices("HTTP/1.1 ")
        .map(|(at, word)| &text[at + word.len()..at + word.len() + 3])
        .collect();
    let expected: Vec<&str> = (0..101)
        .map(|at| if at % 2 == 0 { "200" } else { "404" })
        .collect();
    assert_eq!(statuses, expected);
}

#[test]
fn what_is_no_plain_get_is_answered_or_hung_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--idle", "1s"]);
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(1 << 20));
    let wide = format!(
        "GET / HTTP/1.1\r\nHost: x\r\n{}\r\n",
        "X: y\r\n".repeat(20_000)
    );
    let close = "Host: x\r\nConnection: close\r\n";
    let cases: [(&str, String, &[&str]); 11] = [
        (
            "chunked body",
            format!(
                "GET /healthz HTTP/1.1\r\n{close}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            ),
            &["200"],
        ),
        (
            "a body that is long in coming",
            format!("GET /healthz HTTP/1.1\r\n{close}Content-Length: 1000000000\r\n\r\nabc"),
            &["200"],
        ),
        (
            "broken chunk",
            format!("POST /healthz HTTP/1.1\r\n{close}Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
            &["400", "405"],
        ),
        (
            "two lengths",
            format!(
                "GET /healthz HTTP/1.1\r\n{close}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"
            ),
            &["400"],
        ),
        ("post", format!("POST / HTTP/1.1\r\n{close}\r\n"), &["405"]),
        ("no protocol", "GET /\r\n\r\n".into(), &["400", ""]),
        ("old", "GET /healthz HTTP/1.0\r\n\r\n".into(), &["200"]),
        ("bytes", "\0\u{1}\u{2}\r\n\r\n".into(), &["400", ""]),
        ("an endless name", long, &["400", "414", "431", ""]),
        ("endless headers", wide, &["400", "431", ""]),
        (
            "a WebSocket without a key",
            format!("GET /ws HTTP/1.1\r\n{close}\r\n"),
            &["400", "426"],
        ),
    ];
    for (what, request, expected) in cases {
        let mut stream = http(&server);
        let _ = stream.write_all(request.as_bytes());
        let text = heard(stream);
        let status = text.split(' ').nth(1).unwrap_or("");
        assert!(expected.contains(&status), "{what}: {text:.200}");
    }
    assert_eq!(server.get("/healthz").0, 200);
}

#[test]
fn a_request_in_driblets_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--idle", "500ms"]);
    let mut stream = http(&server);
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    let begun = Instant::now();
    // Never silent for as long as half of --idle, and never done.
    while stream.write_all(b"y").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(15), "still listening");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut silent = http(&server);
    assert!(is_hung_up(&mut silent), "a connection that says nothing");
}

#[test]
fn a_crowd_on_the_page_s_port_leaves_descriptors_for_the_game() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_limited(400, folder.path(), &["--idle", "2s"]);
    let crowd: Vec<_> = (0..450).map(|_| http(&server)).collect();
    // The page's threads take them all in before the game is tried.
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..20 {
        let mut client = Client::connect(server.port).unwrap();
        client.hello(0).unwrap();
        assert_ne!(client.tap(1).unwrap(), 0);
    }
    drop(crowd);
    let begun = Instant::now();
    while !is_healthy(&server) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_healthy(server: &Server) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", server.http)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    asked.is_ok() && heard(stream).contains(" 200 ")
}

/// A frame of a client: first byte, masked payload.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 77, 177, 213];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | length as u8),
        length => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    let masked = payload.iter().zip(mask.iter().cycle());
    bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
    bytes
}

#[test]
fn a_message_in_fragments_is_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut socket = websocket(&server);
    let mut both = Request::Hello { token: 0 }.frame().bytes().to_vec();
    both.extend_from_slice(tap(1).frame().bytes());
    let stream = socket.get_mut();
    // In three, with a ping between.
    stream.write_all(&frame(0x02, &both[..5])).unwrap();
    stream.write_all(&frame(0x00, &both[5..13])).unwrap();
    stream.write_all(&frame(0x89, b"still there")).unwrap();
    stream.write_all(&frame(0x80, &both[13..])).unwrap();
    let answers = loop {
        match socket.read().unwrap() {
            Message::Pong(words) => assert_eq!(&words[..], b"still there"),
            other => break other.into_data(),
        }
    };
    let (welcome, length) = parse_answer(&answers).unwrap().unwrap();
    assert!(matches!(welcome, Answer::Welcome { .. }));
    let (coin, _) = parse_answer(&answers[length..]).unwrap().unwrap();
    assert!(matches!(coin, Answer::Coin { number: 1, .. }));
}

#[test]
fn frames_that_break_the_rules_end_their_connection_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let before = server.rss_bytes();
    let mut endless = frame(0x02, &[0; 200]);
    endless.extend_from_slice(&frame(0x00, &[0; 200]).repeat(5000));
    let cases: [(&str, Vec<u8>); 8] = [
        ("not masked", vec![0x82, 3, 1, 2, 3]),
        ("larger than any request", frame(0x82, &[0; 257])),
        (
            "a length of eight bytes",
            [&[0x82, 0xff][..], &[0x7f; 8], &[0; 4]].concat(),
        ),
        ("fragments without end", endless),
        ("a reserved bit", frame(0xc2, &[0; 3])),
        ("a reserved kind", frame(0x83, &[0; 3])),
        ("a continuation of nothing", frame(0x80, &[0; 3])),
        ("half a request", frame(0x82, &[8, 0, 1, 0])),
    ];
    let count = cases.len() as u64;
    for (what, bytes) in cases {
        let mut socket = websocket(&server);
        let stream = socket.get_mut();
        let _ = stream.write_all(&bytes);
        assert!(is_hung_up(stream), "{what}");
    }
    assert_eq!(server.wait_for(BROKEN, count), count);
    let grown = server.rss_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
}

#[test]
fn pings_without_a_reader_do_not_pile_up_and_slow_readers_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--slow", "300ms"]);
    let mut warm = websocket(&server);
    warm.send(Message::Ping("warm".into())).unwrap();
    warm.read().unwrap();
    let before = server.rss_bytes();
    // Pongs that nobody reads: 64 MiB of them would be kept.
    let mut pinging = websocket(&server);
    let pings = frame(0x89, &[b'p'; 125]).repeat(1000);
    let mut sent = 0;
    while sent < 64 << 20 && pinging.get_mut().write_all(&pings).is_ok() {
        sent += pings.len();
    }
    let grown = server.rss_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more after {sent} of pings");
    // Answers that nobody reads.
    let mut asking = websocket(&server);
    let asks = frame(0x82, &Request::Ping([7; 8]).frame().bytes().repeat(20)).repeat(100);
    while asking.get_mut().write_all(&asks).is_ok() {}
    server.wait_for("treasure_dropped_total{reason=\"slow_reader\"}", 1);
}

#[test]
fn browsers_beyond_the_limit_are_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_limited(200, folder.path(), &[]);
    let url = format!("ws://127.0.0.1:{}/ws", server.http);
    let mut sockets = Vec::new();
    let refused = (0..40).find_map(|_| match tungstenite::client(&url, http(&server)) {
        Ok((socket, _)) => {
            sockets.push(socket);
            None
        }
        Err(error) => Some(error.to_string()),
    });
    let refused = refused.expect("no limit on browsers");
    assert!(refused.contains("503"), "{refused}");
    // One that plays goes on playing.
    let hello = Request::Hello { token: 0 }.frame().bytes().to_vec();
    sockets[0].send(Message::Binary(hello.into())).unwrap();
    assert!(sockets[0].read().unwrap().is_binary());
}
