//! The folder of all rollouts of a machine: the plan of each, moved into place before anything is touched, and its
//! journal, with one synced line before and after each step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use super::crash;
use super::error::Error;
use super::files::sync_folder;
use super::journal::{Record, Stage, Step, What, done, parse_journal, stage};
use super::plan::{Plan, SCHEMA};
use super::systemd::Host;

/// Beside nothing that a person edits; only root reads it: environments hold secrets.
pub const FOLDER: &str = "/var/lib/highwater/rollouts";
const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal.jsonl";
const SAMPLES: &str = "samples.jsonl";
/// A plan for a thousand units is 2 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;
const LOCK_TRIES: u32 = 10;
const LOCK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// All rollouts of a machine.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
}

/// Held by whoever changes the machine; the kernel releases it when the process dies.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Shelf {
    pub fn of(host: &Host) -> Shelf {
        Shelf {
            folder: host.file(Path::new(FOLDER)),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// # Errors
    /// Another adopt or revert is at work; or the folder cannot be made.
    pub fn lock(&self) -> Result<Lock> {
        make_private(&self.folder)?;
        let path = self.folder.join(".lock");
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        // `--status` holds it for an instant.
        let free = (0..LOCK_TRIES).any(|_| {
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if !locked {
                std::thread::sleep(LOCK_EVERY);
            }
            locked
        });
        if !free {
            bail!(
                "another `highwater adopt` or `revert` is at work on this machine; wait for its end"
            );
        }
        Ok(Lock(file))
    }

    /// Whether somebody holds the lock right now.
    pub fn is_busy(&self) -> bool {
        let Ok(file) = File::open(self.folder.join(".lock")) else {
            return false;
        };
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Every rollout, oldest first. None where there is no folder.
    ///
    /// # Errors
    /// The folder may not be read (root only), or a rollout in it is damaged.
    pub fn list(&self) -> Result<Vec<Rollout>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let words = format!("reading {} (only root may)", self.folder.display());
                return Err(error).context(words);
            }
        };
        let is_rollout = |path: &PathBuf| {
            let hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            !hidden && path.is_dir()
        };
        let paths = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(is_rollout);
        let mut rollouts = paths
            .map(|path| Rollout::open(&path))
            .collect::<Result<Vec<_>>>()?;
        rollouts.sort_by_key(|rollout| rollout.number);
        Ok(rollouts)
    }

    /// The id of the next rollout: its number among all, the day, the arm.
    pub fn next_id(&self, date: &str, arm: &str) -> Result<String> {
        let last = self.list()?.last().map_or(0, |rollout| rollout.number);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let arm: String = arm.chars().take(40).map(plain).collect();
        Ok(format!("{}-{date}-{arm}", last + 1))
    }

    /// Keeps the plan: from here on a rollout exists.
    pub fn create(&self, plan: &Plan) -> Result<Rollout> {
        make_private(&self.folder)?;
        let path = self.folder.join(&plan.id);
        let new = self.folder.join(format!(".{}.new", plan.id));
        let made = keep_plan(&new, &path, plan);
        made.with_context(|| format!("keeping the plan in {}", path.display()))?;
        Rollout::open(&path)
    }
}

fn keep_plan(new: &Path, path: &Path, plan: &Plan) -> io::Result<()> {
    crash::point("plan: before");
    if new.exists() {
        fs::remove_dir_all(new)?;
    }
    fs::DirBuilder::new().mode(0o700).create(new)?;
    let mut options = OpenOptions::new();
    let file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(new.join(PLAN));
    let mut file = file?;
    crash::point("plan: file created");
    file.write_all(serde_json::to_string_pretty(plan)?.as_bytes())?;
    file.sync_all()?;
    File::open(new)?.sync_all()?;
    crash::point("plan: synced beside");
    fs::rename(new, path)?;
    crash::point("plan: moved into place");
    sync_folder(path)
}

fn make_private(folder: &Path) -> Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.with_context(|| format!("making {}", folder.display()))
}

/// One rollout with its plan and its journal.
#[derive(Debug)]
pub struct Rollout {
    folder: PathBuf,
    pub number: u64,
    pub plan: Plan,
    pub records: Vec<Record>,
}

impl Rollout {
    fn open(folder: &Path) -> Result<Rollout> {
        let read = |name: &str| -> Result<String> {
            let path = folder.join(name);
            let bytes = match fs::metadata(&path) {
                Ok(data) if data.len() > FILE_BYTES_MAX => bail!("{} is too large", path.display()),
                Err(error) if error.kind() == io::ErrorKind::NotFound && name == JOURNAL => {
                    Vec::new()
                }
                _ => fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
            };
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let damaged = || {
            format!(
                "{} is damaged: compare the files it names with the units by hand, then move it away",
                folder.display()
            )
        };
        let plan: Plan = serde_json::from_str(&read(PLAN)?).with_context(damaged)?;
        anyhow::ensure!(
            plan.schema == SCHEMA,
            "{} is a rollout of schema {}, this highwater reads {SCHEMA}",
            folder.display(),
            plan.schema
        );
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        let number = id.split('-').next().and_then(|digits| digits.parse().ok());
        Ok(Rollout {
            number: number.with_context(damaged)?,
            records: parse_journal(&read(JOURNAL)?).with_context(damaged)?,
            folder: folder.to_path_buf(),
            plan,
        })
    }

    pub fn stage(&self) -> Stage {
        stage(&self.records)
    }

    pub fn samples_file(&self) -> PathBuf {
        self.folder.join(SAMPLES)
    }

    /// When the arm was last said to be in service on every instance.
    pub fn adopted_at_s(&self) -> Option<f64> {
        let adopted = self
            .records
            .iter()
            .rev()
            .find(|record| record.what == What::Adopted);
        adopted.map(|record| record.at_s)
    }

    pub fn is_done(&self, step: &Step) -> bool {
        done(&self.records).contains(&step)
    }

    /// Writes one line and waits until the disk has it.
    ///
    /// # Errors
    /// The disk is full or gone: the step that follows must not be taken.
    pub fn write(&mut self, what: What) -> Result<(), Error> {
        let record = Record {
            at_s: now_s(),
            what,
        };
        let path = self.folder.join(JOURNAL);
        let written = append(&path, &record);
        written.map_err(|error| Error::Journal { path, error })?;
        self.records.push(record);
        Ok(())
    }
}

/// Seconds since the Unix epoch.
pub fn now_s() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

fn append(path: &Path, record: &Record) -> io::Result<()> {
    crash::point("journal: before");
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    let mut file = options
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    cut_torn_line(&mut file)?;
    let line = serde_json::to_string(record)? + "\n";
    let (first, second) = line.split_at(line.len() / 2);
    file.write_all(first.as_bytes())?;
    crash::point("journal: half a line");
    file.write_all(second.as_bytes())?;
    file.sync_data()?;
    if is_new {
        sync_folder(path)?;
    }
    crash::point("journal: line synced");
    Ok(())
}

/// A line without its end was never said: whoever wrote it was killed before the step.
fn cut_torn_line(file: &mut File) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    file.set_len(whole as u64)?;
    file.seek(SeekFrom::End(0)).map(|_| ())
}
