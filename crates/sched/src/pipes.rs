//! Who reads a pipe that the subject writes to: a collector of logs, the next command of a pipeline.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Pipes of which it is remembered.
const KEPT_MAX: usize = 64;
/// For one pipe: all open files of all processes are gone through, some microseconds each, and what the kernel tells of
/// threads meanwhile waits in its ring.
const SEARCHED_FOR: Duration = Duration::from_millis(20);
/// For all pipes of a watch.
const SEARCHED_FOR_ALL: Duration = Duration::from_millis(200);
/// The last two bits of the flags of an open file; 0: it is read (`O_ACCMODE` of open(2)).
const ACCESS: u32 = 3;

/// By what `readlink` says of the pipe.
#[derive(Debug, Default)]
pub struct Pipes {
    readers: HashMap<String, Option<String>>,
    searched_for: Duration,
}

impl Pipes {
    /// "vector (pid 4242)": the one other process that has the reading end open. `None` as well where several have, or
    /// where it may not be seen.
    pub fn reader_of(&mut self, pipe: &str, own: u32) -> Option<String> {
        if let Some(known) = self.readers.get(pipe) {
            return known.clone();
        }
        if self.readers.len() >= KEPT_MAX {
            self.readers.clear();
        }
        if self.searched_for > SEARCHED_FOR_ALL {
            return None;
        }
        let begun = Instant::now();
        let found = search(pipe, own, begun + SEARCHED_FOR);
        self.searched_for += begun.elapsed();
        self.readers.insert(pipe.to_owned(), found.clone());
        found
    }
}

/// `None` too where the time is up: another process may read it as well.
fn search(pipe: &str, own: u32, until: Instant) -> Option<String> {
    let mut only = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|pid| *pid != own) else {
            continue;
        };
        if reads(pid, pipe, until)? && only.replace(pid).is_some() {
            return None;
        }
    }
    let pid = only?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} (pid {pid})", name.trim_end()))
}

/// `None`: the time is up.
fn reads(pid: u32, pipe: &str, until: Instant) -> Option<bool> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Some(false);
    };
    for file in files.flatten() {
        if Instant::now() > until {
            return None;
        }
        let link = fs::read_link(file.path()).unwrap_or_default();
        if link.as_os_str() != pipe {
            continue;
        }
        let number = file.file_name();
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy()));
        if info.is_ok_and(|info| is_read(&info)) {
            return Some(true);
        }
    }
    Some(false)
}

/// By a line as "flags:\t0100000", in octal (proc_pid_fdinfo(5)).
fn is_read(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != 1)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_other_end_of_a_pipe_is_another_process() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = child.stdin.take().unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).unwrap();
        let (link, own) = (link.to_str().unwrap(), std::process::id());
        let until = Instant::now() + Duration::from_secs(20);
        // Between its fork and its exec the child has this process's files, too, and its name.
        let reader = loop {
            assert!(Instant::now() < until, "it was not found");
            let reader = search(link, own, until);
            if let Some(reader) = reader.filter(|reader| reader.starts_with("cat")) {
                break reader;
            }
        };
        assert_eq!(reader, format!("cat (pid {})", child.id()));
        assert_eq!(search(link, own, Instant::now()), None, "no time for it");
        drop(pipe);
        child.wait().unwrap();
        let mut pipes = Pipes::default();
        assert_eq!(pipes.reader_of("pipe:[0]", own), None);
        assert!(pipes.readers.contains_key("pipe:[0]"), "remembered");
        pipes.searched_for = 2 * SEARCHED_FOR_ALL;
        assert_eq!(pipes.reader_of("pipe:[1]", own), None);
        assert_eq!(pipes.readers.len(), 1, "not searched any more");
    }

    #[test]
    fn the_writing_end_does_not_read() {
        assert!(is_read("pos:\t0\nflags:\t0100000\nmnt_id:\t15\n"));
        assert!(!is_read("pos:\t0\nflags:\t0100001\n"));
        assert!(is_read("flags:\t02\n"), "a pipe by its name may be both");
        assert!(!is_read("pos:\t0\n"));
    }
}
