//! The real relay in a process of its own, hosts that misbehave for it, and consumers.

// Each test program uses its part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tungstenite::{Message, WebSocket};

pub use testkit::free_port;

/// Longest wait for anything that is bound to happen: far more than it takes, on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The relay's program, built once per test program; None (said and counted) when it cannot be.
pub fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let relay = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = Command::new(relay.join("build")).output();
        let output = output.map_err(|error| format!("subjects/relay/build: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(relay.join("../../target/subjects/relay"))
    });
    match built {
        Ok(path) => Some(path),
        Err(reason) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            let line = format!("\nSKIPPED {test}: the relay cannot be built: {reason}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
    }
}

/// Polls until `done` gives a value.
pub fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(value) = done() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

pub struct Relay {
    child: Child,
    pub port: u16,
    lines: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// How a relay ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

impl Relay {
    /// Starts a relay and waits until it answers. None when it cannot be built.
    pub fn start(data: &Path, upstreams: &str, more: &[&str]) -> Option<Relay> {
        let relay = Relay::spawn(data, upstreams, more)?;
        wait_for("the relay's health page", || {
            (relay.get("/_health").0 == 200).then_some(())
        });
        Some(relay)
    }

    pub fn spawn(data: &Path, upstreams: &str, more: &[&str]) -> Option<Relay> {
        let port = free_port();
        let mut child = Command::new(program()?)
            .args(["--port", &port.to_string(), "--upstreams", upstreams])
            .arg("--data")
            .arg(data)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let written = lines.clone();
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *written.lock().unwrap() += &(line + "\n");
            }
        });
        Some(Relay {
            child,
            port,
            lines,
            reader: Some(reader),
        })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Status and body; status 0 when the relay does not answer.
    pub fn get(&self, path: &str) -> (u16, String) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        match agent
            .get(format!("http://127.0.0.1:{}{path}", self.port))
            .call()
        {
            Ok(mut answer) => {
                let status = answer.status().as_u16();
                (
                    status,
                    answer.body_mut().read_to_string().unwrap_or_default(),
                )
            }
            Err(_) => (0, String::new()),
        }
    }

    /// A metric's value by its full name, with labels if it has any.
    pub fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .parse()
            .unwrap()
    }

    pub fn wait_for_metric(&self, name: &str, at_least: u64) {
        wait_for(&format!("{name} >= {at_least}"), || {
            (self.metric(name) >= at_least).then_some(())
        });
    }

    /// Connects a consumer; `query` with its question mark, or empty.
    pub fn consumer(&self, query: &str) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let path = "/xrpc/com.atproto.sync.subscribeRepos";
        let url = format!("ws://127.0.0.1:{}{path}{query}", self.port);
        tungstenite::client(url, stream).unwrap().0
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub fn wait(mut self) -> Ended {
        let status = wait_for("the relay's end", || self.child.try_wait().unwrap());
        self.reader.take().unwrap().join().unwrap();
        let stderr = self.lines.lock().unwrap().clone();
        Ended { status, stderr }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host whose every connection, by its number from 0, plays the scene after the handshake and is
/// then closed. Returns its port.
pub fn host(scene: impl Fn(usize, &mut WebSocket<TcpStream>) + Send + Sync + 'static) -> u16 {
    raw_host(move |number, stream| {
        if let Ok(mut socket) = tungstenite::accept(stream) {
            scene(number, &mut socket);
        }
    })
}

/// A host before any handshake.
pub fn raw_host(scene: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scene = Arc::new(scene);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let scene = scene.clone();
            std::thread::spawn(move || scene(number, stream));
        }
    });
    port
}

/// Sends a message, if the relay is still there.
pub fn send(socket: &mut WebSocket<TcpStream>, message: Vec<u8>) -> bool {
    socket.send(Message::binary(message)).is_ok()
}

/// Holds the connection until the relay ends it.
pub fn hold(socket: &mut WebSocket<TcpStream>) {
    let mut bytes = [0; 256];
    while socket.get_mut().read(&mut bytes).is_ok_and(|size| size > 0) {}
}

/// Writes bytes past the WebSocket library, as a broken host would.
pub fn send_raw(socket: &mut WebSocket<TcpStream>, bytes: &[u8]) {
    // The relay may have ended the connection already, which is the point.
    let _ = socket.get_mut().write_all(bytes);
}

/// The next event a consumer receives, within [`PATIENCE`]; None when the connection ended.
pub fn receive(consumer: &mut WebSocket<TcpStream>) -> Option<Vec<u8>> {
    loop {
        match consumer.read() {
            Ok(Message::Binary(frame)) => return Some(frame.to_vec()),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}
