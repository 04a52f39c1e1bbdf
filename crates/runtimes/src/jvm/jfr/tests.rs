//! A chunk made here, whole and damaged.

use super::*;

const STRING: u64 = 1;
const SAMPLE: u64 = 2;
const OBJECT: u64 = 3;
const CLASS: u64 = 4;
const SYMBOL: u64 = 5;

/// In 7 bits a byte.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn text(words: &str) -> Vec<u8> {
    [
        vec![3],
        number(words.len() as u64),
        words.as_bytes().to_vec(),
    ]
    .concat()
}

/// An event, or what has the form of one: its size, which includes itself, in two bytes.
fn sized(body: &[u8]) -> Vec<u8> {
    let size = body.len() as u64 + 2;
    [&[size as u8 | 0x80, (size >> 7) as u8], body].concat()
}

/// Elements of the metadata, with their words in a pool.
#[derive(Default)]
struct Metadata {
    words: Vec<String>,
}

impl Metadata {
    fn word(&mut self, word: &str) -> Vec<u8> {
        let place = self.words.iter().position(|known| known == word);
        let place = place.unwrap_or_else(|| {
            self.words.push(word.to_owned());
            self.words.len() - 1
        });
        number(place as u64)
    }

    fn element(&mut self, kind: &str, attributes: &[(&str, &str)], inner: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = [self.word(kind), number(attributes.len() as u64)].concat();
        for (name, value) in attributes {
            bytes.extend(self.word(name));
            bytes.extend(self.word(value));
        }
        bytes.extend(number(inner.len() as u64));
        bytes.extend(inner.concat());
        bytes
    }

    fn field(&mut self, name: &str, class: u64, is_pooled: bool) -> Vec<u8> {
        let class = class.to_string();
        let pooled = is_pooled.to_string();
        let attributes = [("name", name), ("class", &class), ("constantPool", &pooled)];
        self.element("field", &attributes, &[])
    }

    fn class(&mut self, name: &str, id: u64, fields: &[Vec<u8>]) -> Vec<u8> {
        let id = id.to_string();
        self.element("class", &[("name", name), ("id", &id)], fields)
    }

    fn event(mut self) -> Vec<u8> {
        let of_sample = [self.field("object", OBJECT, true)];
        let of_object = [
            self.field("type", CLASS, true),
            self.field("description", STRING, false),
        ];
        let of_class = [self.field("name", SYMBOL, true)];
        let of_symbol = [self.field("string", STRING, false)];
        let classes = [
            self.class("java.lang.String", STRING, &[]),
            self.class("jdk.OldObjectSample", SAMPLE, &of_sample),
            self.class("jdk.types.OldObject", OBJECT, &of_object),
            self.class("java.lang.Class", CLASS, &of_class),
            self.class("jdk.types.Symbol", SYMBOL, &of_symbol),
        ];
        let root = self.element("root", &[], &classes);
        let mut body = [0, 0, 0, 0].to_vec();
        body.extend(number(self.words.len() as u64));
        for word in &self.words {
            body.extend(text(word));
        }
        body.extend(root);
        sized(&body)
    }
}

/// A pool of one value.
fn pool(class: u64, value: &[u8]) -> Vec<u8> {
    [number(class), number(1), number(7), value.to_vec()].concat()
}

/// `before`: the distance to the checkpoint before it.
fn checkpoint(before: &[u8], pools: &[Vec<u8>]) -> Vec<u8> {
    let head = [&[1, 0, 0][..], before, &[0]].concat();
    sized(&[head, number(pools.len() as u64), pools.concat()].concat())
}

/// Header, one sample, one checkpoint, metadata.
fn chunk(checkpoint: &[u8]) -> Vec<u8> {
    let sample = sized(&[number(SAMPLE), number(7)].concat());
    let metadata = Metadata::default().event();
    let place = 68 + sample.len() as u64;
    let after = place + checkpoint.len() as u64;
    let size = after + metadata.len() as u64;
    let words = [size, place, after].map(u64::to_be_bytes);
    let mut bytes = [b"FLR\0\0\x02\0\0".to_vec(), words.concat()].concat();
    bytes.resize(68, 0);
    [bytes, sample, checkpoint.to_vec(), metadata].concat()
}

fn whole() -> Vec<u8> {
    chunk(&checkpoint(
        &[0],
        &[
            pool(OBJECT, &[number(7), text("Size: 9")].concat()),
            pool(CLASS, &number(7)),
            pool(SYMBOL, &text("[Lapp/Session;")),
        ],
    ))
}

#[test]
fn a_sample_is_read_through_its_pools() {
    let samples = parse_samples(&whole()).expect("a chunk");
    let way: Vec<_> = samples.iter().flat_map(|sample| &sample.way).collect();
    assert_eq!(way.len(), 1);
    assert_eq!(way[0].description, "Size: 9");
    assert_eq!(
        (samples[0].root.as_deref(), samples[0].frames.len()),
        (None, 0)
    );
}

/// Every byte with several other values, and every length: the answer is some, or none.
#[test]
fn damaged_chunks_end() {
    let whole = whole();
    for at in 0..whole.len() {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff, whole[at] ^ 1] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let _ = parse_samples(&damaged);
        }
        let _ = parse_samples(&whole[..at]);
    }
}

/// A number with its sign: eight bytes of 7 bits, and a ninth.
fn distance(back: usize) -> Vec<u8> {
    let bits = (back as i64).wrapping_neg() as u64;
    let mut bytes: Vec<u8> = (0..56)
        .step_by(7)
        .map(|shift| (bits >> shift) as u8 | 0x80)
        .collect();
    bytes.push((bits >> 56) as u8);
    bytes
}

/// The text of each checkpoint goes over all that stand behind it: a kilobyte for each, and a megabyte read of it.
#[test]
fn texts_are_bounded_though_checkpoints_overlap() {
    const TEXT: usize = 40_000;
    let head = |back: &[u8]| {
        let pool = [number(SYMBOL), number(1), number(7), vec![3]].concat();
        let head = [&[0, 1, 0, 0][..], back, &[0, 1], &pool].concat();
        [head, number(TEXT as u64)].concat()
    };
    let length = head(&distance(1)).len();
    let chain = |count: usize| {
        let mut bytes = head(&distance(0));
        for _ in 1..count {
            bytes.extend(head(&distance(length)));
        }
        bytes.resize(bytes.len() + TEXT, b'x');
        bytes
    };
    let chunk = |count: usize| {
        let mut bytes = chunk(&chain(count));
        let first = usize::from(bytes[23]);
        let last = (first + (count - 1) * length) as u64;
        bytes[16..24].copy_from_slice(&last.to_be_bytes());
        bytes
    };
    assert!(parse_samples(&chunk(2)).is_some(), "two are read");
    assert_eq!(parse_samples(&chunk(500)), None, "20 MB of texts in 60 KB");
}
