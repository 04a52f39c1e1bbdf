//! What the objects on a path are called: functions, classes and modules by name, fields by what declares them.

use observe::fact::memory::Memory;

use super::heap::{Heap, Via};
use super::layout::{
    FRAME_OF_OBJECT, HEAPTYPE, MODULE_DICT, OBJECT_BYTES, SIZE, TP_BASE, TP_FLAGS, TP_MEMBERS,
};
use super::named::Named;
use super::names;
use super::path::{Path, Paths};
use super::types::{Kind, TypeInfo};

const MEMBERS_MAX: u64 = 512;
const MEMBER_BYTES: u64 = 40;
const BASES_MAX: usize = 32;

impl Paths<'_> {
    /// What an object is, in a few words: a function or class by its own name, anything else by its type.
    pub fn describe(&mut self, number: u32) -> String {
        let (address, info) = (self.address(number), self.info(number));
        let named = match info.kind {
            Kind::Function => {
                names::of_function(self.heap, address).map(|name| format!("function {name}"))
            }
            Kind::Type => self
                .heap
                .type_at(address)
                .map(|of| format!("class {}", names::of_type(self.heap, &of))),
            Kind::Module => Some(format!("module {}", self.module_name(number))),
            Kind::LruCache => {
                let name = self
                    .wrapped(number)
                    .and_then(|function| names::of_function(self.heap, function));
                name.map(|name| format!("functools.lru_cache of {name}"))
            }
            Kind::Generator | Kind::Frame => {
                let place = self
                    .code_of(number)
                    .and_then(|code| names::of_code(self.heap, code));
                let kind = self.type_name(number);
                place.map(|place| format!("{kind} {} ({}:{})", place.name, place.file, place.line))
            }
            // What a variable of a closure holds.
            Kind::Cell => {
                let held = self.heap.pages.pointer(address, OBJECT_BYTES);
                let held = held.and_then(|held| self.census.objects.number(held));
                held.filter(|held| self.info(*held).kind != Kind::Cell)
                    .map(|held| self.describe(held))
            }
            _ => None,
        };
        named.unwrap_or_else(|| self.type_name(number))
    }

    pub fn module_name(&self, number: u32) -> String {
        let dict = self
            .heap
            .pages
            .pointer(self.address(number), MODULE_DICT)
            .unwrap_or(0);
        let name =
            names::value_of(self.heap, dict, "__name__").and_then(|name| self.heap.text(name));
        name.unwrap_or_else(|| "?".to_owned())
    }

    /// The function that a cache is of.
    fn wrapped(&self, cache: u32) -> Option<u64> {
        let (object, info) = (self.address(cache), self.info(cache));
        let mut found = None;
        self.heap.each_reference(object, &info, &mut |via, to| {
            let is_field = matches!(via, Via::Field(_)) && found.is_none();
            let kind = self
                .heap
                .info_of(to)
                .filter(|_| is_field)
                .map(|info| info.kind);
            if kind == Some(Kind::Function) {
                found = Some(to);
            }
        });
        found
    }

    /// The code of a function, a generator, or a cache's function.
    pub fn code_of(&self, number: u32) -> Option<u64> {
        let (address, layout) = (self.address(number), self.heap.layout());
        let code = match (self.info(number).kind, layout.minor) {
            (Kind::Function, _) => self.heap.pages.pointer(address, layout.function.code),
            (Kind::LruCache, _) => self
                .heap
                .pages
                .pointer(self.wrapped(number)?, layout.function.code),
            (Kind::Generator, 11..) => self.heap.code_of_frame(address + layout.generator_frame),
            (Kind::Generator, _) => {
                let frame = self.heap.pages.pointer(address, layout.generator_frame)?;
                self.heap.code_of_frame(frame)
            }
            (Kind::Frame, 11..) => {
                let frame = self.heap.pages.pointer(address, FRAME_OF_OBJECT)?;
                self.heap.code_of_frame(frame)
            }
            (Kind::Frame, ..=10) => self.heap.code_of_frame(address),
            _ => None,
        };
        code.filter(|code| {
            self.heap
                .info_of(*code)
                .is_some_and(|info| info.kind == Kind::Code)
        })
    }

    /// A default or a variable of the closure. The closure's tuple has a cell for each free variable, which are the
    /// last names of the code.
    pub fn of_function(&mut self, function: u32, tuple: u32, child: u32) -> Option<String> {
        let (layout, tuple_at, child_at) = (
            *self.heap.layout(),
            self.address(tuple),
            self.address(child),
        );
        let closure = self
            .heap
            .pages
            .pointer(self.address(function), layout.function.closure);
        if closure != Some(tuple_at) {
            return Some("a default argument".to_owned());
        }
        let count = self.heap.pages.word(tuple_at.wrapping_add(SIZE))?;
        let mut position = None;
        self.heap.pages.words(
            tuple_at.wrapping_add(layout.tuple_items),
            count,
            &mut |index, cell| {
                if cell == child_at {
                    position = Some(index);
                }
            },
        );
        let code = self.code_of(function)?;
        let first = self.heap.local_count(code).checked_sub(count)?;
        let name = names::of_local(self.heap, code, first + position?);
        Some(format!(
            "closure variable {}",
            name.as_deref().unwrap_or("?")
        ))
    }

    /// A field of a type in C, or a slot that a class names.
    pub fn field(&mut self, path: &mut Path, parent: u32, offset: u64) -> String {
        let info = self.info(parent);
        if let Some((class, name)) = member(self.heap, &info, offset) {
            let flags = self
                .heap
                .pages
                .word(class.wrapping_add(TP_FLAGS))
                .unwrap_or(0);
            // No function of Python fills the fields of types in C.
            if flags & HEAPTYPE != 0 {
                path.named = Some(Named::Attribute(class, name.clone()));
            }
            return format!(".{name}");
        }
        match (self.type_name(parent).as_str(), offset) {
            ("method", 16) => ".__func__".to_owned(),
            ("method" | "builtin_function_or_method", 24) => ".__self__".to_owned(),
            ("functools.partial", _) => "an argument".to_owned(),
            _ => "a field".to_owned(),
        }
    }
}

/// The name of a field in `tp_members` of a type or of its bases, with that type: `__slots__` are there.
fn member(heap: &Heap, info: &TypeInfo, offset: u64) -> Option<(u64, String)> {
    let mut at = Some(info.address);
    for _ in 0..BASES_MAX {
        let of_type = at?;
        let members = heap.pages.pointer(of_type, TP_MEMBERS);
        for index in 0..MEMBERS_MAX {
            let Some(name) =
                members.and_then(|members| heap.pages.pointer(members, index * MEMBER_BYTES))
            else {
                break;
            };
            if heap
                .pages
                .word(members?.wrapping_add(index * MEMBER_BYTES + 16))
                == Some(offset)
            {
                return Some((of_type, heap.pages.name(name)?));
            }
        }
        at = heap
            .pages
            .pointer(of_type, TP_BASE)
            .filter(|base| *base != of_type);
    }
    None
}
