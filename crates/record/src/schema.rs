//! The tables of `run.db`, their versions, and opening a file that may be anything.
//!
//! docs/reference/record.md describes every table. A new version is one more file in `schema/`; it is never edited once
//! a release has written it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::error::{RecordError, Result};

/// "hwtr": tells a record from any other SQLite file.
const APPLICATION_ID: i64 = 0x6877_7472;
/// What turns version n into n + 1; version 0 is an empty file.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql"), include_str!("schema/2.sql")];
/// The newest version, which is the one written.
pub const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Supervisor and collector write to one file; a snapshot takes milliseconds, a migration of a large old file longer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The write-ahead log is cut back to this after a checkpoint; one snapshot of 200 processes takes about 0.2 MiB.
const LOG_BYTES_KEPT: i64 = 16 << 20;

/// Makes a record in the newest version. What `begin` writes is in it with its tables or not at all: nobody reads
/// a record that has no experiment yet.
pub(super) fn create(
    path: &Path,
    begin: impl FnOnce(&Transaction) -> rusqlite::Result<()>,
) -> Result<Connection> {
    super::folder::write_new(path, "")?;
    let mut db = open_file(path)?;
    set_up(&db, path)?;
    migrate(&mut db, path, begin)?;
    Ok(db)
}

/// Opens a record for writing; an older one is brought up to date.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection> {
    check_file(path)?;
    let mut db = open_file(path)?;
    check_version(&db, path)?;
    set_up(&db, path)?;
    migrate(&mut db, path, |_| Ok(()))?;
    Ok(db)
}

fn open_file(path: &Path) -> Result<Connection> {
    let failed = |error| RecordError::from_sqlite(path, "opening", error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    Ok(db)
}

/// Opens a record for reading. An older one is brought up to date first, which needs write access; a newer or
/// foreign one is refused.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection> {
    check_file(path)?;
    let db = open_read_only(path)?;
    if check_version(&db, path)? < SCHEMA {
        drop(db);
        drop(open_for_writing(path)?);
        return open_read_only(path);
    }
    Ok(db)
}

/// A record on a read-only file system or archive has no room for SQLite's shared memory; without a write-ahead
/// log beside it, it cannot change either, so it is read as it lies.
fn open_read_only(path: &Path) -> Result<Connection> {
    let failed = |error| RecordError::from_sqlite(path, "opening", error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    match db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
        Err(error) if is_denied(&error) && !has_log(path) => {
            let address = format!("file:{}?immutable=1", escaped(path));
            Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI).map_err(failed)
        }
        Err(error) => Err(failed(error)),
        Ok(()) => Ok(db),
    }
}

fn is_denied(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as E;
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(E::CannotOpen | E::ReadOnly | E::PermissionDenied | E::SystemIoFailure)
    )
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|meta| meta.len() > 0)
}

/// A path inside a `file:` address: what has a meaning there is written as %XX.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let byte = |b: &u8| {
        if plain(*b) {
            (*b as char).to_string()
        } else {
            format!("%{b:02x}")
        }
    };
    path.as_os_str().as_bytes().iter().map(byte).collect()
}

fn check_file(path: &Path) -> Result<()> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(RecordError::Missing(
                path.parent().unwrap_or(path).to_path_buf(),
            ));
        }
        Err(error) => return Err(RecordError::io(path, "opening", error)),
    };
    match () {
        () if !meta.is_file() => Err(RecordError::Foreign {
            path: path.to_path_buf(),
            why: "not a file".into(),
        }),
        () if meta.len() == 0 && !has_log(path) => Err(RecordError::Empty(path.to_path_buf())),
        () => Ok(()),
    }
}

/// The version of the record, if it is one that this highwater reads.
fn check_version(db: &Connection, path: &Path) -> Result<i64> {
    let pragma = |name: &str| -> Result<i64> {
        db.pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| RecordError::from_sqlite(path, "reading the version", error))
    };
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let path = path.to_path_buf();
    match (application, version) {
        // The file is made first and its tables in one transaction: without them, the run never began.
        (0, 0) if is_bare(db) => Err(RecordError::Empty(path)),
        (APPLICATION_ID, 1..=SCHEMA) => Ok(version),
        (APPLICATION_ID, found) if found > SCHEMA => Err(RecordError::Newer {
            path,
            found,
            known: SCHEMA,
        }),
        (APPLICATION_ID, found) => Err(RecordError::Damaged {
            path,
            why: format!("schema {found} was never made"),
        }),
        _ => Err(RecordError::Foreign {
            path,
            why: "a SQLite file of another program".into(),
        }),
    }
}

fn is_bare(db: &Connection) -> bool {
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
        row.get::<_, i64>(0)
    }) == Ok(0)
}

/// WAL with synchronous=NORMAL: a commit is in the kernel's hands when it returns, so killing any process loses
/// nothing that was committed; the disk is waited for at checkpoints only, so a power cut may cost the last snapshots,
/// never the file.
fn set_up(db: &Connection, path: &Path) -> Result<()> {
    set_pragmas(db).map_err(|error| RecordError::from_sqlite(path, "setting up", error))
}

fn set_pragmas(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "normal")?;
    db.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
    // The bundled SQLite checks foreign keys by default; a snapshot has thousands of rows and one writer that knows
    // its processes.
    db.pragma_update(None, "foreign_keys", false)
}

/// Brings the file to the newest version and does `more`, in one transaction, or leaves it as it was.
fn migrate(
    db: &mut Connection,
    path: &Path,
    more: impl FnOnce(&Transaction) -> rusqlite::Result<()>,
) -> Result<()> {
    let version =
        |db: &Connection| db.pragma_query_value(None, "user_version", |r| r.get::<_, i64>(0));
    let failed = |error| RecordError::from_sqlite(path, "bringing the record up to date", error);
    if version(db).map_err(failed)? == SCHEMA {
        return Ok(());
    }
    let steps = || -> rusqlite::Result<()> {
        let all = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again: another process may have done it while this one waited for the lock.
        let from = version(&all)?.clamp(0, SCHEMA) as usize;
        for step in &MIGRATIONS[from..] {
            all.execute_batch(step)?;
        }
        all.pragma_update(None, "application_id", APPLICATION_ID)?;
        all.pragma_update(None, "user_version", SCHEMA)?;
        more(&all)?;
        all.commit()
    };
    steps().map_err(failed)
}
