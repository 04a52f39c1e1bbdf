//! Why what a program wrote to a TCP connection is not with its peer: it waits for a reply, or for the next request,
//! and the peer has not got all of the last one.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::sockopt;

/// `SIOCOUTQNSD` of linux/sockios.h: bytes that were written and not sent.
const NOT_SENT: libc::Ioctl = 0x894B;

/// What the kernel tells of the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Bytes that were written and not sent.
    pub unsent: u32,
    /// Segments that were sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes of a full segment.
    pub segment: u32,
    /// Segments that may be on their way at a time.
    pub window: u32,
    /// How often the oldest one was sent again.
    pub retransmits: u8,
    /// How often a peer whose buffer is full was asked for room, and did not answer.
    pub probes: u8,
    /// Small segments wait until all others are acknowledged (`TCP_NODELAY` of tcp(7) is off).
    pub gathers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// By Nagle's algorithm (`tcp_nagle_check` of net/ipv4/tcp_output.c), until the peer acknowledges: it may take
    /// 40 ms for that.
    Gathered,
    /// Sent again and again.
    Lost,
    /// By a peer that does not read: nothing is on its way, and the rest may not go.
    Full,
}

impl HeldBack {
    pub fn words(self) -> &'static str {
        match self {
            HeldBack::Gathered => {
                "Nagle's algorithm holds back the end of what it was sent: set TCP_NODELAY, or write it at once"
            }
            HeldBack::Lost => {
                "what it sent is not acknowledged, and is sent again: packets are lost"
            }
            HeldBack::Full => "the peer's buffer is full: it does not read",
        }
    }
}

impl Outgoing {
    /// Of a socket; `None`: it is no stream over TCP.
    pub fn of(socket: &OwnedFd) -> Option<Outgoing> {
        let gathers = !sockopt::tcp_nodelay(socket).ok()?;
        let info = info_of(socket)?;
        Some(Outgoing {
            unsent: unsent_of(socket)?,
            unacknowledged: info.tcpi_unacked,
            segment: info.tcpi_snd_mss,
            window: info.tcpi_snd_cwnd,
            retransmits: info.tcpi_retransmits,
            probes: info.tcpi_probes,
            gathers,
        })
    }

    /// `None`: nothing is, or the network's own pace keeps it.
    pub fn held_back(&self) -> Option<HeldBack> {
        let is_partial = self.unsent > 0 && self.unsent < self.segment;
        let may_go = (1..self.window).contains(&self.unacknowledged);
        match self {
            // An answer to a probe sets their count to 0 (`tcp_ack_probe` of net/ipv4/tcp_input.c).
            _ if self.retransmits > 0 || self.probes > 1 => Some(HeldBack::Lost),
            _ if self.unsent > 0 && self.unacknowledged == 0 => Some(HeldBack::Full),
            _ if self.gathers && is_partial && may_go => Some(HeldBack::Gathered),
            _ => None,
        }
    }
}

/// Samples of threads that wait for the next request of their client, and in how many Nagle's algorithm still held
/// the end of the last answer back.
#[derive(Debug, Default)]
pub struct Answers {
    samples: u64,
    gathered: u64,
}

/// Fewer are chance, and a smaller part is not what makes a service slow.
const GATHERED_MIN: u64 = 5;
const GATHERED_PART: u64 = 20;

impl Answers {
    pub fn take(&mut self, held: Option<HeldBack>) {
        self.samples += 1;
        self.gathered += u64::from(held == Some(HeldBack::Gathered));
    }

    /// What is said where that was so often.
    pub fn sentence(&self) -> Option<String> {
        let Answers { samples, gathered } = self;
        let is_often = *gathered >= GATHERED_MIN && gathered * GATHERED_PART >= *samples;
        is_often.then(|| {
            format!(
                "delays that clients see and the requests below do not contain: in {gathered} of {samples} samples of \
                 waits for a client's next request, the end of the last answer was still unsent. Nagle's algorithm \
                 holds it until the client acknowledges the rest, up to 40 ms: set TCP_NODELAY, or write an answer in \
                 one call"
            )
        })
    }
}

fn unsent_of(socket: &OwnedFd) -> Option<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, to `bytes`, which lives until after the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), NOT_SENT, &raw mut bytes) };
    u32::try_from(bytes).ok().filter(|_| failed == 0)
}

fn info_of(socket: &OwnedFd) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `info`, which lives until after the call.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    // SAFETY: all of its fields are integers, which any bits are, and what the kernel left is zeros.
    (failed == 0).then(|| unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_second_of_two_small_writes_is_held_back_unless_asked_not_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let was_held_back = |client: &mut TcpStream| {
            // The peer acknowledges at its leisure, as it does in a conversation.
            sockopt::set_tcp_quickack(&server, false).unwrap();
            client.write_all(b"a").unwrap();
            client.write_all(b"b").unwrap();
            let socket = OwnedFd::from(client.try_clone().unwrap());
            Outgoing::of(&socket).unwrap().held_back() == Some(HeldBack::Gathered)
        };
        while !was_held_back(&mut client) {
            assert!(Instant::now() < until, "it never was");
            std::thread::sleep(Duration::from_millis(60));
        }
        client.set_nodelay(true).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        assert!((0..5).all(|_| !was_held_back(&mut client)));
        let (pair, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(Outgoing::of(&OwnedFd::from(pair)), None);
    }

    #[test]
    fn answers_are_said_to_be_held_back_where_they_often_are() {
        let mut answers = Answers::default();
        (0..4).for_each(|_| answers.take(Some(HeldBack::Gathered)));
        assert_eq!(answers.sentence(), None, "chance");
        answers.take(Some(HeldBack::Gathered));
        (0..95).for_each(|_| answers.take(None));
        let words = answers.sentence().unwrap();
        assert!(words.contains("in 5 of 100 samples"), "{words}");
        answers.take(Some(HeldBack::Full));
        assert_eq!(answers.sentence(), None, "too small a part");
    }

    #[test]
    fn why_bytes_stay_is_told_by_the_kernels_numbers() {
        let quiet = Outgoing {
            segment: 1_448,
            window: 10,
            gathers: true,
            ..Outgoing::default()
        };
        let held = |of: Outgoing| of.held_back();
        let (unsent, unacknowledged) = (70, 1);
        assert_eq!(held(quiet), None);
        assert_eq!(held(Outgoing { unsent, ..quiet }), Some(HeldBack::Full));
        let small = Outgoing {
            unsent,
            unacknowledged,
            ..quiet
        };
        assert_eq!(held(small), Some(HeldBack::Gathered));
        let window = 1;
        assert_eq!(
            held(Outgoing { window, ..small }),
            None,
            "the network's pace"
        );
        let unsent = 14_480;
        assert_eq!(held(Outgoing { unsent, ..small }), None, "full segments");
        let (probes, retransmits) = (2, 1);
        assert_eq!(held(Outgoing { probes, ..small }), Some(HeldBack::Lost));
        let lost = Outgoing {
            retransmits,
            ..small
        };
        assert_eq!(held(lost), Some(HeldBack::Lost));
    }

    #[test]
    fn a_peer_that_does_not_read_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let socket = OwnedFd::from(client.try_clone().unwrap());
        while Outgoing::of(&socket).unwrap().held_back() != Some(HeldBack::Full) {
            assert!(Instant::now() < until, "{:?}", Outgoing::of(&socket));
            // It is full at some time.
            let _ = client.write(&[0; 1 << 16]);
        }
    }
}
