//! The connections of a process: each is asked itself, or read from the kernel's tables.
//!
//! To read a table of TCP takes some milliseconds, for the kernel goes through all its places, and has a line for each
//! connection that ended within the last minute. To have a socket of another process for as long as two questions take
//! (pidfd_getfd(2), Linux 5.6) takes microseconds. It needs what reading the process's memory needs. Should the process
//! close the connection just then, its end is sent when we let go of it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

#[cfg(test)]
mod tests;

const KEPT_MAX: usize = 8_192;
/// Of an address (`sa_family_t`).
const FAMILY_LEN: usize = 2;

/// For a socket that cannot be asked the tables are read again after this many times what the last reading took.
const PAUSE_TIMES: u32 = 10;

/// And whether somebody listens at the port of one that could.
const LISTENS_TIMES: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub local_port: u16,
    pub peer: String,
    pub peer_port: u16,
    pub listens: bool,
}

/// A socket, and whether it listens, or came from one that does.
pub struct Found<'a> {
    pub socket: &'a Socket,
    pub taken_in: bool,
}

/// What a socket says of itself.
enum Asked {
    /// It is between processes of one machine (AF_UNIX), or of no network at all.
    Local {
        has_name: bool,
        is_unix: bool,
    },
    Stream(Socket),
    Datagrams(Socket),
}

pub struct Sockets {
    pid: u32,
    /// `None`: its sockets cannot be had, or not without a trace.
    process: Option<OwnedFd>,
    known: HashMap<u64, Socket>,
    listening: HashSet<u16>,
    /// Streams that were asked since the tables were read, and came from no port that was listened at then.
    unsure: HashSet<u64>,
    /// And whether others can call it, or called the one that it came from: it has a name.
    local: HashMap<u64, bool>,
    /// Unix sockets that have one.
    called: HashSet<u64>,
    read_at: Option<Instant>,
    reading_took: Duration,
}

impl Sockets {
    pub fn of(pid: u32) -> Sockets {
        Sockets {
            pid,
            process: may_be_had(pid).then(|| opened(pid)).flatten(),
            known: HashMap::new(),
            listening: HashSet::new(),
            unsure: HashSet::new(),
            local: HashMap::new(),
            called: HashSet::new(),
            read_at: None,
            reading_took: Duration::ZERO,
        }
    }

    /// A Unix socket with a name, or one that came from such: a client may have called it.
    pub fn is_called(&self, inode: u64) -> bool {
        self.called.contains(&inode)
    }

    /// Known to be between processes of one machine.
    pub fn is_local(&self, inode: u64) -> bool {
        self.local.contains_key(&inode)
    }

    /// Known to be one of a pair, or to have called another one: nobody outside called it.
    pub fn is_nameless(&self, inode: u64) -> bool {
        self.local.get(&inode) == Some(&false)
    }

    /// The socket `inode`, which is the process's descriptor `fd`; `None`: local, or in no table yet.
    pub fn find(&mut self, fd: i32, inode: u64) -> Option<Found<'_>> {
        if !self.known.contains_key(&inode) && !self.local.contains_key(&inode) {
            match self.process.as_ref().and_then(|from| ask(from, fd, inode)) {
                Some(told) => self.learn(inode, told),
                None => self.read(inode, PAUSE_TIMES),
            }
        }
        if self.unsure.contains(&inode) {
            self.read(inode, LISTENS_TIMES);
        }
        let socket = self.known.get(&inode)?;
        let taken_in = socket.listens || self.listening.contains(&socket.local_port);
        Some(Found { socket, taken_in })
    }

    fn learn(&mut self, inode: u64, told: Asked) {
        if self.known.len() + self.local.len() >= KEPT_MAX {
            self.known.clear();
            self.unsure.clear();
            self.local.clear();
            self.called.clear();
        }
        let socket = match told {
            Asked::Local { has_name, is_unix } => {
                self.local.insert(inode, has_name);
                if has_name && is_unix {
                    self.called.insert(inode);
                }
                return;
            }
            Asked::Datagrams(socket) => socket,
            Asked::Stream(socket) => {
                if socket.listens {
                    self.listening.insert(socket.local_port);
                } else if !self.listening.contains(&socket.local_port) {
                    self.unsure.insert(inode);
                }
                socket
            }
        };
        self.known.insert(inode, socket);
    }

    /// The tables, where the last reading is `times` as long ago as it took.
    fn read(&mut self, sought: u64, times: u32) {
        let pause = self.reading_took * times;
        if self.read_at.is_some_and(|when| when.elapsed() < pause) {
            return;
        }
        let (begun, asked) = (Instant::now(), self.known.remove(&sought));
        self.read_tables(sought);
        if let Some(asked) = asked {
            self.known.entry(sought).or_insert(asked);
        }
        self.reading_took = begun.elapsed();
        self.read_at = Some(Instant::now());
    }

    /// Up to the one that has the socket. Who took a connection in listens in the same table.
    fn read_tables(&mut self, sought: u64) {
        self.known.clear();
        self.listening.clear();
        self.unsure.clear();
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let path = format!("/proc/{}/net/{table}", self.pid);
            let text = fs::read_to_string(path).unwrap_or_default();
            for (inode, socket) in parse_sockets(&text, table.starts_with("tcp")) {
                if socket.listens && table.starts_with("tcp") {
                    self.listening.insert(socket.local_port);
                }
                self.known.insert(inode, socket);
            }
            if self.known.contains_key(&sought) {
                return;
            }
        }
        let text = fs::read_to_string(format!("/proc/{}/net/unix", self.pid));
        self.local = parse_local(&text.unwrap_or_default());
    }
}

fn opened(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whoever is given a socket gives it the network class and priority of its own control group (`__receive_sock` of
/// net/core/scm.c): to be let alone where the process has others.
fn may_be_had(pid: u32) -> bool {
    let groups = |of: &str| {
        let text = fs::read_to_string(format!("/proc/{of}/cgroup")).unwrap_or_default();
        classes(&text).map(str::to_owned).collect::<Vec<_>>()
    };
    groups(&pid.to_string()) == groups("self")
}

/// The lines of a /proc/PID/cgroup that are about network classes and priorities (version 1).
fn classes(text: &str) -> impl Iterator<Item = &str> {
    let about = |line: &&str| line.contains("net_cls") || line.contains("net_prio");
    text.lines().filter(about)
}

/// `None` where it cannot be had, is another one by now, or only the tables know its peer: while it connects.
fn ask(process: &OwnedFd, fd: i32, inode: u64) -> Option<Asked> {
    let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
    if rustix::fs::fstat(&socket).ok()?.st_ino != inode {
        return None;
    }
    let family = sockopt::socket_domain(&socket).ok()?;
    if !matches!(family, AddressFamily::INET | AddressFamily::INET6) {
        let name = getsockname(&socket).ok()?;
        // Of no name at all the kernel gives the family alone.
        let is_unix = family == AddressFamily::UNIX;
        let has_name = !is_unix || name.addr_len() as usize > FAMILY_LEN;
        return Some(Asked::Local { has_name, is_unix });
    }
    let local = SocketAddr::try_from(getsockname(&socket).ok()?).ok()?;
    let peer = getpeername(&socket).ok().flatten();
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let told = |listens| Socket {
        local_port: local.port(),
        peer: peer.map_or_else(|| nobody(local.ip()), |peer| shown(peer.ip())),
        peer_port: peer.map_or(0, |peer| peer.port()),
        listens,
    };
    match sockopt::socket_type(&socket).ok()? {
        SocketType::STREAM => {
            let listens = sockopt::socket_acceptconn(&socket).ok()?;
            (listens || peer.is_some()).then(|| Asked::Stream(told(listens)))
        }
        _ => Some(Asked::Datagrams(told(peer.is_none()))),
    }
}

/// As a table has it where nobody is at the other end.
fn nobody(local: IpAddr) -> String {
    match local {
        IpAddr::V4(_) => "0.0.0.0".into(),
        IpAddr::V6(_) => shown(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    }
}

/// An address as it stands before a port.
fn shown(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(four) => four.to_string(),
        IpAddr::V6(six) => format!("[{six}]"),
    }
}

/// The inodes of /proc/PID/net/unix, the seventh field of each line, and whether a name follows.
pub fn parse_local(text: &str) -> HashMap<u64, bool> {
    let socket = |line: &str| {
        let mut fields = line.split_whitespace().skip(6);
        Some((fields.next()?.parse().ok()?, fields.next().is_some()))
    };
    text.lines().skip(1).filter_map(socket).collect()
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
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?),
    };
    Some((shown(address), port))
}
