//! What a file descriptor of the subject is: a file, a connection that a client opened, one that
//! the subject opened, something between its own threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::sockets::{Found, Sockets};

/// A number may be closed and used anew, by a server of a connection for each request at once: what was read is
/// believed this long.
const BELIEVED: Duration = Duration::from_millis(50);
const KEPT_MAX: usize = 8_192;

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

pub struct Descriptors {
    pid: u32,
    known: HashMap<i32, (Instant, Descriptor)>,
    sockets: Sockets,
}

impl Descriptors {
    pub fn of(pid: u32) -> Descriptors {
        Descriptors {
            pid,
            known: HashMap::new(),
            sockets: Sockets::of(pid),
        }
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

/// The number in "socket:[123]".
fn inode_of(target: &str) -> u64 {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    inode.parse().unwrap_or(0)
}
