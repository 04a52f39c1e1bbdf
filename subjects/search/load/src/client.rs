//! One reader: a connection for each question, an answer read to its end and looked at.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use highwater_load::clock::now_ns;
use highwater_load::{Connection, Outcome};
use socket2::{Domain, Socket, Type};

use crate::mix::{Kind, Mix, Question};

/// What a far client takes at a time; its receive window is no larger.
const PIECE: usize = 8 * 1024;
/// The largest latency (in nanoseconds) or size that is told apart.
const MOST: u64 = 100_000_000_000;
const ANSWER_MAX: usize = 4 << 20;

/// What all readers have seen.
pub struct Seen {
    /// From sending to the last byte; the lines of the load count from when it was due.
    pub latency: Histogram<u64>,
    pub narrow: Histogram<u64>,
    pub broad: Histogram<u64>,
    pub wrong: u64,
    pub first_wrong: String,
    requests: Option<BufWriter<File>>,
}

impl Seen {
    pub fn new(requests: Option<BufWriter<File>>) -> Seen {
        let histogram = || Histogram::new_with_bounds(1, MOST, 3).expect("bounds that are allowed");
        Seen {
            latency: histogram(),
            narrow: histogram(),
            broad: histogram(),
            wrong: 0,
            first_wrong: String::new(),
            requests,
        }
    }

    /// # Errors
    /// When the file of requests cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.requests.as_mut().map_or(Ok(()), |file| file.flush())
    }

    fn answered(&mut self, question: &Question, answer: &[u8], start_ns: u64, end_ns: u64) {
        self.latency.saturating_record(end_ns - start_ns);
        if let Some(file) = &mut self.requests {
            // A full disk is said at the end, by flush.
            let _ = writeln!(file, "{start_ns},{end_ns}");
        }
        match question.kind {
            Kind::Narrow => self.narrow.saturating_record(answer.len() as u64),
            Kind::Broad => self.broad.saturating_record(answer.len() as u64),
            _ => {}
        }
    }

    fn wrong(&mut self, question: &Question, why: String) {
        if self.wrong == 0 {
            self.first_wrong = format!("{}: {why}", question.target);
        }
        self.wrong += 1;
    }
}

pub struct Client {
    pub server: SocketAddr,
    pub timeout: Duration,
    pub round_trip: Duration,
    pub mix: Arc<Mix>,
    pub seen: Arc<Mutex<Seen>>,
}

impl Connection for Client {
    fn request(&mut self, number: u64) -> Outcome {
        let question = self.mix.question(number);
        let start_ns = now_ns();
        match self.ask(&question) {
            Ok(answer) => self.look_at(&question, &answer, start_ns),
            Err(error) if is_late(&error) => Outcome::TimedOut,
            Err(_) => Outcome::Failed,
        }
    }
}

impl Client {
    fn ask(&self, question: &Question) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        let mut stream = self.connect(question.is_far)?;
        stream.set_write_timeout(Some(self.timeout))?;
        let head = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\n\r\n",
            question.target, self.server
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::with_capacity(40 * 1024);
        let mut piece = vec![0; if question.is_far { PIECE } else { 64 * 1024 }];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || answer.len() > ANSWER_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut piece)? {
                0 => return Ok(answer),
                more => answer.extend_from_slice(&piece[..more]),
            }
            if question.is_far {
                std::thread::sleep(self.round_trip);
            }
        }
    }

    /// The receive window is that of the socket's buffer before it connects.
    fn connect(&self, is_far: bool) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        if is_far {
            socket.set_recv_buffer_size(PIECE)?;
        }
        socket.connect_timeout(&self.server.into(), self.timeout)?;
        Ok(socket.into())
    }

    fn look_at(&self, question: &Question, answer: &[u8], start_ns: u64) -> Outcome {
        let end_ns = now_ns();
        let mut seen = self
            .seen
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match check(answer) {
            Ok(()) => {
                seen.answered(question, answer, start_ns, end_ns);
                Outcome::Answered
            }
            Err(why) => {
                seen.wrong(question, why);
                Outcome::Failed
            }
        }
    }
}

/// Whether it is a whole answer of status 200 whose body is JSON with something in it.
fn check(answer: &[u8]) -> Result<(), String> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = head.parse(answer) else {
        return Err(format!("{} bytes that are no answer", answer.len()));
    };
    let body = &answer[length..];
    if head.code != Some(200) {
        let said = String::from_utf8_lossy(&body[..body.len().min(200)]);
        return Err(format!("status {:?}: {said}", head.code));
    }
    let said = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let said = said.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    if said != Some(body.len()) {
        return Err(format!("{} bytes instead of {said:?}", body.len()));
    }
    let is_whole = matches!(
        (body.first(), body.last()),
        (Some(b'[' | b'{'), Some(b']' | b'}'))
    );
    if is_whole {
        Ok(())
    } else {
        Err("a body that is no JSON".to_string())
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_only_when_it_is_whole() {
        let answer = |length: usize, body: &str| {
            check(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes())
        };
        assert_eq!(answer(4, "[{}]"), Ok(()));
        assert!(answer(5, "[{}]").unwrap_err().contains("instead"));
        assert!(answer(2, "ok").unwrap_err().contains("JSON"));
        assert!(
            check(b"HTTP/1.1 503 No\r\n\r\nbusy")
                .unwrap_err()
                .contains("busy")
        );
        assert!(check(b"").is_err());
    }
}
