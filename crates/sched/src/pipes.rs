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

/// Who has which end of a pipe, or of a pair of sockets, by what `readlink` says of it.
#[derive(Debug)]
pub struct Pipes {
    known: HashMap<(String, End), Option<String>>,
    searched_for: Duration,
    since: Instant,
}

/// Which end of a pipe an open file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Reading,
    Writing,
}

impl Pipes {
    pub fn new() -> Pipes {
        Pipes {
            known: HashMap::new(),
            searched_for: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// "vector (pid 4242)": the one other process that has the reading end open. `None` as well where several have, or
    /// where it may not be seen.
    pub fn reader_of(&mut self, pipe: &str, own: u32) -> Option<String> {
        self.asked(pipe, End::Reading, |until| reader(pipe, own, until))
    }

    /// The child that has the writing end of the pipe which `own` reads by its descriptor `fd`, where `own` has it not,
    /// by its name: there may be one for each request. A parent's pipe brings work, or its end.
    pub fn writer_of(&mut self, pipe: &str, fd: i32, own: u32) -> Option<String> {
        self.asked(pipe, End::Writing, |until| written_by(pipe, fd, own, until))
    }

    /// The child that has the other end of a pair of sockets, where `own` has it not: those are made one after the
    /// other, and so are their numbers (`socketpair` of net/socket.c).
    pub fn paired_with(&mut self, inode: u64, own: u32) -> Option<String> {
        let socket = |inode: u64| format!("socket:[{inode}]");
        let next = [inode.wrapping_sub(1), inode.wrapping_add(1)].map(socket);
        self.asked(&socket(inode), End::Writing, |until| {
            for link in &next {
                if !open_as(own, link, until)?.is_empty() {
                    return Some(None);
                }
            }
            child_that(own, |child| {
                let mut ends = next.iter().map(|link| open_as(child, link, until));
                ends.try_fold(false, |has, found| Some(has || !found?.is_empty()))
            })
        })
    }

    /// As it was found before, or by `search`, which says nothing where its time is up.
    fn asked(
        &mut self,
        link: &str,
        end: End,
        search: impl FnOnce(Instant) -> Option<Option<String>>,
    ) -> Option<String> {
        let key = (link.to_owned(), end);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let until = self.until()?;
        let begun = Instant::now();
        let found = search(until);
        self.searched_for += begun.elapsed();
        let found = found?;
        if self.known.len() >= KEPT_MAX {
            self.known.clear();
        }
        self.known.insert(key, found.clone());
        found
    }

    /// Until when may be searched; `None`: it was searched for long enough.
    fn until(&self) -> Option<Instant> {
        let allowed = SEARCHED_FOR_ALL + self.since.elapsed() / PART_OF_THE_TIME;
        (self.searched_for <= allowed).then(|| Instant::now() + SEARCHED_FOR)
    }
}

/// `None`: the time is up.
fn written_by(pipe: &str, fd: i32, own: u32, until: Instant) -> Option<Option<String>> {
    let info = fs::read_to_string(format!("/proc/{own}/fdinfo/{fd}")).unwrap_or_default();
    if !is_open_at(&info, End::Reading) || has(own, pipe, End::Writing, until)? {
        return Some(None);
    }
    child_that(own, |child| has(child, pipe, End::Writing, until))
}

/// The first of its children of which that is so, by its name; `None`: the time is up.
fn child_that(own: u32, is_so: impl Fn(u32) -> Option<bool>) -> Option<Option<String>> {
    for child in children(own) {
        if is_so(child)? {
            return Some(name_of(child));
        }
    }
    Some(None)
}

/// Those that any of its threads started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads.flatten().take(PARENTS_MAX);
    let lists = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        let pids = list.split_whitespace();
        children.extend(pids.filter_map(|pid| pid.parse::<u32>().ok()));
    }
    children
}

/// The name of a child of the process, by its number as that process or this one has it: of another PID namespace it
/// may be another's.
pub fn child_of(pid: u32, child: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{child}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    (parent.trim().parse() == Ok(pid)).then(|| name_of(child))?
}

/// What the kernel calls the process.
fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Of all processes but `own` the one that reads it; `None`: the time is up, and another one may read it as well.
fn reader(pipe: &str, own: u32, until: Instant) -> Option<Option<String>> {
    let mut only = None;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if pid != own && has(pid, pipe, End::Reading, until)? && only.replace(pid).is_some() {
            return Some(None);
        }
    }
    Some(only.and_then(|pid| Some(format!("{} (pid {pid})", name_of(pid)?))))
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
        let found = loop {
            assert!(Instant::now() < until, "it was not found");
            let reader = reader(link, own, until).flatten();
            if let Some(found) = reader.filter(|found| found.starts_with("cat")) {
                break found;
            }
        };
        assert_eq!(found, format!("cat (pid {})", child.id()));
        assert_eq!(reader(link, own, Instant::now()), None, "no time for it");
        drop(pipe);
        child.wait().unwrap();
        let mut pipes = Pipes::new();
        assert_eq!(pipes.reader_of("pipe:[0]", own), None);
        assert!(
            pipes
                .known
                .contains_key(&("pipe:[0]".to_owned(), End::Reading)),
            "remembered"
        );
        pipes.searched_for = 2 * SEARCHED_FOR_ALL;
        assert_eq!(pipes.reader_of("pipe:[1]", own), None);
        assert_eq!(pipes.known.len(), 1, "not searched any more");
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
            written_by(link.to_str().unwrap(), fd, own, until).flatten()
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
        assert_eq!(child_of(own, child.id()).as_deref(), Some("sleep"));
        assert_eq!(child_of(own, own), None);
        // A pair of its own, whose ends a child has too.
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let inherited = one.try_clone().unwrap();
        let mut heir = Command::new("sleep");
        let mut heir = heir
            .arg("20")
            .stdout(OwnedFd::from(inherited))
            .spawn()
            .unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", other.as_raw_fd()))
            .unwrap()
            .ino();
        assert_eq!(
            Pipes::new().paired_with(inode, own),
            None,
            "between its own threads"
        );
        heir.kill().unwrap();
        heir.wait().unwrap();
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
