//! What can go wrong with a record, told apart where somebody acts on it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use units::written;

/// Below this, "I/O error" from SQLite on a file system means that it is full: one page and some.
const FULL_BELOW_BYTES: u64 = 64 * 1024;

pub type Result<T> = std::result::Result<T, RecordError>;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: no record here; a run folder holds a file run.db", .0.display())]
    Missing(PathBuf),
    #[error("{}: empty: the run was never started, there is nothing to read", .0.display())]
    Empty(PathBuf),
    #[error(
        "{}: made by a newer highwater (schema {found}, this one reads 1..{known}): update highwater",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("{}: not a record of highwater ({why})", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{}: damaged ({why}); copy the run folder first, then try `sqlite3 run.db .recover`",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{}: the disk is full ({} free); everything recorded so far is kept, and recording goes on \
         when there is room again",
        path.display(), written::bytes(*free_bytes as f64)
    )]
    Full { path: PathBuf, free_bytes: u64 },
    #[error(
        "{}: another process holds the record for too long (a disk that stands still, or a second highwater at work \
         on this run); everything recorded so far is kept, and recording goes on when it can",
        .0.display()
    )]
    Busy(PathBuf),
    #[error("{}: another `highwater run` manages this run; it ends with Ctrl-C there", .0.display())]
    Supervised(PathBuf),
    #[error("{}: cannot be opened or written ({why}); check the permissions of the run folder", path.display())]
    Denied { path: PathBuf, why: String },
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        path: PathBuf,
        doing: &'static str,
        source: std::io::Error,
    },
    #[error("{}: {doing}: {source}", path.display())]
    Sqlite {
        path: PathBuf,
        doing: &'static str,
        source: rusqlite::Error,
    },
}

impl RecordError {
    /// The meaning of an error of SQLite while `doing` something to the record at `path`.
    pub(super) fn from_sqlite(path: &Path, doing: &'static str, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let why = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full {
                free_bytes: free_bytes(&path),
                path,
            },
            Some(ErrorCode::SystemIoFailure) if free_bytes(&path) < FULL_BELOW_BYTES => {
                Self::Full {
                    free_bytes: free_bytes(&path),
                    path,
                }
            }
            Some(ErrorCode::NotADatabase) => Self::Foreign {
                path,
                why: "no SQLite file".into(),
            },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::Denied { path, why }
            }
            // A value of another type than the schema's: somebody or something wrote into the file.
            None => Self::Damaged {
                path,
                why: format!("{doing}: {why}"),
            },
            // Our statements are constants: what they miss, somebody has taken out of the file.
            Some(ErrorCode::Unknown) => Self::Damaged {
                path,
                why: format!("{doing}: {why}"),
            },
            _ => Self::Sqlite {
                path,
                doing,
                source,
            },
        }
    }

    pub(super) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::Full {
                path: path.to_path_buf(),
                free_bytes: free_bytes(path),
            },
            _ => Self::Io {
                path: path.to_path_buf(),
                doing,
                source,
            },
        }
    }

    /// Whether the same write may succeed later: a full disk, or one that stood still for as long as a lock is
    /// waited for.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Busy(_))
    }
}

/// Bytes that an ordinary user may still write beside `path`; 0 when that cannot be found out.
fn free_bytes(path: &Path) -> u64 {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
