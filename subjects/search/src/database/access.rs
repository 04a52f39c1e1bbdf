//! Connections: how they are opened, and who shares which.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, OpenFlags};

use super::vectors::{self, Cells};
use crate::fault::{Fault, Faults};
use crate::lock::lock;

/// How much of the file a read connection maps, and the pages that it keeps beside that.
pub const CACHE_PRAGMAS: &str = "PRAGMA mmap_size=268435456; PRAGMA cache_size=-20000;";
/// A writer in another process (a person with a shell) is waited for so long.
const BUSY: Duration = Duration::from_secs(5);

/// Who reads and writes by which connection.
pub struct Access {
    path: PathBuf,
    writer: Arc<Mutex<Connection>>,
    /// The nearest documents are looked for by one connection, whoever asks.
    near: Arc<Mutex<Connection>>,
    cells: Cells,
    is_shared: bool,
    is_cached: bool,
    pub brute_force: bool,
}

/// What one worker reads by.
pub enum Reader {
    Own(Connection),
    Shared(Arc<Mutex<Connection>>),
}

impl Access {
    /// Opens a database that [`super::fill::fill`] made.
    ///
    /// # Errors
    /// When it is not there, or is no such database.
    pub fn open(path: &Path, faults: &Faults) -> Result<Access> {
        let is_cached = !faults.has(Fault::NoCache);
        let is_shared = faults.has(Fault::SharedConnection);
        let writer = open_writer(path)?;
        let cells = Cells::read(&writer).context("reading the cells of the vectors")?;
        let writer = Arc::new(Mutex::new(writer));
        let near = if is_shared {
            writer.clone()
        } else {
            Arc::new(Mutex::new(open_reader(path, is_cached)?))
        };
        Ok(Access {
            path: path.to_path_buf(),
            writer,
            near,
            cells,
            is_shared,
            is_cached,
            brute_force: faults.has(Fault::BruteForceVectors),
        })
    }

    /// A connection for one more worker.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn reader(&self) -> Result<Reader> {
        if self.is_shared {
            return Ok(Reader::Shared(self.writer.clone()));
        }
        open_reader(&self.path, self.is_cached).map(Reader::Own)
    }

    /// Works with the connection that writes.
    pub fn write<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        work(&mut lock(&self.writer))
    }

    /// Works with the connection that looks for near documents.
    pub fn near<T>(&self, work: impl FnOnce(&Connection, &Cells) -> T) -> T {
        work(&lock(&self.near), &self.cells)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Reader {
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        match self {
            Reader::Own(connection) => work(connection),
            Reader::Shared(connection) => work(&lock(connection)),
        }
    }
}

/// # Errors
/// When the file cannot be opened or made.
pub fn open_writer(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).with_context(|| format!("opening {path:?}"))?;
    connection.busy_timeout(BUSY)?;
    // A commit is in the log, and on the disk with the next checkpoint.
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;",
        )
        .with_context(|| format!("setting up {path:?}"))?;
    vectors::define_cosine(&connection)?;
    Ok(connection)
}

fn open_reader(path: &Path, is_cached: bool) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .with_context(|| format!("opening {path:?} for reading"))?;
    connection.busy_timeout(BUSY)?;
    if is_cached {
        connection.execute_batch(CACHE_PRAGMAS)?;
    }
    vectors::define_cosine(&connection)?;
    Ok(connection)
}
