//! Clients that mean no good, and those that are just slow: the others are answered meanwhile.

mod running;

use std::io::{Read, Write};

use running::{read_answer, service};

#[test]
fn what_is_no_request_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let service = service(&folder.path().join("data"), &[]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9_000));
    let cases: [(&[u8], u16); 7] = [
        (b"POST /search HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 405),
        (b"GET / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 413),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
        (b"GET /%ff HTTP/1.1\r\n\r\n", 400),
        (b"GET /search?q=%00 HTTP/1.1\r\n\r\n", 400),
        (long.as_bytes(), 431),
        (b"GET /search?q=\"%22*)NEAR( HTTP/1.1\r\n\r\n", 200),
    ];
    for (bytes, status) in cases {
        assert_eq!(
            service.say(bytes).0,
            status,
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
    assert_eq!(service.figure("search_refusals_total"), 6);
    assert_eq!(service.figure("search_errors_total"), 0);
}

#[test]
fn a_client_that_says_nothing_ends_by_the_limit_and_holds_up_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["--workers", "2", "--patience", "2s"];
    let service = service(&folder.path().join("data"), &plan);
    let mut silent: Vec<_> = (0..4).map(|_| service.connect()).collect();
    silent[0].write_all(b"GET /search?q=").unwrap();
    // Behind four that say nothing, with two workers: answered when their time is over.
    assert_eq!(service.get("/activity").0, 200);
    for stream in &mut silent {
        assert_eq!(read_answer(stream).0, 408);
    }
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let plan = [
        "--workers",
        "1",
        "--patience",
        "3s",
        "--fault",
        "small-buffer",
    ];
    let service = service(&folder.path().join("data"), &plan);
    // Its window holds less than the page, and what the service may have on its way is small.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    socket.connect(&service.address.into()).unwrap();
    let mut stream = std::net::TcpStream::from(socket);
    let corpus = search::corpus::Corpus::new(1, 200, 20);
    let page = format!("/search?q={}", corpus.word(40));
    stream
        .write_all(format!("GET {page} HTTP/1.1\r\n\r\n").as_bytes())
        .unwrap();
    service.wait_for("search_unsent_total", 1);
    assert_eq!(service.get("/activity").0, 200);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(
        rest.len() < service.get(&page).1.len(),
        "{} bytes",
        rest.len()
    );
}

#[test]
fn the_end_answers_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["--workers", "1", "--patience", "60s", "--grace", "60s"];
    let service = service(&folder.path().join("data"), &plan);
    // The one worker reads from the first; the others wait in the queue.
    let mut first = service.connect();
    first.write_all(b"GET /acti").unwrap();
    let mut others: Vec<_> = (0..5)
        .map(|_| {
            let mut stream = service.connect();
            stream.write_all(b"GET /activity HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    // All are connected, whether accepted yet or not.
    service.term();
    first.write_all(b"vity HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut first).0, 200);
    let mut answered = 0;
    for stream in &mut others {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answered += usize::from(answer.starts_with("HTTP/1.1 200"));
    }
    let (_, status) = service.wait();
    assert!(status.success(), "{status}");
    assert_eq!(answered, 5);
}

#[test]
fn what_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let said = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_search"))
            .args(["--documents", "10", "--publications", "2"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let path = data.to_str().unwrap();
    assert!(said(&[]).contains("--data"));
    assert!(said(&["--data", path, "--fault", "slow"]).contains("exporter-lock"));
    let missing = [
        "--data",
        path,
        "--collector",
        "127.0.0.1:1",
        "--collector-ca",
        "nowhere.pem",
    ];
    assert!(said(&missing).contains("nowhere.pem"));
    assert!(said(&["--data", "/proc/none"]).contains("/proc/none"));
    let running = service(&data, &[]);
    assert!(said(&["--data", path]).contains("is there already"));
    drop(running);
}
