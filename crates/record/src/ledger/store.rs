//! The ledger's folder: reading, adding, changing entries.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::entry::{Attempt, Entry, SCHEMA, SCHEMA_PLAIN, SCHEMAS_READ, Status};
use units::wording::{nearest, quoted};

/// Larger than any entry that people write; a file beyond is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Entries of one name on one day.
const ENTRIES_A_DAY_MAX: u32 = 10_000;
/// Longest part of an id that comes from the name or goal.
const SLUG_BYTES_MAX: usize = 48;

/// What can go wrong with the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger has no entry {}{}", quoted(id), did_you_mean(.nearest))]
    Unknown { id: String, nearest: Option<String> },
    #[error("{}: {why}; correct the file or move it away", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("{} is not a day; write 2026-11-21", quoted(.0))]
    Date(String),
    #[error("an entry needs a goal")]
    NoGoal,
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        path: PathBuf,
        doing: &'static str,
        source: std::io::Error,
    },
}

type Result<T> = std::result::Result<T, LedgerError>;

/// Entries that could be read, and the files that could not.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub entries: Vec<Entry>,
    pub broken: Vec<LedgerError>,
}

/// A folder of entries; it is made with the first of them.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    /// The ledger in this folder (`ledger/` beside `runs/`), which need not exist yet.
    pub fn at(folder: &Path) -> Ledger {
        Ledger {
            folder: folder.to_path_buf(),
        }
    }

    /// Every entry. A broken file does not hide the others.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for path in self.files()? {
            match read_entry(&path) {
                Ok(entry) => listing.entries.push(entry),
                Err(error) => listing.broken.push(error),
            }
        }
        listing
            .entries
            .sort_by(|a, b| (&a.date, &a.id).cmp(&(&b.date, &b.id)));
        Ok(listing)
    }

    pub fn read(&self, id: &str) -> Result<Entry> {
        let path = self.file(id)?;
        read_entry(&path)
    }

    /// Adds an entry and gives it an id: its day, then `name`, then a number if that is taken.
    pub fn add(&self, entry: &Entry, name: &str) -> Result<Entry> {
        check_date(&entry.date)?;
        if entry.goal.trim().is_empty() {
            return Err(LedgerError::NoGoal);
        }
        std::fs::create_dir_all(&self.folder).map_err(|e| self.io("creating the folder", e))?;
        let _lock = self.lock()?;
        let slug = format!("{}-{}", entry.date, slug(name));
        for n in 1..=ENTRIES_A_DAY_MAX {
            let id = if n == 1 {
                slug.clone()
            } else {
                format!("{slug}-{n}")
            };
            let path = self.path_of(&id);
            if !path.exists() {
                let entry = Entry {
                    id,
                    ..entry.clone()
                };
                write_entry(&path, &entry)?;
                return Ok(entry);
            }
        }
        Err(self.io(
            "adding an entry",
            std::io::Error::other("every number of this day is taken"),
        ))
    }

    /// The open entry of an experiment with the same hypothesis, or a new one: runs of one experiment are attempts
    /// at one question.
    pub fn entry_for(&self, entry: &Entry) -> Result<Entry> {
        let same = |old: &Entry| {
            old.experiment == entry.experiment
                && old.hypothesis == entry.hypothesis
                && matches!(old.status, Status::Active | Status::Paused)
        };
        match self.list()?.entries.into_iter().rev().find(same) {
            Some(old) => Ok(old),
            None => self.add(entry, &entry.experiment),
        }
    }

    /// The entry of the same experiment and hypothesis that has this run among its attempts: a run that is concluded
    /// again stays where it is.
    pub fn entry_of_run(&self, entry: &Entry, run: &str) -> Result<Option<Entry>> {
        let has = |old: &Entry| {
            (&old.experiment, &old.hypothesis) == (&entry.experiment, &entry.hypothesis)
                && old.attempts.iter().any(|attempt| attempt.run == run)
        };
        Ok(self.list()?.entries.into_iter().rev().find(has))
    }

    pub fn append_attempt(&self, id: &str, attempt: &Attempt) -> Result<Entry> {
        check_date(&attempt.date)?;
        self.update(id, |entry| entry.attempts.push(attempt.clone()))
    }

    /// The new status, with what was learnt, if anything.
    pub fn set_status(&self, id: &str, status: Status, learnings: &[String]) -> Result<Entry> {
        self.update(id, |entry| {
            entry.status = status;
            entry.learnings.extend(learnings.iter().cloned());
        })
    }

    /// Changes an entry, as a whole or not at all; changes by other processes are waited for.
    pub fn update(&self, id: &str, change: impl FnOnce(&mut Entry)) -> Result<Entry> {
        let path = self.file(id)?;
        let _lock = self.lock()?;
        let mut entry = read_entry(&path)?;
        let id = entry.id.clone();
        change(&mut entry);
        entry.id = id;
        write_entry(&path, &entry)?;
        Ok(entry)
    }

    /// Held while a file is changed; released when it is dropped, or when the process dies.
    fn lock(&self) -> Result<File> {
        let path = self.folder.join(".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let locked = file.and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| self.io("locking the ledger", error))
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io("listing the ledger", error)),
        };
        let is_entry = |path: &PathBuf| {
            let hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            path.extension().is_some_and(|e| e == "toml") && !hidden
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(is_entry)
            .collect();
        files.sort();
        Ok(files)
    }

    /// The file of an id; what a person typed is never used as a path.
    fn file(&self, id: &str) -> Result<PathBuf> {
        let files = self.files()?;
        let ids: Vec<String> = files.iter().map(|path| id_of(path)).collect();
        let at = ids
            .iter()
            .position(|known| known == id)
            .ok_or_else(|| LedgerError::Unknown {
                id: id.into(),
                nearest: nearest(id, ids.iter().map(String::as_str)).map(str::to_owned),
            })?;
        Ok(files[at].clone())
    }

    fn path_of(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.toml"))
    }

    fn io(&self, doing: &'static str, source: std::io::Error) -> LedgerError {
        LedgerError::Io {
            path: self.folder.clone(),
            doing,
            source,
        }
    }
}

/// Parses the text of an entry's file; `id` is the file's name.
pub fn parse_entry(text: &str, id: &str) -> std::result::Result<Entry, String> {
    let entry: Entry = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
    if !SCHEMAS_READ.contains(&entry.schema.as_str()) {
        return Err(format!(
            "its schema is {}, this highwater reads {}",
            quoted(&entry.schema),
            SCHEMAS_READ.join(" and ")
        ));
    }
    // The name of the file counts: a copy of an entry is an entry of its own.
    Ok(Entry {
        id: id.into(),
        schema: SCHEMA.into(),
        ..entry
    })
}

fn read_entry(path: &Path) -> Result<Entry> {
    let broken = |why: String| LedgerError::Broken {
        path: path.to_path_buf(),
        why,
    };
    let io = |source| LedgerError::Io {
        path: path.to_path_buf(),
        doing: "reading",
        source,
    };
    if std::fs::metadata(path).map_err(io)?.len() > FILE_BYTES_MAX {
        return Err(broken("larger than 1 MiB, no entry".into()));
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let text = String::from_utf8(bytes).map_err(|_| broken("not UTF-8 text".into()))?;
    parse_entry(&text, &id_of(path)).map_err(broken)
}

/// Written beside and moved into place: a reader sees the old entry or the new one.
fn write_entry(path: &Path, entry: &Entry) -> Result<()> {
    let schema = match entry.predictions.is_empty() {
        true => SCHEMA_PLAIN,
        false => SCHEMA,
    };
    let entry = Entry {
        schema: schema.to_owned(),
        ..entry.clone()
    };
    let text = toml::to_string_pretty(&entry).expect("texts and lists only");
    let beside = path.with_extension("toml.new");
    let written = File::create(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|source| {
        let _ = std::fs::remove_file(&beside);
        LedgerError::Io {
            path: path.to_path_buf(),
            doing: "writing",
            source,
        }
    })
}

fn id_of(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The part of an id that people read: words of the name, joined by `-`.
fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut slug = String::new();
    for word in lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if slug.len() + word.len() >= SLUG_BYTES_MAX {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(word);
    }
    if slug.is_empty() {
        "entry".into()
    } else {
        slug
    }
}

fn check_date(date: &str) -> Result<()> {
    match date.parse::<jiff::civil::Date>() {
        Ok(day) if day.to_string() == date => Ok(()),
        _ => Err(LedgerError::Date(date.into())),
    }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or(String::new(), |near| format!("; did you mean {near}?"))
}
