//! What a file descriptor of the subject is: a file, a connection that a client opened, one that
//! the subject opened, something between its own threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::sockets::{Found, Sockets};

/// A number may be closed and used anew, by a server of a connection for each request at once: what was read is
/// believed this long.
const BELIEVED: Duration = Duration::from_millis(50);
const KEPT_MAX: usize = 8_192;
/// Connections come and go; whether an epoll has clients among them stays.
const WATCHED: Duration = Duration::from_millis(250);
/// To be read of an epoll.
const WATCHED_MAX: usize = 64;
/// The kernel holds the epoll's lock while it writes a line for each descriptor (`ep_show_fdinfo` of fs/eventpoll.c),
/// 0.1 us or so: no process with more open files than this is asked.
const OPEN_FILES_MAX: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File,
    /// A listening socket, one that takes datagrams of anybody, or one whose local port the subject listens on.
    Inbound,
    Outbound,
    /// Pipe, eventfd, socket pair: another thread answers, or nobody does.
    Between,
    Timer,
    Epoll,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub kind: Kind,
    /// Path, or the peer's address: of a connection that it opened with the port.
    pub name: String,
}

/// Connections that the subject opened, waited for together.
pub struct Peers {
    pub first: String,
    /// Nothing but those, nor a word of the subject's own threads.
    pub alone: bool,
}

pub struct Descriptors {
    pid: u32,
    known: HashMap<i32, (Instant, Descriptor)>,
    sockets: Sockets,
    /// Of each epoll, the first of its peers where it has no others.
    epolls: HashMap<i32, (Instant, Option<String>)>,
}

impl Descriptors {
    pub fn of(pid: u32) -> Descriptors {
        Descriptors {
            pid,
            known: HashMap::new(),
            sockets: Sockets::of(pid),
            epolls: HashMap::new(),
        }
    }

    /// `None`: there are none of these, or connections of clients among them.
    pub fn peers(&mut self, fds: &[i32]) -> Option<Peers> {
        let mut first = None;
        let mut alone = true;
        for fd in fds {
            let Descriptor { kind, name } = self.describe(*fd);
            match kind {
                Kind::Outbound => first = first.or(Some(name)),
                // Others can call a socket of the machine that has a name, as clients do.
                Kind::Between if !self.is_own(&name) => return None,
                Kind::Between | Kind::Timer | Kind::Epoll => alone = false,
                Kind::Inbound | Kind::File | Kind::Unknown => return None,
            }
        }
        first.map(|first| Peers { first, alone })
    }

    fn is_own(&self, name: &str) -> bool {
        !name.starts_with("socket:") || self.sockets.is_nameless(inode_of(name))
    }

    /// The first of an epoll's peers, where clients are not among what it waits for.
    pub fn peers_of_epoll(&mut self, epoll: i32) -> Option<String> {
        if let Some((when, first)) = self.epolls.get(&epoll)
            && when.elapsed() < WATCHED
        {
            return first.clone();
        }
        let fds = watched_by(self.pid, epoll);
        let peers = fds.and_then(|fds| self.peers(&fds));
        let first = peers.map(|peers| peers.first);
        if self.epolls.len() >= KEPT_MAX {
            self.epolls.clear();
        }
        self.epolls.insert(epoll, (Instant::now(), first.clone()));
        first
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
                None => Descriptor {
                    kind: Kind::Unknown,
                    name: format!("descriptor {fd}"),
                },
            },
        };
        // A connection that is in no table yet is looked up again the next time.
        let nameless = descriptor.kind == Kind::Between && descriptor.name.starts_with("socket:");
        let young = nameless && !self.sockets.is_local(inode_of(&descriptor.name));
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
            _ if target.starts_with('/') => Kind::File,
            _ if target.starts_with("pipe:") => Kind::Between,
            "anon_inode:[eventfd]" => Kind::Between,
            "anon_inode:[eventpoll]" => Kind::Epoll,
            "anon_inode:[timerfd]" => Kind::Timer,
            _ if target.starts_with("socket:[") => return self.socket(fd, target),
            _ => Kind::Unknown,
        };
        Descriptor {
            kind,
            name: target.to_string(),
        }
    }

    fn socket(&mut self, fd: i32, target: &str) -> Descriptor {
        let (kind, name) = match self.sockets.find(fd, inode_of(target)) {
            None => (Kind::Between, target.to_string()),
            // A client's port is another one with each connection, and says nothing.
            Some(Found {
                socket,
                taken_in: true,
            }) => (Kind::Inbound, format!("a client at {}", socket.peer)),
            Some(Found {
                socket,
                taken_in: false,
            }) => (
                Kind::Outbound,
                format!("{}:{}", socket.peer, socket.peer_port),
            ),
        };
        Descriptor { kind, name }
    }
}

/// `None`: too many, or it has ended.
fn watched_by(pid: u32, epoll: i32) -> Option<Vec<i32>> {
    let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
    let status = process.status().ok()?;
    if status.fdsize as usize > OPEN_FILES_MAX {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).ok()?;
    let fds = parse_watched(&text);
    (fds.len() <= WATCHED_MAX).then_some(fds)
}

/// The descriptors in lines as "tfd:        8 events:       19 data: ...".
fn parse_watched(text: &str) -> Vec<i32> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    let fds = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
    fds.collect()
}

/// The number in "socket:[123]".
fn inode_of(target: &str) -> u64 {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    inode.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    use rustix::event::{EventfdFlags, epoll, eventfd};

    use super::*;

    fn watch(by: impl AsFd, fd: impl AsFd) {
        let data = epoll::EventData::new_u64(7);
        epoll::add(by, fd, data, epoll::EventFlags::IN).unwrap();
    }

    /// As the runtime of an HTTP client has it, and as a server that calls others has it.
    #[test]
    fn an_epoll_has_peers_alone_or_clients_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let called = TcpStream::connect(address).unwrap();
        let of_client = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let of_server = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let word = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let asked = |by: &OwnedFd| {
            let mut descriptors = Descriptors::of(std::process::id());
            descriptors.peers_of_epoll(by.as_raw_fd())
        };
        watch(&of_client, &word);
        assert_eq!(asked(&of_client), None, "no peer yet");
        watch(&of_client, &called);
        assert_eq!(asked(&of_client), Some(address.to_string()));
        watch(&of_server, &called);
        watch(&of_server, &listener);
        assert_eq!(asked(&of_server), None);
        assert_eq!(asked(&word), None, "no epoll");
    }

    #[test]
    fn what_an_epoll_watches_is_read_of_its_lines() {
        // Linux 6.18.
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1\n\
            tfd:        9 events: 80000019 data: 0  pos:0 ino:a2f1 sdev:8\n\
            tfd:       12 events:       19 data: 7f  pos:0 ino:1 sdev:10\ntfd: x\n";
        assert_eq!(parse_watched(text), [9, 12]);
    }
}
