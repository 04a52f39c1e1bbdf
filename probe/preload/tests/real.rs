//! Real programs under the probe, over three allocators. Long, and they fetch what is not installed: `make test-long`.

#[path = "../../../highwater/tests/free_port/mod.rs"]
mod free_port;
mod subject;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use free_port::free_port;
use subject::{allocators, library, look, skipped, totals};

/// A Debian package and those it needs, unpacked into a folder of its own; `None` (and a line) when it cannot be had.
fn unpacked(packages: &[&str]) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let fetched = Command::new("apt-get")
        .arg("download")
        .args(packages)
        .current_dir(folder.path())
        .output();
    if !fetched.is_ok_and(|out| out.status.success()) {
        skipped(&format!("apt-get download {packages:?} did not work"));
        return None;
    }
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let unpacked = Command::new("dpkg")
            .arg("-x")
            .arg(entry.path())
            .arg(folder.path().join("root"))
            .status();
        assert!(unpacked.unwrap().success());
    }
    Some(folder)
}

fn preload(allocator: &Option<PathBuf>) -> std::ffi::OsString {
    let mut preload = library().into_os_string();
    if let Some(file) = allocator {
        preload.push(":");
        preload.push(file);
    }
    preload
}

/// glibc and two others, of what this machine has.
fn three() -> Vec<(String, Option<PathBuf>)> {
    allocators().into_iter().take(3).collect()
}

/// Ends the process it holds.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for_port(port: &str) {
    for _ in 0..300 {
        if std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("nobody listens on {port}");
}

/// A redis-server of an unpacked package, and its tools.
struct Redis {
    server: Server,
    bin: PathBuf,
    libraries: PathBuf,
    port: String,
    _data: tempfile::TempDir,
}

impl Redis {
    fn start(root: &Path, file: &Option<PathBuf>) -> Redis {
        let (bin, libraries) = (root.join("usr/bin"), root.join("usr/lib/x86_64-linux-gnu"));
        let (port, data) = (free_port().to_string(), tempfile::tempdir().unwrap());
        let mut command = Command::new(bin.join("redis-server"));
        command.args([
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--io-threads",
            "3",
        ]);
        command.arg("--dir").arg(data.path()).stdout(Stdio::null());
        command
            .env("LD_LIBRARY_PATH", &libraries)
            .env("LD_PRELOAD", preload(file));
        let server = Server(command.spawn().unwrap());
        wait_for_port(&port);
        Redis {
            server,
            bin,
            libraries,
            port,
            _data: data,
        }
    }

    fn tool(&self, program: &str, arguments: &str) -> String {
        let mut command = Command::new(self.bin.join(program));
        command
            .args(["-p", &self.port])
            .args(arguments.split_whitespace());
        let out = command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() || arguments.starts_with("shutdown"),
            "{program}: {errors}"
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn saves(&self) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let state = self.tool("redis-cli", "info persistence");
            let ended = state.contains("rdb_bgsave_in_progress:0");
            ended && state.contains("rdb_last_bgsave_status:ok")
        })
    }
}

#[test]
#[ignore = "a minute, and fetches redis"]
fn redis_under_load_with_bgsave() {
    let packages = [
        "redis-server",
        "redis-tools",
        "liblzf1",
        "liblua5.1-0",
        "lua-bitop",
        "lua-cjson",
        "libjemalloc2",
    ];
    let Some(folder) = unpacked(&packages) else {
        return;
    };
    for (name, file) in three() {
        let mut redis = Redis::start(&folder.path().join("root"), &file);
        let load = "-q -t set,get,lpush,lrange_100,mset -n 30000 -r 20000 -d 300";
        redis.tool("redis-benchmark", load);
        redis.tool("redis-cli", "bgsave");
        redis.tool("redis-benchmark", "-q -t set -n 30000 -r 20000 -d 300");
        assert!(redis.saves(), "{name}: BGSAVE did not end well");
        let copy = look(redis.server.0.id()).unwrap_or_else(|anchor| panic!("{name}: {anchor:?}"));
        let snapshot = abi::read(&copy).unwrap();
        assert!(totals(&snapshot).live_blocks > 20_000, "{name}");
        assert!(snapshot.header.counters.samples_taken > 1_000, "{name}");
        redis.tool("redis-cli", "shutdown nosave");
        assert!(redis.server.0.wait().unwrap().success(), "{name}");
    }
}

/// What a page says after its script ran, in a headless Chromium over `preload`.
fn page_in_chromium(preload: &std::ffi::OsStr) -> Option<String> {
    const PAGE: &str = "data:text/html,<h1 id=a></h1><script>let sum=0;const all=[];\
        for(let i=0;i<200000;i++){all.push({i});sum+=i}\
        document.getElementById('a').textContent='sum '+sum;</script>";
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    let out = command.arg(PAGE).env("LD_PRELOAD", preload).output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// It has operators new and delete of its own in front of everybody's.
#[test]
#[ignore = "some seconds, and Chromium"]
fn chromium_opens_a_page() {
    let shows = |preload: &std::ffi::OsStr| {
        let page = page_in_chromium(preload);
        page.is_some_and(|page| page.contains(">sum 19999900000<"))
    };
    for (name, file) in three() {
        let alone = file.clone().unwrap_or_default();
        if !shows(alone.as_os_str()) {
            skipped(&format!(
                "chromium over {name}: it is not there, or fails without the probe too"
            ));
            continue;
        }
        assert!(
            shows(&preload(&file)),
            "{name}: the page is not what it is without the probe"
        );
    }
}

#[test]
#[ignore = "half an hour: a part of CPython's own test suite, with and without"]
fn cpython_s_own_tests_end_the_same() {
    let tests = [
        "test_dict",
        "test_list",
        "test_json",
        "test_re",
        "test_thread",
        "test_os",
        "test_fork1",
        "test_gc",
        "test_pickle",
        "test_io",
        "test_ctypes",
        "test_sqlite3",
        "test_signal",
        "test_mmap",
        "test_zlib",
        "test_subprocess",
    ];
    if !Command::new("python3")
        .args(["-c", "import test.test_dict"])
        .status()
        .is_ok_and(|status| status.success())
    {
        skipped("no python3 with its tests");
        return;
    }
    for (name, file) in three() {
        for test in tests {
            let run = |preload: Option<std::ffi::OsString>| {
                let folder = tempfile::tempdir().unwrap();
                let mut command = Command::new("python3");
                command
                    .args(["-m", "test", "-q", test])
                    .env("PYTHONMALLOC", "malloc")
                    .current_dir(folder.path());
                if let Some(preload) = preload {
                    command.env("LD_PRELOAD", preload);
                }
                command
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .unwrap()
                    .code()
            };
            let without = run(file.as_ref().map(|file| file.clone().into_os_string()));
            assert_eq!(run(Some(preload(&file))), without, "{test} over {name}");
        }
    }
}

#[test]
#[ignore = "a minute, and fetches nginx"]
fn nginx_serves_and_reloads() {
    let Some(folder) = unpacked(&["nginx"]) else {
        return;
    };
    let nginx = folder.path().join("root/usr/sbin/nginx");
    for (name, file) in three() {
        let (port, site) = (free_port().to_string(), tempfile::tempdir().unwrap());
        let at = |part: &str| site.path().join(part).display().to_string();
        std::fs::write(site.path().join("page.html"), "x".repeat(20_000)).unwrap();
        let configuration = format!(
            "worker_processes 2; daemon off; pid {}; error_log {}; events {{}} http {{ access_log off; gzip on;
             gzip_types *; client_body_temp_path {}; proxy_temp_path {}; fastcgi_temp_path {}; uwsgi_temp_path {};
             scgi_temp_path {}; server {{ listen 127.0.0.1:{port}; root {}; }} }}",
            at("pid"), at("errors"), at("a"), at("b"), at("c"), at("d"), at("e"), site.path().display()
        );
        std::fs::write(site.path().join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new(&nginx);
        command
            .args(["-c", &at("nginx.conf"), "-e", &at("errors")])
            .env("LD_PRELOAD", preload(&file));
        let mut server = Server(command.spawn().unwrap());
        wait_for_port(&port);
        for round in 0..300 {
            get(&port, "/page.html");
            if round % 100 == 50 {
                // New workers are forked, the old ones leave.
                unsafe { libc::kill(server.0.id() as i32, libc::SIGHUP) };
            }
        }
        let copy = look(server.0.id()).unwrap_or_else(|anchor| panic!("{name}: {anchor:?}"));
        assert!(
            abi::read(&copy).unwrap().header.counters.forks_seen >= 2,
            "{name}"
        );
        unsafe { libc::kill(server.0.id() as i32, libc::SIGQUIT) };
        assert!(server.0.wait().unwrap().success(), "{name}");
        let errors = std::fs::read_to_string(Path::new(&at("errors"))).unwrap_or_default();
        assert!(!errors.contains("exited on signal"), "{name}: {errors}");
    }
}

fn get(port: &str, path: &str) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
#[ignore = "an hour by default (HIGHWATER_SOAK_SECONDS): the probe's memory must not grow"]
fn an_hour_at_full_speed_in_the_same_memory() {
    let seconds = std::env::var("HIGHWATER_SOAK_SECONDS").unwrap_or_else(|_| "3600".to_owned());
    let Some(program) = subject::compile("churn.c", &[]) else {
        return;
    };
    let mut command = Command::new(program);
    command
        .arg(&seconds)
        .env("LD_PRELOAD", library())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut running = Server(command.spawn().unwrap());
    use std::io::Write;
    running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let total: u64 = seconds.parse().unwrap();
    let mut resident = Vec::new();
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_millis(total * 90));
        resident.push(resident_bytes(running.0.id()));
    }
    println!("resident in the mapping: {resident:?}");
    assert!(
        resident.iter().all(|bytes| *bytes <= 8 << 20),
        "{resident:?}"
    );
    let (early, late) = (resident[4], resident[9]);
    assert!(
        late <= early + (64 << 10),
        "grew from {early} to {late} bytes: {resident:?}"
    );
}

/// Resident bytes of the probe's mapping, by smaps.
fn resident_bytes(pid: u32) -> u64 {
    let copy = look(pid).expect("it is on");
    let header = abi::read_header(&copy).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let start = abi::find_header(&maps).expect("a name").start;
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut inside, mut sum) = (false, 0);
    for line in smaps.lines() {
        let first = line
            .split(['-', ' '])
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        if let Some(at) = first.filter(|_| line.split_whitespace().count() >= 5) {
            inside = (start..start + header.mapped_bytes).contains(&at);
        }
        if inside && let Some(rest) = line.strip_prefix("Rss:") {
            let kibi: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
            sum += kibi << 10;
        }
    }
    sum
}

#[test]
#[ignore = "20,000 threads at once"]
fn twenty_thousand_threads() {
    let Some(program) = subject::compile("crowd.c", &[]) else {
        return;
    };
    let glibc = ("glibc".to_owned(), None);
    let mut running = subject::Subject::start(
        &program,
        &["20000"],
        &glibc,
        &[("HIGHWATER_PROBE_BYTES", "exact")],
    );
    running.mark().unwrap();
    running.go_on();
    let mark = running.mark().unwrap();
    let copy = look(mark.pid).unwrap();
    let snapshot = abi::read(&copy).unwrap();
    let threads = mark.blocks / 20;
    let counted = totals(&snapshot).live_blocks;
    // One block of the C library's own for each.
    assert!(
        (counted - mark.blocks - threads).abs() <= mark.blocks / 100,
        "{counted} counted, {} true",
        mark.blocks
    );
    running.go_on();
    while running.mark().is_some() {
        running.go_on();
    }
    running.end();
}
