//! Real tor: the network gets up, relays join it, do their work, and leave nothing behind. And what is said when
//! something of it is missing. About a minute: a vote interval of 10 s is the shortest that tor takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::skipped;

/// First votes begin at a multiple of the interval; on a busy machine the network took 56 s.
const PATIENCE: Duration = Duration::from_secs(240);

fn tor_network() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tor-network"))
}

/// Killed, with its children, when the test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(words: &[&str], log: &Path) -> Self {
        let out = File::create(log).unwrap();
        let child = tor_network()
            .args(words)
            .stdin(Stdio::null())
            .stderr(out.try_clone().unwrap())
            .stdout(out)
            .spawn();
        Self(child.unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// SIGTERM; whether it ended by itself with code 0.
    fn end(&mut self) -> bool {
        let status = Command::new("kill").arg(self.pid()).status();
        assert!(status.unwrap().success());
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn wait_for(log: &Path, line: &str) {
    let until = Instant::now() + PATIENCE;
    while !text(log).contains(line) {
        assert!(Instant::now() < until, "no {line:?} in:\n{}", text(log));
        thread::sleep(Duration::from_millis(200));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Why the real thing cannot be tried here.
fn missing() -> Option<String> {
    let isolated = Command::new("unshare").args(["-rn", "true"]).output();
    if !isolated.is_ok_and(|output| output.status.success()) {
        return Some("no network namespace can be made here".into());
    }
    let install = tor_network().arg("install").output().unwrap();
    (!install.status.success()).then(|| said(&install))
}

/// Processes that carry this path in their arguments.
fn left_behind(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.map(|entry| text(&entry.path().join("cmdline")).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}

/// The network with two relays, one of them without a directory.
struct Scene {
    folder: TempDir,
    network: Running,
    relays: Vec<Running>,
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set_up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("network.log");
        let path = folder.path().join("network");
        let words = [
            "network",
            "--votes",
            "10s",
            "--folder",
            path.to_str().unwrap(),
        ];
        let network = Running::start(&words, &log);
        // Relays may come before the first vote: that saves half a minute.
        wait_for(&log, "founded: ");
        let mut scene = Self {
            folder,
            network,
            relays: Vec::new(),
        };
        for (port, line) in [("15001", "DirCache 1"), ("15002", "DirCache 0")] {
            let log = scene.path(&format!("{port}.log"));
            let words = [
                scene.member("relay", port),
                vec!["--torrc".into(), line.into()],
            ]
            .concat();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            scene.relays.push(Running::start(&words, &log));
        }
        for port in ["15001", "15002"] {
            wait_for(
                &scene.path(&format!("{port}.log")),
                "Bootstrapped 100% (done)",
            );
        }
        scene
    }

    fn member(&self, mode: &str, port: &str) -> Vec<String> {
        let (network, data) = (self.path("network"), self.path(port));
        let words = [
            mode,
            "--network",
            network.to_str().unwrap(),
            "--data",
            data.to_str().unwrap(),
        ];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        if mode != "check" {
            words.extend(["--port".to_owned(), port.to_owned()]);
        }
        words
    }

    fn check(&self, at: usize, port: &str) -> Output {
        let words = self.member("check", port);
        let pid = self.relays[at].pid();
        tor_network()
            .args(words)
            .args(["--pid", &pid])
            .output()
            .unwrap()
    }

    fn load(&self, port: &str, more: &[&str]) -> Output {
        let words = self.member("load", port);
        let rest = ["--rate", "10", "--links", "3", "--duration", "3s"];
        tor_network()
            .args(words)
            .args(rest)
            .args(more)
            .output()
            .unwrap()
    }
}

/// Whether the relay answered everything; else what the load said.
fn works(load: &Output) -> Result<(), String> {
    let lines = String::from_utf8_lossy(&load.stdout);
    assert!(
        lines.lines().all(|line| line.contains("highwater.load/1")),
        "{lines}"
    );
    let words = said(load);
    let answered = words.split_whitespace().next().map(str::parse::<u64>);
    match answered {
        Some(Ok(10..)) if words.contains(" 0 errors") => Ok(()),
        _ => Err(words),
    }
}

#[test]
fn relays_join_work_and_leave_nothing_behind() {
    if let Some(why) = missing() {
        skipped(&why.to_string());
        return;
    }
    let mut scene = Scene::set_up();
    for (at, port) in [(0, "15001"), (1, "15002")] {
        let until = Instant::now() + PATIENCE;
        while !scene.check(at, port).status.success() {
            let words = said(&scene.check(at, port));
            assert!(
                Instant::now() < until,
                "{words}\n{}",
                text(&scene.path("network.log"))
            );
            thread::sleep(Duration::from_secs(1));
        }
    }
    // The process is tor itself.
    let command = text(Path::new(&format!(
        "/proc/{}/cmdline",
        scene.relays[0].pid()
    )));
    assert!(command.starts_with("tor\0"), "{command:?}");

    let with_pulls = ["--pull-every", "7", "--pull-bytes", "100000"];
    for (port, more) in [
        ("15001", with_pulls.as_slice()),
        ("15002", &["--no-documents"]),
    ] {
        // A relay is listed a moment before it has fetched the documents that it is asked for.
        let until = Instant::now() + PATIENCE;
        while let Err(words) = works(&scene.load(port, more)) {
            assert!(Instant::now() < until, "{port}: {words}");
        }
    }
    // A relay without a directory is found out.
    let refused = said(&scene.load("15002", &[]));
    assert!(refused.contains("refuses directory requests"), "{refused}");

    // A port that is taken ends tor, in its own words.
    let log = scene.path("taken.log");
    let mut words = scene.member("relay", "15001");
    words[4] = scene.path("taken").to_str().unwrap().to_owned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut taken = Running::start(&words, &log);
    wait_for(&log, "Address already in use");
    assert!(!taken.0.wait().unwrap().success());

    let folder = scene.folder.path().to_owned();
    for relay in &mut scene.relays {
        // tor may hang while it shuts down (subjects/tor/README.md); then it is killed like everything else.
        relay.end();
    }
    assert!(scene.network.end(), "{}", text(&scene.path("network.log")));
    scene.relays.clear();
    assert_eq!(left_behind(&folder), Vec::<String>::new());
}

#[test]
fn a_killed_network_takes_its_nodes_along() {
    if let Some(why) = missing() {
        skipped(&why.to_string());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let path = folder.path().join("network");
    let network = Running::start(&["network", "--folder", path.to_str().unwrap()], &log);
    let until = Instant::now() + PATIENCE;
    while !path.join("client/lock").exists() {
        assert!(Instant::now() < until, "{}", text(&log));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(left_behind(&path).len() > 4);
    drop(network);
    let until = Instant::now() + PATIENCE;
    while !left_behind(&path).is_empty() {
        assert!(Instant::now() < until, "{:?}", left_behind(&path));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn without_tor_it_is_said_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    if ["/usr/bin/tor", "/usr/sbin/tor", "/usr/local/bin/tor"]
        .iter()
        .any(|path| Path::new(path).exists())
    {
        skipped("tor is installed here, and is found without a PATH");
        return;
    }
    let mut command = tor_network();
    let output = command
        .arg("install")
        .env("PATH", folder.path())
        .env("HIGHWATER_CACHE", folder.path())
        .output()
        .unwrap();
    let words = said(&output);
    assert!(!output.status.success());
    assert!(
        words.contains("there is no tor here") && words.contains("apt-get install tor"),
        "{words}"
    );
}

#[test]
fn without_a_network_nobody_joins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for mode in [
        vec![
            "relay",
            "--network",
            path,
            "--data",
            path,
            "--port",
            "15001",
        ],
        vec!["load", "--network", path, "--data", path, "--port", "15001"],
        vec!["check", "--network", path, "--data", path, "--pid", "1"],
    ] {
        let output = tor_network().args(&mode).output().unwrap();
        let words = said(&output);
        assert!(
            words.contains("network.json: is the private network up?"),
            "{mode:?}: {words}"
        );
        assert!(!output.status.success());
    }
    // Long gone: its pid is nobody's.
    let gone = r#"{"tor":{"tor":"/x","gencert":"/x","libraries":[]},"version":"","pid":999999999,
        "authorities":[],"fingerprints":[]}"#;
    fs::write(folder.path().join("network.json"), gone).unwrap();
    let load = tor_network()
        .args(["load", "--network", path, "--data", path, "--port", "1"])
        .output();
    let words = said(&load.unwrap());
    assert!(words.contains("the private network is gone"), "{words}");
    fs::write(folder.path().join("network.json"), "[]").unwrap();
    let relay = tor_network()
        .args(["relay", "--network", path, "--data", path, "--port", "1"])
        .output();
    assert!(said(&relay.unwrap()).contains("network.json: invalid"));
}
