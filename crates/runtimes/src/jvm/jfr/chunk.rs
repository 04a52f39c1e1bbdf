//! One chunk of a recording: a header, events, pools of constants, and the description of both.
//!
//! ```text
//! "FLR\0" version, size, place of the last checkpoint, place of the metadata ...   68 bytes, big-endian
//! events        size, type, fields; numbers in 7 bits a byte, the lowest first
//! checkpoints   pools: values by type and number; each names the checkpoint before it
//! metadata      names, fields and types of all of them
//! ```

use std::collections::HashMap;

use super::cursor::Cursor;
use super::metadata::{Class, parse_metadata};

const HEADER_BYTES: usize = 68;
/// Values of pools and events that are kept, 32 bytes and more each.
const VALUES_MAX: usize = 2_000_000;
const CHECKPOINTS_MAX: usize = 10_000;
/// Texts that are read, in sizes of the chunk: a character takes up to three times its bytes there, and a hostile chunk
/// may have the same ones read over and over.
const TEXTS_MAX: usize = 4;
const DEPTH_MAX: usize = 16;

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Nothing,
    Number(u64),
    Text(String),
    /// In the pool of a type.
    Pooled(u64, u64),
    List(Vec<Value>),
    /// Fields in the order of the type.
    Fields(u64, Vec<Value>),
}

/// A chunk whose pools were read.
pub struct Chunk<'a> {
    bytes: &'a [u8],
    pub classes: HashMap<u64, Class>,
    pools: HashMap<(u64, u64), Value>,
    values: usize,
    text_bytes: usize,
}

/// The bytes of the chunk at the start, and those behind it. `None`: there is no whole chunk.
pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = usize::try_from(word(bytes, 8)?).ok()?;
    let is_chunk = bytes.starts_with(b"FLR\0") && size >= HEADER_BYTES;
    is_chunk.then(|| bytes.split_at_checked(size))?
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_be_bytes(word))
}

impl<'a> Chunk<'a> {
    /// Reads the description and the pools of types in `wanted`, by their short names. `None`: not in the format.
    pub fn read(bytes: &'a [u8], wanted: &[&str]) -> Option<Chunk<'a>> {
        let at = |place: usize| usize::try_from(word(bytes, place)?).ok();
        let classes = parse_metadata(bytes.get(at(24)?..)?)?;
        let mut chunk = Chunk {
            bytes,
            classes,
            pools: HashMap::new(),
            values: 0,
            text_bytes: 0,
        };
        let mut checkpoint = at(16)?;
        for _ in 0..CHECKPOINTS_MAX {
            let before = chunk.read_checkpoint(checkpoint, wanted)?;
            // The distance to the one before is negative.
            let distance = i64::from_ne_bytes(before.to_ne_bytes());
            if distance >= 0 {
                return Some(chunk);
            }
            checkpoint = checkpoint.checked_sub(usize::try_from(distance.unsigned_abs()).ok()?)?;
        }
        None
    }

    /// The distance to the checkpoint before.
    fn read_checkpoint(&mut self, at: usize, wanted: &[&str]) -> Option<u64> {
        let mut cursor = Cursor::new(self.bytes.get(at..)?);
        // Size, type, start, duration.
        for _ in 0..4 {
            cursor.number()?;
        }
        let before = cursor.number()?;
        cursor.byte()?;
        for _ in 0..cursor.number()? {
            let class = cursor.number()?;
            let is_wanted = wanted.contains(&self.classes.get(&class)?.short());
            for _ in 0..cursor.number()? {
                let number = cursor.number()?;
                let value = self.value(&mut cursor, class, 0)?;
                if is_wanted {
                    self.pools.insert((class, number), value);
                }
            }
        }
        Some(before)
    }

    /// A value of a type that stands at the cursor.
    fn value(&mut self, cursor: &mut Cursor, class: u64, depth: usize) -> Option<Value> {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return None;
        }
        let fields = match self.classes.get(&class)?.name.as_str() {
            "boolean" | "byte" => return cursor.byte().map(|byte| Value::Number(byte.into())),
            "short" | "char" | "int" | "long" => return cursor.number().map(Value::Number),
            "float" => return cursor.take(4).map(|_| Value::Nothing),
            "double" => return cursor.take(8).map(|_| Value::Nothing),
            "java.lang.String" => return self.string(cursor, class),
            _ => self.classes.get(&class)?.fields.clone(),
        };
        let mut values = Vec::with_capacity(fields.len().min(64));
        for field in &fields {
            let count = match field.is_array {
                true => cursor.number()?,
                false => 1,
            };
            let mut items = Vec::new();
            for _ in 0..count {
                self.values += 1;
                if self.values > VALUES_MAX {
                    return None;
                }
                items.push(match field.is_pooled {
                    true => Value::Pooled(field.class, cursor.number()?),
                    false => self.value(cursor, field.class, depth + 1)?,
                });
            }
            values.push(match field.is_array {
                true => Value::List(items),
                false => items.pop()?,
            });
        }
        Some(Value::Fields(class, values))
    }

    fn string(&mut self, cursor: &mut Cursor, class: u64) -> Option<Value> {
        let mut ahead = *cursor;
        if ahead.byte()? == 2 {
            *cursor = ahead;
            return cursor.number().map(|number| Value::Pooled(class, number));
        }
        let text = cursor.text()?;
        self.text_bytes += text.as_ref().map_or(0, String::len);
        if self.text_bytes > TEXTS_MAX * self.bytes.len() {
            return None;
        }
        Some(text.map_or(Value::Nothing, Value::Text))
    }

    /// All events of a type, by its full name; those that are cut off are left out.
    pub fn events(&mut self, name: &str) -> Vec<Value> {
        let Some((&class, _)) = self.classes.iter().find(|(_, class)| class.name == name) else {
            return Vec::new();
        };
        let (mut found, mut at) = (Vec::new(), HEADER_BYTES);
        while let Some(bytes) = self.bytes.get(at..).filter(|bytes| !bytes.is_empty()) {
            let mut cursor = Cursor::new(bytes);
            let Some(size) = cursor.number().filter(|size| *size > 0) else {
                break;
            };
            if cursor.number() == Some(class) {
                let Some(event) = self.value(&mut cursor, class, 0) else {
                    break;
                };
                found.push(event);
            }
            let Ok(size) = usize::try_from(size) else {
                break;
            };
            at = at.saturating_add(size);
        }
        found
    }

    /// The field of a structure, out of its pool.
    pub fn field<'v>(&'v self, value: &'v Value, name: &str) -> &'v Value {
        let Value::Fields(class, values) = self.resolved(value) else {
            return &Value::Nothing;
        };
        let fields = self.classes.get(class).map(|class| &class.fields);
        let place = fields.and_then(|fields| fields.iter().position(|field| field.name == name));
        let value = place.and_then(|place| values.get(place));
        value.map_or(&Value::Nothing, |value| self.resolved(value))
    }

    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        match value {
            Value::Pooled(class, number) => match self.pools.get(&(*class, *number)) {
                // A string of a pool may itself be in the pool of strings.
                Some(Value::Pooled(class, number)) => self
                    .pools
                    .get(&(*class, *number))
                    .unwrap_or(&Value::Nothing),
                Some(value) => value,
                None => &Value::Nothing,
            },
            value => value,
        }
    }

    pub fn text(&self, value: &Value) -> Option<String> {
        match self.resolved(value) {
            Value::Text(text) => Some(text.clone()),
            Value::Pooled(..) => None,
            // A symbol has one field.
            Value::Fields(_, values) => match values.first().map(|value| self.resolved(value)) {
                Some(Value::Text(text)) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}
