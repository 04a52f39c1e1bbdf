//! Real servers for tests: Prometheus and VictoriaMetrics from Debian's packages, unpacked into a folder of the
//! build, nothing installed; and the processes that they scrape.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::scene::wait;
use testkit::free_port;
use testkit::skipped;

/// A child that ends with the test.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(quiet.spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder with the programs of a package: from the system, else from what apt brings. `None`, with the
/// reason printed, where it cannot be had.
pub fn package(name: &str) -> Option<PathBuf> {
    static FETCHING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = FETCHING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let system = Path::new("/usr/bin");
    if system.join(name).is_file() {
        return Some(system.to_path_buf());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("apt")
        .join(name);
    let programs = folder.join("usr/bin");
    if programs.join(name).is_file() {
        return Some(programs);
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    let fetched = run(Command::new("apt-get")
        .args(["download", name])
        .current_dir(&folder));
    let package = std::fs::read_dir(&folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let package = package
        .filter(|path| path.extension().is_some_and(|e| e == "deb"))
        .max();
    let unpacked = package.is_some_and(|package| {
        let done = run(Command::new("dpkg").arg("-x").arg(&package).arg(&folder));
        let _ = std::fs::remove_file(&package);
        done
    });
    if !(fetched && unpacked && programs.join(name).is_file()) {
        skipped(&format!(
            "{name} is not installed and `apt-get download {name}` does not bring it"
        ));
        return None;
    }
    Some(programs)
}

fn run(command: &mut Command) -> bool {
    let done = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// A store that answers queries; its folder goes with it.
pub struct Store {
    pub url: String,
    _running: Running,
}

/// Prometheus over `folder`, scraping by `config`.
pub fn prometheus(programs: &Path, folder: &Path, config: &str) -> Store {
    let port = free_port();
    let running = Running::start(&mut prometheus_at(programs, folder, config, port));
    ready(port, "/-/ready", running)
}

/// VictoriaMetrics over `folder`, scraping by `config`.
pub fn victoria(programs: &Path, folder: &Path, config: &str) -> Store {
    let port = free_port();
    let running = Running::start(&mut victoria_at(programs, folder, config, port));
    ready(port, "/health", running)
}

/// What starts a Prometheus at a port; a second start goes on with what the folder holds.
pub fn prometheus_at(programs: &Path, folder: &Path, config: &str, port: u16) -> Command {
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config).expect("the configuration");
    let mut command = Command::new(programs.join("prometheus"));
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        // Beyond the usual 15 days old samples would vanish without a word.
        .arg("--storage.tsdb.retention.time=100y");
    command
}

/// The same for VictoriaMetrics.
pub fn victoria_at(programs: &Path, folder: &Path, config: &str, port: u16) -> Command {
    let file = folder.join("scrape.yml");
    std::fs::write(&file, config).expect("the configuration");
    let mut command = Command::new(programs.join("victoria-metrics"));
    command
        .arg(format!("-promscrape.config={}", file.display()))
        .arg(format!(
            "-storageDataPath={}",
            folder.join("victoria").display()
        ))
        .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
        .args([
            "-retentionPeriod=100y",
            "-memory.allowedPercent=5",
            "-search.latencyOffset=1s",
        ]);
    command
}

fn ready(port: u16, path: &str, running: Running) -> Store {
    let url = format!("http://127.0.0.1:{port}");
    wait("the store to be ready", || {
        ureq::get(format!("{url}{path}")).call().ok()
    });
    Store {
        url,
        _running: running,
    }
}

/// A number out of an instant query; 0 when it gives none.
pub fn ask(url: &str, query: &str) -> f64 {
    let value = &first(url, query)["value"][1];
    value.as_str().and_then(|v| v.parse().ok()).unwrap_or(0.0)
}

/// The first series that a query gives, as the API tells it; null when there is none.
pub fn first(url: &str, query: &str) -> serde_json::Value {
    let response = ureq::get(format!("{url}/api/v1/query"))
        .query("query", query)
        .call();
    let text = response
        .and_then(|mut r| r.body_mut().read_to_string())
        .unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    json["data"]["result"][0].clone()
}
