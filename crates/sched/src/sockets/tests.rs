//! Tests on sockets that are asked themselves, and on those of the tables.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::thread::sleep;

use super::*;

fn own() -> Sockets {
    Sockets::of(std::process::id())
}

/// "OTHER END, whether it was taken in", with the other's port where this process opened it.
fn told(sockets: &mut Sockets, of: impl AsFd) -> Option<String> {
    let inode = rustix::fs::fstat(&of).unwrap().st_ino;
    let found = sockets.find(of.as_fd().as_raw_fd(), inode)?;
    let port = if found.taken_in {
        0
    } else {
        found.socket.peer_port
    };
    Some(format!("{} {} {}", found.socket.peer, port, found.taken_in))
}

#[test]
fn a_socket_that_is_asked_and_the_tables_say_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    let six = TcpListener::bind("[::1]:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
    connected.connect(("127.0.0.1", port)).unwrap();
    let mut asked = own();
    assert!(asked.process.is_some(), "this kernel has pidfd_getfd");
    let mut of_tables = own();
    of_tables.process = None;
    let mut both = |of: &dyn AsFd| {
        // The tables are read for each.
        of_tables.read_at = None;
        let told = [
            told(&mut asked, of.as_fd()),
            told(&mut of_tables, of.as_fd()),
        ];
        assert_eq!(told[0], told[1]);
        told.into_iter().flatten().next().unwrap()
    };
    assert_eq!(both(&client), format!("127.0.0.1 {port} false"));
    assert_eq!(both(&server), "127.0.0.1 0 true");
    assert_eq!(both(&listener), "0.0.0.0 0 true");
    assert_eq!(both(&six), "[::] 0 true");
    assert_eq!(both(&datagrams), "0.0.0.0 0 true");
    assert_eq!(both(&connected), format!("127.0.0.1 {port} false"));
}

#[test]
fn who_listens_is_learnt_of_a_connection_that_stays() {
    let mut sockets = own();
    // Read before anybody listens, and not again for a while.
    sockets.read(0, 0);
    sockets.reading_took = Duration::from_micros(200);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    told(&mut sockets, &server).unwrap();
    sleep(Duration::from_millis(110));
    assert_eq!(told(&mut sockets, &server).unwrap(), "127.0.0.1 0 true");
}

#[test]
fn a_local_pair_is_in_no_table_and_no_descriptor_of_ours_stays() {
    let (left, _right) = UnixStream::pair().unwrap();
    let mut sockets = own();
    assert_eq!(told(&mut sockets, &left), None);
    let inode = rustix::fs::fstat(&left).unwrap().st_ino;
    assert_eq!(sockets.local(inode), Some(&Local::Nameless));
    assert!(sockets.read_at.is_none(), "nothing was read for it");
    let same = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = same.filter_map(|entry| fs::read_link(entry.path()).ok());
    let name = format!("socket:[{inode}]");
    assert_eq!(links.filter(|link| link.to_str() == Some(&name)).count(), 1);
}

#[test]
fn who_called_whom_over_a_local_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    let (server, _) = listener.accept().unwrap();
    let log = UnixDatagram::bind(folder.path().join("log")).unwrap();
    let logs = UnixDatagram::unbound().unwrap();
    logs.connect(folder.path().join("log")).unwrap();
    let name = path.to_str().unwrap().to_owned();
    let of = |of: &dyn AsFd, mut sockets: Sockets| {
        told(&mut sockets, of.as_fd());
        let inode = rustix::fs::fstat(of).unwrap().st_ino;
        sockets.local(inode).cloned()
    };
    let own_tables = || Sockets {
        process: None,
        ..own()
    };
    let called = |name: &str, by_one_client| {
        Some(Local::Called {
            name: name.to_owned(),
            by_one_client,
        })
    };
    let sockets: [(&dyn AsFd, _); 3] = [
        (&server, called(&name, true)),
        (&listener, called(&name, false)),
        (&log, called(&name.replace("/s", "/log"), false)),
    ];
    for (socket, expected) in sockets {
        assert_eq!(of(socket, own()), expected);
        assert_eq!(of(socket, own_tables()), expected);
    }
    // As another process that listens would be.
    let other = || Sockets {
        pid: u32::MAX,
        ..own()
    };
    assert_eq!(of(&client, own()), Some(Local::Nameless));
    assert_eq!(of(&client, own_tables()), Some(Local::Nameless));
    assert_eq!(of(&client, other()), Some(Local::Calls(name.clone())));
    let log = Local::Calls(name.replace("/s", "/log"));
    assert_eq!(of(&logs, own()), Some(log));
}

#[test]
fn an_address_is_read_as_it_was_given() {
    let four = [
        &2_u16.to_ne_bytes()[..],
        &[0x15, 0x38, 127, 0, 0, 1],
        &[0; 8],
    ]
    .concat();
    assert_eq!(address_in(&four).unwrap(), "127.0.0.1:5432");
    let mut six = [&10_u16.to_ne_bytes()[..], &[0, 80], &[0; 20], &[0; 4]].concat();
    six[23] = 1;
    assert_eq!(address_in(&six).unwrap(), "[::1]:80");
    let unix = |path: &[u8]| address_in(&[&1_u16.to_ne_bytes()[..], path].concat());
    assert_eq!(unix(b"/run/db\0junk").unwrap(), "/run/db");
    assert_eq!(unix(b"\0bus").unwrap(), "@bus");
    assert_eq!(unix(b"\0"), None);
    for cut in [0, 1, 2, 7] {
        assert_eq!(address_in(&four[..cut]), None);
    }
}

#[test]
fn classes_of_the_network_are_told_from_other_groups() {
    let text = "5:net_cls,net_prio:/shop\n4:memory:/a\n0::/b\n";
    assert_eq!(
        classes(text).collect::<Vec<_>>(),
        ["5:net_cls,net_prio:/shop"]
    );
    assert_eq!(classes("0::/user.slice\n").count(), 0);
}

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
        0000000000000000: 00000003 00000000 00000000 0001 03 9580\n\
        0000000000000000: 00000003 00000000 00000000 0001 03 9581 /run/a.socket\nbroken\n";
    let called = |by_one_client| Local::Called {
        name: "/run/a.socket".to_owned(),
        by_one_client,
    };
    let expected = [
        (9578, called(false)),
        (9580, Local::Nameless),
        (9581, called(true)),
    ];
    assert_eq!(parse_local(text), HashMap::from(expected));
}

#[test]
fn mapped_addresses_read_as_the_four_numbers_they_are() {
    let six = "0000000000000000FFFF00000100007F:0050";
    assert_eq!(parse_address(six), Some(("127.0.0.1".into(), 80)));
    assert_eq!(parse_address("xyz"), None);
}
