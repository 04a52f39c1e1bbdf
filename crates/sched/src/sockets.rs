//! The connections of a process: each is asked itself, or read from the kernel's tables.
//!
//! To read a table of TCP takes some milliseconds, for the kernel goes through all its places, and has a line for each
//! connection that ended within the last minute. To have a socket of another process for as long as two questions take
//! (pidfd_getfd(2), Linux 5.6) takes microseconds. It needs what reading the process's memory needs. Should the process
//! close the connection just then, its end is sent when we let go of it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::unsent::{HeldBack, Outgoing};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getpeername, getsockname, sockopt,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

#[cfg(test)]
mod tests;

const KEPT_MAX: usize = 8_192;
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

/// A socket that is of no network: between processes of one machine (AF_UNIX), or between one and the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    /// It has a name, or came from one that has: others call it.
    Called { name: String, by_one_client: bool },
    /// It called another process's, which has this name.
    Calls(String),
    /// One of a pair, or its other end is not known.
    Nameless,
    /// AF_NETLINK and the like.
    OfTheKernel,
}

/// What a socket says of itself.
enum Asked {
    Local(Local),
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
    local: HashMap<u64, Local>,
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
            read_at: None,
            reading_took: Duration::ZERO,
        }
    }

    /// Known to be of no network.
    pub fn local(&self, inode: u64) -> Option<&Local> {
        self.local.get(&inode)
    }

    /// The socket `inode`, which is the process's descriptor `fd`; `None`: local, or in no table yet.
    pub fn find(&mut self, fd: i32, inode: u64) -> Option<Found<'_>> {
        if !self.known.contains_key(&inode) && !self.local.contains_key(&inode) {
            match self
                .process
                .as_ref()
                .and_then(|from| ask(from, self.pid, fd, inode))
            {
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

    /// Why not all that was written to the socket `inode`, the process's descriptor `fd`, is with its peer.
    pub fn held_back(&self, fd: i32, inode: u64) -> Option<HeldBack> {
        let socket = had(self.process.as_ref()?, fd, inode)?;
        Outgoing::of(&socket)?.held_back()
    }

    fn learn(&mut self, inode: u64, told: Asked) {
        if self.known.len() + self.local.len() >= KEPT_MAX {
            self.known.clear();
            self.unsure.clear();
            self.local.clear();
        }
        let socket = match told {
            Asked::Local(local) => {
                self.local.insert(inode, local);
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

/// `None` where it cannot be had, or is another one by now.
fn had(process: &OwnedFd, fd: i32, inode: u64) -> Option<OwnedFd> {
    let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
    let is_it = rustix::fs::fstat(&socket).ok()?.st_ino == inode;
    is_it.then_some(socket)
}

/// `None` where it cannot be had, or only the tables know its peer: while it connects.
fn ask(process: &OwnedFd, pid: u32, fd: i32, inode: u64) -> Option<Asked> {
    let socket = had(process, fd, inode)?;
    let family = sockopt::socket_domain(&socket).ok()?;
    if !matches!(family, AddressFamily::INET | AddressFamily::INET6) {
        return match family {
            AddressFamily::UNIX => unix(&socket, pid).map(Asked::Local),
            _ => Some(Asked::Local(Local::OfTheKernel)),
        };
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

/// Who calls whom: of a stream that was accepted the name is the listener's, and its client has none. What the process
/// called itself in is between its own threads.
fn unix(socket: &OwnedFd, pid: u32) -> Option<Local> {
    let name = unix_name(getsockname(socket).ok()?);
    let peer = getpeername(socket).ok().flatten().and_then(unix_name);
    let is_stream = sockopt::socket_type(socket).ok()? != SocketType::DGRAM;
    let is_own = || peer_pid(socket) == Some(pid);
    let local = match (name, peer) {
        (Some(name), _) if is_stream => Local::Called {
            name,
            by_one_client: !sockopt::socket_acceptconn(socket).ok()?,
        },
        (_, Some(_)) if is_own() => Local::Nameless,
        (_, Some(peer)) => Local::Calls(peer),
        (Some(name), None) => Local::Called {
            name,
            by_one_client: false,
        },
        (None, None) => Local::Nameless,
    };
    Some(local)
}

/// The process that listened, or made the pair (`SO_PEERCRED` of unix(7)); of another PID namespace it is 0.
fn peer_pid(socket: &OwnedFd) -> Option<u32> {
    // rustix' own type of it may not hold a 0.
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `peer`, all of whose bits are integers.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    u32::try_from(peer.pid).ok().filter(|_| failed == 0)
}

/// The path, or an abstract name as `ss` writes it; `None` where it has none.
fn unix_name(address: SocketAddrAny) -> Option<String> {
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = address.path_bytes().map(String::from_utf8_lossy);
    // Of no name at all rustix makes an empty one.
    let name = address.abstract_name().filter(|name| !name.is_empty());
    let name = name.map(|name| format!("@{}", String::from_utf8_lossy(name)));
    path.map(|path| path.into_owned()).or(name)
}

/// The bytes of a `struct sockaddr` as they were given to connect(2): "127.0.0.1:5432", "/run/x.sock".
pub fn address_in(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk()?;
    let family = AddressFamily::from_raw(u16::from_ne_bytes(*family));
    let network = |ip: IpAddr| {
        let port = u16::from_be_bytes(*rest.first_chunk()?);
        Some(format!("{}:{port}", shown(ip)))
    };
    match family {
        AddressFamily::INET => network(<[u8; 4]>::try_from(rest.get(2..6)?).ok()?.into()),
        // Behind four bytes about the flow (`struct sockaddr_in6`).
        AddressFamily::INET6 => network(<[u8; 16]>::try_from(rest.get(6..22)?).ok()?.into()),
        AddressFamily::UNIX => {
            let (lead, name) = match rest.split_first()? {
                (0, name) => ("@", name),
                _ => ("", rest),
            };
            let end = name
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(name.len());
            let name = String::from_utf8_lossy(&name[..end]);
            (!name.is_empty()).then(|| format!("{lead}{name}"))
        }
        _ => None,
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

/// /proc/PID/net/unix by inode: "0000000000000000: 00000003 00000000 00000000 0001 03 8912 /run/x.sock". Whom a socket
/// called is not in it.
pub fn parse_local(text: &str) -> HashMap<u64, Local> {
    const STREAM: &str = "0001";
    const CONNECTED: &str = "03";
    let socket = |line: &str| {
        let mut fields = line.split_whitespace().skip(4);
        let (kind, state) = (fields.next()?, fields.next()?);
        let inode = fields.next()?.parse().ok()?;
        let local = fields.next().map_or(Local::Nameless, |name| Local::Called {
            name: name.to_owned(),
            by_one_client: kind == STREAM && state == CONNECTED,
        });
        Some((inode, local))
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
