//! What a process has open, by purpose.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use procfs::process::{FDInfo, FDTarget};

use super::files::{self, DELETED};
use super::{Connections, HOLDERS_MAX};

/// Descriptors with a purpose in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opened {
    Connections(Connections),
    /// The other end has closed it, and the process has not (CLOSE-WAIT).
    ClosedByPeer(Connections),
    /// In no table of its network namespace: unix sockets, netlink, sockets that are not connected.
    OtherSockets,
    Pipes,
    /// In a folder.
    Files(String),
    /// eventfd, eventpoll, timerfd, inotify and the like.
    Kernel(String),
    Others,
}

impl fmt::Display for Opened {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opened::Connections(connections) => write!(to, "{connections}"),
            Opened::ClosedByPeer(connections) => {
                write!(
                    to,
                    "{connections} that the other end has closed (CLOSE-WAIT)"
                )
            }
            Opened::OtherSockets => write!(to, "other sockets"),
            Opened::Pipes => write!(to, "pipes"),
            Opened::Files(folder) => write!(to, "files in {folder}"),
            Opened::Kernel(kind) => write!(to, "{kind}"),
            Opened::Others => write!(to, "others"),
        }
    }
}

/// All descriptors of a process at one moment.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// Inodes of its sockets.
    pub sockets: HashSet<u64>,
    pub files: files::Open,
    pub opened: BTreeMap<Opened, u64>,
}

impl Descriptors {
    /// Sockets are only collected: their tables tell what they are.
    pub fn add(&mut self, pid: i32, descriptor: FDInfo) {
        let opened = match descriptor.target {
            FDTarget::Socket(inode) => {
                self.sockets.insert(inode);
                return;
            }
            FDTarget::MemFD(name) => {
                let name = format!("memfd:{}", name.trim_end_matches(DELETED));
                self.files.files.push((descriptor.fd, name));
                Opened::Kernel("memfd".to_owned())
            }
            FDTarget::AnonInode(kind) => {
                if kind.contains("inotify") {
                    self.files.watches(pid, descriptor.fd);
                }
                Opened::Kernel(kind.trim_matches(['[', ']']).to_owned())
            }
            FDTarget::Path(path) => {
                let folder = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
                let opened = Opened::Files(folder.into_owned());
                let path = path.to_string_lossy().into_owned();
                if path.ends_with(DELETED) {
                    self.files.files.push((descriptor.fd, path));
                }
                opened
            }
            FDTarget::Pipe(_) => Opened::Pipes,
            _ => Opened::Others,
        };
        *self.opened.entry(opened).or_default() += 1;
    }

    /// What there is room for; the rest together.
    pub fn largest(self) -> BTreeMap<Opened, u64> {
        let mut all: Vec<(Opened, u64)> = self.opened.into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let rest = all.split_off(all.len().min(HOLDERS_MAX));
        let mut opened: BTreeMap<Opened, u64> = all.into_iter().collect();
        let rest: u64 = rest.iter().map(|(_, count)| count).sum();
        if rest > 0 {
            *opened.entry(Opened::Others).or_default() += rest;
        }
        opened
    }
}
