//! Data in the sockets of a process, by the tables of its network namespace (`proc_net_tcp.txt` of the kernel).
//!
//! A table tells the bytes in each queue; what is charged for them is more, up to several times where messages are
//! small. Sockets of other families (unix) are in no table with their queues.

use std::collections::{BTreeMap, HashSet};

use procfs::net::{TcpNetEntry, TcpState, UdpNetEntry};
use procfs::process::Process;

use super::descriptors::{Descriptors, Opened};
use super::{Connections, Holder};

/// Adds what is in the queues of the process's own sockets, and to what is open what they are.
pub fn add(process: &Process, descriptors: &mut Descriptors, held: &mut BTreeMap<Holder, u64>) {
    let own = &descriptors.sockets;
    let tables = [process.tcp(), process.tcp6()];
    let tcp: Vec<TcpNetEntry> = tables.into_iter().flatten().flatten().collect();
    let mut opened = add_tcp(&tcp, own, held);
    let tables = [process.udp(), process.udp6()];
    let udp: Vec<UdpNetEntry> = tables.into_iter().flatten().flatten().collect();
    for entry in udp.iter().filter(|entry| own.contains(&entry.inode)) {
        let socket = Connections::Udp(entry.local_address.port());
        put(held, &socket, entry.rx_queue, entry.tx_queue);
        opened.push(Opened::Connections(socket));
    }
    let others = own.len().saturating_sub(opened.len());
    opened.extend(vec![Opened::OtherSockets; others]);
    for one in opened {
        *descriptors.opened.entry(one).or_default() += 1;
    }
}

/// What each of the process's own is.
fn add_tcp(
    tcp: &[TcpNetEntry],
    own: &HashSet<u64>,
    held: &mut BTreeMap<Holder, u64>,
) -> Vec<Opened> {
    let is_listening = |entry: &&TcpNetEntry| entry.state == TcpState::Listen;
    let ports = tcp.iter().filter(is_listening);
    let ports: HashSet<u16> = ports.map(|entry| entry.local_address.port()).collect();
    let own = tcp.iter().filter(|entry| own.contains(&entry.inode));
    let mut opened = Vec::new();
    // Of a socket that listens, the queues are numbers of connections.
    for entry in own.filter(|entry| !is_listening(entry)) {
        let port = entry.local_address.port();
        let connections = match ports.contains(&port) {
            true => Connections::AcceptedOn(port),
            false => Connections::To(entry.remote_address.to_string()),
        };
        put(held, &connections, entry.rx_queue, entry.tx_queue);
        opened.push(match entry.state {
            TcpState::CloseWait => Opened::ClosedByPeer(connections),
            _ => Opened::Connections(connections),
        });
    }
    opened
}

fn put(held: &mut BTreeMap<Holder, u64>, of: &Connections, unread: u32, unsent: u32) {
    for (holder, bytes) in [
        (Holder::Unread(of.clone()), unread),
        (Holder::Unsent(of.clone()), unsent),
    ] {
        if bytes > 0 {
            *held.entry(holder).or_default() += u64::from(bytes);
        }
    }
}
