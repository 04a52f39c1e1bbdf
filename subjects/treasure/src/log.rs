//! The log: one file per writer ("lane") and generation. An answer leaves the server only after its record is in.
//!
//! A snapshot begins with a new generation. When every lane has gone over to it, all that older files hold is also
//! in memory; once the snapshot is safe they are deleted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// When the log is forced to the disk. Without, it survives the process (kill -9) but not the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    Never,
    /// Before each answer.
    Always,
    /// At the first write after so long.
    Every(Duration),
}

impl std::str::FromStr for Sync {
    type Err = String;

    fn from_str(text: &str) -> Result<Sync, String> {
        match text {
            "never" => Ok(Sync::Never),
            "always" => Ok(Sync::Always),
            other => humantime::parse_duration(other)
                .map(Sync::Every)
                .map_err(|error| format!("neither `never`, `always` nor a duration ({error})")),
        }
    }
}

/// The folder of the log, and which generation is written.
pub struct Log {
    folder: PathBuf,
    generation: AtomicU64,
    sync: Sync,
    /// Per lane, the generation it writes.
    lanes: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Log {
    pub fn new(folder: &Path, generation: u64, sync: Sync) -> Log {
        Log {
            folder: folder.to_path_buf(),
            generation: AtomicU64::new(generation),
            sync,
            lanes: Mutex::new(Vec::new()),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new writer.
    ///
    /// # Errors
    /// When its file cannot be created.
    pub fn lane(self: &Arc<Log>) -> io::Result<Lane> {
        let mut lanes = self.lanes();
        let generation = self.generation.load(SeqCst);
        let written = Arc::new(AtomicU64::new(generation));
        let number = lanes.len();
        let file = self.create(generation, number)?;
        lanes.push(written.clone());
        Ok(Lane {
            log: self.clone(),
            number,
            written,
            file,
            offset: 0,
            synced: Instant::now(),
        })
    }

    /// Begins the next generation, which lanes take up at their next write or [`Lane::tick`].
    pub fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, SeqCst) + 1
    }

    /// True when every lane writes `generation` or a later one.
    pub fn all_write(&self, generation: u64) -> bool {
        self.lanes()
            .iter()
            .all(|lane| lane.load(SeqCst) >= generation)
    }

    /// A new file. Where the log is forced to the disk, so is its name: a file without one is lost with the machine.
    fn create(&self, generation: u64, lane: usize) -> io::Result<File> {
        let path = self.folder.join(format!("log-{generation:08}-{lane}"));
        let file = File::options().write(true).create_new(true).open(&path)?;
        if self.sync != Sync::Never {
            let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
            if let Err(error) = synced {
                // Or the next try would find the name taken.
                let _ = fs::remove_file(&path);
                return Err(error);
            }
        }
        Ok(file)
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.lanes
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Log files with generation and lane.
pub fn files(folder: &Path) -> io::Result<Vec<(PathBuf, u64, usize)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let parts = name
            .strip_prefix("log-")
            .and_then(|rest| rest.split_once('-'));
        if let Some((Ok(generation), Ok(lane))) =
            parts.map(|(generation, lane)| (generation.parse(), lane.parse()))
        {
            found.push((path, generation, lane));
        }
    }
    Ok(found)
}

/// One writer of the log.
pub struct Lane {
    log: Arc<Log>,
    number: usize,
    written: Arc<AtomicU64>,
    file: File,
    /// End of what is whole: a write that failed halfway is written over by the next.
    offset: u64,
    synced: Instant,
}

impl Lane {
    /// Appends whole records.
    ///
    /// # Errors
    /// When they could not all be written; then none of them counts.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.tick()?;
        self.file.write_all_at(records, self.offset)?;
        if self.wants_sync() {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        self.offset += records.len() as u64;
        Ok(())
    }

    /// Goes over to the log's generation.
    ///
    /// # Errors
    /// When its file cannot be created; the lane then stays in the old one, and no snapshot is taken.
    pub fn tick(&mut self) -> io::Result<()> {
        let generation = self.log.generation.load(SeqCst);
        if generation != self.written.load(SeqCst) {
            self.file = self.log.create(generation, self.number)?;
            self.offset = 0;
            self.written.store(generation, SeqCst);
        }
        Ok(())
    }

    /// For a writer that writes by itself: file, offset, and whether to sync.
    pub fn target(&self) -> (&File, u64, bool) {
        (&self.file, self.offset, self.wants_sync())
    }

    /// It wrote so many bytes there.
    pub fn wrote(&mut self, bytes: usize, synced: bool) {
        self.offset += bytes as u64;
        if synced {
            self.synced = Instant::now();
        }
    }

    fn wants_sync(&self) -> bool {
        match self.log.sync {
            Sync::Never => false,
            Sync::Always => true,
            Sync::Every(gap) => self.synced.elapsed() >= gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_written_when_all_lanes_have_taken_it_up() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path(), 3, Sync::Never));
        let mut lanes = [log.lane().unwrap(), log.lane().unwrap()];
        lanes[0].write(&[1; 40]).unwrap();
        let next = log.next_generation();
        lanes[0].write(&[2; 40]).unwrap();
        assert!(!log.all_write(next));
        lanes[1].tick().unwrap();
        assert!(log.all_write(next));
        let mut found: Vec<_> = files(folder.path())
            .unwrap()
            .into_iter()
            .map(|file| (file.1, file.2))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(3, 0), (3, 1), (4, 0), (4, 1)]);
    }

    #[test]
    fn the_policy_is_read_from_its_words() {
        assert_eq!("never".parse(), Ok(Sync::Never));
        assert_eq!("10ms".parse(), Ok(Sync::Every(Duration::from_millis(10))));
        assert!("sometimes".parse::<Sync>().unwrap_err().contains("never"));
    }
}
