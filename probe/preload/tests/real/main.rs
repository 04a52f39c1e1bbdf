//! Real programs under the probe, over three allocators. Long, and they fetch what is not installed: `make test-long`.

#[path = "../../../../highwater/tests/free_port/mod.rs"]
mod free_port;
mod nginx;
mod postgres;
mod redis;
#[path = "../subject/mod.rs"]
mod subject;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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

/// Functions of many types: the compiler's own threads, LLVM, and the linker as a child.
fn a_rust_program() -> String {
    let mut text = String::from("use std::collections::*;\n");
    for n in 0..200 {
        text += &format!(
            "#[derive(Debug, Clone, Default)] struct T{n} {{ a: Vec<[u8; {n}]>, b: BTreeMap<String, u{}> }}\n",
            8 << (n % 4)
        );
        text += &format!(
            "fn f{n}(x: usize) -> usize {{ let t = T{n} {{ a: vec![[1; {n}]; x], ..T{n}::default() }}; \
             format!(\"{{t:?}}\").len() + t.a.len() + t.b.len() }}\n"
        );
    }
    let calls = (0..200).map(|n| format!("f{n}(1)"));
    let sum = calls.collect::<Vec<_>>().join(" + ");
    text + &format!("fn main() {{ println!(\"{{}}\", {sum}); }}\n")
}

/// What the program says that a compiler over `preload` made; `None`: the compiler failed.
fn compiled_over(preload: &std::ffi::OsStr, source: &std::path::Path) -> Option<String> {
    let program = source.with_extension("");
    let mut command = Command::new("rustc");
    command.args(["--edition=2021", "-Copt-level=1", "-o"]);
    command.arg(&program).arg(source).env("LD_PRELOAD", preload);
    let made = command.output().ok()?.status.success();
    let out = made.then(|| Command::new(program).output())?.ok()?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// It has a malloc of its own, of jemalloc, within the program.
#[test]
#[ignore = "a minute"]
fn a_rust_build_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("types.rs");
    std::fs::write(&source, a_rust_program()).unwrap();
    for (name, file) in three() {
        let alone = file.clone().unwrap_or_default();
        let Some(without) = compiled_over(alone.as_os_str(), &source) else {
            skipped(&format!("rustc over {name} fails without the probe too"));
            continue;
        };
        assert!(without.trim().parse::<u64>().is_ok(), "{name}: {without}");
        assert_eq!(
            compiled_over(&preload(&file), &source),
            Some(without),
            "{name}"
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
