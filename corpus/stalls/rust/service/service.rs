//! What the Rust services share: arguments, CPU work of a known length, requests, and the starting of the client and of
//! the peer. See ../../common/load.c. Helpers that work or wait are always inlined, so that the service's own function
//! is the one on the stack.
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What clients send and get back: an id, and how long a peer has to wait.
pub type Request = [u8; 16];

/// What the command line says.
pub struct Settings {
    pub port: u16,
    pub fault: String,
    pub dir: String,
    pub work_us: u32,
    truth: String,
    rate: u32,
    connections: u32,
    burst: u32,
    seconds: u32,
}

static ROUNDS_PER_US: OnceLock<f64> = OnceLock::new();

/// The arguments are the service's usual load: requests a second, microseconds of each, connections.
pub fn read_settings(rate: u32, work_us: u32, connections: u32) -> &'static Settings {
    let (fault, dir, truth) = ("none".into(), ".".into(), String::new());
    let mut settings = Settings { port: 21000, fault, dir, work_us, truth, rate, connections, burst: 0, seconds: 120 };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        let value = pair[1].clone();
        match pair[0].as_str() {
            "--port" => settings.port = value.parse().unwrap(),
            "--fault" => settings.fault = value,
            "--dir" => settings.dir = value,
            "--truth" => settings.truth = value,
            "--rate" => settings.rate = value.parse().unwrap(),
            "--work" => settings.work_us = value.parse().unwrap(),
            "--connections" => settings.connections = value.parse().unwrap(),
            "--burst" => settings.burst = value.parse().unwrap(),
            "--secs" => settings.seconds = value.parse().unwrap(),
            other => panic!("unknown argument {other}"),
        }
    }
    // SAFETY: alarm() takes no pointer.
    unsafe { libc::alarm(settings.seconds) };
    calibrate_burn();
    Box::leak(Box::new(settings))
}

fn calibrate_burn() {
    let mut best = f64::MAX;
    for i in 0..6 {
        let start = Instant::now();
        spin(600_000, i + 1);
        best = best.min(start.elapsed().as_secs_f64());
    }
    ROUNDS_PER_US.set(600_000.0 / (best * 1e6)).unwrap();
}

#[inline(always)]
pub fn spin(rounds: u64, seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x)
}

/// Computes for so long on a CPU that is otherwise idle.
#[inline(always)]
pub fn burn_us(us: u32) -> u64 {
    spin((us as f64 * ROUNDS_PER_US.get().copied().unwrap_or(300.0)) as u64, us as u64)
}

#[inline(always)]
pub fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Starts a thread with a name, and leaves it.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.into()).spawn(body).unwrap();
}

impl Settings {
    pub fn is(&self, fault: &str) -> bool {
        self.fault == fault
    }

    /// Starts the program `load`, which lies beside the service's own.
    fn run_load(&self, arguments: &[&str]) {
        let program = std::env::current_exe().unwrap().with_file_name("load");
        Command::new(program).args(arguments).stdin(Stdio::null()).spawn().unwrap();
    }

    /// Starts the client; the mode is `keep` or `connect`.
    pub fn start_load(&self, mode: &str) {
        let numbers = [self.port.into(), self.connections, self.rate, self.burst, self.seconds].map(|n| n.to_string());
        let [port, connections, rate, burst, seconds] = numbers.each_ref().map(String::as_str);
        self.run_load(&[mode, port, connections, rate, burst, seconds, &self.truth]);
    }

    /// Starts a slow process on the next port: `peer` or `http-peer`.
    pub fn start_peer(&self, kind: &str) {
        self.run_load(&[kind, &(self.port + 1).to_string()]);
        sleep_ms(150);
    }

    /// A connection to the peer.
    pub fn dial_peer(&self) -> TcpStream {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port + 1)) {
                let _ = stream.set_nodelay(true);
                return stream;
            }
            sleep_ms(50);
        }
    }

    pub fn listen(&self) -> TcpListener {
        TcpListener::bind(("127.0.0.1", self.port)).unwrap()
    }

    pub fn create_file(&self, name: &str) -> File {
        File::create(format!("{}/{name}", self.dir)).unwrap()
    }

    /// A file of so many MiB, written to the disk, opened for reading with these flags.
    pub fn big_file(&self, name: &str, mib: usize, flags: i32) -> File {
        let path = format!("{}/{name}", self.dir);
        let mut file = File::create(&path).unwrap();
        let block: Vec<u8> = (0..1 << 20).map(|i| (i * 31) as u8).collect();
        for _ in 0..mib {
            file.write_all(&block).unwrap();
        }
        file.sync_all().unwrap();
        File::options().read(true).custom_flags(flags).open(&path).unwrap()
    }
}

/// One round trip to the `peer`, which answers after so long.
#[inline(always)]
pub fn ask_over(peer: &mut TcpStream, ms: u64) -> u64 {
    let mut request = [0u8; 16];
    request[8..].copy_from_slice(&ms.to_le_bytes());
    let _ = peer.write_all(&request);
    let _ = peer.read_exact(&mut request);
    request[8] as u64
}

/// The same over a new connection.
#[inline(always)]
pub fn ask_peer(settings: &Settings, ms: u64) -> u64 {
    let Ok(mut peer) = TcpStream::connect(("127.0.0.1", settings.port + 1)) else { return 0 };
    ask_over(&mut peer, ms)
}

/// An HTTP POST to the `http-peer`, which answers after so long.
#[inline(always)]
pub fn post_over_http(settings: &Settings, hold_ms: u32, body: &str) -> usize {
    let Ok(mut peer) = TcpStream::connect(("127.0.0.1", settings.port + 1)) else { return 0 };
    let size = body.len();
    let head = format!("POST /push HTTP/1.1\r\nHost: x\r\nX-Hold: {hold_ms}\r\nContent-Length: {size}\r\n\r\n");
    let mut answer = [0u8; 256];
    let _ = peer.write_all(head.as_bytes());
    let _ = peer.write_all(body.as_bytes());
    peer.read(&mut answer).unwrap_or(0)
}

/// 4 KiB writes, each with an fsync, for so long. How many.
#[inline(always)]
pub fn sync_for_ms(file: &File, ms: u64) -> u64 {
    let (end, page) = (Instant::now() + Duration::from_millis(ms), [7u8; 4096]);
    let mut count = 0;
    while Instant::now() < end {
        let _ = file.write_all_at(&page, count % 512 * 4096);
        let _ = file.sync_all();
        count += 1;
    }
    count
}

pub fn id_of(request: &Request) -> u64 {
    u64::from_le_bytes(request[..8].try_into().unwrap())
}

/// The id of the next request; none when the connection ended.
#[inline(always)]
pub fn read_request(stream: &mut TcpStream, request: &mut Request) -> Option<u64> {
    stream.read_exact(request).ok()?;
    Some(id_of(request))
}

/// Answers each request of a connection after `handle(id)`.
#[inline(always)]
pub fn serve_connection(mut stream: TcpStream, mut handle: impl FnMut(u64)) {
    let _ = stream.set_nodelay(true);
    let mut request = [0u8; 16];
    while let Some(id) = read_request(&mut stream, &mut request) {
        handle(id);
        if stream.write_all(&request).is_err() {
            break;
        }
    }
}

/// Starts a thread for each connection, for ever.
pub fn serve_by_threads(listener: &TcpListener, name: &str, handle: impl Fn(u64) + Clone + Send + 'static) {
    for stream in listener.incoming().flatten() {
        let handle = handle.clone();
        spawn(name, move || serve_connection(stream, handle));
    }
}
