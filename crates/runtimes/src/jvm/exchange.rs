//! One command to the attach listener of a JVM and its reply. A connection serves one command.
//!
//! ```text
//! > "1" 0 "inspectheap" 0 "-all" 0 "" 0 "" 0         version of the protocol, command, always three arguments
//! < "0\n" text                                       the command's result code, and what it printed, to the end
//! ```

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::{SendFlags, send};

use super::attach::connect;
use super::target::Target;
use crate::Error;

/// A histogram of 100,000 classes is 10 MB.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// The kernel's timer takes no duration without end.
const WAIT_MAX: Duration = Duration::from_secs(3600);

const CHUNK_BYTES: usize = 64 << 10;

/// How much of the JVM's reason for a refusal is printed.
const REASON_CHARS: usize = 200;

/// The attach listener of a JVM, for some commands.
pub(super) struct Listener<'a> {
    pub(super) target: &'a Target,
    pub(super) deadline: Instant,
    pub(super) bytes_max: usize,
}

impl Listener<'_> {
    /// What a diagnostic command (as of `jcmd`) prints.
    pub(super) fn diagnose(&self, command: &str) -> Result<String, Error> {
        self.ask("jcmd", command)
    }

    /// What a command prints.
    pub(super) fn ask(&self, command: &str, argument: &str) -> Result<String, Error> {
        let connection = Connection {
            stream: connect(self.target, self.deadline)?,
            deadline: self.deadline,
            bytes_max: self.bytes_max.min(REPLY_BYTES_MAX),
        };
        connection.send(&request(command, argument))?;
        parse_reply(command, &connection.receive()?)
    }
}

/// A stream that does not block.
struct Connection {
    stream: OwnedFd,
    deadline: Instant,
    bytes_max: usize,
}

impl Connection {
    fn send(&self, mut request: &[u8]) -> Result<(), Error> {
        while !request.is_empty() {
            // A peer that closed early would end us by SIGPIPE at a plain write.
            match send(&self.stream, request, SendFlags::NOSIGNAL) {
                Ok(sent) => request = &request[sent..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
        Ok(())
    }

    fn receive(&self) -> Result<Vec<u8>, Error> {
        let mut reply = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            // Before each piece: they may come without end.
            self.wait(PollFlags::IN)?;
            match read(&self.stream, &mut chunk[..]) {
                Ok(0) => return Ok(reply),
                Ok(got) if reply.len() + got > self.bytes_max => {
                    let bytes_max = self.bytes_max;
                    return Err(Error::Refused(format!(
                        "the JVM's reply is larger than {bytes_max} bytes"
                    )));
                }
                Ok(got) => reply.extend_from_slice(&chunk[..got]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
    }

    /// Until the stream is ready; an error at the deadline.
    fn wait(&self, events: PollFlags) -> Result<(), Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            let left = Timespec::try_from(left.min(WAIT_MAX)).ok();
            match poll(&mut [PollFd::new(&self.stream, events)], left.as_ref()) {
                Ok(1..) | Err(Errno::INTR) => return Ok(()),
                Ok(0) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
        Err(Error::Refused(
            "the JVM did not reply in the time allowed".into(),
        ))
    }
}

fn request(command: &str, argument: &str) -> Vec<u8> {
    [b"1", command.as_bytes(), argument.as_bytes(), b"", b"", b""].join(&0)
}

/// The text behind the result code.
fn parse_reply(command: &str, reply: &[u8]) -> Result<String, Error> {
    if reply.is_empty() {
        return Err(Error::Refused(format!(
            "the JVM closed the connection without a reply to {command}: it serves only its own user, and root \
             since JDK 11"
        )));
    }
    let text = String::from_utf8_lossy(reply);
    match text.split_once('\n') {
        Some(("0", text)) => Ok(text.to_owned()),
        _ => {
            let reason: String = text.chars().take(REASON_CHARS).collect();
            Err(Error::Refused(format!(
                "the JVM refused {command}: {}",
                reason.trim().replace('\n', " ")
            )))
        }
    }
}

fn broken(errno: Errno) -> Error {
    Error::Refused(format!("the connection to the JVM broke: {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn connection(allowed: Duration) -> (Connection, UnixStream) {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + allowed;
        (
            Connection {
                stream: ours.into(),
                deadline,
                bytes_max: 1 << 20,
            },
            peer,
        )
    }

    #[test]
    fn a_silent_peer_is_left_at_the_deadline() {
        let (connection, _peer) = connection(Duration::from_millis(50));
        assert!(matches!(connection.receive(), Err(Error::Refused(_))));
        let endless = vec![0; 16 << 20];
        assert!(matches!(connection.send(&endless), Err(Error::Refused(_))));
    }

    #[test]
    fn a_peer_that_never_ends_meets_the_limit_of_bytes() {
        let (connection, mut peer) = connection(Duration::from_secs(60));
        let writer = std::thread::spawn(move || while peer.write_all(&[b'x'; 4096]).is_ok() {});
        assert!(matches!(connection.receive(), Err(Error::Refused(why)) if why.contains("larger")));
        drop(connection);
        writer.join().unwrap();
    }

    #[test]
    fn a_peer_that_closes_is_an_error() {
        let (connection, peer) = connection(Duration::from_secs(60));
        drop(peer);
        assert_eq!(connection.receive(), Ok(Vec::new()));
        assert!(matches!(connection.send(b"1"), Err(Error::Refused(_))));
    }

    #[test]
    fn a_request_has_three_arguments() {
        assert_eq!(request("jcmd", "VM.version"), b"1\0jcmd\0VM.version\0\0\0");
    }

    #[test]
    fn a_reply_is_a_code_and_a_text() {
        assert_eq!(
            parse_reply("jcmd", b"0\nOpenJDK\n17\n"),
            Ok("OpenJDK\n17\n".into())
        );
        for bad in [
            &b""[..],
            b"0",
            b"1\nno such command",
            b"101\n",
            b"\xff\xff\n",
            b"00\nx",
        ] {
            assert!(matches!(parse_reply("jcmd", bad), Err(Error::Refused(_))));
        }
    }
}
