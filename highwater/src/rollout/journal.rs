//! The record of a rollout that a kill cannot take away: the plan, moved into place before anything is touched, and
//! a journal with one synced line before and after each step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::crash;
use super::files::sync_folder;
use super::plan::{Plan, SCHEMA};
use super::systemd::Host;

/// Beside nothing that a person edits; only root reads it: environments hold secrets.
pub const FOLDER: &str = "/var/lib/highwater/rollouts";
const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal.jsonl";
const SAMPLES: &str = "samples.jsonl";
/// A plan for a thousand units is 2 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One step, as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", content = "of", rename_all = "kebab-case")]
pub enum Step {
    Folder(PathBuf),
    File(PathBuf),
    Reload,
    Restart(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// From here on towards the arm.
    Forward,
    /// From here on back to what was before.
    Backward {
        why: String,
    },
    Begin(Step),
    Done {
        #[serde(flatten)]
        step: Step,
        /// What was seen: the proof of an instance.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
    /// Every instance runs the arm.
    Adopted,
    /// Everything is as it was; what could not be made so is in the words.
    Reverted {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Seconds since the Unix epoch.
    pub at_s: f64,
    #[serde(flatten)]
    pub what: What,
}

/// Where a rollout stands, told from its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// On the way to the arm; whoever worked on it may be gone.
    Adopting,
    Adopted,
    /// On the way back.
    Reverting {
        why: String,
    },
    Reverted {
        why: String,
        words: String,
    },
}

impl Stage {
    pub fn word(&self) -> &'static str {
        match self {
            Stage::Adopting => "adopting",
            Stage::Adopted => "adopted",
            Stage::Reverting { .. } => "reverting",
            Stage::Reverted { .. } => "reverted",
        }
    }

    /// Whether its files may be in place.
    pub fn is_open(&self) -> bool {
        !matches!(self, Stage::Reverted { .. })
    }
}

/// Where the records say that a rollout stands.
pub fn stage(records: &[Record]) -> Stage {
    let mut stage = Stage::Adopting;
    for record in records {
        stage = match (&record.what, stage) {
            (What::Forward, _) => Stage::Adopting,
            (What::Adopted, _) => Stage::Adopted,
            (What::Backward { why }, _) => Stage::Reverting { why: why.clone() },
            (What::Reverted { words }, Stage::Reverting { why }) => Stage::Reverted {
                why,
                words: words.clone(),
            },
            (_, same) => same,
        };
    }
    stage
}

/// Steps done since the direction last changed.
pub fn done(records: &[Record]) -> Vec<&Step> {
    let turned = |record: &Record| matches!(record.what, What::Forward | What::Backward { .. });
    // Taken up again in the same direction is no turn.
    let direction = |record: &Record| matches!(record.what, What::Forward);
    let mut from = 0;
    let mut forward = None;
    for (at, record) in records
        .iter()
        .enumerate()
        .filter(|(_, record)| turned(record))
    {
        if forward != Some(direction(record)) {
            (from, forward) = (at, Some(direction(record)));
        }
    }
    let steps = records[from..]
        .iter()
        .filter_map(|record| match &record.what {
            What::Done { step, .. } => Some(step),
            _ => None,
        });
    steps.collect()
}

/// Steps that were done on the way forward, before the last way back began.
pub fn brought_up(records: &[Record]) -> Vec<Step> {
    let forward = records
        .iter()
        .rposition(|record| record.what == What::Forward);
    let after = &records[forward.unwrap_or(0)..];
    let back = after
        .iter()
        .position(|record| matches!(record.what, What::Backward { .. }));
    let forwards = forward.unwrap_or(0) + back.unwrap_or(after.len());
    done(&records[..forwards]).into_iter().cloned().collect()
}

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
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
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
    pub fn write(&mut self, what: What) -> Result<(), String> {
        let record = Record {
            at_s: now_s(),
            what,
        };
        let path = self.folder.join(JOURNAL);
        let written = append(&path, &record);
        written.map_err(|error| format!("writing {}: {error}", path.display()))?;
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

/// Lines of a journal; a last one that was cut off is left out.
pub fn parse_journal(text: &str) -> Result<Vec<Record>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate();
    let parsed = lines.map(|(at, line)| {
        serde_json::from_str(line).with_context(|| format!("line {} of its journal", at + 1))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(what: &[What]) -> Vec<Record> {
        let record = |what: &What| Record {
            at_s: 1.5,
            what: what.clone(),
        };
        what.iter().map(record).collect()
    }

    fn restarted(unit: &str) -> What {
        What::Done {
            step: Step::Restart(unit.to_owned()),
            words: "pid 1".to_owned(),
        }
    }

    #[test]
    fn a_journal_reads_back_and_a_torn_line_counts_for_nothing() {
        let all = records(&[
            What::Forward,
            What::Begin(Step::File("/a b".into())),
            What::Done {
                step: Step::Reload,
                words: String::new(),
            },
            restarted("a.service"),
            What::Backward {
                why: "no \"health\"".to_owned(),
            },
            What::Reverted {
                words: String::new(),
            },
        ]);
        let text: String = all
            .iter()
            .map(|r| serde_json::to_string(r).unwrap() + "\n")
            .collect();
        assert_eq!(parse_journal(&text).unwrap(), all);
        for cut in 0..text.len() {
            let read = parse_journal(&text[..cut]).unwrap();
            assert_eq!(read[..], all[..read.len()]);
        }
        assert!(parse_journal("{}\n{}\n").is_err());
    }

    #[test]
    fn the_stage_follows_the_last_direction() {
        let back = || What::Backward {
            why: "x".to_owned(),
        };
        let at = |what: &[What]| stage(&records(what)).word();
        assert_eq!(at(&[]), "adopting");
        assert_eq!(at(&[What::Forward, What::Adopted]), "adopted");
        assert_eq!(at(&[What::Forward, back()]), "reverting");
        let gone = What::Reverted {
            words: String::new(),
        };
        assert_eq!(
            at(&[What::Forward, What::Adopted, back(), gone]),
            "reverted"
        );
    }

    #[test]
    fn what_was_done_counts_in_its_own_direction() {
        let back = || What::Backward {
            why: "x".to_owned(),
        };
        let all = records(&[What::Forward, restarted("a"), What::Forward, restarted("b")]);
        assert_eq!(done(&all).len(), 2, "taken up again");
        let all = records(&[
            What::Forward,
            restarted("a"),
            back(),
            restarted("b"),
            back(),
        ]);
        assert_eq!(done(&all), [&Step::Restart("b".to_owned())]);
    }
}
