//! Numbers and strings of a recording, one behind the other.

const TEXT_BYTES_MAX: u64 = 1 << 16;

/// Reads what stands one behind the other. `None`: it ends too early, or a number cannot be one.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    /// 7 bits a byte, the lowest first; a ninth byte has 8.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..56).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        Some(number | u64::from(self.byte()?) << 56)
    }

    /// A string that stands here; an empty one for null and for one that is in a pool, whose number is passed over.
    pub fn text(&mut self) -> Option<Option<String>> {
        match self.byte()? {
            0 | 1 => Some(None),
            2 => self.number().map(|_| None),
            kind @ (3 | 5) => {
                let length = self.number().filter(|length| *length <= TEXT_BYTES_MAX)?;
                let bytes = self.take(length)?;
                Some(Some(match kind {
                    3 => String::from_utf8_lossy(bytes).into_owned(),
                    _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
                }))
            }
            4 => {
                let length = self.number().filter(|length| *length <= TEXT_BYTES_MAX)?;
                let mut units = Vec::new();
                for _ in 0..length {
                    units.push(self.number()? as u16);
                }
                Some(Some(String::from_utf16_lossy(&units)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        let number = |bytes: &[u8]| Cursor::new(bytes).number();
        assert_eq!(number(&[0x05]), Some(5));
        assert_eq!(number(&[0x80, 0x01]), Some(128));
        assert_eq!(number(&[0xff; 9]), Some(u64::MAX));
        assert_eq!(number(&[0x80]), None);
    }

    #[test]
    fn strings_of_each_kind() {
        let text = |bytes: &[u8]| Cursor::new(bytes).text();
        assert_eq!(text(&[0]), Some(None));
        assert_eq!(text(&[3, 2, b'a', b'b']), Some(Some("ab".into())));
        assert_eq!(text(&[4, 1, 0xe9, 0x01]), Some(Some("\u{e9}".into())));
        assert_eq!(text(&[5, 1, 0xe9]), Some(Some("\u{e9}".into())));
        assert_eq!(text(&[3, 9, b'a']), None);
        assert_eq!(text(&[9]), None);
    }
}
