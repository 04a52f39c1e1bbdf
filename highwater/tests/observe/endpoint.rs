//! The endpoint itself: its numbers against the kernel's, its limits, its end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::scene::{PATIENCE, Scene, said, wait};
use super::stage::Endpoint;
use testkit::skipped;

/// A child that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `sleep` with a word among its arguments that no other process has.
fn sleeper(mark: &str) -> Process {
    let mut command = Command::new("sleep");
    command.arg0(mark).arg("600").stdout(Stdio::null());
    let child = command.spawn().expect("sleep starts");
    let pid = child.id();
    wait("sleep to run", || {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        line.starts_with(mark).then_some(())
    });
    Process(child)
}

fn raw(endpoint: &Endpoint, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(endpoint.address()).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_page_has_the_kernels_numbers() {
    let (scene, process) = (Scene::new(), sleeper("hw-page"));
    let pid = process.0.id().to_string();
    let endpoint = Endpoint::start(
        &scene,
        &["--arm", &format!("new=pid:{pid}"), "--host", "h1"],
    );
    let page = endpoint.page();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let rss = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    let kib: f64 = rss.trim_end_matches("kB").trim().parse().expect("a number");
    assert_eq!(
        page.value("highwater_rss_bytes", "pid", &pid),
        Some(1024.0 * kib)
    );
    assert_eq!(page.value("highwater_threads", "pid", &pid), Some(1.0));
    let labels = &page.samples["highwater_rss_bytes"][0].0;
    let told: Vec<&str> = ["arm", "process", "host"]
        .map(|l| labels[l].as_str())
        .into();
    assert_eq!(told, ["new", "sleep", "h1"]);
    let allocator = &page.samples["highwater_allocator_info"][0].0;
    assert!(
        allocator["path"].contains("libc") && !allocator["build_id"].is_empty(),
        "{allocator:?}"
    );
    let start = page
        .value("highwater_start_time_seconds", "pid", &pid)
        .expect("a start");
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock")
        .as_secs_f64();
    assert!(
        (now - 2.0 * PATIENCE.as_secs_f64()..now + 1.0).contains(&start),
        "{start} of {now}"
    );
    assert!(
        page.text
            .contains("# TYPE highwater_minor_faults counter\n")
    );
    assert!(page.own("highwater_observe_cpu_seconds_total") > 0.0);
    let known = highwater::cli::observe::page::names();
    let unknown: Vec<&String> = page
        .samples
        .keys()
        .filter(|name| !known.contains(name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn scrapes_in_a_hurry_get_one_snapshot() {
    let (scene, process) = (Scene::new(), sleeper("hw-hurry"));
    let pid = process.0.id().to_string();
    let endpoint = Endpoint::start(&scene, &["--pid", &pid, "--interval", "1h"]);
    for _ in 0..20 {
        // One before anybody asked, one for all who ask.
        assert_eq!(endpoint.page().own("highwater_observe_looks_total"), 2.0);
    }
}

#[test]
fn requests_that_are_none_are_refused_in_words() {
    let (scene, process) = (Scene::new(), sleeper("hw-refused"));
    let pid = process.0.id().to_string();
    let endpoint = Endpoint::start(&scene, &["--pid", &pid, "--interval", "1ms"]);
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(70_000));
    for (request, wanted) in [
        ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "HTTP/1.1 400 "),
        ("GET\r\n\r\n", "HTTP/1.1 400 "),
        ("GET /metrics HTTP/9.9\r\n\r\n", "HTTP/1.1 400 "),
        (long.as_str(), "HTTP/1.1 431 "),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 405 ",
        ),
        ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 "),
        ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 200 "),
    ] {
        let answer = raw(&endpoint, request.as_bytes());
        assert!(answer.starts_with(wanted), "{wanted}: {answer}");
    }
    let text = raw(&endpoint, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        text.contains("version=0.0.4")
            && text.contains("# TYPE highwater_minor_faults_total counter")
    );
    assert!(wait("refusals to be counted", || {
        let refused = endpoint.page().own("highwater_observe_refused_total");
        (refused >= 1.0).then_some(true)
    }));
}

#[test]
fn silent_clients_hold_nobody_up_for_long() {
    let (scene, process) = (Scene::new(), sleeper("hw-silent"));
    let pid = process.0.id().to_string();
    let endpoint = Endpoint::start(&scene, &["--pid", &pid]);
    let few: Vec<_> = (0..8)
        .map(|_| TcpStream::connect(endpoint.address()))
        .collect();
    assert!(endpoint.page().text.contains("highwater_rss_bytes"));
    let many: Vec<_> = (0..60)
        .map(|_| TcpStream::connect(endpoint.address()))
        .collect();
    // Every place is taken now, for a few seconds.
    let page = endpoint.page();
    assert!(
        page.own("highwater_observe_refused_total") >= 1.0,
        "{}",
        page.text
    );
    drop((few, many));
}

#[test]
fn a_signal_ends_it_in_order() {
    let (scene, process) = (Scene::new(), sleeper("hw-signal"));
    let pid = process.0.id().to_string();
    let mut endpoint = Endpoint::start(&scene, &["--pid", &pid]);
    let held = TcpStream::connect(endpoint.address());
    // SAFETY: kill takes two integers; the child is ours and not yet reaped.
    unsafe { libc::kill(endpoint.child.id() as i32, libc::SIGTERM) };
    let status = wait("its end", || endpoint.child.try_wait().expect("a status"));
    assert_eq!(status.code(), Some(0));
    assert!(TcpStream::connect(endpoint.address()).is_err());
    drop(held);
}

#[test]
fn a_process_that_ends_leaves_the_page_and_its_successor_takes_the_name() {
    let scene = Scene::new();
    // Another run of these tests may go on on this machine.
    let name = format!("hw-successor-{}", std::process::id());
    let first = sleeper(&name);
    let arm = format!("a=args:^{name} ");
    let endpoint = Endpoint::start(&scene, &["--arm", &arm, "--interval", "20ms"]);
    let pid = first.0.id().to_string();
    assert!(
        endpoint
            .page()
            .value("highwater_rss_bytes", "pid", &pid)
            .is_some()
    );
    drop(first);
    wait("its series to end", || {
        std::thread::sleep(Duration::from_millis(20));
        let page = endpoint.page();
        page.value("highwater_rss_bytes", "pid", &pid)
            .is_none()
            .then_some(())
    });
    let second = sleeper(&name);
    let pid = second.0.id().to_string();
    let page = wait("its successor", || {
        std::thread::sleep(Duration::from_millis(100));
        let page = endpoint.page();
        page.value("highwater_rss_bytes", "pid", &pid)?;
        Some(page)
    });
    assert_eq!(page.samples["highwater_rss_bytes"][0].0["process"], "sleep");
    assert_eq!(page.own("highwater_observe_processes"), 1.0);
}

/// A folder of systemd's own hierarchy that says which unit a process is of, as systemd would make it.
struct Unit(std::path::PathBuf);

impl Unit {
    fn new(name: &str) -> Option<Unit> {
        let roots = [
            "/sys/fs/cgroup/systemd",
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup",
        ];
        let is_hierarchy = |root: &&&str| std::path::Path::new(root).join("cgroup.procs").exists();
        let folder = std::path::Path::new(roots.iter().find(is_hierarchy)?).join(name);
        std::fs::create_dir(&folder).ok().map(|()| Unit(folder))
    }

    fn take(&self, pid: u32) -> bool {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).is_ok()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_unit_is_its_main_process() {
    let name = format!("hwtest@r{}.service", std::process::id());
    let Some(unit) = Unit::new(&name) else {
        return skipped("a cgroup named like a unit needs root and systemd's hierarchy");
    };
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 600 & while :; do sleep 0.2; done"]);
    let main = Process(command.process_group(0).spawn().expect("sh starts"));
    if !unit.take(main.0.id()) {
        return skipped("a process cannot be put into a cgroup here");
    }
    let scene = Scene::new();
    let endpoint = Endpoint::start(&scene, &["--arm", "a=unit:hwtest@*", "--interval", "20ms"]);
    // What the shell starts from now on is in the unit too, and has a parent there.
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(20));
        let page = endpoint.page();
        let samples = &page.samples["highwater_rss_bytes"];
        assert_eq!(samples.len(), 1, "{samples:?}");
        let labels = &samples[0].0;
        assert_eq!(labels["process"], name.trim_end_matches(".service"));
        assert_eq!(labels["pid"], main.0.id().to_string());
    }
    // SAFETY: kill takes two integers; the group is the shell's own and not yet reaped.
    unsafe { libc::kill(-(main.0.id() as i32), libc::SIGKILL) };
    drop(main);
    wait("the unit to be empty", || {
        let procs = std::fs::read_to_string(unit.0.join("cgroup.procs")).ok()?;
        procs.is_empty().then_some(())
    });
}

#[test]
fn calls_that_cannot_work_say_what_to_do() {
    let scene = Scene::new();
    for (flags, code, part) in [
        (&[][..], 2, "which processes?"),
        (&["--pid", "x"], 2, "invalid"),
        (&["--exe", "("], 2, "--exe ("),
        (&["--arm", "glibc"], 2, "NAME=SELECTOR"),
        (&["--arm", "a=name:x"], 2, "unit:GLOB"),
        (
            &["--pid", "2147483647", "--once"],
            4,
            "none of these processes",
        ),
        (
            &["--pid", "1", "--listen", "nowhere"],
            2,
            "--listen nowhere",
        ),
        (
            &["--pid", "1", "--listen", "192.0.2.1:1"],
            4,
            "another --listen",
        ),
        (&["--pid", "1", "--interval", "0s"], 2, "--interval"),
        (&["--run", "no-such-run"], 4, "no-such-run"),
    ] {
        let all = [&["observe"], flags].concat();
        let said = said(scene.command(&all).output().expect("highwater starts"));
        assert_eq!(said.code, code, "{flags:?}: {said:?}");
        assert!(said.err.contains(part), "{flags:?}: {}", said.err);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let said = scene.highwater(&["observe", "--pid", "1", "--listen", &port]);
    assert!(
        said.code == 4 && said.err.contains("may be taken"),
        "{said:?}"
    );
}
