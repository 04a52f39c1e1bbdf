//! A cgroup of its own for each process that highwater starts, where the machine allows it: it enforces
//! `memory_limit`, tells an OOM kill from any other SIGKILL, and names every descendant, also those that left the
//! session.
//!
//! Only the memory controller is used. A CPU cgroup would change what is measured: the scheduler shares time between
//! groups, and a limit set above us would be counted where nobody looks.
//!
//! Run for real on v1; on v2 by its documented files, against a folder that imitates them.

mod find;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

pub use find::Hierarchy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// One cgroup that highwater made. Its folder is removed by [`Cgroup::remove`], never implicitly: a kept process
/// needs it after us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    version: Version,
    folder: PathBuf,
}

impl Cgroup {
    fn create(version: Version, folder: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&folder) {
            // Of an earlier run that was killed: its counters would be taken for ours.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&folder)?;
                fs::create_dir(&folder)?;
            }
            other => other?,
        }
        Ok(Self { version, folder })
    }

    /// A cgroup of an earlier supervisor, by its folder; `None` when it is gone.
    pub fn existing(folder: &Path) -> Option<Self> {
        let version = match folder.join("memory.oom_control").exists() {
            true => Version::V1,
            false => Version::V2,
        };
        folder.join("cgroup.procs").exists().then(|| Self {
            version,
            folder: folder.to_owned(),
        })
    }

    /// Folder of the memory controller.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Limits the memory of all processes inside, swap included (where the kernel accounts for swap).
    ///
    /// # Errors
    /// When the kernel refuses the limit itself; a missing swap file is no error.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        match self.version {
            Version::V1 => {
                self.write("memory.limit_in_bytes", &bytes.to_string())?;
                // Memory and swap together, so that nothing can hide from the limit in swap.
                let _ = self.write("memory.memsw.limit_in_bytes", &bytes.to_string());
            }
            Version::V2 => {
                self.write("memory.max", &bytes.to_string())?;
                let _ = self.write("memory.swap.max", "0");
            }
        }
        Ok(())
    }

    /// The file into which a process writes "0" to enter; opened before the fork, written after it.
    pub fn entry(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.folder.join("cgroup.procs"))
    }

    /// Everything inside, zombies excluded by the kernel. Empty when the folder is gone.
    pub fn pids(&self) -> Vec<i32> {
        parse_pids(&self.read("cgroup.procs"))
    }

    /// OOM kills of processes inside, by this cgroup's limit or any other cause.
    pub fn oom_kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        parse_counter(&self.read(file), "oom_kill").unwrap_or(0)
    }

    /// Kills everything inside at once. `false` where the kernel has no such call (v1, and v2 before 5.14): then
    /// the pids must be killed one by one.
    pub fn kill(&self) -> bool {
        self.version == Version::V2 && self.write_existing("cgroup.kill", "1").is_ok()
    }

    /// # Errors
    /// `EBUSY` while processes are inside.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), text)
    }

    fn write_existing(&self, file: &str, text: &str) -> io::Result<()> {
        use io::Write;
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))?;
        file.write_all(text.as_bytes())
    }
}

fn parse_pids(text: &str) -> Vec<i32> {
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// The value behind `name` in lines of `name value`.
fn parse_counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Counter `oom_kill` of /proc/vmstat: OOM kills on the whole machine since it started.
pub fn machine_oom_kills() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    parse_counter(&text, "oom_kill").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// memory.oom_control (v1), Linux 6.18, Debian 12, after one kill.
    const OOM_CONTROL: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
    /// memory.events (v2): the keys that the kernel's cgroup-v2 document lists, not captured here.
    const MEMORY_EVENTS: &str = "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\noom_group_kill 0\n";

    #[test]
    fn counters_of_both_versions() {
        assert_eq!(parse_counter(OOM_CONTROL, "oom_kill"), Some(1));
        assert_eq!(parse_counter(MEMORY_EVENTS, "oom_kill"), Some(2));
        assert_eq!(parse_counter("", "oom_kill"), None);
        assert_eq!(parse_pids("12\n345\n\n"), vec![12, 345]);
    }

    #[test]
    fn v2_writes_the_documented_files() {
        let root = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::create(Version::V2, root.path().join("highwater-x")).unwrap();
        let file = |name: &str| fs::read_to_string(cgroup.folder().join(name)).unwrap();
        cgroup.limit_memory(100 << 20).unwrap();
        assert_eq!(file("memory.max"), "104857600");
        assert_eq!(file("memory.swap.max"), "0");
        assert!(!cgroup.kill(), "no cgroup.kill, as before Linux 5.14");
        fs::write(cgroup.folder().join("cgroup.kill"), "").unwrap();
        assert!(cgroup.kill());
        assert_eq!(file("cgroup.kill"), "1");
        fs::write(cgroup.folder().join("memory.events"), MEMORY_EVENTS).unwrap();
        assert_eq!(cgroup.oom_kills(), 2);
        fs::write(cgroup.folder().join("cgroup.procs"), "7\n8\n").unwrap();
        assert_eq!(cgroup.pids(), vec![7, 8]);
        assert_eq!(Cgroup::existing(cgroup.folder()), Some(cgroup.clone()));
    }
}
