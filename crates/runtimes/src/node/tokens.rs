//! JSON in pieces: a tokenizer that is fed bytes as they arrive.
//!
//! A heap snapshot is larger than the heap, and a sampling profile nests as deep as the stacks it holds: neither goes
//! through a parser that builds values or recurses.

/// Bytes of a string that are kept; names are shorter, and strings of the program may be megabytes.
const STRING_BYTES: usize = 512;
const NUMBER_BYTES: usize = 32;

#[derive(Debug, PartialEq)]
pub enum Token<'a> {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    /// The name of a field.
    Key(&'a str),
    String(&'a str),
    Number(f64),
    /// `true`, `false`, `null`
    Word,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Between,
    InString,
    Escaped,
    InNumber,
    InWord,
}

/// What [`Tokenizer::push`] found wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

#[derive(Debug, Default)]
pub struct Tokenizer {
    state: State,
    /// The start of the current string, escapes as they are.
    text: Vec<u8>,
    digits: Vec<u8>,
    /// Of the current number, while it is digits only.
    value: u64,
    /// A string came last and is given out when it is clear whether it is a key.
    pending: Option<String>,
}

impl Tokenizer {
    /// Gives the tokens of these bytes to `take`, in order.
    pub fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(Token)) -> Result<(), Broken> {
        for &byte in bytes {
            match self.state {
                State::InString => self.in_string(byte),
                State::Escaped => {
                    self.keep(byte);
                    self.state = State::InString;
                }
                State::InNumber if is_number(byte) => self.digit(byte)?,
                State::InWord if byte.is_ascii_alphabetic() => {}
                _ => {
                    self.end_value(take)?;
                    self.start(byte, take)?;
                }
            }
        }
        Ok(())
    }

    fn in_string(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.pending = Some(unescaped(&self.text));
                self.state = State::Between;
            }
            b'\\' => {
                self.keep(byte);
                self.state = State::Escaped;
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < STRING_BYTES {
            self.text.push(byte);
        }
    }

    fn digit(&mut self, byte: u8) -> Result<(), Broken> {
        if self.digits.len() == NUMBER_BYTES {
            return Err(Broken);
        }
        self.digits.push(byte);
        self.value = self
            .value
            .wrapping_mul(10)
            .wrapping_add(u64::from(byte.wrapping_sub(b'0')));
        Ok(())
    }

    /// A number or a word ends at the byte behind it.
    fn end_value(&mut self, take: &mut impl FnMut(Token)) -> Result<(), Broken> {
        match self.state {
            State::InNumber => take(Token::Number(self.number()?)),
            State::InWord => take(Token::Word),
            _ => {}
        }
        self.state = State::Between;
        Ok(())
    }

    fn number(&self) -> Result<f64, Broken> {
        // 15 digits are exact in both.
        if self.digits.len() <= 15 && self.digits.iter().all(u8::is_ascii_digit) {
            return Ok(self.value as f64);
        }
        let text = std::str::from_utf8(&self.digits).map_err(|_| Broken)?;
        text.parse().map_err(|_| Broken)
    }

    fn start(&mut self, byte: u8, take: &mut impl FnMut(Token)) -> Result<(), Broken> {
        if let Some(text) = self.pending.take_if(|_| !byte.is_ascii_whitespace()) {
            take(if byte == b':' {
                Token::Key(&text)
            } else {
                Token::String(&text)
            });
        }
        match byte {
            b'{' => take(Token::ObjectStart),
            b'}' => take(Token::ObjectEnd),
            b'[' => take(Token::ArrayStart),
            b']' => take(Token::ArrayEnd),
            b'"' => {
                self.text.clear();
                self.state = State::InString;
            }
            b':' | b',' => {}
            _ if byte.is_ascii_whitespace() => {}
            _ if is_number(byte) => {
                self.digits.clear();
                self.value = 0;
                self.state = State::InNumber;
                self.digit(byte)?;
            }
            _ if byte.is_ascii_alphabetic() => self.state = State::InWord,
            _ => return Err(Broken),
        }
        Ok(())
    }
}

fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

/// The text of a string; one that was cut inside an escape keeps its escapes.
fn unescaped(raw: &[u8]) -> String {
    if raw.contains(&b'\\') {
        let quoted = [b"\"", raw, b"\""].concat();
        if let Ok(text) = serde_json::from_slice(&quoted) {
            return text;
        }
    }
    String::from_utf8_lossy(raw).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str, piece: usize) -> Result<String, Broken> {
        let mut all = Vec::new();
        let mut tokenizer = Tokenizer::default();
        for part in text.as_bytes().chunks(piece) {
            tokenizer.push(part, &mut |token| all.push(format!("{token:?}")))?;
        }
        Ok(all.join(" "))
    }

    #[test]
    fn pieces_of_any_size_give_the_same_tokens() {
        let text =
            r#"{"a": [1, -2.5e1, "x\n\"\u00e9", true], "b" : {"c":"d"}, "n":12345678901234567}"#;
        let whole = "ObjectStart Key(\"a\") ArrayStart Number(1.0) Number(-25.0) String(\"x\\n\\\"é\") Word ArrayEnd \
            Key(\"b\") ObjectStart Key(\"c\") String(\"d\") ObjectEnd Key(\"n\") \
            Number(1.2345678901234568e16) ObjectEnd";
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(
                tokens(text, piece).as_deref(),
                Ok(whole),
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn long_strings_are_cut_and_garbage_is_an_error() {
        let text = format!("[\"{}\"]", "y".repeat(2000));
        let cut = tokens(&text, 64).expect("tokens");
        assert!(cut.contains(&"y".repeat(STRING_BYTES)) && cut.len() < STRING_BYTES + 50);
        assert_eq!(tokens("[1-]", 9), Err(Broken));
        assert_eq!(tokens("\u{1}", 9), Err(Broken));
        assert_eq!(tokens(&"1".repeat(NUMBER_BYTES + 1), 9), Err(Broken));
    }
}
