//! stdout and stderr of a process: straight into files, one pair per incarnation, so that no pipe of ours can fill up
//! and stop the subject, and nothing is lost when the supervisor dies.
//!
//! A flood is bounded by cutting the file off at its beginning while the process goes on writing (it appends, so it
//! goes on at the new end): the last [`KEPT_BYTES`] are copied aside first. What is written between the copy and
//! the cut is lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A log of a subject is cut off when it is larger.
pub const LOG_LIMIT_BYTES: u64 = 64 << 20;
/// The output of a load program is data; it is cut off only to save the disk.
pub const LOAD_LIMIT_BYTES: u64 = 1 << 30;
/// Kept beside the log as `NAME.1` when it is cut off.
const KEPT_BYTES: u64 = 1 << 20;
/// The last lines that go into words.
const TAIL_LINES: usize = 8;
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINE_CHARACTERS: usize = 400;

/// The pair of files of one incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logs {
    pub out: PathBuf,
    pub err: PathBuf,
    limit_bytes: u64,
    /// How often either was cut off.
    cuts: u64,
}

/// A log was cut off.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: PathBuf,
    pub bytes: u64,
    /// With this one.
    pub cuts: u64,
}

impl Logs {
    /// Makes `NAME.out` and `NAME.err` in `folder`, open for appending.
    ///
    /// # Errors
    /// Those of the file system: a full disk, no permission.
    pub fn create(folder: &Path, name: &str, limit_bytes: u64) -> io::Result<(Self, File, File)> {
        let logs = Self::at(folder, name, limit_bytes);
        let (out, err) = (open_append(&logs.out)?, open_append(&logs.err)?);
        Ok((logs, out, err))
    }

    /// The files of a process that already runs.
    pub fn at(folder: &Path, name: &str, limit_bytes: u64) -> Self {
        Self {
            out: folder.join(format!("{name}.out")),
            err: folder.join(format!("{name}.err")),
            limit_bytes,
            cuts: 0,
        }
    }

    /// Cuts off what has grown past the limit. Called at every poll: two file sizes.
    pub fn bound(&mut self) -> Vec<Cut> {
        let mut cuts = Vec::new();
        for file in [&self.out, &self.err] {
            let bytes = fs::metadata(file).map_or(0, |meta| meta.len());
            if bytes > self.limit_bytes && cut_off(file, bytes).is_ok() {
                self.cuts += 1;
                cuts.push(Cut {
                    file: file.clone(),
                    bytes,
                    cuts: self.cuts,
                });
            }
        }
        cuts
    }

    /// The last lines of stderr, or of stdout when stderr is empty, with where they are: for the end of a message.
    /// Empty when there are none.
    pub fn last_lines(&self) -> String {
        for file in [&self.err, &self.out] {
            let lines = parse_last_lines(&read_tail(file, TAIL_BYTES).unwrap_or_default());
            if !lines.is_empty() {
                return format!("\nlast lines of {}:\n{}", file.display(), lines.join("\n"));
            }
        }
        format!("\nit wrote nothing to {} and .err", self.out.display())
    }
}

fn open_append(file: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file)
}

fn cut_off(file: &Path, bytes: u64) -> io::Result<()> {
    let log = OpenOptions::new().write(true).open(file)?;
    // On a full disk the copy fails; cutting off is then all the more urgent.
    let _ = keep_end(file, bytes);
    log.set_len(0)
}

fn keep_end(file: &Path, bytes: u64) -> io::Result<()> {
    let mut log = File::open(file)?;
    log.seek(SeekFrom::Start(bytes.saturating_sub(KEPT_BYTES)))?;
    let mut name = file.as_os_str().to_owned();
    name.push(".1");
    let mut kept = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(name)?;
    io::copy(&mut log.take(KEPT_BYTES), &mut kept)?;
    Ok(())
}

fn read_tail(file: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut log = File::open(file)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    log.take(bytes).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The last lines, readable: lossy UTF-8, no control characters, no endless lines.
fn parse_last_lines(tail: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter()
        .map(|line| format!("  {}", readable(line)))
        .collect()
}

fn readable(line: &str) -> String {
    let visible = |c: char| {
        if c.is_control() && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    let mut text: String = line
        .chars()
        .take(TAIL_LINE_CHARACTERS)
        .map(visible)
        .collect();
    if line.chars().nth(TAIL_LINE_CHARACTERS).is_some() {
        text.push_str(" ...");
    }
    text
}

/// Reads the lines that were added to a log since the last call.
#[derive(Debug)]
pub struct Follower {
    file: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    partial: Vec<u8>,
}

impl Follower {
    /// Read at most per call.
    const STEP_BYTES: u64 = 8 << 20;
    /// A line longer than this is judged in parts.
    const LINE_BYTES_MAX: usize = 64 << 10;

    pub fn new(file: PathBuf) -> Self {
        Self {
            file,
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// Whether `wanted` holds for any new line. A last line without an end counts as well: a program may print
    /// its "ready" without a newline.
    pub fn any_line(&mut self, wanted: impl Fn(&str) -> bool) -> bool {
        let Ok(new) = self.read_new() else {
            return false;
        };
        self.partial.extend_from_slice(&new);
        let matches = |line: &[u8]| wanted(&String::from_utf8_lossy(line));
        let found = self.partial.split(|byte| *byte == b'\n').any(matches);
        let whole = self
            .partial
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.partial.drain(..whole);
        if self.partial.len() > Self::LINE_BYTES_MAX {
            self.partial.clear();
        }
        found
    }

    fn read_new(&mut self) -> io::Result<Vec<u8>> {
        let mut log = File::open(&self.file)?;
        if log.metadata()?.len() < self.offset {
            self.offset = 0; // it was cut off
        }
        log.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        log.take(Self::STEP_BYTES).read_to_end(&mut new)?;
        self.offset += new.len() as u64;
        Ok(new)
    }
}

/// A name for files and cgroups made from an arm's name: what is not a letter, digit, `.`, `_` or `-` becomes `_`,
/// and a changed or long name gets a hash, so that two arms never share a file.
pub fn file_name(arm: &str) -> String {
    const LENGTH_MAX: usize = 40;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let clean: String = arm
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .take(LENGTH_MAX)
        .collect();
    if clean == arm && !clean.starts_with(['.', '-']) && !clean.is_empty() {
        return clean;
    }
    format!(
        "_{clean}-{:08x}",
        super::super::order::hash_texts(&[arm]) >> 32
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_flood_is_cut_off_and_the_writer_goes_on_at_the_new_end() {
        let folder = tempfile::tempdir().unwrap();
        let (mut logs, mut out, _err) = Logs::create(folder.path(), "a-0-0", 1000).unwrap();
        out.write_all(&[b'x'; 1500]).unwrap();
        out.write_all(b"\nthe end").unwrap();
        let cuts = logs.bound();
        assert_eq!((cuts.len(), cuts[0].bytes, cuts[0].cuts), (1, 1508, 1));
        assert_eq!(fs::metadata(&logs.out).unwrap().len(), 0);
        let kept = fs::read_to_string(folder.path().join("a-0-0.out.1")).unwrap();
        assert!(kept.ends_with("the end"));
        out.write_all(b"next").unwrap();
        assert_eq!(fs::read_to_string(&logs.out).unwrap(), "next");
        assert!(logs.bound().is_empty());
    }

    #[test]
    fn last_lines_are_few_readable_and_bounded() {
        let mut log: Vec<u8> = (0..50)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        log.extend_from_slice(b"\x1b[31mred\xff\n");
        log.extend_from_slice(&[b'y'; 1000]);
        let lines = parse_last_lines(&log);
        assert_eq!(lines.len(), TAIL_LINES);
        assert_eq!(lines[0], "  line 44");
        assert_eq!(lines[6], "  \u{fffd}[31mred\u{fffd}");
        assert!(lines[7].ends_with("yyy ...") && lines[7].len() < 500);
    }

    #[test]
    fn a_follower_sees_each_line_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (mut logs, mut out, _err) = Logs::create(folder.path(), "a", 10).unwrap();
        let mut follower = Follower::new(logs.out.clone());
        let is_ready = |line: &str| line == "now ready";
        assert!(!follower.any_line(is_ready));
        out.write_all(b"hello\nnow re").unwrap();
        assert!(!follower.any_line(is_ready));
        out.write_all(b"ady\nmore").unwrap();
        assert!(follower.any_line(is_ready));
        logs.bound();
        out.write_all(b"\nnow ready\n").unwrap();
        assert!(follower.any_line(is_ready), "after a cut");
    }

    #[test]
    fn arm_names_become_safe_and_distinct_file_names() {
        assert_eq!(file_name("mimalloc-2.0.9"), "mimalloc-2.0.9");
        let names: Vec<_> = [
            "../etc",
            "..",
            "",
            "a/b",
            "a_b",
            "a b",
            "-x",
            &"n".repeat(60),
            &"n".repeat(61),
        ]
        .iter()
        .map(|arm| file_name(arm))
        .collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(
            names
                .iter()
                .all(|name| !name.contains('/') && !name.starts_with('.') && name.len() < 64)
        );
    }
}
