//! What an epoll waits for, from what the kernel tells of it (fdinfo of proc_pid_fdinfo(5)).

use std::fs::File;
use std::io::{self, Read};

use procfs::process::Process;

/// Of the text; a line has some 80.
const INFO_BYTES_MAX: u64 = 16 * 1024;
/// To be read of one.
const WATCHED_MAX: usize = 64;
/// The kernel holds the epoll's lock while it writes a line for each descriptor (`ep_show_fdinfo` of fs/eventpoll.c),
/// 0.1 us or so: no process with more open files than this is asked.
const OPEN_FILES_MAX: usize = 1_024;

/// Its descriptors; `None`: there are too many.
///
/// # Errors
/// It is closed, or the process has ended.
pub fn watched_by(pid: u32, epoll: i32) -> io::Result<Option<Vec<i32>>> {
    let process = i32::try_from(pid).map_err(io::Error::other)?;
    let status = Process::new(process).and_then(|process| process.status());
    if status.map_err(io::Error::other)?.fdsize as usize > OPEN_FILES_MAX {
        return Ok(None);
    }
    let file = File::open(format!("/proc/{pid}/fdinfo/{epoll}"))?;
    let mut text = String::new();
    file.take(INFO_BYTES_MAX).read_to_string(&mut text)?;
    let fds = parse_watched(&text);
    Ok((fds.len() <= WATCHED_MAX).then_some(fds))
}

/// The descriptors in lines as "tfd:        8 events:       19 data: ...".
fn parse_watched(text: &str) -> Vec<i32> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    let fds = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
    fds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_epoll_watches_is_read_of_its_lines() {
        // Linux 6.18.
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1\n\
            tfd:        9 events: 80000019 data: 0  pos:0 ino:a2f1 sdev:8\n\
            tfd:       12 events:       19 data: 7f  pos:0 ino:1 sdev:10\ntfd: x\n";
        assert_eq!(parse_watched(text), [9, 12]);
    }
}
