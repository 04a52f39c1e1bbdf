//! Records of the log: 40 bytes each, with a checksum, so that a torn one is found and the next one too.

/// Bytes of a record.
pub const RECORD: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A session was opened.
    Opened { token: u64, at_s: u32 },
    /// A coin was given for a tap.
    Coin {
        token: u64,
        number: u32,
        coin: u64,
        x: u16,
        y: u16,
        at_s: u32,
    },
    /// A session expired.
    Closed { token: u64 },
}

/// kind u8, 3 bytes 0, token u64, coin u64, number u32, at_s u32, x u16, y u16, 4 bytes 0, crc32 u32.
pub fn write(record: &Record, out: &mut Vec<u8>) {
    let (kind, token, coin, number, at_s, x, y) = match *record {
        Record::Opened { token, at_s } => (1u8, token, 0, 0, at_s, 0, 0),
        Record::Coin {
            token,
            number,
            coin,
            x,
            y,
            at_s,
        } => (2, token, coin, number, at_s, x, y),
        Record::Closed { token } => (3, token, 0, 0, 0, 0, 0),
    };
    let first = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&token.to_le_bytes());
    out.extend_from_slice(&coin.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&at_s.to_le_bytes());
    out.extend_from_slice(&x.to_le_bytes());
    out.extend_from_slice(&y.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let sum = crc32fast::hash(&out[first..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// A whole record, or `None` for bytes that are none.
pub fn parse(bytes: &[u8; RECORD]) -> Option<Record> {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if crc32fast::hash(&bytes[..RECORD - 4]) != word(RECORD - 4) {
        return None;
    }
    let (token, at_s) = (long(4), word(24));
    Some(match bytes[0] {
        1 => Record::Opened { token, at_s },
        2 => Record::Coin {
            token,
            number: word(20),
            coin: long(12),
            x: word(28) as u16,
            y: (word(28) >> 16) as u16,
            at_s,
        },
        3 => Record::Closed { token },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_one_wrong_bit_is_seen() {
        for record in [
            Record::Opened {
                token: 1 << 63,
                at_s: 9,
            },
            Record::Coin {
                token: 5,
                number: 70_000,
                coin: u64::MAX,
                x: 1,
                y: 0xfffe,
                at_s: 77,
            },
            Record::Closed { token: 3 },
        ] {
            let mut bytes = Vec::new();
            write(&record, &mut bytes);
            let mut bytes: [u8; RECORD] = bytes.try_into().unwrap();
            assert_eq!(parse(&bytes), Some(record));
            for bit in 0..RECORD * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse(&bytes), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert_eq!(parse(&[0; RECORD]), None);
    }
}
