//! What a file descriptor of the subject is: a file, a connection that a client opened, one that
//! the subject opened, something between its own threads.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};

use super::epolls;
use super::file_locks::FileLocks;
use super::pipes::{Pipes, child_of};
use super::sockets::{Found, Local, Sockets};
use super::unsent::HeldBack;

/// A number may be closed and used anew, by a server of a connection for each request at once: what was read is
/// believed this long.
const BELIEVED: Duration = Duration::from_millis(50);
const KEPT_MAX: usize = 8_192;
/// Connections come and go. One that has had clients is a server's, though they may be gone by the time that it is
/// read.
const BELIEVED_OF_EPOLLS: Duration = Duration::from_millis(250);
/// Descriptors up to this one are somebody else's: a service may be spoken to by its standard input.
const STANDARD_ERROR: i32 = 2;
/// libuv's loops have one for their files (Node 20).
const IO_URING: &str = "anon_inode:[io_uring]";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File,
    /// A listening socket, one that takes datagrams of anybody, or one whose local port or name the subject listens on.
    Inbound,
    Outbound,
    /// Pipe, terminal, eventfd, socket pair: another thread answers, or nobody does.
    Between,
    /// The reading end of a pipe of which a child has the writing end, a socket of a pair whose other one a child has,
    /// or a child itself (pidfd_open(2)).
    Process,
    Timer,
    Epoll,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub kind: Kind,
    /// Path, or the peer's address: of a connection that it opened with the port. Of a process what is read from.
    pub name: String,
    /// A connection that one client opened: neither one that is listened at, nor one that gets datagrams of all.
    pub one_client: bool,
    /// A connection over a network, the machine's own included.
    pub of_network: bool,
}

impl Descriptor {
    fn of(kind: Kind, name: String) -> Descriptor {
        Descriptor {
            kind,
            name,
            one_client: false,
            of_network: false,
        }
    }
}

/// What is waited for together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Clients are among it.
    Clients,
    /// The connection of one client, and perhaps words of the program's own: who waits so has no other client.
    OneClient,
    /// No peer, or something of which it is not known who ends the wait: a timer, a connection that is just being made.
    Unknown,
    /// No peer and no client, but another process, the first of them as [`Descriptor::name`] has it.
    Process(String),
    Peers(Peers),
}

/// Connections that the subject opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    pub first: String,
    /// Different ones.
    pub count: usize,
    /// Nothing but those, nor a word of the subject's own threads.
    pub alone: bool,
    /// Each is over a network.
    pub of_network: bool,
}

impl Peers {
    /// Before what is done with them.
    pub fn network(&self) -> &'static str {
        network_of(self.of_network)
    }
}

pub fn network_of(is_of_network: bool) -> &'static str {
    match is_of_network {
        true => "network ",
        false => "",
    }
}

impl Watched {
    pub fn peers(self) -> Option<Peers> {
        match self {
            Watched::Peers(peers) => Some(peers),
            Watched::Clients | Watched::OneClient | Watched::Unknown | Watched::Process(_) => None,
        }
    }
}

pub struct Descriptors {
    pid: u32,
    known: HashMap<i32, (Instant, Descriptor)>,
    sockets: Sockets,
    epolls: HashMap<i32, (Instant, Watched)>,
    /// By the number of a mount, whether its files are this machine's.
    mounts: HashMap<u64, bool>,
    locks: FileLocks,
    pipes: Pipes,
}

/// Of a process's mounts, and of the text about a descriptor.
const MOUNTS_BYTES_MAX: u64 = 1 << 20;
const MOUNTS_MAX: usize = 4_096;
/// Where nobody is asked about a file but this kernel: a server may be what the subject waits for.
const LOCAL: [&str; 9] = [
    "btrfs", "devpts", "devtmpfs", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs",
];

impl Descriptors {
    pub fn of(pid: u32) -> Descriptors {
        Descriptors {
            pid,
            known: HashMap::new(),
            sockets: Sockets::of(pid),
            epolls: HashMap::new(),
            mounts: HashMap::new(),
            locks: FileLocks::default(),
            pipes: Pipes::new(),
        }
    }

    /// What several descriptors are together.
    pub fn watched(&mut self, fds: &[i32]) -> Watched {
        let mut names = Vec::new();
        let (mut process, mut certain) = (None, true);
        let (mut alone, mut known, mut has_client, mut network) = (true, true, false, true);
        for fd in fds {
            let Descriptor {
                kind,
                name,
                one_client,
                of_network,
            } = self.describe(*fd);
            match kind {
                Kind::Outbound => {
                    names.push(name);
                    network &= of_network;
                }
                Kind::Inbound if one_client && !has_client => has_client = true,
                Kind::Inbound => return Watched::Clients,
                Kind::Between if self.may_have_called(*fd, &name) => return Watched::Clients,
                Kind::Between if self.is_own(&name) && !name.starts_with('/') => alone = false,
                Kind::Process => {
                    alone = false;
                    process.get_or_insert(name);
                }
                Kind::Between | Kind::Timer | Kind::Epoll | Kind::File | Kind::Unknown => {
                    known = false;
                    certain &= name == IO_URING;
                }
            }
        }
        if has_client {
            return Watched::OneClient;
        }
        if let Some(process) = process.filter(|_| names.is_empty() && certain) {
            return Watched::Process(process);
        }
        let Some(first) = names.first().cloned().filter(|_| known) else {
            return Watched::Unknown;
        };
        names.sort_unstable();
        names.dedup();
        let count = names.len();
        Watched::Peers(Peers {
            first,
            count,
            alone,
            of_network: network,
        })
    }

    /// A connection that one client opened, or one that somebody on the machine may have called; `None`: it is closed,
    /// or not known yet.
    pub fn takes_requests(&mut self, fd: i32) -> Option<bool> {
        let descriptor = self.describe(fd);
        match descriptor.kind {
            Kind::Inbound => Some(descriptor.one_client),
            Kind::Outbound | Kind::Between | Kind::Process => Some(false),
            Kind::File | Kind::Timer | Kind::Epoll | Kind::Unknown => None,
        }
    }

    /// The kernel's sockets bring what others did, and others may write to the standard input.
    fn may_have_called(&self, fd: i32, name: &str) -> bool {
        match name.starts_with("socket:") {
            true => self.sockets.local(inode_of(name)) == Some(&Local::OfTheKernel),
            false => fd <= STANDARD_ERROR,
        }
    }

    fn is_own(&self, name: &str) -> bool {
        !name.starts_with("socket:") || self.sockets.local(inode_of(name)) == Some(&Local::Nameless)
    }

    /// An epoll's peers, where clients are not, and never were, among what it waits for.
    pub fn of_epoll(&mut self, epoll: i32) -> Watched {
        if let Some((when, known)) = self.epolls.get(&epoll)
            && (*known == Watched::Clients || when.elapsed() < BELIEVED_OF_EPOLLS)
        {
            return known.clone();
        }
        let watched = match epolls::watched_by(self.pid, epoll) {
            Ok(Some(fds)) => self.watched(&fds),
            Ok(None) => Watched::Clients,
            // A loop within the loop has one of its own, and the next one may get its number.
            Err(_) => return Watched::Unknown,
        };
        if self.epolls.len() >= KEPT_MAX {
            self.epolls.clear();
        }
        self.epolls.insert(epoll, (Instant::now(), watched.clone()));
        watched
    }

    pub fn describe(&mut self, fd: i32) -> Descriptor {
        if let Some((when, descriptor)) = self.known.get(&fd)
            && when.elapsed() < BELIEVED
        {
            return descriptor.clone();
        }
        let link = std::fs::read_link(format!("/proc/{}/fd/{fd}", self.pid));
        let target = link.map(|path| path.to_string_lossy().into_owned());
        let descriptor = match target {
            Ok(target) => self.classify(fd, &target),
            // Closed since: what the number was before is the best that can be said.
            Err(_) => match self.known.get(&fd) {
                Some((_, before)) => return before.clone(),
                None => Descriptor::of(Kind::Unknown, format!("descriptor {fd}")),
            },
        };
        // A connection that is in no table yet is looked up again the next time.
        let nameless = descriptor.kind == Kind::Between && descriptor.name.starts_with("socket:");
        let young = nameless && self.sockets.local(inode_of(&descriptor.name)).is_none();
        if young || descriptor.kind == Kind::Unknown {
            return descriptor;
        }
        if self.known.len() >= KEPT_MAX {
            self.known.clear();
        }
        self.known.insert(fd, (Instant::now(), descriptor.clone()));
        descriptor
    }

    fn classify(&mut self, fd: i32, target: &str) -> Descriptor {
        let kind = match target {
            _ if target.starts_with('/') && self.has_another_end(fd) => Kind::Between,
            _ if target.starts_with('/') => Kind::File,
            _ if target.starts_with("pipe:") => return self.pipe(fd, target),
            "anon_inode:[pidfd]" => return self.process(fd),
            "anon_inode:[eventfd]" => Kind::Between,
            "anon_inode:[eventpoll]" => Kind::Epoll,
            "anon_inode:[timerfd]" => Kind::Timer,
            _ if target.starts_with("socket:[") => return self.socket(fd, target),
            _ => Kind::Unknown,
        };
        Descriptor::of(kind, target.to_string())
    }

    /// Why a peer has not got all that the subject wrote to this connection.
    pub fn held_back(&self, fd: i32) -> Option<HeldBack> {
        let link = std::fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)).ok()?;
        // Of a file that has its number by now no copy is made: to close that may block.
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        self.sockets.held_back(fd, inode.parse().ok()?)
    }

    /// Another process that has a lock of a file on this machine.
    pub fn locked_by(&mut self, fd: i32) -> Option<String> {
        if !self.is_on_this_machine(fd) {
            return None;
        }
        let path = format!("/proc/{}/fd/{fd}", self.pid);
        let file = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
        let file = (file.stx_dev_major, file.stx_dev_minor, file.stx_ino);
        self.locks.holder_of(file, self.pid)
    }

    /// What is spoken to by its standard input has its work from there.
    fn pipe(&mut self, fd: i32, target: &str) -> Descriptor {
        let is_others = fd <= STANDARD_ERROR;
        let writer = match is_others {
            true => None,
            false => self.pipes.writer_of(target, fd, self.pid),
        };
        match writer {
            Some(child) => Descriptor::of(Kind::Process, format!("a pipe that {child} writes to")),
            None => Descriptor::of(Kind::Between, target.to_owned()),
        }
    }

    /// Of a child; any other one may be there to tell of its end.
    fn process(&self, fd: i32) -> Descriptor {
        let pid = self.process_of(fd).and_then(|pid| u32::try_from(pid).ok());
        match pid.and_then(|pid| child_of(self.pid, pid)) {
            Some(name) => Descriptor::of(Kind::Process, name),
            None => Descriptor::of(Kind::Unknown, "another process".to_owned()),
        }
    }

    /// The number of the process that such a descriptor stands for.
    pub fn process_of(&self, fd: i32) -> Option<i32> {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.pid)).ok()?;
        let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
        number.trim().parse().ok()
    }

    /// The other process that reads what the subject writes to this pipe.
    pub fn read_by(&mut self, pipe: &str) -> Option<String> {
        self.pipes.reader_of(pipe, self.pid)
    }

    /// A pipe with a name, a terminal: no file is read or written.
    fn has_another_end(&mut self, fd: i32) -> bool {
        if !self.is_on_this_machine(fd) {
            return false;
        }
        let path = format!("/proc/{}/fd/{fd}", self.pid);
        let found = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        let kind = found.map(|file| FileType::from_raw_mode(file.stx_mode.into()));
        kind.is_ok_and(|kind| matches!(kind, FileType::Fifo | FileType::CharacterDevice))
    }

    fn is_on_this_machine(&mut self, fd: i32) -> bool {
        let text = |name: &str| {
            let mut text = String::new();
            let file = File::open(format!("/proc/{}/{name}", self.pid)).ok()?;
            file.take(MOUNTS_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let Some(mount) = text(&format!("fdinfo/{fd}")).and_then(|info| mount_of(&info)) else {
            return false;
        };
        if let Some(known) = self.mounts.get(&mount) {
            return *known;
        }
        let is_local = text("mountinfo").is_some_and(|mounts| is_local(&mounts, mount));
        if self.mounts.len() >= MOUNTS_MAX {
            self.mounts.clear();
        }
        self.mounts.insert(mount, is_local);
        is_local
    }

    fn socket(&mut self, fd: i32, target: &str) -> Descriptor {
        let inode = inode_of(target);
        let Some(Found { socket, taken_in }) = self.sockets.find(fd, inode) else {
            return self.local_socket(inode, target);
        };
        // A client's port is another one with each connection, and says nothing.
        let (kind, name) = match taken_in {
            true => (Kind::Inbound, format!("a client at {}", socket.peer)),
            false => (
                Kind::Outbound,
                format!("{}:{}", socket.peer, socket.peer_port),
            ),
        };
        Descriptor {
            one_client: taken_in && socket.peer_port != 0,
            of_network: true,
            ..Descriptor::of(kind, name)
        }
    }

    /// Of no network, or in no table yet.
    fn local_socket(&mut self, inode: u64, target: &str) -> Descriptor {
        let local = self.sockets.local(inode).cloned();
        match local {
            Some(Local::Called {
                name,
                by_one_client,
            }) => Descriptor {
                one_client: by_one_client,
                ..Descriptor::of(Kind::Inbound, format!("a client of {name}"))
            },
            Some(Local::Calls(name)) => Descriptor::of(Kind::Outbound, name),
            Some(Local::Nameless) => match self.pipes.paired_with(inode, self.pid) {
                Some(child) => Descriptor::of(Kind::Process, format!("a socket that {child} has")),
                None => Descriptor::of(Kind::Between, target.to_string()),
            },
            Some(Local::OfTheKernel) | None => Descriptor::of(Kind::Between, target.to_string()),
        }
    }
}

/// The number in "mnt_id:\t27".
fn mount_of(info: &str) -> Option<u64> {
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    number.trim().parse().ok()
}

/// By lines as "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw" (proc_pid_mountinfo(5)).
fn is_local(mounts: &str, number: u64) -> bool {
    let number = number.to_string();
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(&number));
    let kind = line.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.is_some_and(|kind| LOCAL.contains(&kind))
}

/// The number in "socket:[123]".
fn inode_of(target: &str) -> u64 {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    inode.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
