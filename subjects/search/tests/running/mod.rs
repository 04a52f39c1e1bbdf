//! The service and its collector as processes, ended when dropped.

#![allow(dead_code)] // each test file uses its part

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes: reached only when something hangs.
pub const LIMIT: Duration = Duration::from_secs(120);

pub struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

/// Starts a program and waits until it says that it is ready.
pub fn start(program: &str, arguments: &[&str]) -> Running {
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line
        .strip_prefix("ready ")
        .unwrap_or_else(|| panic!("{program} said {line:?}"));
    Running {
        address: address.trim().parse().unwrap(),
        child,
        output,
    }
}

/// A small service.
pub fn service(data: &std::path::Path, arguments: &[&str]) -> Running {
    let data = data.to_str().unwrap();
    let small = ["--data", data, "--documents", "200", "--publications", "20"];
    let all = [&small[..], arguments].concat();
    start(env!("CARGO_BIN_EXE_search"), &all)
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn term(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// What it said since, and how it ended.
    pub fn wait(mut self) -> (String, ExitStatus) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        (said, self.child.wait().unwrap())
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Status and body.
    pub fn get(&self, target: &str) -> (u16, String) {
        self.say(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
    }

    /// What is answered to these bytes.
    pub fn say(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_answer(&mut stream)
    }

    /// A counter of /metrics.
    pub fn figure(&self, name: &str) -> u64 {
        let (_, page) = self.get("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {page}"))
            .trim()
            .parse()
            .unwrap()
    }

    /// Waits until a counter has reached a value.
    pub fn wait_for(&self, name: &str, least: u64) {
        let begun = Instant::now();
        while self.figure(name) < least {
            assert!(begun.elapsed() < LIMIT, "{name} stays below {least}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn read_answer(stream: &mut TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_string())
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
