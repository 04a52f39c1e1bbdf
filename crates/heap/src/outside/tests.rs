//! Readings of this very process, and of mounts that may hang.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;

use procfs::FromRead;
use procfs::process::{MountInfo, MountInfos};

use super::*;

const SENT: usize = 100_000;
/// A watch of one test is one of this process, which the others read too.
static ON_MEMORY: Mutex<()> = Mutex::new(());

fn read() -> Outside {
    let _alone = ON_MEMORY.lock();
    read_alone()
}

fn read_alone() -> Outside {
    let pid = std::process::id() as i32;
    Reader::new(pid).read(&[]).expect("it is our own")
}

#[test]
fn data_that_is_not_read_is_counted_by_whose_connection_it_is() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (mut accepted, _) = server.accept().unwrap();
    accepted.write_all(&vec![7; SENT]).unwrap();
    client.write_all(&[7; 1_000]).unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = udp.local_addr().unwrap();
    udp.send_to(&[7; 500], to).unwrap();
    let held = read().held;
    let of = |connections: Connections| held.get(&Holder::Unread(connections)).copied();
    assert_eq!(
        of(Connections::To(address.to_string())),
        Some(SENT as u64),
        "{held:?}"
    );
    assert_eq!(of(Connections::AcceptedOn(address.port())), Some(1_000));
    assert!(of(Connections::Udp(to.port())) >= Some(500));
    client.read_exact(&mut vec![0; SENT]).unwrap();
    let holder = Holder::Unread(Connections::To(address.to_string()));
    assert_eq!(read().held.get(&holder), None);
}

#[test]
fn files_in_memory_are_counted_with_and_without_a_name() {
    const BYTES: usize = 3 << 20;
    let memory = std::path::Path::new("/dev/shm");
    let folder = tempfile::Builder::new()
        .prefix("outside-")
        .tempdir_in(memory)
        .unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    std::fs::write(folder.path().join("inner/document"), vec![1; BYTES]).unwrap();
    std::fs::hard_link(
        folder.path().join("inner/document"),
        folder.path().join("link"),
    )
    .unwrap();
    let mut deleted = tempfile::tempfile_in(memory).unwrap();
    deleted.write_all(&vec![1; BYTES]).unwrap();
    let memfd = rustix::fs::memfd_create("outside-ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&memfd, &[1; 5_000]).unwrap();
    let held = read().held;
    let ring = Holder::Unnamed("memfd:outside-ring".to_owned());
    assert_eq!(held.get(&ring), Some(&8_192), "{held:?}");
    let name = folder.path().to_string_lossy().into_owned();
    assert_eq!(
        held.get(&Holder::Files(name)),
        Some(&(BYTES as u64)),
        "{held:?}"
    );
    let is_unnamed = |(holder, bytes): (&Holder, &u64)| {
        matches!(holder, Holder::Unnamed(_)) && *bytes == BYTES as u64
    };
    assert!(held.iter().any(is_unnamed), "{held:?}");
}

/// A program that watches its folders gets no event of ours: its mount is counted as a whole.
#[test]
fn a_program_that_watches_a_folder_gets_no_event_of_ours() {
    use rustix::fs::inotify;
    let _alone = ON_MEMORY.lock();
    let memory = std::path::Path::new("/dev/shm");
    let folder = tempfile::Builder::new()
        .prefix("watched-")
        .tempdir_in(memory)
        .unwrap();
    std::fs::write(folder.path().join("document"), vec![1; 2 << 20]).unwrap();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, folder.path(), inotify::WatchFlags::ALL_EVENTS).unwrap();
    let held = read_alone().held;
    let is_whole = |holder: &Holder| *holder == Holder::Files("/dev/shm".to_owned());
    assert!(held.keys().any(is_whole), "{held:?}");
    let event = rustix::io::read(&watch, &mut [0; 4096]);
    assert_eq!(event, Err(rustix::io::Errno::AGAIN));
}

#[test]
fn a_process_that_is_gone_holds_nothing() {
    assert_eq!(Reader::new(i32::MAX - 1).read(&[]), None);
}

#[test]
fn it_is_read_as_often_as_its_cost_allows() {
    let _alone = ON_MEMORY.lock();
    let mut reader = Reader::new(std::process::id() as i32);
    assert!(reader.read(&[]).is_some());
    assert!(reader.read(&[]).is_none());
}

fn mounts(text: &str) -> Vec<MountInfo> {
    MountInfos::from_read(text.as_bytes())
        .unwrap()
        .into_iter()
        .collect()
}

/// Below a file system of a network or of FUSE nothing is opened; nor where the mounts lead in a circle.
#[test]
fn mounts_that_may_hang_are_left_out() {
    let mounts = mounts(
        "1 0 8:1 / / rw - ext4 /dev/vda rw\n\
         2 1 0:20 / /dev/shm rw - tmpfs tmpfs rw\n\
         3 1 0:21 / /mnt rw - fuse.sshfs host: rw\n\
         4 3 0:22 / /mnt/cache rw - tmpfs tmpfs rw\n\
         5 4 0:23 / /mnt/cache/inner rw - tmpfs tmpfs rw\n\
         6 1 0:24 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
         7 8 0:25 / /circle rw - tmpfs tmpfs rw\n\
         8 7 0:26 / /circle/inner rw - tmpfs tmpfs rw\n",
    );
    let found = files::memory_mounts(&mounts);
    let points: Vec<&str> = found
        .filter_map(|mount| mount.mount_point.to_str())
        .collect();
    assert_eq!(points, ["/dev/shm"]);
}

#[test]
fn the_mount_of_an_open_file_is_in_its_information() {
    let text = "pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t3\n";
    assert_eq!(files::mount_of(text), Some(27));
    assert_eq!(files::mount_of("pos:\t0\nmnt_id:\tx\n"), None);
}

#[test]
fn of_many_holders_those_with_most_are_kept_and_no_byte_is_lost() {
    let to = |number: u64| Holder::Unread(Connections::To(format!("10.0.0.1:{number}")));
    let held: BTreeMap<Holder, u64> = (1..=1_000).map(|number| (to(number), number)).collect();
    let all: u64 = held.values().sum();
    let kept = largest(held);
    assert_eq!(
        (kept.len(), kept.values().sum::<u64>()),
        (HOLDERS_MAX + 1, all)
    );
    assert!(kept.contains_key(&to(1_000)) && !kept.contains_key(&to(1)));
}
