//! Why a trace cannot be read or written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What went wrong, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("reading the trace {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("writing the trace {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{} is no trace: it does not start with HWTRACE. `highwater record --out FILE -- CMD` writes one",
        path.display()
    )]
    NoTrace { path: PathBuf },
    #[error(
        "{} is a trace of version {found}, and this highwater reads version {}: use the version that wrote it",
        path.display(),
        trace_abi::VERSION
    )]
    Version { path: PathBuf, found: u32 },
    #[error("{} has a damaged header: {what}", path.display())]
    Header { path: PathBuf, what: &'static str },
    #[error(
        "{} exists already: choose another name with --out, or delete it",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error("{} holds no event: {why}", path.display())]
    Empty { path: PathBuf, why: String },
}

impl TraceError {
    /// Why a new trace could not be made.
    pub(crate) fn making(path: &Path, source: io::Error) -> TraceError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::AlreadyExists => TraceError::Exists { path },
            _ => TraceError::Write { path, source },
        }
    }
}

/// A new file, readable by its user alone.
pub(crate) fn create_new(path: &Path) -> Result<File, TraceError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .map_err(|source| TraceError::making(path, source))
}
