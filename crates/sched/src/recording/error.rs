//! Why a recorded watch cannot be read or begun.

use std::io;
use std::path::PathBuf;

use super::VERSION;

/// What went wrong, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("reading the recording {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} exists already: choose another name with --record, or delete it", path.display())]
    Exists { path: PathBuf },
    #[error("writing the recording {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{} is no recording of a watch: it does not start with HWSTALLS. `highwater stalls --pid N --record FILE` \
         writes one",
        path.display()
    )]
    NoRecording { path: PathBuf },
    #[error(
        "{} is a recording of version {found}, and this highwater reads version {VERSION}: use the version that wrote \
         it",
        path.display()
    )]
    Version { path: PathBuf, found: u32 },
    #[error("{} is damaged at byte {at}: {what}; the recording has no beginning, make another one", path.display())]
    Beginning {
        path: PathBuf,
        at: u64,
        what: &'static str,
    },
}
