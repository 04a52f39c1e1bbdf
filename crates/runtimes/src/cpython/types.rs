//! The types of a heap: what is one, what its objects are made of, and what users call it.

use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::layout::{
    BYTES_SUBCLASS, DICT_SUBCLASS, HAVE_GC, HEAPTYPE, INT_SUBCLASS, LIST_SUBCLASS, OBJECT_BYTES,
    READY, STR_SUBCLASS, TP_BASE, TP_BASICSIZE, TP_DICTOFFSET, TP_FLAGS, TP_ITEMSIZE, TP_NAME,
    TUPLE_SUBCLASS, TYPE, TYPE_BYTES, TYPE_SUBCLASS,
};
use super::objects::TYPES_MAX;
use crate::memory::hash::AddressHash;
use crate::memory::pages::Pages;

/// Types of types of types, and bases of bases, that are followed.
const CHAIN_MAX: usize = 64;
/// Addresses that are known to be no type; forgotten when there are more.
const STRANGERS_MAX: usize = 1 << 20;
/// No object has a larger fixed part, or larger items.
const BASIC_BYTES_MAX: u64 = 1 << 20;

/// What objects are made of, as far as they hold others or buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Fields in a fixed place.
    Plain,
    /// Holds no objects: float, range iterators of C.
    Leaf,
    List,
    Tuple,
    Dict,
    Set,
    Str,
    Bytes,
    ByteArray,
    Int,
    Type,
    Module,
    Function,
    Cell,
    Code,
    Frame,
    Generator,
    Deque,
    LruCache,
    LruLink,
    Array,
    Weakref,
}

/// Kinds by the name that C has for the type. A class of Python has a name without a dot, and is not found here.
const KINDS: [(&str, Kind); 21] = [
    ("float", Kind::Leaf),
    ("complex", Kind::Leaf),
    ("set", Kind::Set),
    ("frozenset", Kind::Set),
    ("bytearray", Kind::ByteArray),
    ("module", Kind::Module),
    ("function", Kind::Function),
    ("cell", Kind::Cell),
    ("code", Kind::Code),
    ("frame", Kind::Frame),
    ("generator", Kind::Generator),
    ("coroutine", Kind::Generator),
    ("async_generator", Kind::Generator),
    ("weakref", Kind::Weakref),
    ("weakref.ReferenceType", Kind::Weakref),
    ("weakref.ProxyType", Kind::Weakref),
    ("weakproxy", Kind::Weakref),
    ("collections.deque", Kind::Deque),
    ("functools._lru_cache_wrapper", Kind::LruCache),
    ("functools._lru_list_elem", Kind::LruLink),
    ("array.array", Kind::Array),
];

const KINDS_BY_FLAG: [(u64, Kind); 7] = [
    (LIST_SUBCLASS, Kind::List),
    (TUPLE_SUBCLASS, Kind::Tuple),
    (DICT_SUBCLASS, Kind::Dict),
    (STR_SUBCLASS, Kind::Str),
    (BYTES_SUBCLASS, Kind::Bytes),
    (INT_SUBCLASS, Kind::Int),
    (TYPE_SUBCLASS, Kind::Type),
];

/// A type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeInfo {
    pub address: u64,
    pub kind: Kind,
    pub basic_bytes: u64,
    pub item_bytes: u64,
    pub flags: u64,
    pub dict_offset: i64,
    /// The fixed part of the type in C that it is derived from: fields behind are attributes of Python's making.
    pub base_bytes: u64,
}

impl TypeInfo {
    pub fn is_tracked(&self) -> bool {
        self.flags & HAVE_GC != 0
    }

    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// The types that were met.
pub struct Types {
    type_type: u64,
    known: HashMap<u64, u32, AddressHash>,
    strangers: HashMap<u64, (), AddressHash>,
    pub infos: Vec<TypeInfo>,
}

impl Types {
    pub fn new(type_type: u64) -> Types {
        Types {
            type_type,
            known: HashMap::default(),
            strangers: HashMap::default(),
            infos: Vec::new(),
        }
    }

    /// The number of the type at an address; `None`: there is none.
    pub fn at(&mut self, pages: &Pages, address: u64) -> Option<u32> {
        if let Some(known) = self.known.get(&address) {
            return Some(*known);
        }
        if self.strangers.contains_key(&address) || self.infos.len() >= TYPES_MAX {
            return None;
        }
        let Some(info) = self.read(pages, address) else {
            if self.strangers.len() >= STRANGERS_MAX {
                self.strangers.clear();
            }
            self.strangers.insert(address, ());
            return None;
        };
        let number = self.infos.len() as u32;
        self.infos.push(info);
        self.known.insert(address, number);
        Some(number)
    }

    fn read(&self, pages: &Pages, address: u64) -> Option<TypeInfo> {
        if !self.is_type(pages, address) {
            return None;
        }
        let mut bytes = [0; TYPE_BYTES];
        pages.read(address, &mut bytes)?;
        let word = |at: u64| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at as usize..at as usize + 8]);
            u64::from_le_bytes(word)
        };
        let sizes = [word(TP_BASICSIZE), word(TP_ITEMSIZE)];
        let are_sizes = sizes.iter().all(|size| *size <= BASIC_BYTES_MAX);
        if !are_sizes || sizes[0] < OBJECT_BYTES {
            return None;
        }
        let (kind, base_bytes) = kind_of(pages, address, word(TP_FLAGS));
        Some(TypeInfo {
            address,
            kind,
            basic_bytes: sizes[0],
            item_bytes: sizes[1],
            flags: word(TP_FLAGS),
            dict_offset: word(TP_DICTOFFSET).cast_signed(),
            base_bytes: base_bytes.clamp(OBJECT_BYTES, sizes[0]),
        })
    }

    /// A type's type is a type, and so on up to `type`, which is its own.
    fn is_type(&self, pages: &Pages, address: u64) -> bool {
        let mut at = address;
        for _ in 0..CHAIN_MAX {
            if at == self.type_type {
                return pages
                    .word(address.wrapping_add(TP_FLAGS))
                    .is_some_and(|flags| flags & READY != 0);
            }
            let Some(above) = pages
                .pointer(at, TYPE)
                .filter(|above| above % 8 == 0 && *above != at)
            else {
                return false;
            };
            let flags = pages.word(above.wrapping_add(TP_FLAGS));
            if above != self.type_type && flags.is_none_or(|flags| flags & TYPE_SUBCLASS == 0) {
                return false;
            }
            at = above;
        }
        false
    }
}

/// By the flags for the types that C code asks about most, else by the name of the type or of a base of it; with the
/// fixed part of the type that says so.
fn kind_of(pages: &Pages, address: u64, flags: u64) -> (Kind, u64) {
    let by_flag = KINDS_BY_FLAG.iter().find(|(flag, _)| flags & flag != 0);
    let (mut at, mut last) = (address, OBJECT_BYTES);
    for _ in 0..CHAIN_MAX {
        let flags = pages.word(at.wrapping_add(TP_FLAGS)).unwrap_or(0);
        let name = pages
            .pointer(at, TP_NAME)
            .and_then(|name| pages.name(name))
            .unwrap_or_default();
        let is_of_c = flags & HEAPTYPE == 0 || name.contains('.');
        last = pages
            .word(at.wrapping_add(TP_BASICSIZE))
            .unwrap_or(OBJECT_BYTES);
        if is_of_c && let Some((_, kind)) = by_flag {
            return (*kind, last);
        }
        let by_name = KINDS.iter().find(|(known, _)| is_of_c && *known == name);
        if let Some((_, kind)) = by_name {
            return (*kind, last);
        }
        let Some(base) = pages.pointer(at, TP_BASE).filter(|base| *base != at) else {
            break;
        };
        at = base;
    }
    (by_flag.map_or(Kind::Plain, |(_, kind)| *kind), last)
}
