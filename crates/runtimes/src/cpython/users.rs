//! Functions that use a name: candidates for what fills a container.

use std::collections::HashMap;
use std::rc::Rc;

use observe::fact::memory::Memory;
use symbols::package::package_of;
use symbols::python::in_standard_library;

use super::census::Census;
use super::frames::Running;
use super::heap::Heap;
use super::layout::{SIZE, TP_DICT};
use super::named::Named;
use super::names;
use super::types::Kind;

pub const USERS_MAX: usize = 5;
const NAMES_MAX: u64 = 4_096;
/// Names of all functions, 8 bytes each and their texts.
const ALL_NAMES_MAX: usize = 1 << 20;
const FUNCTIONS_MAX: usize = 1 << 20;
const BYTE_CODE_MAX: u64 = 1 << 16;

/// Methods that add to a container.
const ADDERS: [&str; 14] = [
    "append",
    "appendleft",
    "add",
    "setdefault",
    "__setitem__",
    "insert",
    "update",
    "put",
    "put_nowait",
    "extend",
    "push",
    "heappush",
    "subscribe",
    "register",
];

/// A function, or the code of a module that runs.
struct Function {
    /// Zero: code of a module.
    object: u64,
    code: u64,
    /// `None`: code of a module.
    globals: Option<u64>,
    names: Rc<[u64]>,
}

/// All functions of a heap, with the names that they use.
pub struct Users {
    functions: Vec<Function>,
    texts: HashMap<u64, String>,
    /// Of each code: a function that is made anew at each call has the same.
    names_by_code: HashMap<u64, Option<Rc<[u64]>>>,
    /// Of all codes.
    names: usize,
}

impl Users {
    pub fn new(heap: &Heap, census: &Census, frames: &[Running]) -> Users {
        let mut users = Users {
            functions: Vec::new(),
            texts: HashMap::new(),
            names_by_code: HashMap::new(),
            names: 0,
        };
        let layout = heap.layout().function;
        for (number, object) in census.objects.iter().enumerate() {
            if number % 4_096 == 0 && heap.pages.is_late() || users.names >= ALL_NAMES_MAX {
                break;
            }
            if heap.info(object.type_number).kind == Kind::Function {
                let globals = heap.pages.pointer(object.address, layout.globals);
                if let Some(code) = heap.pages.pointer(object.address, layout.code) {
                    users.add(heap, object.address, code, globals);
                }
            }
        }
        for running in frames {
            users.add(heap, 0, running.code, None);
        }
        users
    }

    fn add(&mut self, heap: &Heap, object: u64, code: u64, globals: Option<u64>) {
        if self.functions.len() >= FUNCTIONS_MAX {
            return;
        }
        let names = match self.names_by_code.get(&code) {
            Some(known) => known.clone(),
            None => self.names_of(heap, code),
        };
        let Some(names) = names else {
            return;
        };
        self.functions.push(Function {
            object,
            code,
            globals,
            names,
        });
    }

    /// Names that a code uses; `None`: it is none.
    fn names_of(&mut self, heap: &Heap, code: u64) -> Option<Rc<[u64]>> {
        let tuple = heap.pages.pointer(code, heap.layout().code.names);
        let is_code = heap
            .info_of(code)
            .is_some_and(|info| info.kind == Kind::Code);
        let names = tuple.filter(|_| is_code).map(|tuple| {
            let count = heap.pages.word(tuple.wrapping_add(SIZE)).unwrap_or(0);
            let mut names = Vec::new();
            let first = tuple.wrapping_add(heap.layout().tuple_items);
            heap.pages
                .words(first, count.min(NAMES_MAX), &mut |_, name| names.push(name));
            Rc::<[u64]>::from(names)
        });
        for name in names.iter().flat_map(|names| names.iter()) {
            self.texts
                .entry(*name)
                .or_insert_with(|| heap.text(*name).unwrap_or_default());
        }
        self.names += names.as_ref().map_or(0, |names| names.len());
        self.names_by_code.insert(code, names.clone());
        names
    }

    /// `handle (app.py:31)`: those that also add to a container first.
    pub fn of(&self, heap: &Heap, named: &Named) -> Vec<String> {
        let found = match named {
            Named::Function(code) => {
                let function = self
                    .functions
                    .iter()
                    .find(|function| function.code == *code);
                return function
                    .and_then(|function| display(heap, function))
                    .into_iter()
                    .collect();
            }
            Named::Global(globals, name) => self.of_global(heap, *globals, name),
            Named::Attribute(class, name) => self.of_attribute(heap, *class, name),
        };
        shown(heap, &found)
    }

    /// Functions that name a class and are not of the standard library, nor the code of modules, which defines the
    /// class. Those of the program come before those of packages: a package has many for all its users.
    pub fn makers(&self, heap: &Heap, class: &str) -> Vec<String> {
        let mut found: Vec<(bool, &Function)> = Vec::new();
        for function in self.that_use(class) {
            let place = names::of_code(heap, function.code);
            let is_maker = |place: &names::Place| {
                !in_standard_library(&place.file) && place.name != "<module>"
            };
            if let Some(place) = place.filter(is_maker) {
                found.push((package_of(&place.file).is_some(), function));
            }
        }
        found.sort_by_key(|(is_of_package, _)| *is_of_package);
        let found: Vec<&Function> = found.into_iter().map(|(_, function)| function).collect();
        shown(heap, &found)
    }

    fn that_use(&self, name: &str) -> impl Iterator<Item = &Function> {
        let uses = move |used: &u64| self.texts.get(used).is_some_and(|text| text == name);
        self.functions
            .iter()
            .filter(move |function| function.names.iter().any(uses))
    }

    fn of_global(&self, heap: &Heap, globals: u64, name: &str) -> Vec<&Function> {
        let is_there = |function: &&Function| function.globals.is_none_or(|of| of == globals);
        let mut found: Vec<&Function> = self.that_use(name).filter(is_there).collect();
        found
            .sort_by_cached_key(|function| (!self.adds(heap, function), is_module(heap, function)));
        found
    }

    /// Functions of the module of the class, and of others that are not of the standard library: that has attributes of
    /// all names.
    fn of_attribute(&self, heap: &Heap, class: u64, name: &str) -> Vec<&Function> {
        let members = heap.pages.pointer(class, TP_DICT).unwrap_or(0);
        let module =
            names::value_of(heap, members, "__module__").and_then(|module| heap.text(module));
        let is_near = |function: &Function| {
            let of = heap
                .pages
                .pointer(function.object, heap.layout().function.module);
            function.object != 0 && of.and_then(|of| heap.text(of)) == module
        };
        let is_own = |function: &Function| {
            let place = names::of_code(heap, function.code);
            place.is_some_and(|place| !in_standard_library(&place.file))
        };
        let found = self
            .that_use(name)
            .map(|function| (is_near(function), function));
        let mut found: Vec<(bool, &Function)> = found
            .filter(|(near, function)| *near || is_own(function))
            .collect();
        found.sort_by_cached_key(|(near, function)| (!self.adds(heap, function), !near));
        found.into_iter().map(|(_, function)| function).collect()
    }

    fn adds(&self, heap: &Heap, function: &Function) -> bool {
        let is_adder = |name: &u64| {
            self.texts
                .get(name)
                .is_some_and(|name| ADDERS.contains(&name.as_str()))
        };
        function.names.iter().any(is_adder) || stores_item(heap, function.code)
    }
}

/// Each once, at most so many.
fn shown(heap: &Heap, functions: &[&Function]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for function in functions {
        let name = display(heap, function).filter(|name| !shown.contains(name));
        shown.extend(name);
        if shown.len() == USERS_MAX {
            break;
        }
    }
    shown
}

/// Code of a module, which runs once; since 3.11 it is a function's.
fn is_module(heap: &Heap, function: &Function) -> bool {
    names::of_code(heap, function.code).is_none_or(|place| place.name == "<module>")
}

/// With the name that the function has, which up to 3.10 the code lacks: `Shop.remember`.
fn display(heap: &Heap, function: &Function) -> Option<String> {
    let place = names::of_code(heap, function.code)?;
    let name = heap
        .pages
        .pointer(function.object, heap.layout().function.qualified_name);
    let name = name.and_then(|name| heap.text(name)).unwrap_or(place.name);
    Some(format!("{name} ({}:{})", place.file, place.line))
}

/// Whether a function has `x[y] = z`. An instruction is two bytes, the first of them its number; since 3.11 it may be
/// replaced by one that is faster for the types at hand.
fn stores_item(heap: &Heap, code: u64) -> bool {
    let layout = heap.layout();
    let numbers: &[u8] = match layout.minor {
        ..=10 => &[60],
        11 => &[60, 168, 169, 170],
        12 => &[60, 159, 160],
        13 => &[39, 212, 213],
        _ => &[38, 201, 202],
    };
    let read = || {
        let (start, count) = match layout.minor {
            ..=10 => {
                let bytes = heap.pages.pointer(code, layout.code.byte_code)?;
                (
                    bytes.checked_add(32)?,
                    heap.pages.word(bytes.checked_add(SIZE)?)?,
                )
            }
            _ => {
                let units = heap.pages.word(code.checked_add(SIZE)?)?;
                (
                    code.checked_add(layout.code.byte_code)?,
                    units.checked_mul(2)?,
                )
            }
        };
        heap.pages
            .bytes(start, count.min(BYTE_CODE_MAX), BYTE_CODE_MAX)
    };
    let code = read().unwrap_or_default();
    code.chunks(2).any(|unit| numbers.contains(&unit[0]))
}
