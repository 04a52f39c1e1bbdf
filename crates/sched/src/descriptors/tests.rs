//! Descriptors of this very process.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};

use super::*;

#[test]
fn files_of_servers_are_not_asked_about() {
    assert_eq!(
        mount_of("pos:\t0\nflags:\t0100001\nmnt_id:\t35\nino:\t7\n"),
        Some(35)
    );
    assert_eq!(mount_of("pos:\t0\n"), None);
    let mounts = "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        35 27 0:41 / /mnt/shared rw,relatime shared:20 - nfs4 10.0.0.2:/ rw\n\
        36 27 0:42 / /mnt/box rw - fuse.sshfs box: rw\n";
    assert!(is_local(mounts, 27));
    for other in [35, 36, 2, 7] {
        assert!(!is_local(mounts, other), "{other}");
    }
}

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
        let peers = descriptors.of_epoll(by.as_raw_fd()).peers();
        peers.map(|peers| (peers.first, peers.count))
    };
    watch(&of_client, &word);
    assert_eq!(asked(&of_client), None, "no peer yet");
    watch(&of_client, &called);
    assert_eq!(asked(&of_client), Some((address.to_string(), 1)));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = TcpStream::connect(other.local_addr().unwrap()).unwrap();
    watch(&of_client, &second);
    assert_eq!(asked(&of_client).map(|(_, count)| count), Some(2));
    watch(&of_server, &called);
    watch(&of_server, &listener);
    assert_eq!(asked(&of_server), None);
    // As a process that serves one client, and as one that takes others too.
    let (accepted, _) = listener.accept().unwrap();
    let of_one = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let watched = || Descriptors::of(std::process::id()).of_epoll(of_one.as_raw_fd());
    watch(&of_one, &accepted);
    watch(&of_one, &word);
    assert_eq!(watched(), Watched::OneClient);
    watch(&of_one, &listener);
    assert_eq!(watched(), Watched::Clients);
    assert_eq!(asked(&word), None, "no epoll");
}

/// A connection that is just being made, a timer: who it is shows later, and is not taken for a client for good.
#[test]
fn what_is_not_known_yet_is_asked_again_and_a_client_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let called = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let other = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut descriptors = Descriptors::of(std::process::id());
    watch(&epoll, &called);
    watch(&epoll, &other);
    assert_eq!(descriptors.of_epoll(epoll.as_raw_fd()).peers(), None);
    epoll::delete(&epoll, &other).unwrap();
    std::thread::sleep(BELIEVED_OF_EPOLLS);
    assert!(descriptors.of_epoll(epoll.as_raw_fd()).peers().is_some());
    watch(&epoll, &listener);
    std::thread::sleep(BELIEVED_OF_EPOLLS);
    assert_eq!(descriptors.of_epoll(epoll.as_raw_fd()).peers(), None);
    epoll::delete(&epoll, &listener).unwrap();
    std::thread::sleep(BELIEVED_OF_EPOLLS);
    assert_eq!(
        descriptors.of_epoll(epoll.as_raw_fd()).peers(),
        None,
        "a server's"
    );
}
