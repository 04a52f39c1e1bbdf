//! Names as a user of Python writes them.

use observe::fact::memory::Memory;

use super::dict;
use super::heap::Heap;
use super::layout::{HEAPTYPE, TP_DICT, TP_NAME};
use super::types::{Kind, TypeInfo};

/// Entries of a dict that are gone through for one name.
const SEARCHED_MAX: usize = 100_000;

/// `orders.Order`, `dict`, `collections.deque`.
pub fn of_type(heap: &Heap, info: &TypeInfo) -> String {
    let plain = heap
        .pages
        .pointer(info.address, TP_NAME)
        .and_then(|name| heap.pages.name(name));
    let plain = plain.unwrap_or_else(|| "?".to_owned());
    if !info.has(HEAPTYPE) {
        return plain.strip_prefix("builtins.").unwrap_or(&plain).to_owned();
    }
    let qualified = heap
        .pages
        .pointer(info.address, heap.layout().qualified_name);
    let qualified = qualified.and_then(|name| heap.text(name));
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let own = qualified.unwrap_or_else(|| last(&plain));
    let members = heap.pages.pointer(info.address, TP_DICT).unwrap_or(0);
    match value_of(heap, members, "__module__").and_then(|module| heap.text(module)) {
        Some(module) if module != "builtins" => format!("{module}.{own}"),
        Some(_) => own,
        None => plain,
    }
}

/// The value of a name in a dict.
pub fn value_of(heap: &Heap, of_dict: u64, name: &str) -> Option<u64> {
    let is_dict = heap.info_of(of_dict)?.kind == Kind::Dict;
    let (mut found, mut searched) = (None, 0);
    let mut each = |key: u64, value: u64| {
        searched += 1;
        if found.is_none() && searched < SEARCHED_MAX && heap.text(key).as_deref() == Some(name) {
            found = Some(value);
        }
    };
    is_dict.then(|| dict::entries(&heap.pages, heap.layout(), of_dict, &mut each))??;
    found
}

/// A function as `app.Shop.remember`.
pub fn of_function(heap: &Heap, function: u64) -> Option<String> {
    let layout = &heap.layout().function;
    let text = |offset| heap.text(heap.pages.pointer(function, offset)?);
    let name = text(layout.qualified_name)?;
    Some(match text(layout.module) {
        Some(module) => format!("{module}.{name}"),
        None => name,
    })
}

/// Where a code object is: its name, its file, and the first line.
pub fn of_code(heap: &Heap, code: u64) -> Option<Place> {
    let layout = &heap.layout().code;
    let is_code = heap.info_of(code)?.kind == Kind::Code;
    let text = |offset| heap.text(heap.pages.pointer(code, offset)?);
    is_code.then_some(Place {
        name: text(layout.qualified_name.unwrap_or(layout.name))?,
        file: text(layout.file)?,
        line: heap.pages.u32(code.wrapping_add(layout.first_line))?,
    })
}

/// A function in its file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub name: String,
    pub file: String,
    pub line: u32,
}

/// The name of a function's variable, by its number.
pub fn of_local(heap: &Heap, code: u64, number: u64) -> Option<String> {
    let mut number = number;
    for offset in heap.layout().code.local_names {
        let names = heap.pages.pointer(code, offset).filter(|_| offset != 0)?;
        let count = heap.pages.word(names.wrapping_add(super::layout::SIZE))?;
        if number < count {
            let at = heap
                .layout()
                .tuple_items
                .checked_add(number.checked_mul(8)?)?;
            return heap.text(heap.pages.pointer(names, at)?);
        }
        number -= count;
    }
    None
}
