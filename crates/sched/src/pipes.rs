//! Who has the other end of a pipe: a collector of logs that reads it, the next command of a pipeline; a child that
//! writes to it.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Pipes of which it is remembered.
const KEPT_MAX: usize = 256;
/// For one pipe: all open files of all processes are gone through, some microseconds each, and what the kernel tells of
/// threads meanwhile waits in its ring.
const SEARCHED_FOR: Duration = Duration::from_millis(20);
/// For all pipes of a watch, and this part of its time: a service may start a child for each request.
const SEARCHED_FOR_ALL: Duration = Duration::from_millis(200);
const PART_OF_THE_TIME: u32 = 200;
/// The last two bits of the flags of an open file: how it is opened (`O_ACCMODE` of open(2)).
const ACCESS: u32 = 3;
/// Threads whose children are asked for.
const PARENTS_MAX: usize = 256;

/// By what `readlink` says of the pipe.
#[derive(Debug)]
pub struct Pipes {
    readers: HashMap<String, Option<String>>,
    writers: HashMap<String, Option<String>>,
    /// By the number of the one that is asked about.
    pairs: HashMap<u64, Option<String>>,
    searched_for: Duration,
    since: Instant,
}

/// Which end of a pipe an open file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Reading,
    Writing,
}

impl Pipes {
    pub fn new() -> Pipes {
        Pipes {
            readers: HashMap::new(),
            writers: HashMap::new(),
            pairs: HashMap::new(),
            searched_for: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// "vector (pid 4242)": the one other process that has the reading end open. `None` as well where several have, or
    /// where it may not be seen.
    pub fn reader_of(&mut self, pipe: &str, own: u32) -> Option<String> {
        if let Some(known) = self.readers.get(pipe) {
            return known.clone();
        }
        let until = self.until()?;
        let begun = Instant::now();
        let found = search(pipe, own, End::Reading, until);
        self.searched_for += begun.elapsed();
        if self.readers.len() >= KEPT_MAX {
            self.readers.clear();
        }
        self.readers.insert(pipe.to_owned(), found.clone());
        found
    }

    /// The child that has the writing end of the pipe which `own` reads by its descriptor `fd`, where `own` has it not,
    /// by its name: there may be one for each request. A parent's pipe brings work, or its end.
    pub fn writer_of(&mut self, pipe: &str, fd: i32, own: u32) -> Option<String> {
        if let Some(known) = self.writers.get(pipe) {
            return known.clone();
        }
        let until = self.until()?;
        let begun = Instant::now();
        let found = written_by(pipe, fd, own, until);
        self.searched_for += begun.elapsed();
        if self.writers.len() >= KEPT_MAX {
            self.writers.clear();
        }
        self.writers.insert(pipe.to_owned(), found.clone());
        found
    }

    /// The child that has the other end of a pair of sockets: those are made one after the other, and so are their
    /// numbers (`socketpair` of net/socket.c).
    pub fn paired_with(&mut self, inode: u64, own: u32) -> Option<String> {
        let socket = |inode: u64| format!("socket:[{inode}]");
        if let Some(known) = self.pairs.get(&inode) {
            return known.clone();
        }
        let until = self.until()?;
        let begun = Instant::now();
        let next = [inode.wrapping_sub(1), inode.wrapping_add(1)].map(socket);
        let has_it = |pid: &u32| {
            let mut ends = next.iter();
            ends.any(|link| open_as(*pid, link, until).is_some_and(|fds| !fds.is_empty()))
        };
        let child = children(own).into_iter().find(has_it);
        let found = child.and_then(name_of);
        self.searched_for += begun.elapsed();
        if self.pairs.len() >= KEPT_MAX {
            self.pairs.clear();
        }
        self.pairs.insert(inode, found.clone());
        found
    }

    /// Until when may be searched; `None`: it was searched for long enough.
    fn until(&self) -> Option<Instant> {
        let allowed = SEARCHED_FOR_ALL + self.since.elapsed() / PART_OF_THE_TIME;
        (self.searched_for <= allowed).then(|| Instant::now() + SEARCHED_FOR)
    }
}

fn written_by(pipe: &str, fd: i32, own: u32, until: Instant) -> Option<String> {
    let info = fs::read_to_string(format!("/proc/{own}/fdinfo/{fd}")).ok()?;
    let is_read = is_open_at(&info, End::Reading);
    if !is_read || has(own, pipe, End::Writing, until)? {
        return None;
    }
    let writes = |pid: &u32| has(*pid, pipe, End::Writing, until) == Some(true);
    children(own).into_iter().find(writes).and_then(name_of)
}

/// Those that any of its threads started.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads.flatten().take(PARENTS_MAX);
    let lists = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        children.extend(
            list.split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    children
}

/// What the kernel calls the process.
pub fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// `None` too where the time is up: another process may have it as well.
fn search(pipe: &str, own: u32, end: End, until: Instant) -> Option<String> {
    let mut only = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|pid| *pid != own) else {
            continue;
        };
        if has(pid, pipe, end, until)? && only.replace(pid).is_some() {
            return None;
        }
    }
    let pid = only?;
    Some(format!("{} (pid {pid})", name_of(pid)?))
}

/// `None`: the time is up.
fn has(pid: u32, pipe: &str, end: End, until: Instant) -> Option<bool> {
    let is_at_end = |number: &String| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
        info.is_ok_and(|info| is_open_at(&info, end))
    };
    Some(open_as(pid, pipe, until)?.iter().any(is_at_end))
}

/// The descriptors of a process with this link; `None`: the time is up.
fn open_as(pid: u32, link: &str, until: Instant) -> Option<Vec<String>> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Some(Vec::new());
    };
    let mut found = Vec::new();
    for file in files.flatten() {
        if Instant::now() > until {
            return None;
        }
        if fs::read_link(file.path()).is_ok_and(|of| of.as_os_str() == link) {
            found.push(file.file_name().to_string_lossy().into_owned());
        }
    }
    Some(found)
}

/// By a line as "flags:\t0100000", in octal (proc_pid_fdinfo(5)).
fn is_open_at(info: &str, end: End) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let other = match end {
        End::Reading => 1,
        End::Writing => 0,
    };
    flags.is_some_and(|flags| flags & ACCESS != other)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;
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
            let reader = search(link, own, End::Reading, until);
            if let Some(reader) = reader.filter(|reader| reader.starts_with("cat")) {
                break reader;
            }
        };
        assert_eq!(reader, format!("cat (pid {})", child.id()));
        assert_eq!(
            search(link, own, End::Reading, Instant::now()),
            None,
            "no time for it"
        );
        drop(pipe);
        child.wait().unwrap();
        let mut pipes = Pipes::new();
        assert_eq!(pipes.reader_of("pipe:[0]", own), None);
        assert!(pipes.readers.contains_key("pipe:[0]"), "remembered");
        pipes.searched_for = 2 * SEARCHED_FOR_ALL;
        assert_eq!(pipes.reader_of("pipe:[1]", own), None);
        assert_eq!(pipes.readers.len(), 1, "not searched any more");
    }

    #[test]
    fn a_pipe_that_a_child_writes_to_is_another_processs() {
        let mut child = Command::new("sleep")
            .arg("20")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stdout.take().unwrap();
        let (ours, theirs) = std::io::pipe().unwrap();
        let own = std::process::id();
        let until = Instant::now() + Duration::from_secs(20);
        let writer = |fd: i32| {
            let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            written_by(link.to_str().unwrap(), fd, own, until)
        };
        // Until its exec the child has this process's name.
        while writer(pipe.as_raw_fd()).as_deref() != Some("sleep") {
            assert!(Instant::now() < until, "it was not found");
        }
        assert_eq!(writer(ours.as_raw_fd()), None, "between its own threads");
        assert_eq!(writer(theirs.as_raw_fd()), None, "nothing is read from it");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_pair_of_sockets_is_shared_with_the_child_that_has_the_other_end() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let inode = |fd: i32| fs::metadata(format!("/proc/self/fd/{fd}")).unwrap().ino();
        let (inode, own) = (inode(ours.as_raw_fd()), std::process::id());
        let child = Command::new("sleep")
            .arg("20")
            .stdout(OwnedFd::from(theirs))
            .spawn();
        let mut child = child.unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while Pipes::new().paired_with(inode, own).as_deref() != Some("sleep") {
            assert!(Instant::now() < until, "it was not found");
        }
        assert_eq!(Pipes::new().paired_with(inode + 1_000, own), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_writing_end_does_not_read() {
        assert!(is_open_at(
            "pos:\t0\nflags:\t0100000\nmnt_id:\t15\n",
            End::Reading
        ));
        assert!(!is_open_at("pos:\t0\nflags:\t0100001\n", End::Reading));
        assert!(
            is_open_at("flags:\t02\n", End::Reading),
            "a pipe by its name may be both"
        );
        assert!(!is_open_at("pos:\t0\n", End::Reading));
    }
}
