//! A real server process, and a blocking player to talk to it.
#![allow(dead_code)] // each test uses its part

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use treasure::protocol::{Answer, Request, parse_answer};

use testkit::free_port;

pub const NETS: [&str; 2] = ["tokio", "uring"];

pub struct Server {
    pub child: Child,
    pub port: u16,
    pub http: u16,
}

impl Server {
    pub fn start(data: &Path, more: &[&str]) -> Server {
        Server::start_at(data, free_port(), free_port(), more)
    }

    /// At ports of an earlier one.
    pub fn start_at(data: &Path, port: u16, http: u16, more: &[&str]) -> Server {
        Server::run(
            Command::new(env!("CARGO_BIN_EXE_treasure")),
            data,
            port,
            http,
            more,
        )
    }

    /// With fewer descriptors.
    pub fn start_limited(descriptors: u32, data: &Path, more: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_treasure");
        shell.args([
            "-c",
            &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""),
            program,
        ]);
        Server::run(shell, data, free_port(), free_port(), more)
    }

    /// By a program that becomes the server.
    pub fn start_by(command: Command, data: &Path, more: &[&str]) -> Server {
        Server::run(command, data, free_port(), free_port(), more)
    }

    fn run(mut command: Command, data: &Path, port: u16, http: u16, more: &[&str]) -> Server {
        let mut child = command
            .args([
                "--port",
                &port.to_string(),
                "--http",
                &http.to_string(),
                "--data",
            ])
            .arg(data)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("ready on") {
            let before = said.len();
            lines.read_line(&mut said).unwrap();
            assert!(said.len() > before, "the server ended: {said}");
        }
        // The rest is drained, so that the server never waits for its reader.
        std::thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
        Server { child, port, http }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .into();
        let mut answer = agent
            .get(format!("http://127.0.0.1:{}{path}", self.http))
            .call()
            .unwrap();
        (
            answer.status().as_u16(),
            answer.body_mut().read_to_string().unwrap(),
        )
    }

    pub fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text
            .lines()
            .find(|line| line.rsplit_once(' ').is_some_and(|(key, _)| key == name));
        let value = line
            .and_then(|line| line.rsplit_once(' '))
            .unwrap_or_else(|| panic!("no {name} in {text}"));
        value.1.parse().unwrap()
    }

    /// Waits until a metric reaches a value; ten seconds at most.
    pub fn wait_for(&self, name: &str, at_least: u64) -> u64 {
        for _ in 0..500 {
            let value = self.metric(name);
            if value >= at_least {
                return value;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!(
            "{name} is {} after ten seconds, {at_least} expected",
            self.metric(name)
        );
    }

    /// Waits until a metric is as wanted; twenty seconds at most.
    pub fn wait_until(&self, name: &str, is_wanted: impl Fn(u64) -> bool) {
        for _ in 0..1000 {
            if is_wanted(self.metric(name)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{name} is {} after twenty seconds", self.metric(name));
    }

    /// Every write past so many bytes of a file fails, as on a full disk.
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    pub fn rss_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Client {
            stream,
            input: Vec::new(),
        })
    }

    /// Connects and resumes. A ring's sockets outlive its killed process by a moment, and connections that they
    /// took are reset: those are tried again.
    pub fn resume(port: u16, token: u64) -> (Client, u32) {
        let resume = || -> io::Result<(Client, u32)> {
            let mut client = Client::connect(port)?;
            let (_, taps) = client.hello(token)?;
            Ok((client, taps))
        };
        for _ in 0..200 {
            if let Ok(resumed) = resume() {
                return resumed;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        resume().unwrap()
    }

    /// Sockets of a killed ring live on for a moment: what they take is reset, and tried again.
    pub fn connect_patiently(port: u16) -> Client {
        for _ in 0..200 {
            if let Ok(mut client) = Client::connect(port)
                && client.ask(Request::Ping([1; 8])).is_ok()
            {
                return client;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no connection to the port {port}");
    }

    /// True when the server hangs up; what it still says is passed over.
    pub fn is_hung_up(&mut self) -> bool {
        is_hung_up(&mut self.stream)
    }

    pub fn send(&mut self, request: Request) -> io::Result<()> {
        self.stream.write_all(request.frame().bytes())
    }

    pub fn hear(&mut self) -> io::Result<Answer> {
        loop {
            let parsed = parse_answer(&self.input)
                .map_err(|broken| io::Error::other(format!("{broken:?}")))?;
            if let Some((answer, length)) = parsed {
                self.input.drain(..length);
                return Ok(answer);
            }
            let mut bytes = [0; 512];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => self.input.extend_from_slice(&bytes[..more]),
            }
        }
    }

    pub fn ask(&mut self, request: Request) -> io::Result<Answer> {
        self.send(request)?;
        self.hear()
    }

    /// Token and taps of the session.
    pub fn hello(&mut self, token: u64) -> io::Result<(u64, u32)> {
        match self.ask(Request::Hello { token })? {
            Answer::Welcome { token, taps, .. } => Ok((token, taps)),
            other => panic!("{other:?} to a hello with {token:x}"),
        }
    }

    pub fn tap(&mut self, number: u32) -> io::Result<u64> {
        match self.ask(tap(number))? {
            Answer::Coin {
                number: given,
                coin,
            } if given == number => Ok(coin),
            other => panic!("{other:?} to tap {number}"),
        }
    }
}

/// True when the other side hangs up within the stream's time limit.
pub fn is_hung_up(stream: &mut TcpStream) -> bool {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

pub fn tap(number: u32) -> Request {
    Request::Tap { number, x: 1, y: 2 }
}
