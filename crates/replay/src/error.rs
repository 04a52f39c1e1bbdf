//! Why a trace cannot be replayed.

use std::io;
use std::path::PathBuf;

use trace::TraceError;

/// What went wrong, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("writing the plan of the replay, {}: {source}; TMPDIR names a folder with more room", path.display())]
    Plan { path: PathBuf, source: io::Error },
    #[error("{} cannot be replayed: {why}", path.display())]
    Unfit { path: PathBuf, why: String },
    #[error("the replayer {} could not be started: {source}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("reading the outcome of a replay, {}: {source}", path.display())]
    Outcome { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}
