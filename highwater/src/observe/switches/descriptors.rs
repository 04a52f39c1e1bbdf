//! What a file descriptor of the subject is: a file, a connection that a client opened, one that
//! the subject opened, something between its own threads.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A number may be closed and used anew: what was read is believed this long.
const BELIEVED: Duration = Duration::from_millis(500);
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
    sockets: HashMap<u64, Socket>,
    listening: HashSet<u16>,
    /// Sockets between processes of one machine (AF_UNIX).
    local: HashSet<u64>,
    sockets_read: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub local_port: u16,
    pub peer: String,
    pub peer_port: u16,
    pub listens: bool,
}

impl Descriptors {
    pub fn of(pid: u32) -> Descriptors {
        Descriptors {
            pid,
            known: HashMap::new(),
            sockets: HashMap::new(),
            listening: HashSet::new(),
            local: HashSet::new(),
            sockets_read: None,
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
            Ok(target) => self.classify(&target),
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
        let young = nameless && !self.local.contains(&inode_of(&descriptor.name));
        if young || descriptor.kind == Kind::Unknown {
            return descriptor;
        }
        if self.known.len() >= KEPT_MAX {
            self.known.clear();
        }
        self.known.insert(fd, (Instant::now(), descriptor.clone()));
        descriptor
    }

    fn classify(&mut self, target: &str) -> Descriptor {
        let kind = match target {
            _ if target.starts_with('/') => Kind::File,
            _ if target.starts_with("pipe:") => Kind::Between,
            "anon_inode:[eventfd]" => Kind::Between,
            "anon_inode:[eventpoll]" => Kind::Epoll,
            "anon_inode:[timerfd]" => Kind::Timer,
            _ if target.starts_with("socket:[") => return self.socket(target),
            _ => Kind::Unknown,
        };
        Descriptor {
            kind,
            name: target.to_string(),
        }
    }

    fn socket(&mut self, target: &str) -> Descriptor {
        let inode = inode_of(target);
        if !self.sockets.contains_key(&inode) && !self.local.contains(&inode) {
            self.read_sockets(inode);
        }
        match self.sockets.get(&inode) {
            None => Descriptor {
                kind: Kind::Between,
                name: target.to_string(),
            },
            Some(socket) => {
                // A client's port is another one with each connection, and says nothing.
                match socket.listens || self.listening.contains(&socket.local_port) {
                    true => Descriptor {
                        kind: Kind::Inbound,
                        name: format!("a client at {}", socket.peer),
                    },
                    false => Descriptor {
                        kind: Kind::Outbound,
                        name: format!("{}:{}", socket.peer, socket.peer_port),
                    },
                }
            }
        }
    }

    /// The tables up to the one that has the socket, at most five hundred times a second, whatever asks for them: to
    /// read one of TCP takes some milliseconds, for the kernel goes through all its places. Who took a connection in
    /// listens in the same table.
    fn read_sockets(&mut self, sought: u64) {
        const PAUSE: Duration = Duration::from_millis(2);
        if self.sockets_read.is_some_and(|when| when.elapsed() < PAUSE) {
            return;
        }
        self.sockets_read = Some(Instant::now());
        self.sockets.clear();
        self.listening.clear();
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let path = format!("/proc/{}/net/{table}", self.pid);
            let text = std::fs::read_to_string(path).unwrap_or_default();
            for (inode, socket) in parse_sockets(&text, table.starts_with("tcp")) {
                if socket.listens && table.starts_with("tcp") {
                    self.listening.insert(socket.local_port);
                }
                self.sockets.insert(inode, socket);
            }
            if self.sockets.contains_key(&sought) {
                return;
            }
        }
        let text = std::fs::read_to_string(format!("/proc/{}/net/unix", self.pid));
        self.local = parse_local(&text.unwrap_or_default());
    }
}

/// The number in "socket:[123]".
fn inode_of(target: &str) -> u64 {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    inode.parse().unwrap_or(0)
}

/// The inodes of /proc/PID/net/unix: the seventh field of each line.
pub fn parse_local(text: &str) -> HashSet<u64> {
    let inode = |line: &str| line.split_whitespace().nth(6)?.parse().ok();
    text.lines().skip(1).filter_map(inode).collect()
}

/// A /proc/PID/net table: (inode, socket). Lines that are not such are passed over.
pub fn parse_sockets(text: &str, stream: bool) -> Vec<(u64, Socket)> {
    const LISTEN: &str = "0A";
    let socket = |line: &str| -> Option<(u64, Socket)> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = parse_address(fields.get(1)?)?;
        let (peer, peer_port) = parse_address(fields.get(2)?)?;
        let listens = match stream {
            true => *fields.get(3)? == LISTEN,
            false => peer_port == 0,
        };
        let inode = fields.get(9)?.parse().ok()?;
        Some((
            inode,
            Socket {
                local_port,
                peer,
                peer_port,
                listens,
            },
        ))
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// "0100007F:10DE": the address in the machine's byte order by words, the port as a number.
fn parse_address(text: &str) -> Option<(String, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<u32>> = address
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(four) => std::net::Ipv4Addr::from(four).to_string(),
        Err(_) => {
            let six = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?);
            match six.to_ipv4_mapped() {
                Some(four) => four.to_string(),
                None => format!("[{six}]"),
            }
        }
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// /proc/self/net/tcp of Linux 6.18, three lines.
    const TCP: &str = concat!(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt  ",
        " uid  timeout inode\n",
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    ",
        " 0        0 7001 1 0 100 0 0 10 0\n",
        "   1: 0100007F:C350 0100007F:10DE 01 00000000:00000000 00:00000000 00000000    ",
        " 0        0 7002 1 0 20 4 30 10 -1\n",
        "   2: broken\n",
    );

    #[test]
    fn sockets_are_read_with_peer_and_state() {
        let found = parse_sockets(TCP, true);
        assert_eq!(found.len(), 2);
        assert!(found[0].1.listens);
        assert_eq!(found[0].1.local_port, 8080);
        let (inode, client) = &found[1];
        assert_eq!(*inode, 7002);
        assert_eq!(
            (client.peer.as_str(), client.peer_port),
            ("127.0.0.1", 4318)
        );
    }

    #[test]
    fn a_socket_for_datagrams_without_a_peer_takes_those_of_anybody() {
        // /proc/self/net/udp of Linux 6.18.
        let text = "   sl  local_address rem_address   st tx_queue rx_queue\n\
            1: 0100007F:A1F3 00000000:0000 07 0:0 00:0 0 0 0 8001 2 0 0\n\
            2: 0100007F:A1F4 0100007F:0035 01 0:0 00:0 0 0 0 8002 2 0 0\n";
        let found = parse_sockets(text, false);
        let listens: Vec<bool> = found.iter().map(|(_, socket)| socket.listens).collect();
        assert_eq!(listens, [true, false]);
    }

    #[test]
    fn local_sockets_are_known_by_their_inodes() {
        // Linux 6.18.
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 9578 /run/a.socket\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 9580\nbroken\n";
        assert_eq!(parse_local(text), HashSet::from([9578, 9580]));
    }

    #[test]
    fn mapped_addresses_read_as_the_four_numbers_they_are() {
        let six = "0000000000000000FFFF00000100007F:0050";
        assert_eq!(parse_address(six), Some(("127.0.0.1".into(), 80)));
        assert_eq!(parse_address("xyz"), None);
    }
}
