//! TCP sockets of a process that wait for connections, from /proc.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of descriptors of one process, and of sockets of a network.
const ENTRIES_MAX: usize = 200_000;

/// A TCP socket that waits for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    inode: u64,
}

impl Listener {
    /// Where a connection from this machine, and not from its network, arrives.
    pub fn local(&self) -> Option<SocketAddr> {
        let ip = match self.address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        ip.is_loopback()
            .then(|| SocketAddr::new(ip, self.address.port()))
    }
}

/// All listening TCP sockets of the process's network, the oldest first.
pub fn listeners(pid: u32) -> Vec<Listener> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let mut found = parse_listeners(&read("tcp"));
    found.extend(parse_listeners(&read("tcp6")));
    found.sort_by_key(|listener| listener.inode);
    found
}

/// Those that the process itself holds open.
pub fn own_listeners(pid: u32) -> Vec<Listener> {
    let own = socket_inodes(pid);
    let mut listeners = listeners(pid);
    listeners.retain(|listener| own.contains(&listener.inode));
    listeners
}

/// `  0: 0100007F:240D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 8912 ...`
fn parse_listeners(table: &str) -> Vec<Listener> {
    const LISTEN: &str = "0A";
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(10).collect();
        let &[_, local, _, LISTEN, _, _, _, _, _, inode] = &fields[..] else {
            return None;
        };
        let (address, port) = local.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(Listener {
            address: SocketAddr::new(parse_address(address)?, port),
            inode: inode.parse().ok()?,
        })
    };
    let lines = table.lines().skip(1).take(ENTRIES_MAX);
    lines.filter_map(parse).collect()
}

/// One word or four, printed in the byte order of the machine.
fn parse_address(address: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    if address.len() == 8 {
        return Some(word(0)?.into());
    }
    let words = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
    let bytes: [u8; 16] = words.try_into().ok()?;
    // `::ffff:127.0.0.1` is 127.0.0.1.
    Some(Ipv6Addr::from(bytes).to_canonical())
}

fn socket_inodes(pid: u32) -> HashSet<u64> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return HashSet::new();
    };
    let links = folder
        .flatten()
        .take(ENTRIES_MAX)
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| parse_socket(link.to_str()?))
        .collect()
}

/// `socket:[8912]`
fn parse_socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn listening_sockets_are_parsed() {
        let line = |local: &str, state: &str, inode: u32| {
            format!(
                "0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0 0 {inode} 1 0\n"
            )
        };
        let table = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
            &line("0100007F:240D", "0A", 8912),
            &line("0100007F:240D", "01", 8913),
            &line("0A00020A:0050", "0A", 8914),
            "3: garbage\n",
            &line("00000000000000000000000001000000:0051", "0A", 8915),
            &line("00000000000000000000000000000000:0052", "0A", 8916),
        ]
        .concat();
        let brief = |it: &Listener| {
            let local = it.local().map_or("-".into(), |local| local.to_string());
            format!("{} {local} {}", it.address, it.inode)
        };
        let listeners: Vec<String> = parse_listeners(&table).iter().map(brief).collect();
        assert_eq!(
            listeners,
            [
                "127.0.0.1:9229 127.0.0.1:9229 8912",
                "10.2.0.10:80 - 8914",
                "[::1]:81 [::1]:81 8915",
                "[::]:82 [::1]:82 8916"
            ]
        );
    }
}
