//! One view of a heap: what is an object, and what it refers to.

use std::cell::RefCell;
use std::time::Instant;

use observe::fact::memory::Memory;

use super::dict::{self, Keys};
use super::find::Runtime;
use super::layout::{
    DICT_KEYS, FRAME_OF_OBJECT, HEAPTYPE, INLINE_VALUES, LIST_ITEMS, Layout, MANAGED_DICT,
    OBJECT_BYTES, REFERENCES, SET_MASK, SET_TABLE, SIZE, TYPE,
};
use super::objects::ADDRESS_MAX;
use super::types::{Kind, TypeInfo, Types};
use crate::memory::pages::{FRESH_WORDS_MIN, Pages};
use crate::memory::source::Source;

/// Reference counts above are no counts. The immortal objects of 3.12 have about 2^32.
const REFERENCES_MAX: u64 = 1 << 40;
/// From here on a count means that the object is never freed (3.12 and later).
pub const IMMORTAL: u64 = 0x3fff_ffff;
/// No address of a program is below.
const ADDRESS_MIN: u64 = 0x1_0000;

/// Items of one container that are followed.
const ITEMS_MAX: u64 = 1 << 32;

/// And of one of a type in C that is not known: what it says is its size may be something else.
const PLAIN_ITEMS_MAX: u64 = 1 << 16;

/// How often a large container is read whose table was replaced meanwhile.
const SETTLE_TRIES: u32 = 4;

/// How one object refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// An item of a list, a tuple, a set or a deque.
    Item,
    /// A key of a dict.
    Key,
    /// A value of a dict; with the address of its key.
    Value(u64),
    /// An attribute; with the address of its name.
    Attribute(u64),
    /// The dict with the attributes of an instance, a class or a module.
    Attributes,
    /// A field, at this offset.
    Field(u64),
    /// A variable of a function that runs or waits, by its number.
    Local(u64),
}

/// What is read of a process at one time. The process goes on meanwhile: nothing that is read is believed unchecked.
pub struct Heap<'m> {
    pub pages: Pages<'m>,
    pub runtime: Runtime,
    /// Of the process: no object is larger.
    pub writable_bytes: u64,
    types: RefCell<Types>,
}

impl<'m> Heap<'m> {
    pub fn new(
        source: &'m Source<'m>,
        runtime: Runtime,
        cache_bytes: usize,
        deadline: Instant,
    ) -> Heap<'m> {
        Heap {
            writable_bytes: source.areas.writable_bytes(),
            pages: Pages::new(source, cache_bytes, deadline),
            types: RefCell::new(Types::new(runtime.type_type)),
            runtime,
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.runtime.layout
    }

    pub fn type_count(&self) -> usize {
        self.types.borrow().infos.len()
    }

    pub fn info(&self, number: u32) -> TypeInfo {
        self.types.borrow().infos[number as usize]
    }

    /// The number of the type of the object at an address; `None`: there is no object.
    pub fn type_of(&self, object: u64) -> Option<u32> {
        let is_address = object.is_multiple_of(8) && (ADDRESS_MIN..ADDRESS_MAX).contains(&object);
        let above = is_address.then(|| self.pages.word(object + TYPE))??;
        if above % 8 != 0 || above < ADDRESS_MIN {
            return None;
        }
        let found = self.types.borrow_mut().at(&self.pages, above)?;
        self.references_to(object).map(|_| found)
    }

    /// How many references an object says that it has; `None`: none, or no count.
    pub fn references_to(&self, object: u64) -> Option<u64> {
        let word = self.pages.word(object.wrapping_add(REFERENCES))?;
        let count = match self.layout().minor {
            ..=13 => word,
            // Above a count that is none stands an address; above one stand flags, 16 bits further up.
            _ if word >> 32 & 0xffff != 0 => return None,
            _ => word & u64::from(u32::MAX),
        };
        (1..REFERENCES_MAX).contains(&count).then_some(count)
    }

    pub fn info_of(&self, object: u64) -> Option<TypeInfo> {
        self.type_of(object).map(|number| self.info(number))
    }

    /// The type that is the object at an address.
    pub fn type_at(&self, address: u64) -> Option<TypeInfo> {
        let number = self.types.borrow_mut().at(&self.pages, address)?;
        Some(self.info(number))
    }

    pub fn text(&self, string: u64) -> Option<String> {
        let is_string = self.info_of(string)?.kind == Kind::Str;
        is_string.then(|| super::text::text(&self.pages, self.layout(), string))?
    }

    /// Gives all that an object refers to. What is given may be no object: the caller asks for its type.
    pub fn each_reference(&self, object: u64, info: &TypeInfo, each: &mut dyn FnMut(Via, u64)) {
        self.each_settled_item(object, info, each);
        let is_leaf = matches!(
            info.kind,
            Kind::Leaf | Kind::Str | Kind::Bytes | Kind::Int | Kind::ByteArray
        );
        let holds_items = matches!(
            info.kind,
            Kind::List | Kind::Tuple | Kind::Dict | Kind::Set | Kind::Deque
        );
        let first = match info.kind {
            _ if is_leaf || holds_items => info.base_bytes.next_multiple_of(8),
            _ => OBJECT_BYTES,
        };
        if info.kind != Kind::Weakref && info.basic_bytes > first {
            // Behind a module's dict stands the state of its C code, which may look like an object and is none.
            let count = match info.kind {
                Kind::Module => 1,
                _ => (info.basic_bytes - first) / 8,
            };
            self.pages
                .words(object.wrapping_add(first), count, &mut |index, word| {
                    let offset = first + index * 8;
                    let is_dict = offset.cast_signed() == info.dict_offset;
                    if word != 0 {
                        each(
                            if is_dict {
                                Via::Attributes
                            } else {
                                Via::Field(offset)
                            },
                            word,
                        );
                    }
                });
        }
        self.each_attribute(object, info, each);
    }

    /// What a container holds. The table of a large one may be replaced while it is read: then it is read again.
    fn each_settled_item(&self, object: u64, info: &TypeInfo, each: &mut dyn FnMut(Via, u64)) {
        let table = match info.kind {
            Kind::List => LIST_ITEMS,
            Kind::Dict => DICT_KEYS,
            Kind::Set => SET_TABLE,
            _ => return self.each_item(object, info, each),
        };
        let count = self.pages.word(object.wrapping_add(SIZE)).unwrap_or(0);
        if count < FRESH_WORDS_MIN {
            return self.each_item(object, info, each);
        }
        for _ in 0..SETTLE_TRIES {
            self.pages.forget(object);
            let before = self.pages.pointer(object, table);
            self.pages.forget(before.unwrap_or(0));
            self.each_item(object, info, each);
            self.pages.forget(object);
            if self.pages.pointer(object, table) == before || self.pages.is_late() {
                return;
            }
        }
    }

    /// What a container holds besides its fields.
    fn each_item(&self, object: u64, info: &TypeInfo, each: &mut dyn FnMut(Via, u64)) {
        let pages = &self.pages;
        let mut item = |_: u64, word: u64| {
            if word != 0 {
                each(Via::Item, word);
            }
        };
        match info.kind {
            Kind::List => {
                let count = pages
                    .word(object.wrapping_add(SIZE))
                    .unwrap_or(0)
                    .min(ITEMS_MAX);
                let items = pages.pointer(object, LIST_ITEMS).unwrap_or(0);
                pages.words(items, count, &mut item);
            }
            Kind::Tuple => {
                let count = pages
                    .word(object.wrapping_add(SIZE))
                    .unwrap_or(0)
                    .min(ITEMS_MAX);
                pages.words(
                    object.wrapping_add(self.layout().tuple_items),
                    count,
                    &mut item,
                );
            }
            Kind::Set => {
                let slots = pages
                    .word(object.wrapping_add(SET_MASK))
                    .unwrap_or(0)
                    .min(ITEMS_MAX)
                    + 1;
                let table = pages.pointer(object, SET_TABLE).unwrap_or(0);
                // Of each slot: the key, and its hash.
                pages.words(table, slots * 2, &mut |index, word| {
                    if index % 2 == 0 {
                        item(index, word);
                    }
                });
            }
            Kind::Deque => self.each_of_deque(object, &mut item),
            Kind::Dict => {
                let _ = dict::entries(pages, self.layout(), object, &mut |key, value| {
                    each(Via::Key, key);
                    each(Via::Value(key), value);
                });
            }
            Kind::Frame if self.layout().minor <= 10 => self.each_local(object, each),
            Kind::Generator if self.layout().minor >= 11 => {
                self.each_local(object.wrapping_add(self.layout().generator_frame), each);
            }
            Kind::Frame => {
                if let Some(frame) = pages.pointer(object, FRAME_OF_OBJECT) {
                    self.each_local(frame, each);
                }
            }
            // An array of references behind the fixed part, as most types in C have it whose size varies.
            Kind::Plain if info.item_bytes == 8 => {
                let count = pages
                    .word(object.wrapping_add(SIZE))
                    .unwrap_or(0)
                    .min(PLAIN_ITEMS_MAX);
                pages.words(object.wrapping_add(info.basic_bytes), count, &mut item);
            }
            _ => {}
        }
    }

    /// Blocks of 64 items between a pointer to the block on the left and one to that on the right.
    fn each_of_deque(&self, deque: u64, item: &mut dyn FnMut(u64, u64)) {
        const BLOCK_ITEMS: u64 = 64;
        const LEFT_BLOCK: u64 = 24;
        const LEFT_INDEX: u64 = 40;
        let word = |offset| self.pages.word(deque.wrapping_add(offset)).unwrap_or(0);
        let (mut left, mut block) = (word(SIZE).min(ITEMS_MAX), word(LEFT_BLOCK));
        let mut first = word(LEFT_INDEX).min(BLOCK_ITEMS - 1);
        while left > 0 && block != 0 && !self.pages.is_late() {
            let count = (BLOCK_ITEMS - first).min(left);
            self.pages
                .words(block.wrapping_add(8 + first * 8), count, item);
            left -= count;
            first = 0;
            block = self.pages.pointer(block, 8 + BLOCK_ITEMS * 8).unwrap_or(0);
        }
    }

    /// Variables of a frame, by number.
    pub fn each_local(&self, frame: u64, each: &mut dyn FnMut(Via, u64)) {
        let layout = self.layout();
        let Some(code) = self.code_of_frame(frame) else {
            return;
        };
        let count = self.local_count(code);
        let locals = frame.wrapping_add(layout.frame.locals);
        self.pages.words(locals, count, &mut |index, word| {
            let object = layout.untagged(word);
            if object != 0 {
                each(Via::Local(index), object);
            }
        });
    }

    /// The code that a frame runs; it is not checked that it is one.
    pub fn code_of_frame(&self, frame: u64) -> Option<u64> {
        let layout = self.layout();
        let code = self.pages.pointer(frame, layout.frame.code)?;
        Some(layout.untagged(code)).filter(|code| *code != 0)
    }

    /// Slots for variables of a function.
    pub fn local_count(&self, code: u64) -> u64 {
        const LOCALS_MAX: u32 = 4_096;
        let layout = self.layout();
        let is_code = self
            .info_of(code)
            .is_some_and(|info| info.kind == Kind::Code);
        let plain = is_code.then(|| self.pages.u32(code.wrapping_add(layout.code.locals)));
        let mut count = u64::from(plain.flatten().unwrap_or(0).min(LOCALS_MAX));
        if layout.minor <= 10 && is_code {
            // Cells and free variables stand behind the plain ones.
            for names in &layout.code.local_names[1..] {
                let names = self.pages.pointer(code, *names).unwrap_or(0);
                count += self
                    .pages
                    .word(names.wrapping_add(SIZE))
                    .unwrap_or(0)
                    .min(LOCALS_MAX.into());
            }
        }
        count
    }

    /// Attributes that no field of the object leads to.
    fn each_attribute(&self, object: u64, info: &TypeInfo, each: &mut dyn FnMut(Via, u64)) {
        let (pages, layout) = (&self.pages, self.layout());
        if info.has(MANAGED_DICT) && layout.has_values() {
            let managed = self.managed(object, info);
            if let Some(dict) = managed.dict {
                each(Via::Attributes, dict);
            }
            if let (Some(values), Some(keys)) = (managed.values, self.cached_keys(info)) {
                dict::attributes(pages, layout, keys, values, &mut |name, value| {
                    each(Via::Attribute(name), value);
                });
            }
        } else if info.dict_offset < 0 {
            // From the end of an object whose size varies.
            let count = pages
                .word(object.wrapping_add(SIZE))
                .unwrap_or(0)
                .cast_signed()
                .unsigned_abs();
            let end = count
                .checked_mul(info.item_bytes)
                .and_then(|items| items.checked_add(info.basic_bytes));
            let end = end
                .filter(|end| *end < 1 << 40)
                .unwrap_or(0)
                .next_multiple_of(8);
            let at = object
                .wrapping_add(end)
                .wrapping_add_signed(info.dict_offset);
            if let Some(dict) = pages.pointer(at, 0) {
                each(Via::Attributes, dict);
            }
        }
    }

    /// Where an object of a class of Python has its attributes (3.11 and later): all three versions differ.
    pub fn managed(&self, object: u64, info: &TypeInfo) -> Managed {
        let before = |words: u64| self.pages.pointer(object.wrapping_sub(words * 8), 0);
        let mut managed = Managed::default();
        match self.layout().minor {
            11 => (managed.dict, managed.values) = (before(3), before(4)),
            12 => match before(3) {
                // The lowest bit marks values, whose address is one higher.
                Some(values) if values & 1 == 1 => managed.values = Some(values + 1),
                dict => managed.dict = dict,
            },
            _ => {
                managed.dict = before(3);
                let inline = object.wrapping_add(OBJECT_BYTES);
                // The fourth byte says whether the values are in use, here or by the dict.
                let is_valid = self
                    .pages
                    .word(inline)
                    .is_some_and(|word| word >> 24 & 0xff != 0);
                let is_inline = info.has(INLINE_VALUES) && is_valid && managed.dict.is_none();
                managed.values = is_inline.then_some(inline);
            }
        }
        managed
    }

    /// Keys that the instances of a class share.
    pub fn cached_keys(&self, info: &TypeInfo) -> Option<u64> {
        let is_heap_type = info.has(HEAPTYPE);
        is_heap_type.then(|| self.pages.pointer(info.address, self.layout().cached_keys))?
    }

    pub fn shared_keys(&self, info: &TypeInfo) -> Option<Keys> {
        Keys::read(&self.pages, self.layout(), self.cached_keys(info)?)
    }
}

/// Where an object has its attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Managed {
    pub dict: Option<u64>,
    pub values: Option<u64>,
}
