//! The bytes between player and server, over TCP and inside WebSocket messages alike.
//!
//! A frame is its payload's length (u16), a kind (u8) and the payload; all integers little-endian.
//!
//! | from | kind | payload |
//! |---|---|---|
//! | player | 1 hello | token u64, 0 for a new session |
//! | server | 1 welcome | token u64, taps u32 (all up to this number are known), coins u32 |
//! | player | 2 tap | number u32 (one more than the last), x u16, y u16 |
//! | server | 2 coin | number u32, coin u64 |
//! | player | 3 ping | 8 bytes |
//! | server | 3 pong | the same 8 bytes |
//! | server | 255 refusal | what was refused u8, number u32 |

/// Largest payload a player may send. A frame that claims more ends the connection at once: nothing is buffered.
pub const PAYLOAD_MAX: usize = 16;
/// Bytes before the payload.
pub const HEADER: usize = 3;
/// Largest frame of the server.
pub const ANSWER_MAX: usize = HEADER + 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Hello { token: u64 },
    Tap { number: u32, x: u16, y: u16 },
    Ping([u8; 8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Welcome { token: u64, taps: u32, coins: u32 },
    Coin { number: u32, coin: u64 },
    Pong([u8; 8]),
    Refusal { why: Refused, number: u32 },
}

/// What the server did not do, and why; the connection goes on unless [`Refused::ends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refused {
    /// Too old to be repeated: its coin was given long ago.
    Old = 1,
    /// Not the next number.
    Ahead = 2,
    /// No such session, or it has expired: say hello with token 0.
    Unknown = 3,
    /// The log could not be written. The same tap may be sent again.
    NotStored = 4,
    /// No room for another session.
    Full = 5,
    /// A tap before the hello.
    NoHello = 6,
}

impl Refused {
    pub fn of(number: u8) -> Option<Refused> {
        use Refused::*;
        [Old, Ahead, Unknown, NotStored, Full, NoHello]
            .into_iter()
            .find(|why| *why as u8 == number)
    }
}

/// Why bytes are no frame. The connection is dropped: there is no way to find the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Length,
    Kind,
}

/// The first frame in `bytes` and its length; `None` when more bytes are needed.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Broken> {
    let Some((kind, payload, length)) = split(bytes, PAYLOAD_MAX)? else {
        return Ok(None);
    };
    let request = match (kind, payload.len()) {
        (1, 8) => Request::Hello {
            token: u64_at(payload, 0),
        },
        (2, 8) => Request::Tap {
            number: u32_at(payload, 0),
            x: u16_at(payload, 4),
            y: u16_at(payload, 6),
        },
        (3, 8) => Request::Ping(u64_at(payload, 0).to_le_bytes()),
        (1..=3, _) => return Err(Broken::Length),
        _ => return Err(Broken::Kind),
    };
    Ok(Some((request, length)))
}

/// The first answer in `bytes` and its length; `None` when more bytes are needed.
pub fn parse_answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>, Broken> {
    let Some((kind, payload, length)) = split(bytes, ANSWER_MAX - HEADER)? else {
        return Ok(None);
    };
    let answer = match (kind, payload.len()) {
        (1, 16) => Answer::Welcome {
            token: u64_at(payload, 0),
            taps: u32_at(payload, 8),
            coins: u32_at(payload, 12),
        },
        (2, 12) => Answer::Coin {
            number: u32_at(payload, 0),
            coin: u64_at(payload, 4),
        },
        (3, 8) => Answer::Pong(u64_at(payload, 0).to_le_bytes()),
        (255, 5) => Answer::Refusal {
            why: Refused::of(payload[0]).ok_or(Broken::Kind)?,
            number: u32_at(payload, 1),
        },
        (1..=3 | 255, _) => return Err(Broken::Length),
        _ => return Err(Broken::Kind),
    };
    Ok(Some((answer, length)))
}

/// Kind, payload, and the length of the whole frame.
type Parts<'a> = (u8, &'a [u8], usize);

fn split(bytes: &[u8], payload_max: usize) -> Result<Option<Parts<'_>>, Broken> {
    if bytes.len() >= 2 && usize::from(u16_at(bytes, 0)) > payload_max {
        return Err(Broken::Length);
    }
    if bytes.len() < HEADER {
        return Ok(None);
    }
    let length = HEADER + usize::from(u16_at(bytes, 0));
    Ok(bytes
        .get(HEADER..length)
        .map(|payload| (bytes[2], payload, length)))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A frame in a place of its own: nothing is allocated for it.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    bytes: [u8; ANSWER_MAX],
    length: usize,
}

impl Frame {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn new(kind: u8) -> Frame {
        let mut bytes = [0; ANSWER_MAX];
        bytes[2] = kind;
        Frame {
            bytes,
            length: HEADER,
        }
    }

    fn with(mut self, part: &[u8]) -> Frame {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
        self.bytes[0] = (self.length - HEADER) as u8;
        self
    }
}

impl Request {
    pub fn frame(&self) -> Frame {
        match self {
            Request::Hello { token } => Frame::new(1).with(&token.to_le_bytes()),
            Request::Tap { number, x, y } => Frame::new(2)
                .with(&number.to_le_bytes())
                .with(&x.to_le_bytes())
                .with(&y.to_le_bytes()),
            Request::Ping(bytes) => Frame::new(3).with(bytes),
        }
    }
}

impl Answer {
    pub fn frame(&self) -> Frame {
        match self {
            Answer::Welcome { token, taps, coins } => Frame::new(1)
                .with(&token.to_le_bytes())
                .with(&taps.to_le_bytes())
                .with(&coins.to_le_bytes()),
            Answer::Coin { number, coin } => Frame::new(2)
                .with(&number.to_le_bytes())
                .with(&coin.to_le_bytes()),
            Answer::Pong(bytes) => Frame::new(3).with(bytes),
            Answer::Refusal { why, number } => Frame::new(255)
                .with(&[*why as u8])
                .with(&number.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: [Request; 3] = [
        Request::Hello {
            token: u64::MAX - 3,
        },
        Request::Tap {
            number: 70_000,
            x: 1,
            y: u16::MAX,
        },
        Request::Ping(*b"12345678"),
    ];

    #[test]
    fn requests_survive_the_wire_and_need_all_their_bytes() {
        for request in REQUESTS {
            let frame = request.frame();
            let bytes = frame.bytes();
            assert_eq!(parse_request(bytes), Ok(Some((request, bytes.len()))));
            for cut in 0..bytes.len() {
                assert_eq!(
                    parse_request(&bytes[..cut]),
                    Ok(None),
                    "{request:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn answers_survive_the_wire() {
        for answer in [
            Answer::Welcome {
                token: 1 << 60,
                taps: 7,
                coins: 6,
            },
            Answer::Coin {
                number: 9,
                coin: u64::MAX,
            },
            Answer::Pong([0xff; 8]),
            Answer::Refusal {
                why: Refused::NotStored,
                number: 3,
            },
        ] {
            let frame = answer.frame();
            assert_eq!(
                parse_answer(frame.bytes()),
                Ok(Some((answer, frame.bytes().len())))
            );
        }
    }

    #[test]
    fn a_huge_length_is_refused_from_its_first_two_bytes() {
        assert_eq!(parse_request(&[0xff, 0xff]), Err(Broken::Length));
        assert_eq!(parse_request(&[17, 0, 2]), Err(Broken::Length));
        assert_eq!(
            parse_request(&[8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(Broken::Kind)
        );
        assert_eq!(parse_request(&[1, 0, 1, 0]), Err(Broken::Length));
    }

    #[test]
    fn random_bytes_never_panic() {
        let seed = 2;
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let _ = (parse_request(&bytes), parse_answer(&bytes));
        }
    }
}
