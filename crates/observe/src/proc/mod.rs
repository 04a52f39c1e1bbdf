//! The kernel's view of one process.

pub mod area;
pub mod fields;
pub mod identity;
pub mod open;
pub mod pace;
pub mod pagemap;
pub mod pid;
pub mod process;
pub mod rollup;
pub mod stat;
pub mod status;
pub mod tasks;

use std::path::{Path, PathBuf};

/// Where /proc is: another folder in tests, a mounted host /proc in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcRoot(PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        ProcRoot(PathBuf::from("/proc"))
    }
}

impl ProcRoot {
    pub fn new(path: impl Into<PathBuf>) -> ProcRoot {
        ProcRoot(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `/proc/PID`.
    pub fn process(&self, pid: i32) -> PathBuf {
        self.0.join(pid.to_string())
    }

    /// A small file below the root, whole.
    pub fn read(&self, relative: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.0.join(relative))
    }
}

/// Clock ticks after boot at which `pid` started: with the pid, the name of a process for
/// [`crate::look::Target::start_ticks`]. An error when there is no such process.
pub fn read_start_ticks(root: &ProcRoot, pid: i32) -> std::io::Result<u64> {
    let text = std::fs::read(root.process(pid).join("stat"))?;
    let stat = stat::parse_stat(&text, 1)
        .map_err(|malformed| std::io::Error::new(std::io::ErrorKind::InvalidData, malformed))?;
    Ok(stat.start_ticks)
}
