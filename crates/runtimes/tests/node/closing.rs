//! What the reader does not do to a program: no signal that could end it or open it to the network, and no inspector
//! that stays open.

use std::env;

use super::*;

const CHILD: &str = "HIGHWATER_TEST_NODE_PID";
const CLOSES_AFTER: Duration = Duration::from_secs(2);

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The reader refuses with these words, and the program notices nothing.
fn assert_refused(options: &[&str], body: &str, words: &str) {
    let Some(program) = Program::start(options, &script(body)) else {
        return;
    };
    let error = program
        .reader()
        .snapshot(&limits(SITES))
        .expect_err("a refusal");
    assert!(error.to_string().contains(words), "{error}");
    let end = stop(program);
    assert_undisturbed(&end);
    assert_eq!(end.errors, "");
}

#[test]
fn an_inspector_is_not_opened_to_the_network() {
    for option in [
        "--inspect-port=0.0.0.0:0",
        "--inspect-port=[::]:0",
        "--debug_port=0.0.0.0:0",
    ] {
        assert_refused(&[option], "", "to the network");
    }
}

#[test]
fn an_inspector_on_another_loopback_address_is_used() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skipped("there is no IPv6");
    }
    let Some(program) = Program::start(&["--inspect-port=[::1]:0"], &script("")) else {
        return;
    };
    let mut reader = program.reader();
    reader.snapshot(&limits(SITES)).expect("a snapshot");
    assert!(
        program.errors().contains("ws://[::1]:"),
        "{}",
        program.errors()
    );
    reader.finish().expect("it closes");
    let end = stop(program);
    assert_eq!((end.code, end.output.as_str()), (Some(7), "stops\n"));
}

#[test]
fn a_heap_snapshot_that_would_not_end_in_time_is_not_started() {
    // Some 50 MB, of which a snapshot is estimated at three seconds on a machine at rest.
    let body =
        "globalThis.kept = Array.from({ length: 700000 }, (_, at) => ({ at, twice: 2 * at }));";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    let short = Limits {
        time: Duration::from_millis(1500),
        // Too little to read the objects from outside.
        bytes: 1 << 20,
        ..limits(TYPES)
    };
    let snapshot = reader.snapshot(&short).expect("a snapshot");
    assert!(snapshot.types.is_empty());
    let missing = snapshot.missing.join("; ");
    assert!(missing.contains("are left for this reading"), "{missing}");
    reader.finish().expect("it closes");
    assert_undisturbed(&stop(program));
}

#[test]
fn a_port_that_the_program_chose_is_found_and_closed() {
    let port = free_port();
    let body = format!("process.debugPort = {port};");
    let Some(program) = Program::start(&["--inspect-port=0"], &script(&body)) else {
        return;
    };
    let mut reader = program.reader();
    reader.snapshot(&limits(SITES)).expect("a snapshot");
    assert_eq!(inspector_port(&program.errors()), port);
    reader.finish().expect("it closes");
    assert!(is_refused(port));
    assert_undisturbed(&stop(program));
}

#[test]
fn an_inspector_that_opens_late_is_closed() {
    opens_late(|_| {});
}

#[test]
fn an_inspector_that_opened_late_is_still_ours() {
    opens_late(|reader| {
        reader.snapshot(&limits(SITES)).expect("a snapshot");
    });
}

fn opens_late(then: impl Fn(&mut Node)) {
    // Longer than the reader waits for the signal, and than it tries to close.
    let body = "setTimeout(() => { fs.writeFileSync(path.join(__dirname, 'busy'), '');
        require('child_process').execSync('sleep 11') }, 0);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    wait_for("it blocks", || program.folder.path().join("busy").exists());
    std::thread::sleep(Duration::from_millis(200));
    let mut reader = program.reader();
    let error = reader
        .snapshot(&limits(SITES))
        .expect_err("no inspector yet");
    assert!(
        error.to_string().contains("may still open later"),
        "{error}"
    );
    wait_for("it opens", || program.errors().contains("ws://"));
    then(&mut reader);
    reader.finish().expect("it is found and closed");
    assert!(is_refused(inspector_port(&program.errors())));
    assert_undisturbed(&stop(program));
}

#[test]
fn without_a_pause_a_service_on_the_port_hears_nothing() {
    let port = free_port();
    let body = format!(
        "globalThis.server = require('net').createServer(() => console.log('a connection'))
            .listen({port}, '127.0.0.1');"
    );
    let option = format!("--inspect-port={port}");
    let Some(program) = Program::start(&[&option], &script(&body)) else {
        return;
    };
    let mut reader = program.reader();
    assert!(reader.warning().is_some());
    reader.snapshot(&limits(Duration::ZERO)).expect("types");
    reader.finish().expect("nothing was opened");
    assert_undisturbed(&stop(program));
}

#[test]
fn a_program_that_is_only_called_node_is_not_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node");
    fs::copy("/bin/sleep", &path).expect("a copy");
    let mut child = Command::new(&path).arg("60").spawn().expect("it runs");
    wait_for("it runs", || {
        fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|exe| exe == path)
    });
    assert!(node::open(child.id()).is_none());
    child.kill().expect("it can be killed");
    child.wait().expect("a status");
}

/// A copy of `node` without symbols; `None` where there is none or no `strip`.
fn stripped(folder: &Path) -> Option<std::path::PathBuf> {
    let path = env::var_os("PATH")?;
    let mut nodes = env::split_paths(&path).map(|folder| folder.join("node"));
    let node = nodes.find(|path| path.is_file())?;
    let copy = folder.join("node");
    let stripped = Command::new("strip")
        .arg("-o")
        .arg(&copy)
        .arg(node)
        .status();
    stripped
        .is_ok_and(|status| status.success())
        .then_some(copy)
}

#[test]
fn where_a_handler_cannot_be_ruled_out_no_signal_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(node) = stripped(folder.path()) else {
        return skipped("there is no node that can be stripped");
    };
    let path = folder.path().join("app.js");
    fs::write(
        &path,
        "process.on('SIGUSR1', () => process.exit(9)); setTimeout(() => {}, 60_000);",
    )
    .expect("a script");
    let mut child = Command::new(node).arg(&path).spawn().expect("it runs");
    wait_for("it is node", || node::open(child.id()).is_some());
    std::thread::sleep(Duration::from_secs(1));
    let mut reader = node::open(child.id())
        .expect("it is node")
        .expect("it can be opened");
    let error = reader.snapshot(&limits(SITES)).expect_err("a refusal");
    assert!(error.to_string().contains("is not known"), "{error}");
    assert!(
        error.to_string().contains("--inspect=127.0.0.1:0"),
        "{error}"
    );
    assert_eq!(child.try_wait().expect("a status"), None);
    child.kill().expect("it can be killed");
    child.wait().expect("a status");
}

#[test]
fn a_bounded_cache_has_no_sites() {
    let body = "const cache = []; let n = 0;
        function put() { cache[n++ % 50_000] = { n, items: [n, n, n, n] } }
        for (let i = 0; i < 100_000; i++) put();
        globalThis.work = setInterval(() => { for (let i = 0; i < 1_000; i++) put() }, 5);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut reader = program.reader();
    let (_, second) = twice(&mut reader, Duration::from_secs(2));
    assert!(second.sites.is_empty(), "{:?}", second.sites);
    let left_out = second
        .missing
        .iter()
        .any(|why| why.contains("did not grow"));
    assert!(left_out, "{:?}", second.missing);
    reader.finish().expect("it closes");
    assert_undisturbed(&stop(program));
}

/// No test: the process that the next test stops and kills.
#[test]
fn observes_until_it_is_killed() {
    let Some(pid) = env::var(CHILD).ok().and_then(|pid| pid.parse().ok()) else {
        return;
    };
    let mut reader = node::open(pid)
        .expect("it is node")
        .expect("it can be opened");
    reader.close_after(CLOSES_AFTER);
    reader.snapshot(&limits(SITES)).expect("a snapshot");
    println!("observing");
    std::thread::sleep(Duration::from_secs(60));
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it gets a signal");
}

#[test]
fn an_inspector_closes_itself_when_highwater_is_killed() {
    let body = "globalThis.work = setInterval(() =>
            fs.writeFileSync(path.join(__dirname, 'tick'), `${Date.now()}`), 50);";
    let Some(program) = Program::start(&["--inspect-port=0"], &script(body)) else {
        return;
    };
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args([
            "closing::observes_until_it_is_killed",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, program.pid().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let observes = lines
        .map_while(Result::ok)
        .any(|line| line.contains("observing"));
    assert!(observes, "{}", program.errors());
    let port = inspector_port(&program.errors());
    // The timer is set again while highwater runs.
    std::thread::sleep(CLOSES_AFTER * 2);
    assert!(!is_refused(port));
    // A debugger that is stopped would block the program that closes its inspector.
    signal(&child, rustix::process::Signal::STOP);
    std::thread::sleep(CLOSES_AFTER * 2);
    let tick = || fs::read_to_string(program.folder.path().join("tick")).unwrap_or_default();
    let before = tick();
    wait_for("it goes on", || !tick().is_empty() && tick() != before);
    child.kill().expect("it can be killed");
    child.wait().expect("a status");
    wait_for("it closes", || is_refused(port));
    assert_undisturbed(&stop(program));
}
