//! The types that a chunk describes: what stands in an event, field by field.

use std::collections::HashMap;

use super::cursor::Cursor;

/// A recording of JDK 25 describes 800 types and 5,000 fields, with 60,000 elements.
const ELEMENTS_MAX: usize = 400_000;
const STRINGS_MAX: u64 = 200_000;
const DEPTH_MAX: usize = 8;

/// A type of a chunk: primitive where its name is one of Java's, else a structure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    pub fields: Vec<Field>,
}

impl Class {
    /// `jdk.types.OldObject` is `OldObject`.
    pub fn short(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub class: u64,
    /// The value stands in a pool, and its number here.
    pub is_pooled: bool,
    pub is_array: bool,
}

#[derive(Default)]
struct Parser {
    strings: Vec<String>,
    classes: HashMap<u64, Class>,
    elements: usize,
}

/// All types by number. `None`: it is not in the format.
pub fn parse_metadata(event: &[u8]) -> Option<HashMap<u64, Class>> {
    let mut cursor = Cursor::new(event);
    // Size, type, start, duration, number.
    for _ in 0..5 {
        cursor.number()?;
    }
    let count = cursor.number()?;
    if count > STRINGS_MAX {
        return None;
    }
    let mut parser = Parser::default();
    for _ in 0..count {
        parser.strings.push(cursor.text()?.unwrap_or_default());
    }
    parser.element(&mut cursor, None, 0)?;
    Some(parser.classes)
}

impl Parser {
    fn string(&self, cursor: &mut Cursor) -> Option<&str> {
        let number = usize::try_from(cursor.number()?).ok()?;
        self.strings.get(number).map(String::as_str)
    }

    /// One element with its children; `class`: the one that it stands in.
    fn element(&mut self, cursor: &mut Cursor, class: Option<u64>, depth: usize) -> Option<()> {
        self.elements += 1;
        if depth > DEPTH_MAX || self.elements > ELEMENTS_MAX {
            return None;
        }
        let kind = self.string(cursor)?.to_owned();
        let (mut field, mut id) = (Field::default(), None);
        for _ in 0..cursor.number()? {
            let name = self.string(cursor)?.to_owned();
            let value = self.string(cursor)?;
            match name.as_str() {
                "id" => id = value.parse::<u64>().ok(),
                "name" => field.name = value.to_owned(),
                "class" => field.class = value.parse().ok()?,
                "constantPool" => field.is_pooled = value == "true",
                "dimension" => field.is_array = value != "0",
                _ => {}
            }
        }
        let inner = match (kind.as_str(), class) {
            ("class", _) => {
                let (name, fields) = (field.name, Vec::new());
                self.classes.insert(id?, Class { name, fields });
                id
            }
            ("field", Some(class)) => {
                self.classes.get_mut(&class)?.fields.push(field);
                None
            }
            _ => None,
        };
        for _ in 0..cursor.number()? {
            self.element(cursor, inner, depth + 1)?;
        }
        Some(())
    }
}
