//! Memory that the kernel holds for a process and that is in no mapping of it: data in its sockets, files in memory,
//! the kernel's own objects; and what it has open.
//!
//! In: a pid. Out: bytes by [`Holder`], descriptors by [`Opened`]. The bytes are charged to the process's cgroup, and
//! are no part of its RSS.
//!
//! ```text
//! /proc/PID/fd  --> descriptors --> sockets: /proc/PID/net/{tcp,tcp6,udp,udp6} --> unread, unsent
//!                              \--> unnamed: memfd_create, deleted files
//! /proc/PID/mountinfo           --> files: tmpfs mounts, by what is directly in them
//! /proc/PID/cgroup              --> charged: memory.stat, where the cgroup is the process's own
//! ```

mod charged;
mod descriptors;
mod files;
mod sockets;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use procfs::process::{LimitValue, Process};

use crate::smaps::Area;
use descriptors::Descriptors;
pub use descriptors::Opened;

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
    /// What the kernel itself keeps for the cgroup of which it is the only process.
    Kernel(Charge),
}

/// Of what the kernel keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Charge {
    /// Of files on disks, read or written.
    PageCache,
    /// Dentries and inodes, and other objects that can be given back.
    NamesOfFiles,
    /// Objects that cannot: open files, sockets, pipes, epoll and inotify watches, queued signals.
    Objects,
    /// Of threads.
    Stacks,
    PageTables,
    PerCpu,
    Vmalloc,
    SocketBuffers,
    /// Of the kernel, and none of these: the data in pipes.
    Rest,
    /// All of these but the page cache; cgroups of version 1 do not tell them from each other.
    AllOfKernel,
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
            Holder::Kernel(charge) if charge.is_cache() => "cache",
            Holder::Kernel(_) => "kernel",
        }
    }

    /// All others of its kind.
    fn others(&self) -> Holder {
        match self {
            Holder::Unread(_) => Holder::Unread(Connections::Others),
            Holder::Unsent(_) => Holder::Unsent(Connections::Others),
            Holder::Files(_) => Holder::Files("other files".to_owned()),
            Holder::Unnamed(_) => Holder::Unnamed("(others)".to_owned()),
            Holder::Kernel(charge) => Holder::Kernel(*charge),
        }
    }

    pub fn is_of_sockets(&self) -> bool {
        matches!(self, Holder::Unread(_) | Holder::Unsent(_))
    }

    /// Given back when memory is short: no growth of it is a fault.
    pub fn is_cache(&self) -> bool {
        matches!(self, Holder::Kernel(charge) if charge.is_cache())
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Charge::PageCache => "page cache",
            Charge::NamesOfFiles => {
                "the kernel's cache of file names and inodes (slab_reclaimable)"
            }
            Charge::Objects => "objects of the kernel (slab_unreclaimable)",
            Charge::Stacks => "kernel stacks of threads",
            Charge::PageTables => "page tables",
            Charge::PerCpu => "the kernel's memory for each CPU (percpu)",
            Charge::Vmalloc => "large buffers of the kernel (vmalloc)",
            Charge::SocketBuffers => "socket buffers",
            Charge::Rest => "other memory of the kernel, as data in pipes",
            Charge::AllOfKernel => "memory of the kernel (memory.kmem)",
        })
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
            Holder::Kernel(charge) => write!(to, "{charge}"),
        }
    }
}

/// One reading. Bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    pub held: BTreeMap<Holder, u64>,
    /// What the kernel keeps is among it: the process was alone in its cgroup.
    pub is_alone: bool,
    /// Open descriptors.
    pub opened: BTreeMap<Opened, u64>,
    /// How many it may have open (RLIMIT_NOFILE); `None`: there is no limit, or it may not be read.
    pub open_max: Option<u64>,
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
    charged: charged::Reader,
}

impl Reader {
    pub fn new(pid: i32) -> Reader {
        let now = Instant::now();
        Reader {
            pid,
            begin: now,
            due: now,
            files: files::Reader::default(),
            charged: charged::Reader::default(),
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
        let mut descriptors = Descriptors::default();
        for descriptor in process.fd().ok()?.filter_map(Result::ok) {
            descriptors.add(self.pid, descriptor);
        }
        let mut held = BTreeMap::new();
        if !descriptors.sockets.is_empty() {
            sockets::add(&process, &mut descriptors, &mut held);
        }
        self.files
            .add(&process, &descriptors.files, areas, &mut held);
        let is_alone = self.charged.add(&process, &mut held);
        let limits = process.limits().ok();
        let open_max = limits.and_then(|limits| match limits.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        });
        Some(Outside {
            held: largest(held),
            is_alone,
            opened: descriptors.largest(),
            open_max,
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
