//! Memory that the kernel holds for a process and that is in no mapping of it: data in its sockets, files in memory.
//!
//! In: a pid. Out: bytes by [`Holder`]. It is charged to the process's cgroup, and is no part of its RSS.
//!
//! ```text
//! /proc/PID/fd  --> descriptors --> sockets: /proc/PID/net/{tcp,tcp6,udp,udp6} --> unread, unsent
//!                              \--> unnamed: memfd_create, deleted files
//! /proc/PID/mountinfo           --> files: tmpfs mounts, by what is directly in them
//! ```

mod files;
mod sockets;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use procfs::process::{FDTarget, Process};

use crate::smaps::Area;

/// From one reading to the next, at the least: so many times what one takes.
const COSTS: u32 = 10;
/// And this part of the time since the first: whenever an observation ends, its growth can be judged from about thirty
/// readings, and the longer it is the less of a core they take.
const PART: u32 = 16;
/// Holders that a reading keeps, those with most: a process may have a connection to each of many addresses.
const HOLDERS_MAX: usize = 256;

/// What holds memory outside of a process's mappings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// Data that came, and that the process has not read yet.
    Unread(Connections),
    /// Data that the process has written, and that the other end has not taken yet.
    Unsent(Connections),
    /// Files of its user in a file system in memory: what is directly in one, or a whole one that has many.
    Files(String),
    /// Open files in memory that have no name: from memfd_create, or deleted.
    Unnamed(String),
}

/// Sockets that have a purpose in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Connections {
    /// Of TCP, accepted on a port.
    AcceptedOn(u16),
    /// Of TCP, to an address.
    To(String),
    /// Of UDP, bound to a port.
    Udp(u16),
    /// The rest, where there are many.
    Others,
}

impl Holder {
    /// As in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Holder::Unread(_) => "unread",
            Holder::Unsent(_) => "unsent",
            Holder::Files(_) => "files",
            Holder::Unnamed(_) => "unnamed_files",
        }
    }

    /// All others of its kind.
    fn others(&self) -> Holder {
        match self {
            Holder::Unread(_) => Holder::Unread(Connections::Others),
            Holder::Unsent(_) => Holder::Unsent(Connections::Others),
            Holder::Files(_) => Holder::Files("other files".to_owned()),
            Holder::Unnamed(_) => Holder::Unnamed("(others)".to_owned()),
        }
    }

    pub fn is_of_sockets(&self) -> bool {
        matches!(self, Holder::Unread(_) | Holder::Unsent(_))
    }
}

impl fmt::Display for Connections {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connections::AcceptedOn(port) => write!(to, "connections accepted on port {port}"),
            Connections::To(address) => write!(to, "connections to {address}"),
            Connections::Udp(port) => write!(to, "the UDP socket on port {port}"),
            Connections::Others => write!(to, "other connections"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Unread(connections) => write!(to, "unread data of {connections}"),
            Holder::Unsent(connections) => write!(to, "unsent data of {connections}"),
            Holder::Files(path) => write!(to, "{path} in memory (tmpfs)"),
            Holder::Unnamed(name) => write!(to, "the open file {name} in memory"),
        }
    }
}

/// One reading. Bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    pub held: BTreeMap<Holder, u64>,
    /// All that the process has written by system calls so far, to files and sockets; `None`: it may not be read.
    pub written_bytes: Option<u64>,
}

/// Reads it again and again, as often as that costs next to nothing.
#[derive(Debug)]
pub struct Reader {
    pid: i32,
    begin: Instant,
    due: Instant,
    files: files::Reader,
}

impl Reader {
    pub fn new(pid: i32) -> Reader {
        let now = Instant::now();
        Reader {
            pid,
            begin: now,
            due: now,
            files: files::Reader::default(),
        }
    }

    /// `None`: it is not due yet, or may not be read. `areas`: what is mapped, and counted there.
    pub fn read(&mut self, areas: &[Area]) -> Option<Outside> {
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        let read = self.read_now(areas);
        let cost = now.elapsed();
        let apart = Duration::max(cost * COSTS, self.begin.elapsed() / PART);
        self.due = now + apart;
        read
    }

    fn read_now(&mut self, areas: &[Area]) -> Option<Outside> {
        let process = Process::new(self.pid).ok()?;
        let descriptors = process.fd().ok()?.filter_map(Result::ok);
        let (mut own, mut open) = (HashSet::new(), files::Open::default());
        for descriptor in descriptors {
            match descriptor.target {
                FDTarget::Socket(inode) => drop(own.insert(inode)),
                FDTarget::MemFD(name) => open.files.push((
                    descriptor.fd,
                    format!("memfd:{}", name.trim_end_matches(files::DELETED)),
                )),
                FDTarget::AnonInode(kind) if kind.contains("inotify") => {
                    open.watches(self.pid, descriptor.fd);
                }
                FDTarget::Path(path) => {
                    let path = path.to_string_lossy().into_owned();
                    if path.ends_with(files::DELETED) {
                        open.files.push((descriptor.fd, path));
                    }
                }
                _ => {}
            }
        }
        let mut held = BTreeMap::new();
        if !own.is_empty() {
            sockets::add(&process, &own, &mut held);
        }
        self.files.add(&process, &open, areas, &mut held);
        Some(Outside {
            held: largest(held),
            written_bytes: process.io().ok().map(|io| io.wchar),
        })
    }
}

/// What there is room for; the rest by kind.
fn largest(held: BTreeMap<Holder, u64>) -> BTreeMap<Holder, u64> {
    let mut all: Vec<(Holder, u64)> = held.into_iter().collect();
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let rest = all.split_off(all.len().min(HOLDERS_MAX));
    let mut held: BTreeMap<Holder, u64> = all.into_iter().collect();
    for (holder, bytes) in rest {
        *held.entry(holder.others()).or_default() += bytes;
    }
    held
}

#[cfg(test)]
mod tests;
