//! A Debian of its own with a real systemd: debootstrap once, systemd-nspawn --boot for each test, nothing kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::stage::{Said, measured};

/// Booting takes three seconds on an idle machine.
const BOOT_MAX: Duration = Duration::from_secs(120);

/// Names of machines are unique.
static BOOTED: AtomicU32 = AtomicU32::new(0);

pub struct Container {
    nspawn: Child,
    /// PID 1 of the container, as seen from here.
    leader: i32,
}

impl Container {
    /// `None` where it cannot run, which is said.
    pub fn boot() -> Option<Container> {
        if !crate::stage::is_root() {
            return None;
        }
        for tool in ["systemd-nspawn", "debootstrap", "nsenter", "timeout"] {
            if !crate::stage::is_there(tool) {
                testkit::skipped(&format!("a container with systemd needs {tool}"));
                return None;
            }
        }
        let base = base().or_else(|| {
            testkit::skipped("debootstrap could not fetch a Debian");
            None
        })?;
        let shared = measured().path("");
        let shared = shared.to_str().unwrap().trim_end_matches('/');
        let binary = env!("CARGO_BIN_EXE_highwater");
        // Ends by itself, should this test be killed.
        let mut command = Command::new("timeout");
        command
            .args(["--signal=KILL", "1h", "systemd-nspawn"])
            .args([
                "--quiet",
                "--boot",
                "--volatile=overlay",
                "--register=no",
                "--keep-unit",
                "--private-network",
            ])
            .arg(format!(
                "--machine=highwater-{}-{}",
                std::process::id(),
                BOOTED.fetch_add(1, Ordering::Relaxed)
            ))
            .arg(format!("--directory={}", base.display()))
            .arg(format!("--bind-ro={binary}:/usr/bin/highwater"))
            .arg(format!("--bind={shared}:/srv/measured"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let nspawn = command.spawn().expect("systemd-nspawn starts");
        let mut container = Container { nspawn, leader: 0 };
        if container.wait_until_booted() {
            return Some(container);
        }
        testkit::skipped("systemd does not boot in a container here");
        None
    }

    fn wait_until_booted(&mut self) -> bool {
        let deadline = Instant::now() + BOOT_MAX;
        while Instant::now() < deadline && self.nspawn.try_wait().unwrap().is_none() {
            // timeout, systemd-nspawn, PID 1 of the container.
            self.leader = first_child(self.nspawn.id() as i32)
                .and_then(first_child)
                .unwrap_or(0);
            if self.leader > 0
                && self
                    .sh("systemctl is-system-running")
                    .out
                    .contains("running")
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    /// Runs a script inside.
    pub fn sh(&self, script: &str) -> Said {
        let target = self.leader.to_string();
        let output = Command::new("nsenter")
            .args([
                "--target", &target, "--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup",
            ])
            .args([
                "/usr/bin/env",
                "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "NO_COLOR=1",
                "HOME=/root",
            ])
            .args([
                "/bin/sh",
                "-c",
                &format!("cd /srv/measured && {{ {script}\n}}"),
            ])
            .stdin(Stdio::null())
            .output();
        Said::of(output.expect("nsenter starts"))
    }

    /// As [`Container::sh`], and it must succeed; the value is its stdout.
    pub fn ok(&self, script: &str) -> String {
        let said = self.sh(script);
        assert_eq!(said.code, 0, "{script}: {said:?}");
        said.out
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The whole container goes with its first process, and with systemd-nspawn.
        for pid in [Some(self.leader), first_child(self.nspawn.id() as i32)] {
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.nspawn.wait();
    }
}

fn first_child(of: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// The Debian of this machine, whose C library the binaries were linked with; stable on any other.
fn suite() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::to_owned)
    };
    let debian = value("ID=").is_some_and(|id| id == "debian");
    value("VERSION_CODENAME=")
        .filter(|_| debian)
        .unwrap_or_else(|| "stable".to_owned())
}

/// A minimal Debian, fetched once per target folder: tests run at the same time, and one of them fetches.
fn base() -> Option<PathBuf> {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    BASE.get_or_init(fetched).clone()
}

fn fetched() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let base = folder.join("debian");
    if base.is_dir() {
        return Some(base);
    }
    let new = folder.join(format!("debian-{}", std::process::id()));
    let done = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=systemd,systemd-sysv,dbus"])
        .arg(suite())
        .arg(&new)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_whole = done.is_ok_and(|status| status.success());
    if is_whole && fs::rename(&new, &base).is_ok() {
        return Some(base);
    }
    let _ = fs::remove_dir_all(&new);
    base.is_dir().then_some(base)
}
