//! The little of BTF (Documentation/bpf/btf.rst) that is needed here: [`View`]s and constants, against which a program
//! is relocated, and the structures of an object, against which the reader's own are checked.

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: u32 = 24;
const INT: u32 = 1;
const STRUCT: u32 = 4;
const ENUM: u32 = 6;

/// Where the fields of a structure lie that a program calls `VIEW` (programs/bpf.h).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The structure's in the program.
    pub name: &'static str,
    pub fields: Vec<Field>,
}

/// One that is not named here cannot be accessed: the kernel refuses the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Bytes; at most `i16::MAX`.
    pub offset: u32,
    /// 4 or 8.
    pub bytes: u32,
}

impl Field {
    /// Eight bytes.
    pub fn word(name: &'static str, offset: i16) -> Field {
        let offset = offset.unsigned_abs().into();
        Field {
            name,
            offset,
            bytes: 8,
        }
    }
}

/// BTF with these structures, all of whose fields are unsigned numbers, and with `enum constants` of these values.
pub fn target(views: &[View], constants: &[(&str, u32)]) -> Vec<u8> {
    let (mut types, mut strings) = (Vec::new(), vec![0u8]);
    for bytes in [4, 8] {
        let name = string(&mut strings, if bytes == 4 { "u32" } else { "u64" });
        words(&mut types, &[name, INT << 24, bytes, 8 * bytes]);
    }
    let (half, word) = (1, 2);
    for view in views {
        let name = string(&mut strings, view.name);
        let ends = view.fields.iter().map(|field| field.offset + field.bytes);
        let info = STRUCT << 24 | view.fields.len() as u32;
        words(&mut types, &[name, info, ends.max().unwrap_or(0)]);
        for field in &view.fields {
            let name = string(&mut strings, field.name);
            let of = if field.bytes == 4 { half } else { word };
            words(&mut types, &[name, of, 8 * field.offset]);
        }
    }
    let name = string(&mut strings, "constants");
    words(&mut types, &[name, ENUM << 24 | constants.len() as u32, 4]);
    for (name, value) in constants {
        let name = string(&mut strings, name);
        words(&mut types, &[name, *value]);
    }
    let (types_bytes, strings_bytes) = (types.len() as u32, strings.len() as u32);
    let mut btf = MAGIC.to_ne_bytes().to_vec();
    btf.extend([1, 0]);
    words(
        &mut btf,
        &[HEADER_BYTES, 0, types_bytes, types_bytes, strings_bytes],
    );
    btf.extend(types);
    btf.extend(strings);
    btf
}

fn string(strings: &mut Vec<u8>, text: &str) -> u32 {
    let at = strings.len() as u32;
    strings.extend(text.bytes().chain([0]));
    at
}

fn words(into: &mut Vec<u8>, words: &[u32]) {
    into.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

/// A structure of an object: its size in bytes, and its fields with their offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    pub bytes: u32,
    pub fields: Vec<(String, u32)>,
}

/// `None`: the BTF is cut, or has no structure of that name.
pub fn structure(btf: &[u8], name: &str) -> Option<Structure> {
    let half = |at: usize| -> Option<u32> {
        let bytes = btf.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let [header, types, types_bytes, strings] =
        [4, 8, 12, 16].map(|at| half(at).map(|word| word as usize));
    let (types, strings) = (header?.checked_add(types?)?, header?.checked_add(strings?)?);
    let end = types.checked_add(types_bytes?)?;
    let text = |at: usize| -> Option<&str> {
        let rest = btf.get(strings.checked_add(half(at)? as usize)?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    let mut at = types;
    while at < end {
        let info = half(at + 4)?;
        let (kind, length) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == STRUCT && text(at) == Some(name) {
            let field = |number: usize| {
                let at = at + 12 + 12 * number;
                Some((text(at)?.to_owned(), half(at + 8)? / 8))
            };
            let fields = (0..length).map(field).collect::<Option<Vec<_>>>()?;
            return Some(Structure {
                bytes: half(at + 8)?,
                fields,
            });
        }
        at += 12 + behind(kind, length)?;
    }
    None
}

/// Bytes that follow a type's first twelve.
fn behind(kind: u32, length: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forwards, typedefs, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Numbers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures and unions, sections, wide enumerations.
        4 | 5 | 15 | 19 => 12 * length,
        // Enumerations, parameters of functions.
        6 | 13 => 8 * length,
        _ => return None,
    })
}

/// Holds a structure of an object against the type of Rust that reads it: its size, and the offset of each field.
///
/// # Panics
/// They differ: a mistake in one of them, which the test finds that calls this.
#[macro_export]
macro_rules! assert_layout {
    ($object:expr, $name:literal, $type:ty { $($field:ident),* $(,)? }) => {{
        let structure = $object.structure($name).expect($name);
        let fields = [$((stringify!($field).to_owned(), std::mem::offset_of!($type, $field) as u32)),*];
        assert_eq!(structure.bytes as usize, size_of::<$type>(), "bytes of {}", $name);
        assert_eq!(structure.fields, fields, "fields of {}", $name);
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            name: "event",
            fields: vec![
                Field {
                    name: "pid",
                    offset: 24,
                    bytes: 4,
                },
                Field::word("state", 32),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let btf = target(
            &[
                view(),
                View {
                    name: "other",
                    fields: Vec::new(),
                },
            ],
            &[("PID", 7)],
        );
        let fields = [("pid".to_owned(), 24), ("state".to_owned(), 32)].to_vec();
        assert_eq!(
            structure(&btf, "event"),
            Some(Structure { bytes: 40, fields })
        );
        assert_eq!(structure(&btf, "other").map(|other| other.bytes), Some(0));
        assert_eq!(structure(&btf, "u32"), None, "no structure");
    }

    #[test]
    fn what_is_cut_anywhere_is_none_or_whole() {
        let btf = target(&[view()], &[("PID", 7)]);
        for length in 0..btf.len() {
            let found = structure(&btf[..length], "event");
            assert!(
                found.is_none() || found == structure(&btf, "event"),
                "{length}"
            );
        }
    }
}
