//! The control group of a replica: what the kernel charges to it and where it stops it.
//!
//! Version 1 has one tree of folders per controller, version 2 one for all. Which one a folder
//! belongs to is seen from its files.

pub mod mounts;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::metric;
use super::pressure::sample_pressure;
use super::proc::fields::number;
use super::proc::pace::Pace;
use super::proc::process::Loss;
use super::snapshot::EventKind;
use super::snapshot_writer::SnapshotWriter;

/// What was read; what a kernel or a version does not tell is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cgroup {
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    /// `None` also when there is no limit.
    pub memory_limit_bytes: Option<u64>,
    pub oom_kills: Option<u64>,
    pub throttled_ns: Option<u64>,
}

/// From this on a v1 limit is none: the kernel writes the largest page-aligned i64.
const V1_UNLIMITED: u64 = i64::MAX as u64 / 2;

/// Folders of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folders {
    V1 {
        memory: PathBuf,
        cpu: Option<PathBuf>,
    },
    V2(PathBuf),
}

/// Finds the folders that belong together from any one of them.
///
/// Under v1 the path of a cgroup is the same under each controller, so `.../memory/a/b` leads to
/// `.../cpu/a/b` (the controller may share its tree, as `cpu,cpuacct`).
pub fn find_folders(folder: &Path) -> Option<Folders> {
    if folder.join("cgroup.controllers").exists() || folder.join("memory.current").exists() {
        return Some(Folders::V2(folder.to_path_buf()));
    }
    let sibling = |controller: &str, file: &str| {
        let found = siblings(folder, controller).into_iter();
        found
            .chain([folder.to_path_buf()])
            .find(|path| path.join(file).exists())
    };
    let memory = sibling("memory", "memory.usage_in_bytes")?;
    Some(Folders::V1 {
        memory,
        cpu: sibling("cpu", "cpu.stat"),
    })
}

/// The same cgroup under another controller of v1: each ancestor is taken for the controller's
/// mount point in turn.
fn siblings(folder: &Path, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in folder.ancestors() {
        let (Some(parent), Ok(below)) = (mount.parent(), folder.strip_prefix(mount)) else {
            continue;
        };
        let named = ["", ",cpuacct"].map(|suffix| format!("{controller}{suffix}"));
        let trees = named
            .iter()
            .map(|name| parent.join(name))
            .filter(|tree| tree.is_dir());
        found.extend(trees.map(|tree| tree.join(below)));
    }
    found
}

/// Reads the files of one cgroup. Missing files are no error: controllers may be switched off.
/// `Err` names the first file that exists and cannot be read.
pub fn read_cgroup(folders: &Folders) -> Result<Cgroup, String> {
    match folders {
        Folders::V2(folder) => Ok(Cgroup {
            memory_bytes: read(folder, "memory.current")?
                .as_deref()
                .and_then(parse_bytes),
            memory_peak_bytes: read(folder, "memory.peak")?
                .as_deref()
                .and_then(parse_bytes),
            memory_limit_bytes: read(folder, "memory.max")?.as_deref().and_then(parse_bytes),
            oom_kills: read(folder, "memory.events")?
                .and_then(|text| parse_key(&text, b"oom_kill")),
            throttled_ns: read(folder, "cpu.stat")?
                .and_then(|text| parse_key(&text, b"throttled_usec"))
                .map(|micros| micros.saturating_mul(1_000)),
        }),
        Folders::V1 { memory, cpu } => {
            let limit = read(memory, "memory.limit_in_bytes")?
                .as_deref()
                .and_then(parse_bytes);
            let stat = match cpu {
                Some(cpu) => read(cpu, "cpu.stat")?,
                None => None,
            };
            Ok(Cgroup {
                memory_bytes: read(memory, "memory.usage_in_bytes")?
                    .as_deref()
                    .and_then(parse_bytes),
                memory_peak_bytes: read(memory, "memory.max_usage_in_bytes")?
                    .as_deref()
                    .and_then(parse_bytes),
                memory_limit_bytes: limit.filter(|&limit| limit < V1_UNLIMITED),
                oom_kills: read(memory, "memory.oom_control")?
                    .and_then(|text| parse_key(&text, b"oom_kill")),
                throttled_ns: stat.and_then(|text| parse_key(&text, b"throttled_time")),
            })
        }
    }
}

fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, String> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(text) => Ok(Some(text)),
        // ENODEV: the cgroup was removed while its file was open.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// One number; `max` is none.
pub fn parse_bytes(text: &[u8]) -> Option<u64> {
    number(text)
}

/// The value behind a key, in lines of `key value`.
pub fn parse_key(text: &[u8], key: &[u8]) -> Option<u64> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(b" ")?;
        number(rest)
    })
}

/// Writes down what was read.
pub fn write_cgroup(cgroup: &Cgroup, writer: &mut SnapshotWriter<'_>) {
    writer.maybe(metric::CGROUP_MEMORY, cgroup.memory_bytes);
    writer.maybe(metric::CGROUP_MEMORY_PEAK, cgroup.memory_peak_bytes);
    writer.maybe(metric::CGROUP_LIMIT, cgroup.memory_limit_bytes);
    writer.maybe(metric::CGROUP_OOM_KILLS, cgroup.oom_kills);
    writer.maybe(metric::CGROUP_THROTTLED, cgroup.throttled_ns);
}

/// The path of a process's cgroup under a controller of v1, or under v2 (`controller` empty), from
/// the text of /proc/PID/cgroup: lines of `id:controllers:path`.
pub fn parse_membership(text: &[u8], controller: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers
            .split(',')
            .any(|name| name == controller)
            .then(|| path.to_owned())
    })
}

/// Looks at one cgroup, snapshot after snapshot.
#[derive(Debug)]
pub struct CgroupReader {
    folder: PathBuf,
    folders: Option<Folders>,
    pace: Pace,
    oom_kills: Option<u64>,
}

impl CgroupReader {
    pub fn new(folder: &Path, seed: i64) -> CgroupReader {
        let pace = Pace::new(seed.wrapping_mul(11));
        CgroupReader {
            folder: folder.to_path_buf(),
            folders: None,
            pace,
            oom_kills: None,
        }
    }

    /// Reads when it is due, as its share of one core allows.
    pub fn sample(&mut self, share: f64, writer: &mut SnapshotWriter<'_>, losses: &mut Vec<Loss>) {
        if self.pace.is_due(writer.time()) {
            let begin = Instant::now();
            self.sample_now(writer, losses);
            self.pace.book(writer.time(), begin.elapsed(), share);
        }
    }

    /// Reads in any case: the process has just ended, and the cgroup may tell why.
    pub fn sample_now(&mut self, writer: &mut SnapshotWriter<'_>, losses: &mut Vec<Loss>) {
        const WHAT: &str = "cgroup (memory, limit, OOM kills, throttling)";
        if self.folders.is_none() {
            self.folders = find_folders(&self.folder);
        }
        let Some(folders) = &self.folders else {
            let why = format!(
                "{} has no memory controller, or is gone",
                self.folder.display()
            );
            losses.push(Loss { what: WHAT, why });
            return;
        };
        match read_cgroup(folders) {
            Ok(cgroup) => {
                write_cgroup(&cgroup, writer);
                if let Folders::V2(folder) = folders {
                    sample_pressure(folder, ".pressure", writer);
                }
                self.tell_oom_kills(cgroup.oom_kills, writer);
            }
            Err(why) => losses.push(Loss { what: WHAT, why }),
        }
    }

    fn tell_oom_kills(&mut self, now: Option<u64>, writer: &mut SnapshotWriter<'_>) {
        let Some(now) = now else { return };
        let new = now.saturating_sub(self.oom_kills.unwrap_or(now));
        self.oom_kills = Some(now);
        if new > 0 {
            let words = format!(
                "the kernel killed {new} process(es) of cgroup {}: its memory limit was reached",
                self.folder.display()
            );
            writer.event(EventKind::OomKilled, words);
        }
    }
}
