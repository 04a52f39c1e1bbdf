//! HTTP and WebSocket as far as the inspector of Node.js needs them: a client, of this machine, text frames.
//!
//! The other side is a process under study: it may be slow, broken or hostile. Every length has a bound, and what is
//! asked on a fresh connection has a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const CONNECT: Duration = Duration::from_secs(1);
/// Of the head of an answer.
const HEAD_BYTES: usize = 16 << 10;
/// `/json/list` of one program is under 1 KiB.
const BODY_BYTES: usize = 256 << 10;
/// Of one message. Chunks of a heap snapshot are 100 KiB; a sampling profile of 10,000 stacks is some MiB.
const MESSAGE_BYTES: u64 = 64 << 20;

/// A connection whose reads and writes end at a moment.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    fn connect(address: SocketAddr, within: Duration) -> io::Result<Timed> {
        let stream = TcpStream::connect_timeout(&address, CONNECT.min(within))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(within))?;
        Ok(Timed {
            stream,
            until: Instant::now() + within,
        })
    }

    /// To the empty line, a byte at a time: what follows belongs to the next reader.
    fn read_head(&mut self) -> io::Result<String> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == HEAD_BYTES {
                return Err(invalid("the head of its answer is too long"));
            }
            self.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The body of `GET path`.
pub fn get(address: SocketAddr, path: &str, within: Duration) -> io::Result<Vec<u8>> {
    let mut timed = Timed::connect(address, within)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    timed.stream.write_all(request.as_bytes())?;
    let head = timed.read_head()?;
    if status(&head) != Some(200) {
        return Err(invalid("it does not answer as an inspector does"));
    }
    let length = header(&head, "content-length").and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    timed
        .take(length.unwrap_or(BODY_BYTES).min(BODY_BYTES) as u64)
        .read_to_end(&mut body)?;
    Ok(body)
}

/// Opens the WebSocket at `path`.
pub fn upgrade(address: SocketAddr, path: &str, within: Duration) -> io::Result<TcpStream> {
    let mut timed = Timed::connect(address, within)?;
    // The key proves that the server speaks WebSocket, to clients that cannot be sure of it; that this one is the
    // process's own inspector was seen before.
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: aGlnaHdhdGVyLXJlYWRlcg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    timed.stream.write_all(request.as_bytes())?;
    let head = timed.read_head()?;
    if status(&head) != Some(101) {
        return Err(invalid(
            "it does not accept a WebSocket; another debugger may be attached",
        ));
    }
    timed.stream.set_read_timeout(None)?;
    Ok(timed.stream)
}

/// `HTTP/1.1 200 OK`
fn status(head: &str) -> Option<u16> {
    let words = head.strip_prefix("HTTP/1.")?;
    words.split(' ').nth(1)?.parse().ok()
}

fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    values.next().map(|(_, value)| value.trim())
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// One text frame, masked as a client's must be. The mask hides text from proxies; there is none here, so it is zero.
pub fn frame(text: &str) -> Vec<u8> {
    let length = text.len();
    let mut bytes = vec![FINAL | TEXT];
    if length < 126 {
        bytes.push(MASKED | length as u8);
    } else if let Ok(length) = u16::try_from(length) {
        bytes.push(MASKED | 126);
        bytes.extend(length.to_be_bytes());
    } else {
        bytes.push(MASKED | 127);
        bytes.extend((length as u64).to_be_bytes());
    }
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    bytes
}

/// The next text message; `None` when the other side closes.
pub fn read_message(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    loop {
        let mut head = [0; 2];
        from.read_exact(&mut head)?;
        let length = read_length(from, head[1])?;
        if length > MESSAGE_BYTES - message.len() as u64 {
            return Err(invalid("a message is too long"));
        }
        let opcode = head[0] & 0x0f;
        if opcode == CLOSE {
            return Ok(None);
        }
        // Pings and pongs (above CLOSE) are dropped: the inspector sends none.
        if opcode > CLOSE {
            io::copy(&mut from.take(length), &mut io::sink())?;
            continue;
        }
        if from.take(length).read_to_end(&mut message)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if head[0] & FINAL != 0 {
            return Ok(Some(message));
        }
    }
}

fn read_length(from: &mut impl Read, byte: u8) -> io::Result<u64> {
    if byte & MASKED != 0 {
        return Err(invalid("a server's frame is masked"));
    }
    let mut bytes = [0; 8];
    match byte {
        126 => from.read_exact(&mut bytes[6..])?,
        127 => from.read_exact(&mut bytes)?,
        short => bytes[7] = short,
    }
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back_whatever_its_length() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let text = "x".repeat(length);
            let mut bytes = frame(&text);
            // What a server sends has no mask.
            bytes[1] &= !MASKED;
            let mask = bytes.len() - length - 4;
            bytes.drain(mask..mask + 4);
            let message = read_message(&mut &bytes[..]).expect("a message");
            assert_eq!(message, Some(text.into_bytes()));
        }
    }

    #[test]
    fn broken_frames_are_errors() {
        let cut = [FINAL | TEXT, 5, b'a'];
        let masked = [FINAL | TEXT, MASKED | 1, 0, 0, 0, 0, b'a'];
        let mut huge = vec![FINAL | TEXT, 127];
        huge.extend(u64::MAX.to_be_bytes());
        let mut longer_than_all = vec![FINAL | TEXT, 127];
        longer_than_all.extend((1u64 << 40).to_be_bytes());
        for bytes in [&cut[..], &masked, &huge, &longer_than_all, &[]] {
            assert!(read_message(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
        assert_eq!(
            read_message(&mut &[FINAL | CLOSE, 0][..]).expect("closed"),
            None
        );
    }

    #[test]
    fn parts_of_a_message_are_put_together() {
        let bytes = [TEXT, 1, b'a', FINAL | 9, 1, b'p', FINAL, 1, b'b'];
        assert_eq!(
            read_message(&mut &bytes[..]).expect("a message"),
            Some(b"ab".to_vec())
        );
    }

    #[test]
    fn heads_are_read() {
        let head =
            "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(status(head), Some(200));
        assert_eq!(header(head, "content-length"), Some("12"));
        assert_eq!(status("SSH-2.0-OpenSSH"), None);
    }
}
