//! `/tmp/perf-PID.map`: names of code that was made while the program ran.
//!
//! Everyone may write to `/tmp`, so the file is believed only when it belongs to root or to the process's own user.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use observe::foreign::open_file_itself;
use observe::proc::identity::parse_identity;

/// Largest perf map that is read; a larger one is ignored.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Entries that are kept, in the order of the file: a Java server has some 50,000.
const ENTRIES_MAX: usize = 400_000;

/// The file is read again when it has changed, but in no more than this share of the time.
const READING_SHARE: u32 = 10;

/// Why a perf map is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    name: String,
    why: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ignored { name, why } = self;
        write!(
            out,
            "/tmp/{name} is ignored ({why}): code that the program made while it ran has no names"
        )
    }
}

/// Opens the perf map of a process, where its own `/tmp` has one; `process`: /proc/PID.
///
/// # Errors
/// It is no regular file, too large, or belongs to neither root nor the process's user.
pub fn open_perf_map(process: &Path) -> Result<Option<File>, Ignored> {
    // Without them the process has ended.
    let Ok(status) = std::fs::read(process.join("status")) else {
        return Ok(None);
    };
    let who = parse_identity(&status);
    let (Some(pid), Some(user)) = (who.own_pid, who.user) else {
        return Ok(None);
    };
    let name = format!("perf-{pid}.map");
    open_owned(&process.join("root/tmp").join(&name), user).map_err(|why| Ignored { name, why })
}

fn open_owned(path: &Path, user: u32) -> Result<Option<File>, String> {
    let file = match open_file_itself(path, FILE_BYTES_MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let owner = file.metadata().map_err(|error| error.to_string())?.uid();
    match owner == 0 || owner == user {
        true => Ok(Some(file)),
        false => Err(format!(
            "it belongs to user {owner}, and the process runs as user {user}"
        )),
    }
}

/// The perf map of one process, read again when it has changed.
#[derive(Debug)]
pub struct PerfMapFile {
    process: PathBuf,
    map: PerfMap,
    bytes: u64,
    /// Not to be read again before.
    next: Instant,
    /// Why it is ignored.
    pub ignored: Option<Ignored>,
}

impl PerfMapFile {
    pub fn of(pid: i32) -> PerfMapFile {
        PerfMapFile {
            process: format!("/proc/{pid}").into(),
            map: PerfMap::default(),
            bytes: 0,
            next: Instant::now(),
            ignored: None,
        }
    }

    /// The name of the code at an address.
    pub fn find(&mut self, address: u64) -> Option<&str> {
        let begin = Instant::now();
        if begin >= self.next {
            self.read();
            let rest = begin.elapsed() * READING_SHARE;
            self.next = Instant::now() + rest.min(Duration::from_secs(10));
        }
        self.map.find(address)
    }

    fn read(&mut self) {
        let file = match open_perf_map(&self.process) {
            Ok(Some(file)) => file,
            // The process may have ended: what is known of it stays.
            Ok(None) => return,
            Err(ignored) => {
                self.ignored = Some(ignored);
                self.map = PerfMap::default();
                self.bytes = 0;
                return;
            }
        };
        let bytes = file.metadata().map_or(0, |data| data.len());
        self.ignored = None;
        if bytes != self.bytes {
            self.bytes = bytes;
            let mut text = Vec::new();
            // It may grow while it is read.
            let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
            self.map = parse_perf_map(&String::from_utf8_lossy(&text));
        }
    }
}

/// Names by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// (start, end, name) by start. Where code was replaced, the later name comes last.
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self
            .entries
            .partition_point(|&(start, ..)| start <= address);
        let (_, end, name) = self.entries.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

/// Lines of `START SIZE NAME`, hexadecimal; others are left out.
pub fn parse_perf_map(text: &str) -> PerfMap {
    let entry = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || {
            let word = words.next()?.trim_start_matches("0x");
            u64::from_str_radix(word, 16).ok()
        };
        let (start, size) = (number()?, number()?);
        Some((start, start.checked_add(size)?, words.next()?.to_owned()))
    };
    let mut entries: Vec<_> = text.lines().filter_map(entry).take(ENTRIES_MAX).collect();
    entries.sort_by_key(|&(start, ..)| start);
    PerfMap { entries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_address_and_strange_lines_left_out() {
        let text =
            "7f00 10 py::leak:/srv/app.py\nnonsense\n7f10 zz x\n7e00 8 old\n7e00 8 new one\n";
        let map = parse_perf_map(text);
        assert_eq!(map.find(0x7f0f), Some("py::leak:/srv/app.py"));
        assert_eq!(map.find(0x7e00), Some("new one"));
        assert_eq!(map.find(0x7e08), None);
        assert_eq!(map.find(0x7f10), None);
        assert_eq!(map.find(0), None);
    }

    /// A folder like /proc/PID of a process with pid 7 and the test's user, and the path of its perf map.
    fn process(folder: &Path) -> PathBuf {
        let user = rustix::process::geteuid().as_raw();
        let status = format!("Name:\tx\nUid:\t1\t{user}\t1\t1\nNSpid:\t900\t7\n");
        std::fs::write(folder.join("status"), status).unwrap();
        std::fs::create_dir_all(folder.join("root/tmp")).unwrap();
        folder.join("root/tmp/perf-7.map")
    }

    #[test]
    fn the_users_own_perf_map_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = process(folder.path());
        assert!(open_perf_map(folder.path()).unwrap().is_none());
        std::fs::write(path, "7f00 10 f\n").unwrap();
        assert!(open_perf_map(folder.path()).unwrap().is_some());
    }

    #[test]
    fn a_link_a_pipe_and_a_large_file_are_ignored_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = process(folder.path());
        let reason = || open_perf_map(folder.path()).unwrap_err().to_string();
        std::os::unix::fs::symlink("status", &path).unwrap();
        assert!(reason().contains("symbolic link"), "{}", reason());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(reason().contains("not a regular file"), "{}", reason());
        std::fs::remove_file(&path).unwrap();
        let large = File::create(&path).unwrap();
        large.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(reason().contains("the limit is"), "{}", reason());
    }

    #[test]
    fn so_many_entries_are_kept_and_no_more() {
        let text = "1 1 a\n".repeat(ENTRIES_MAX + 5);
        assert_eq!(parse_perf_map(&text).entries.len(), ENTRIES_MAX);
    }
}
