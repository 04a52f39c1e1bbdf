//! Bytes to text: gzip unpacked, UTF-16 written anew as UTF-8, a byte-order mark taken off. What is packed
//! otherwise, or no text at all, says what to do.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::ImportError;

/// So much of the beginning decides what the input is.
pub const HEAD_BYTES: usize = 1 << 18;
const CHUNK: usize = 1 << 14;

/// A stream with its beginning put back.
pub type Whole<'a> = Chain<Cursor<Vec<u8>>, Box<dyn Read + 'a>>;

/// Text in UTF-8: its beginning ([`HEAD_BYTES`], or all of it), and what follows.
pub struct Text<'a> {
    pub head: Vec<u8>,
    rest: Box<dyn Read + 'a>,
    /// Lines that the input does not have: a header that was added.
    pub lines_added: u64,
    /// How a text without a header was understood.
    pub note: Option<String>,
}

impl<'a> Text<'a> {
    /// `head` is as long as [`HEAD_BYTES`], or all of it.
    pub fn new(head: Vec<u8>, rest: Box<dyn Read + 'a>) -> Text<'a> {
        Text {
            head,
            rest,
            lines_added: 0,
            note: None,
        }
    }

    /// All of it from this byte on.
    pub fn from(self, begins: usize) -> Whole<'a> {
        let mut head = Cursor::new(self.head);
        head.set_position(begins as u64);
        head.chain(self.rest)
    }

    /// Whether there may be more than the beginning.
    pub fn is_cut(&self) -> bool {
        self.head.len() >= HEAD_BYTES - MARK
    }
}

/// Bytes of a mark that is taken off.
const MARK: usize = 3;

/// How other kinds of files begin, what they are, and what makes a table of them.
const OTHERS: &[(&[u8], &str, &str)] = &[
    (
        b"\x28\xb5\x2f\xfd",
        "packed with zstd",
        "zstd -dc FILE | highwater verdict -",
    ),
    (
        b"\xfd7zXZ\0",
        "packed with xz",
        "xz -dc FILE | highwater verdict -",
    ),
    (
        b"BZh",
        "packed with bzip2",
        "bzip2 -dc FILE | highwater verdict -",
    ),
    (
        b"\x04\x22\x4d\x18",
        "packed with lz4",
        "lz4 -dc FILE | highwater verdict -",
    ),
    (
        b"PK\x03\x04",
        "a spreadsheet, or a zip archive",
        "libreoffice --headless --convert-to csv FILE, or unzip -p FILE | highwater verdict -",
    ),
    (
        b"\xd0\xcf\x11\xe0",
        "a spreadsheet of an old Excel",
        "libreoffice --headless --convert-to csv FILE",
    ),
    (
        b"PAR1",
        "Parquet",
        "duckdb -csv -c \"FROM 'FILE'\" | highwater verdict -",
    ),
    (
        b"ARROW1",
        "a file of Arrow",
        "python3 -c \"import pandas; print(pandas.read_feather('FILE').to_csv())\" | highwater verdict -",
    ),
    (
        b"ORC",
        "ORC",
        "python3 -c \"import pandas; print(pandas.read_orc('FILE').to_csv())\" | highwater verdict -",
    ),
    (
        b"Obj\x01",
        "Avro",
        "avro-tools tojson FILE | highwater verdict -",
    ),
    (
        b"\x89HDF\r\n",
        "HDF5",
        "python3 -c \"import pandas; print(pandas.read_hdf('FILE').to_csv())\" | highwater verdict -",
    ),
    (
        b"\x96\xd5",
        "a file of sysstat",
        "sadf -d FILE -- -r | highwater verdict -",
    ),
    (
        b"SQLite format 3\0",
        "a database of SQLite",
        "give the folder of the run, or sqlite3 -csv -header FILE 'SELECT * FROM TABLE' | highwater verdict -",
    ),
    (b"%PDF", "a PDF", "give a CSV file with a header"),
    (b"\x7fELF", "a program", "give a CSV file with a header"),
];

/// Opens a stream of bytes as text.
///
/// # Errors
/// What is no text, and what cannot be read.
pub fn open<'a>(input: impl Read + 'a) -> Result<Text<'a>, ImportError> {
    let mut input: Box<dyn Read + 'a> = Box::new(input);
    // A gzip in a gzip is somebody's mistake, and is read all the same; more is none.
    for _ in 0..3 {
        let head = head_of(&mut input)?;
        if head.starts_with(b"\x1f\x8b") {
            let packed = BufReader::new(Cursor::new(head).chain(input));
            input = Box::new(MultiGzDecoder::new(packed));
        } else if let Some(order) = utf16(&head) {
            let marked = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
            let skipped = if marked { 2 } else { 0 };
            input = Box::new(Utf16::new(
                Cursor::new(head[skipped..].to_vec()).chain(input),
                order,
            ));
        } else {
            return plain(head, input);
        }
    }
    Err(ImportError::new(
        1,
        0,
        "packed more than twice",
        "unpack it first",
    ))
}

fn plain<'a>(mut head: Vec<u8>, input: Box<dyn Read + 'a>) -> Result<Text<'a>, ImportError> {
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..MARK);
    }
    if let Some((_, what, next)) = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Err(ImportError::new(1, 0, format!("this is {what}"), *next));
    }
    if let Some(nul) = head.iter().position(|byte| *byte == 0) {
        let line = 1 + head[..nul].iter().filter(|b| **b == b'\n').count() as u64;
        let words = if line == 1 {
            "this is no text"
        } else {
            "bytes that are no text"
        };
        let next = if line == 1 {
            "give a CSV file with a header"
        } else {
            "cut the line out"
        };
        return Err(ImportError::new(line, 0, words, next));
    }
    Ok(Text::new(head, input))
}

fn unread(error: io::Error) -> ImportError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            ImportError::new(
                1,
                0,
                format!("the packed data are broken ({error})"),
                "is the file complete?",
            )
        }
        _ => ImportError::new(1, 0, error.to_string(), "is it a file that can be read?"),
    }
}

/// The beginning of a stream, as much as [`HEAD_BYTES`].
///
/// # Errors
/// It cannot be read.
pub fn head_of(input: &mut dyn Read) -> Result<Vec<u8>, ImportError> {
    peek(input).map_err(unread)
}

fn peek(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(CHUNK);
    while head.len() < HEAD_BYTES {
        let before = head.len();
        head.resize((before + CHUNK).min(HEAD_BYTES), 0);
        let read = input.read(&mut head[before..]);
        head.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(head)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// By the mark, or by a first character of two bytes of which one is nothing.
fn utf16(head: &[u8]) -> Option<Order> {
    match head {
        [0xff, 0xfe, ..] | [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some(Order::Little),
        [0xfe, 0xff, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some(Order::Big),
        _ => None,
    }
}

/// UTF-16 in, UTF-8 out. A half of a pair becomes U+FFFD.
struct Utf16<R> {
    input: R,
    order: Order,
    /// An odd byte, or the first half of a pair, that waits for the rest.
    waiting: Vec<u8>,
    out: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> Utf16<R> {
    fn new(input: R, order: Order) -> Utf16<R> {
        Utf16 {
            input,
            order,
            waiting: Vec::new(),
            out: Vec::new(),
            given: 0,
            ended: false,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.waiting);
        let before = bytes.len();
        bytes.resize(before + CHUNK, 0);
        let read = match self.input.read(&mut bytes[before..]) {
            Ok(read) => read,
            Err(error) => {
                bytes.truncate(before);
                self.waiting = bytes;
                return Err(error);
            }
        };
        bytes.truncate(before + read);
        self.ended = read == 0;
        let unit = |pair: &[u8]| match self.order {
            Order::Little => u16::from_le_bytes([pair[0], pair[1]]),
            Order::Big => u16::from_be_bytes([pair[0], pair[1]]),
        };
        let mut whole = bytes.len() / 2 * 2;
        let is_first = |pair: &[u8]| (0xd800..0xdc00).contains(&unit(pair));
        if !self.ended && whole >= 2 && is_first(&bytes[whole - 2..whole]) {
            whole -= 2;
        }
        let units: Vec<u16> = bytes[..whole].chunks_exact(2).map(unit).collect();
        self.waiting = bytes[whole..].to_vec();
        self.given = 0;
        self.out = String::from_utf16_lossy(&units).into_bytes();
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() && !self.ended {
            self.fill()?;
        }
        let count = into.len().min(self.out.len() - self.given);
        into[..count].copy_from_slice(&self.out[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const TABLE: &str = "id,t_s,rss_kib\nå\u{1f600},0,10\n";

    fn read(bytes: &[u8]) -> Result<String, ImportError> {
        let mut text = String::new();
        open(bytes)?
            .from(0)
            .read_to_string(&mut text)
            .expect("UTF-8");
        Ok(text)
    }

    fn wide(order: Order, text: &str) -> Vec<u8> {
        let bytes = |unit: u16| match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        };
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(bytes).unwrap();
        gz.finish().unwrap()
    }

    #[test]
    fn one_table_in_many_codings() {
        let marked = |order| wide(order, &format!("\u{feff}{TABLE}"));
        for bytes in [
            TABLE.as_bytes().to_vec(),
            format!("\u{feff}{TABLE}").into_bytes(),
            marked(Order::Little),
            marked(Order::Big),
            wide(Order::Little, TABLE),
            wide(Order::Big, TABLE),
            packed(TABLE.as_bytes()),
            packed(&marked(Order::Little)),
        ] {
            assert_eq!(read(&bytes).as_deref(), Ok(TABLE), "{bytes:?}");
        }
        let long = TABLE.repeat(20_000);
        assert_eq!(read(&wide(Order::Little, &long)).unwrap(), long);
        let two = [packed(b"a\n"), packed(b"b\n")].concat();
        assert_eq!(read(&two).unwrap(), "a\nb\n");
    }

    #[test]
    fn what_is_no_text_says_what_to_do() {
        let told = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(told(b"PK\x03\x04xx").contains("--convert-to csv"));
        assert!(told(b"PAR1xx").contains("duckdb -csv"));
        assert!(told(b"\x96\xd5\x75\x21").contains("sadf -d"));
        assert!(told(b"\x28\xb5\x2f\xfdx").contains("zstd -dc"));
        assert_eq!(
            told(b"id,t\0s\n"),
            "line 1, column 1: this is no text; give a CSV file with a header"
        );
        assert!(told(b"id,t\nx\0\n").starts_with("line 2"));
        let cut = packed(TABLE.repeat(100).as_bytes());
        assert!(told(&cut[..cut.len() / 2]).contains("is the file complete"));
        assert!(told(&packed(&packed(&packed(b"x")))).contains("more than twice"));
    }
}
