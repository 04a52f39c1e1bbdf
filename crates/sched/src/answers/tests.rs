//! The kernel's word on requests to a server of this process.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use bpf::allowed::Allowed;
use rustix::event::{PollFd, PollFlags, poll};
use testkit::skipped;

use super::{Answers, Told};
use crate::time::now_ns;

/// Long enough to be told from what else takes time.
const SLOW: Duration = Duration::from_millis(60);
const QUEUED: Duration = Duration::from_millis(40);

/// Both tests watch this process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// `None`: the kernel or the user does not allow it.
fn answers() -> Option<Answers> {
    if let Err(why) = Allowed::try_all().bpf {
        skipped(&format!("programs need root: {why}"));
        return None;
    }
    match Answers::attach(std::process::id()) {
        Ok(answers) => Some(answers),
        Err(why) if why.to_string().contains("6.3") => {
            skipped(&why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Takes a request some time after its arrival, and answers it in two pieces after some more.
fn serve(stream: &mut (impl Read + Write + AsFd), queued: Duration) {
    let mut request = [0; 16];
    poll(&mut [PollFd::new(stream, PollFlags::IN)], None).unwrap();
    sleep(queued);
    let length = stream.read(&mut request).unwrap();
    assert!(length > 0);
    sleep(SLOW);
    stream.write_all(b"head").unwrap();
    stream.write_all(b"body").unwrap();
}

fn ask(stream: &mut (impl Read + Write)) {
    stream.write_all(b"request").unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
}

fn took(told: &Told) -> Duration {
    Duration::from_nanos(told.answered_ns - told.arrived_ns)
}

fn queued(told: &Told) -> Duration {
    Duration::from_nanos(told.received_ns - told.arrived_ns)
}

/// Client and server are this process: the client's side must not count, before and after the watch began.
#[test]
fn requests_are_told_from_arrival_to_answer_and_a_clients_are_not() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut before = TcpStream::connect(address).unwrap();
    let (mut before_served, _) = listener.accept().unwrap();
    // Or the second piece waits 40 ms for the client's delayed acknowledgement of the first.
    before_served.set_nodelay(true).unwrap();
    let Some(mut answers) = answers() else { return };
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            serve(&mut before_served, QUEUED);
        }
        let (mut served, _) = listener.accept().unwrap();
        served.set_nodelay(true).unwrap();
        for _ in 0..2 {
            serve(&mut served, QUEUED);
        }
    });
    let mut told = Vec::new();
    for _ in 0..3 {
        ask(&mut before);
        told.extend(answers.drain(now_ns(), u64::MAX));
    }
    let mut after = TcpStream::connect(address).unwrap();
    for _ in 0..2 {
        ask(&mut after);
        told.extend(answers.drain(now_ns(), u64::MAX));
    }
    server.join().unwrap();
    told.extend(answers.drain(now_ns(), u64::MAX));
    assert_eq!(told.len(), 5, "{told:#?}");
    assert!(told.iter().all(|told| took(told) >= SLOW), "{told:#?}");
    assert!(told.iter().all(|told| told.receiver == told.sender));
    // Of the connection that was there, the first request's arrival is not known.
    let waited: Vec<bool> = told.iter().map(|told| queued(told) >= QUEUED / 2).collect();
    assert_eq!(waited, [false, true, true, true, true], "{told:#?}");
    assert_eq!(answers.unseen(now_ns()).uncounted, 0);
    // What was sent first on the connection that was there is not known to have been asked.
    let replies = answers.replies(u64::MAX);
    assert_eq!(replies.len(), 4, "{replies:#?}");
    for reply in &replies {
        assert_eq!(reply.peer, address.to_string());
        assert!(
            reply.replied_ns - reply.asked_ns >= SLOW.as_nanos() as u64,
            "{reply:?}"
        );
    }
}

/// As most clients of HTTP do without a pool: when it is told, the descriptor is another's, or nobody's.
#[test]
fn the_peer_of_a_connection_that_is_closed_at_once_is_known() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let Some(mut answers) = answers() else { return };
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut served, _) = listener.accept().unwrap();
            served.set_nodelay(true).unwrap();
            serve(&mut served, QUEUED);
        }
    });
    for _ in 0..3 {
        let client = std::thread::spawn(move || ask(&mut TcpStream::connect(address).unwrap()));
        sleep(QUEUED / 2);
        answers.drain(now_ns(), u64::MAX);
        client.join().unwrap();
    }
    server.join().unwrap();
    answers.drain(now_ns(), u64::MAX);
    let replies = answers.replies(u64::MAX);
    let known = replies
        .iter()
        .filter(|reply| reply.peer == address.to_string());
    assert_eq!((replies.len(), known.count()), (3, 3), "{replies:#?}");
}

#[test]
fn a_unix_socket_with_a_name_has_requests_and_a_pair_has_none() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let Some(mut answers) = answers() else { return };
    let (mut left, mut right) = UnixStream::pair().unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let (mut served, _) = listener.accept().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            serve(&mut served, Duration::ZERO);
            serve(&mut right, Duration::ZERO);
        }
    });
    let mut told = Vec::new();
    for _ in 0..2 {
        ask(&mut client);
        ask(&mut left);
        told.extend(answers.drain(now_ns(), u64::MAX));
    }
    server.join().unwrap();
    told.extend(answers.drain(now_ns(), u64::MAX));
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told.iter().all(|told| took(told) >= SLOW), "{told:#?}");
}
