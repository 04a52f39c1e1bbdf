//! The load against a real HTTP server in a process of its own, which is really stopped.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use highwater_load::interval::new_histogram;
use highwater_load::{Interval, SCHEMA};
use rustix::process::{Pid, Signal, kill_process};

/// Set in the process that plays the server.
const SERVE: &str = "HIGHWATER_LOAD_TEST_SERVE";

/// No test of its own: this binary starts itself again, and that process runs this and serves.
#[test]
fn serve_when_asked() {
    if std::env::var_os(SERVE).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("port {}", listener.local_addr().unwrap().port());
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || answer_all(stream));
    }
}

fn answer_all(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let mut line = String::new();
    let mut path = String::new();
    while reader.read_line(&mut line).is_ok_and(|size| size > 0) {
        if line.starts_with("GET ") {
            path = line.split(' ').nth(1).unwrap_or("").to_string();
        }
        if line == "\r\n" {
            let status = if path == "/missing" {
                "404 Not Found"
            } else {
                "200 OK"
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nok\n");
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve_when_asked", "--nocapture"])
            .env(SERVE, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
        Server { child, port }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(url: &str, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_highwater-load-http"))
        .args(["--url", url, "--interval", "200ms", "--seed", "5"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn lines_of(load: Child) -> Vec<Interval> {
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| Interval::parse(line).unwrap())
        .collect()
}

#[test]
fn a_stop_shows_in_full_although_few_requests_were_in_flight() {
    let server = Server::start();
    let connections = 4;
    let load = load(
        &server.url("/"),
        &["--rate", "200", "--duration", "4s", "--connections", "4"],
    );
    std::thread::sleep(Duration::from_secs(1));
    let before = Instant::now();
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(1500));
    let stopped_ns = before.elapsed().as_nanos() as u64;
    server.signal(Signal::CONT);

    let lines = lines_of(load);
    let mut all = new_histogram();
    for line in &lines {
        assert_eq!(line.schema, SCHEMA);
        all.add(line.decode_histogram().unwrap()).unwrap();
    }
    assert!(
        lines
            .iter()
            .all(|line| line.errors == 0 && line.dropped == 0),
        "{lines:?}"
    );
    // Only lower bounds, which hold on a machine of any speed. The first request due after the
    // stop waits for all of it (less the gap before it, on average 5 ms); 300 of 800 requests
    // were due meanwhile, so the slowest 1 % of all waited for nearly all of it.
    assert!(
        all.max() > stopped_ns * 95 / 100,
        "max {} ns, stopped {stopped_ns} ns",
        all.max()
    );
    let p99_ns = all.value_at_quantile(0.99);
    assert!(
        p99_ns > stopped_ns * 85 / 100,
        "p99 {p99_ns} ns, stopped {stopped_ns} ns"
    );
    let late = all.len() - all.count_between(0, stopped_ns / 10);
    assert!(
        late > 10 * connections,
        "{late} requests were late, {connections} were in flight"
    );
}

#[test]
fn a_request_is_given_up_at_its_time_limit_and_then_counts_as_late() {
    let server = Server::start();
    server.signal(Signal::STOP);
    let options = [
        "--rate",
        "20",
        "--duration",
        "1s",
        "--connections",
        "2",
        "--timeout",
        "300ms",
    ];
    let lines = lines_of(load(&server.url("/"), &options));
    let errors: u64 = lines.iter().map(|line| line.errors).sum();
    let requests: u64 = lines.iter().map(|line| line.requests).sum();
    let recorded: u64 = lines
        .iter()
        .map(|line| line.decode_histogram().unwrap().len())
        .sum();
    assert_eq!(requests, 0);
    assert!(errors >= 2, "{lines:?}");
    assert_eq!(
        recorded, errors,
        "each given up request has its lower bound"
    );
}

#[test]
fn refusals_and_bad_statuses_are_errors_without_a_latency() {
    let server = Server::start();
    for url in [server.url("/missing"), "http://127.0.0.1:1/".to_string()] {
        let lines = lines_of(load(&url, &["--rate", "50", "--duration", "500ms"]));
        assert!(
            lines.iter().map(|line| line.errors).sum::<u64>() > 0,
            "{url}: {lines:?}"
        );
        for line in lines {
            assert_eq!(
                (line.requests, line.decode_histogram().unwrap().len()),
                (0, 0),
                "{url}"
            );
        }
    }
}

#[test]
fn sigterm_ends_it_with_the_last_line() {
    let server = Server::start();
    let load = load(&server.url("/"), &["--rate", "100"]);
    std::thread::sleep(Duration::from_millis(900));
    kill_process(Pid::from_child(&load), Signal::TERM).unwrap();
    let lines = lines_of(load);
    assert!(
        lines.iter().map(|line| line.requests).sum::<u64>() > 0,
        "{lines:?}"
    );
}

#[test]
fn usage_errors_say_what_is_wrong() {
    for (arguments, complaint) in [
        (
            ["--url", "http://127.0.0.1:1/", "--rate", "0"],
            "--rate 0 is not between",
        ),
        (
            ["--url", "https://127.0.0.1:1/", "--rate", "1"],
            "not plain http",
        ),
        (["--url", "not a url", "--rate", "1"], "--url not a url"),
    ] {
        let program = env!("CARGO_BIN_EXE_highwater-load-http");
        let output = Command::new(program).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && stderr.contains(complaint),
            "{stderr}"
        );
    }
}
