//! What the objects with one Map have in common: their form, their size, the names of their fields.

use std::rc::Rc;

use super::heap::{Heap, count, pointer, small};
use super::layout::Types;
use crate::node::graph::Kind;

/// V8 has at most 1,020 properties in a DescriptorArray.
const FIELDS_MAX: u64 = 1_020;
/// From a Map to the one that its transitions began at.
const TRANSITIONS_MAX: usize = 2_048;
/// Of a property's name.
const NAME_LETTERS: usize = 100;
/// Bits of a Map that are not published but have not moved from V8 10 to 13 (`map.tq`).
const NEW_TARGET_IS_BASE: u8 = 1;
const IS_PROTOTYPE_SHIFT: u32 = 20;

/// How many words an object has, and which of them are references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Every word but the Map may be one.
    Words,
    /// A count at the second word, then as many words.
    Array,
    Doubles,
    Bytes,
    Text {
        is_wide: bool,
    },
    Descriptors,
    Properties,
    Scope,
    Feedback,
    Bytecode,
    /// Instructions and what else is not read.
    Leaf,
}

/// A name that was read of the heap, or one of V8's own words.
pub type Name = Rc<str>;

/// Of all objects with one Map.
#[derive(Debug)]
pub struct Shape {
    pub own_type: u16,
    pub form: Form,
    /// Words of an object; zero: they differ.
    pub words: u64,
    pub kind: Kind,
    /// Number of the name in the graph.
    pub name: u32,
    /// Words with a name, sorted.
    pub internal: Vec<(u16, u32)>,
    pub fields: Vec<(u16, u32)>,
    /// Properties that lie in a PropertyArray, by the index in it.
    pub far: Vec<(u16, u32)>,
    /// Properties are in a NameDictionary.
    pub is_dictionary: bool,
}

impl Shape {
    pub fn bytes(&self) -> usize {
        let named = self.internal.capacity() + self.fields.capacity() + self.far.capacity();
        size_of::<Shape>() + 16 + named * size_of::<(u16, u32)>()
    }
}

/// A property that lies in the object or its PropertyArray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Name,
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Index of a word of the object.
    Inside(u16),
    /// Index of an item of its PropertyArray.
    Far(u16),
}

pub fn form(types: &Types, own_type: u16, words: u64) -> Form {
    const REPRESENTATION: u16 = 7;
    if own_type < types.non_string {
        let is_flat = own_type & REPRESENTATION == 0;
        let is_wide = !super::heap::is_one_byte(own_type);
        return if is_flat {
            Form::Text { is_wide }
        } else {
            Form::Words
        };
    }
    match own_type {
        of if of == types.doubles => Form::Doubles,
        of if of == types.bytes => Form::Bytes,
        of if types.descriptors.contains(&of) => Form::Descriptors,
        of if of == types.properties => Form::Properties,
        of if of == types.scope => Form::Scope,
        of if of == types.feedback => Form::Feedback,
        of if of == types.bytecode => Form::Bytecode,
        of if of == types.weak_cell || Some(of) == types.instructions || Some(of) == types.free => {
            Form::Leaf
        }
        _ if words > 0 => Form::Words,
        of if of == types.code => Form::Leaf,
        _ => Form::Array,
    }
}

pub fn kind(types: &Types, own_type: u16) -> Kind {
    if own_type < types.non_string {
        return Kind::String;
    }
    if own_type >= types.receiver {
        return if own_type == types.regexp {
            Kind::Other
        } else {
            Kind::Object
        };
    }
    let code = [
        types.shared,
        types.script,
        types.scope,
        types.feedback,
        types.bytecode,
        types.code,
    ];
    match own_type {
        of if code.contains(&of) || types.compiled.contains(&of) => Kind::Code,
        of if Some(of) == types.instructions => Kind::Code,
        of if types.primitives.contains(&of) => Kind::Other,
        of if types.is_array(of) => Kind::Array,
        _ => Kind::Hidden,
    }
}

/// Properties of objects with a Map, those with a place of their own.
pub fn fields(heap: &Heap, map: u64) -> Vec<Field> {
    let (of, property) = (&heap.layout.map, &heap.layout.property);
    let Some(flags) = heap.int(map, of.flags3).map(u64::from) else {
        return Vec::new();
    };
    let descriptors = heap.word(map, of.descriptors).and_then(pointer);
    let (Some(descriptors), Some((start, words))) = (descriptors, inside(heap, map)) else {
        return Vec::new();
    };
    let own = ((flags & of.descriptors_mask) >> of.descriptors_shift).min(FIELDS_MAX);
    let field = |index: u64| {
        let entry = descriptors.checked_add(property.header + 8 * property.words * index)?;
        let details = count(heap.word(entry, 8 * property.details)?)?;
        let location = (details & property.location_mask) >> property.location_shift;
        if location != property.field {
            return None;
        }
        let at = (details & property.index_mask) >> property.index_shift;
        let place = match start + at < words {
            true => Place::Inside(u16::try_from(start + at).ok()?),
            false => Place::Far(u16::try_from(at.checked_sub(words.checked_sub(start)?)?).ok()?),
        };
        let name = heap.text(heap.word(entry, 8 * property.key)?, NAME_LETTERS)?;
        Some(Field {
            name: name.into(),
            place,
        })
    };
    (0..own).filter_map(field).collect()
}

/// Where properties in an object begin, and where it ends, in words.
fn inside(heap: &Heap, map: u64) -> Option<(u64, u64)> {
    let of = &heap.layout.map;
    Some((
        heap.byte(map, of.in_object)?.into(),
        heap.byte(map, of.words)?.into(),
    ))
}

pub fn is_dictionary(heap: &Heap, map: u64) -> bool {
    let of = &heap.layout.map;
    let flags = heap.int(map, of.flags3);
    flags.is_some_and(|flags| flags >> of.is_dictionary_shift & 1 != 0)
}

/// Key and value of each entry of a table of that many words an entry; a key that is no pointer is left out.
pub fn entries(heap: &Heap, table: u64, words: u64, each: &mut dyn FnMut(u64, u64)) -> Option<()> {
    const CAPACITY: u64 = 2;
    let (table, length) = heap.array(table)?;
    let capacity = count(heap.item(table, CAPACITY)?)?;
    let first = length.checked_sub(capacity.checked_mul(words)?)?;
    for entry in 0..capacity {
        if entry % 4_096 == 4_095 && heap.pages.is_late() {
            return None;
        }
        let at = first + entry * words;
        let key = heap.item(table, at)?;
        if pointer(key).is_some() {
            let value = if words > 1 {
                heap.item(table, at + 1)?
            } else {
                0
            };
            each(key, value);
        }
    }
    Some(())
}

/// The word of an object's own property.
fn own_property(heap: &Heap, object: u64, name: &str) -> Option<u64> {
    const ENTRY_WORDS: u64 = 3;
    let map = heap.map(heap.word(object, 0)?)?;
    if is_dictionary(heap, map) {
        let mut found = None;
        entries(
            heap,
            heap.word(object, 8)?,
            ENTRY_WORDS,
            &mut |key, value| {
                if found.is_none() && heap.text(key, NAME_LETTERS).as_deref() == Some(name) {
                    found = Some(value);
                }
            },
        )?;
        return found;
    }
    let field = fields(heap, map)
        .into_iter()
        .find(|field| &*field.name == name)?;
    match field.place {
        Place::Inside(word) => heap.word(object, 8 * u64::from(word)),
        Place::Far(index) => heap.item(pointer(heap.word(object, 8)?)?, index.into()),
    }
}

fn has_constructor(heap: &Heap, map: u64) -> bool {
    let is_it = |field: &Field| &*field.name == "constructor";
    is_dictionary(heap, map) || fields(heap, map).iter().any(is_it)
}

/// The word of the function that makes objects with a Map: of a derived class the one that its prototype names.
pub fn constructor(heap: &Heap, map: u64) -> Option<u64> {
    let of = &heap.layout.map;
    let is_base = heap.byte(map, of.flags2)? & NEW_TARGET_IS_BASE != 0;
    let is_prototype = heap.int(map, of.flags3)? >> IS_PROTOTYPE_SHIFT & 1 != 0;
    if is_prototype && has_constructor(heap, map) {
        // It is none of those that it is the prototype of.
        return None;
    }
    if !is_base && !is_prototype {
        let prototype = pointer(heap.word(map, of.prototype)?);
        let found = prototype.and_then(|prototype| own_property(heap, prototype, "constructor"));
        if let Some(found) = found.filter(|word| heap.object(*word).is_some()) {
            return Some(found);
        }
    }
    let mut word = heap.word(map, of.constructor)?;
    for _ in 0..TRANSITIONS_MAX {
        let Some(back) = heap.is(word, heap.layout.types.map) else {
            return (small(word).is_none()).then_some(word);
        };
        word = heap.word(back, of.constructor)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_a_form_and_a_kind() {
        let types = Types {
            map: 255,
            non_string: 128,
            receiver: 278,
            array: 175,
            doubles: 192,
            bytes: 190,
            properties: 259,
            ..Types::default()
        };
        assert_eq!(form(&types, 40, 0), Form::Text { is_wide: false });
        assert_eq!(form(&types, 32, 0), Form::Text { is_wide: true });
        assert_eq!(form(&types, 33, 4), Form::Words, "a string of two");
        assert_eq!(form(&types, 176, 0), Form::Array);
        assert_eq!(form(&types, 1057, 4), Form::Words);
        assert_eq!(kind(&types, 1057), Kind::Object);
        assert_eq!(
            (kind(&types, 180), kind(&types, 255)),
            (Kind::Array, Kind::Hidden)
        );
    }
}
