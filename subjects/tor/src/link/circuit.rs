//! A circuit of one hop, and directory requests through it.

use std::io;

use aes::Aes128;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use sha1::{Digest, Sha1};

use super::cell::{Command, PAYLOAD};
use super::{Link, wrong};

/// Command, recognized, stream, digest, length.
const HEAD: usize = 11;
const DATA_MAX: usize = PAYLOAD - HEAD;
/// So many cells of data are acknowledged at once: of a circuit, of a stream.
const CIRCUIT_WINDOW: u32 = 100;
const STREAM_WINDOW: u32 = 50;
/// The largest document of a private network is some hundred kB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

mod relay {
    pub const DATA: u8 = 2;
    pub const END: u8 = 3;
    pub const CONNECTED: u8 = 4;
    pub const SENDME: u8 = 5;
    pub const BEGIN_DIR: u8 = 13;
}

/// What both sides derive from their halves of a fast handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub proof: [u8; 20],
    forward_digest: [u8; 20],
    backward_digest: [u8; 20],
    forward: [u8; 16],
    backward: [u8; 16],
}

impl Keys {
    /// KDF-TOR: SHA-1 over both halves and a counter, as often as needed.
    pub fn of(ours: &[u8], theirs: &[u8]) -> Self {
        let block = |count: u8| {
            let hash = Sha1::new().chain_update(ours).chain_update(theirs);
            hash.chain_update([count]).finalize().to_vec()
        };
        let bytes: Vec<u8> = (0..5).flat_map(block).collect();
        let mut at = 0;
        Self {
            proof: cut(&bytes, &mut at),
            forward_digest: cut(&bytes, &mut at),
            backward_digest: cut(&bytes, &mut at),
            forward: cut(&bytes, &mut at),
            backward: cut(&bytes, &mut at),
        }
    }
}

fn cut<const N: usize>(bytes: &[u8], at: &mut usize) -> [u8; N] {
    *at += N;
    bytes[*at - N..*at]
        .try_into()
        .expect("a hundred bytes were made, 92 are used")
}

/// One direction: a stream cipher and a running digest.
struct Direction {
    cipher: Ctr128BE<Aes128>,
    digest: Sha1,
}

impl Direction {
    fn new(key: [u8; 16], seed: [u8; 20]) -> Self {
        Self {
            cipher: Ctr128BE::new(&key.into(), &[0; 16].into()),
            digest: Sha1::new_with_prefix(seed),
        }
    }

    /// Adds a payload whose own digest is zero; the digest so far.
    fn add(&mut self, payload: &[u8]) -> [u8; 20] {
        self.digest.update(payload);
        self.digest.clone().finalize().into()
    }
}

/// A relay cell, decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    command: u8,
    stream: u16,
    data: Vec<u8>,
    /// The circuit's digest up to this cell: what an acknowledgement must quote.
    digest: [u8; 20],
}

/// An answer of a relay's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// With the head.
    pub bytes: usize,
}

pub struct Circuit {
    pub id: u32,
    forward: Direction,
    backward: Direction,
    streams: u16,
    received: u32,
}

impl Circuit {
    pub fn new(id: u32, keys: &Keys) -> Self {
        Self {
            id,
            forward: Direction::new(keys.forward, keys.forward_digest),
            backward: Direction::new(keys.backward, keys.backward_digest),
            streams: 0,
            received: 0,
        }
    }

    /// Asks the relay's directory for `path`, in this encoding.
    ///
    /// # Errors
    /// The relay has no directory, breaks off, or takes too long.
    pub fn fetch(&mut self, link: &mut Link, path: &str, encoding: &str) -> io::Result<Answer> {
        self.streams += 1;
        let stream = self.streams;
        self.send(link, relay::BEGIN_DIR, stream, &[])?;
        let first = self.receive(link)?;
        if first.command != relay::CONNECTED {
            let reason = first.data.first().copied().unwrap_or(0);
            return Err(wrong(format!(
                "it refuses directory requests (reason {reason})"
            )));
        }
        let request = format!("GET {path} HTTP/1.0\r\nAccept-Encoding: {encoding}\r\n\r\n");
        for piece in request.as_bytes().chunks(DATA_MAX) {
            self.send(link, relay::DATA, stream, piece)?;
        }
        let answer = self.read_answer(link, stream)?;
        let status = parse_status(&answer).ok_or_else(|| wrong("no HTTP in its answer".into()))?;
        Ok(Answer {
            status,
            bytes: answer.len(),
        })
    }

    fn read_answer(&mut self, link: &mut Link, stream: u16) -> io::Result<Vec<u8>> {
        let (mut answer, mut cells) = (Vec::new(), 0);
        loop {
            let message = self.receive(link)?;
            if message.stream != stream {
                continue;
            }
            match message.command {
                relay::DATA => answer.extend_from_slice(&message.data),
                relay::END => return Ok(answer),
                _ => continue,
            }
            if answer.len() > ANSWER_BYTES_MAX {
                return Err(wrong("an answer without end".into()));
            }
            cells += 1;
            if cells % STREAM_WINDOW == 0 {
                self.send(link, relay::SENDME, stream, &[])?;
            }
        }
    }

    /// The next cell; acknowledges the circuit's data when it is time.
    fn receive(&mut self, link: &mut Link) -> io::Result<Message> {
        let cell = link.receive_on(self.id)?;
        if cell.command != Command::RELAY {
            return Err(wrong(format!("the circuit has ended ({:?})", cell.command)));
        }
        let message = self.decrypt(cell.payload)?;
        if message.command == relay::DATA {
            self.received += 1;
            if self.received.is_multiple_of(CIRCUIT_WINDOW) {
                let quote = [[1, 0, 20].as_slice(), &message.digest].concat();
                self.send(link, relay::SENDME, 0, &quote)?;
            }
        }
        Ok(message)
    }

    fn send(&mut self, link: &mut Link, command: u8, stream: u16, data: &[u8]) -> io::Result<()> {
        let payload = self.encrypt(command, stream, data);
        link.send(self.id, Command::RELAY, &payload)
    }

    fn encrypt(&mut self, command: u8, stream: u16, data: &[u8]) -> Vec<u8> {
        let mut payload = vec![command, 0, 0];
        payload.extend_from_slice(&stream.to_be_bytes());
        payload.extend_from_slice(&[0; 4]);
        payload.extend_from_slice(&(data.len() as u16).to_be_bytes());
        payload.extend_from_slice(data);
        payload.resize(PAYLOAD, 0);
        let digest = self.forward.add(&payload);
        payload[5..9].copy_from_slice(&digest[..4]);
        self.forward.cipher.apply_keystream(&mut payload);
        payload
    }

    fn decrypt(&mut self, mut payload: Vec<u8>) -> io::Result<Message> {
        self.backward.cipher.apply_keystream(&mut payload);
        let said: [u8; 4] = payload[5..9].try_into().expect("four bytes");
        payload[5..9].fill(0);
        let digest = self.backward.add(&payload);
        let length = usize::from(u16::from_be_bytes([payload[9], payload[10]]));
        if payload[1..3] != [0, 0] || digest[..4] != said || length > DATA_MAX {
            return Err(wrong("a cell that is not for us".into()));
        }
        Ok(Message {
            command: payload[0],
            stream: u16::from_be_bytes([payload[3], payload[4]]),
            data: payload[HEAD..HEAD + length].to_vec(),
            digest,
        })
    }

    /// Tells the relay that the circuit is over.
    ///
    /// # Errors
    /// Those of the link.
    pub fn close(self, link: &mut Link) -> io::Result<()> {
        const NO_REASON: u8 = 0;
        link.send(self.id, Command::DESTROY, &[NO_REASON])
    }
}

/// The status of an HTTP answer.
pub fn parse_status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    words.next().filter(|word| word.starts_with("HTTP/"))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_both_halves() {
        // Computed by Python's hashlib: SHA-1 of 20 bytes 0x01, 20 bytes 0x02 and a counter.
        let keys = Keys::of(&[1; 20], &[2; 20]);
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        assert_eq!(hex(&keys.proof), "b6c026f6c486e50bfc0d5d2aba9777d6fc968342");
        assert_eq!(hex(&keys.backward), "69c95daf0e6ef0504e568d45c789e75a");
        assert_ne!(keys, Keys::of(&[2; 20], &[1; 20]));
    }

    #[test]
    fn the_other_side_can_read_it_and_nobody_can_change_it() {
        let keys = Keys::of(&[1; 20], &[2; 20]);
        let mut ours = Circuit::new(1, &keys);
        let mut theirs = Circuit::new(1, &keys);
        std::mem::swap(&mut theirs.forward, &mut theirs.backward);
        for word in [b"one".as_slice(), b"two"] {
            let cell = ours.encrypt(relay::DATA, 7, word);
            let message = theirs.decrypt(cell).unwrap();
            assert_eq!((message.command, message.stream), (relay::DATA, 7));
            assert_eq!(message.data, word);
        }
        let mut cell = ours.encrypt(relay::DATA, 7, b"three");
        cell[20] ^= 1;
        assert!(theirs.decrypt(cell).is_err());
    }

    #[test]
    fn the_status_of_an_answer() {
        assert_eq!(
            parse_status(b"HTTP/1.0 200 OK\r\nDate: x\r\n\r\nabc"),
            Some(200)
        );
        assert_eq!(parse_status(b"HTTP/1.0 404 Not found\r\n"), Some(404));
        assert_eq!(parse_status(b""), None);
        assert_eq!(parse_status(b"\xff\xfe 200"), None);
    }
}
