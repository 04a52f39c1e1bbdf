//! Functions that use a name: candidates for what fills a container.

use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::census::Census;
use super::frames::Running;
use super::heap::Heap;
use super::layout::{SIZE, VARIABLE_BYTES};
use super::names;
use super::path::Named;
use super::types::Kind;

pub const USERS_MAX: usize = 5;
const NAMES_MAX: u64 = 4_096;
const BYTE_CODE_MAX: u64 = 1 << 16;

/// Methods that add to a container.
const ADDERS: [&str; 14] = [
    "append", "appendleft", "add", "setdefault", "__setitem__", "insert", "update", "put", "put_nowait", "extend",
    "push", "heappush", "subscribe", "register",
];

/// A function, or the code of a module that runs.
struct Function {
    code: u64,
    /// `None`: code of a module.
    globals: Option<u64>,
    names: Vec<u64>,
}

/// All functions of a heap, with the names that they use.
pub struct Users {
    functions: Vec<Function>,
    texts: HashMap<u64, String>,
}

impl Users {
    pub fn new(heap: &Heap, census: &Census, frames: &[Running]) -> Users {
        let mut users = Users {
            functions: Vec::new(),
            texts: HashMap::new(),
        };
        let layout = heap.layout().function;
        for object in &census.objects {
            if heap.info(object.type_number).kind == Kind::Function {
                let globals = heap.pages.pointer(object.address, layout.globals);
                if let Some(code) = heap.pages.pointer(object.address, layout.code) {
                    users.add(heap, code, globals);
                }
            }
        }
        for running in frames {
            users.add(heap, running.code, None);
        }
        users
    }

    fn add(&mut self, heap: &Heap, code: u64, globals: Option<u64>) {
        let mut names = Vec::new();
        let tuple = heap.pages.pointer(code, heap.layout().code.names);
        let is_code = heap.info_of(code).is_some_and(|info| info.kind == Kind::Code);
        let Some(tuple) = tuple.filter(|_| is_code) else {
            return;
        };
        let count = heap.pages.word(tuple.wrapping_add(SIZE)).unwrap_or(0).min(NAMES_MAX);
        heap.pages.words(tuple.wrapping_add(VARIABLE_BYTES), count, &mut |_, name| names.push(name));
        for name in &names {
            self.texts.entry(*name).or_insert_with(|| heap.text(*name).unwrap_or_default());
        }
        self.functions.push(Function { code, globals, names });
    }

    /// `handle (app.py:31)`: those that also add to a container first.
    pub fn of(&self, heap: &Heap, named: &Named) -> Vec<String> {
        let (globals, name) = match named {
            Named::Function(code) => return told(heap, *code).into_iter().collect(),
            Named::Global(globals, name) => (Some(*globals), name),
            Named::Attribute(name) => (None, name),
        };
        let uses = |function: &&Function| {
            let is_there = globals.is_none() || function.globals.is_none() || function.globals == globals;
            is_there && function.names.iter().any(|used| self.texts.get(used) == Some(name))
        };
        let mut found: Vec<&Function> = self.functions.iter().filter(uses).collect();
        found.sort_by_key(|function| (!self.adds(heap, function), function.globals.is_none()));
        let mut users: Vec<String> = Vec::new();
        for function in found {
            let user = told(heap, function.code).filter(|user| !users.contains(user));
            users.extend(user);
            if users.len() == USERS_MAX {
                break;
            }
        }
        users
    }

    fn adds(&self, heap: &Heap, function: &Function) -> bool {
        let is_adder = |name: &u64| self.texts.get(name).is_some_and(|name| ADDERS.contains(&name.as_str()));
        function.names.iter().any(is_adder) || stores_item(heap, function.code)
    }
}

fn told(heap: &Heap, code: u64) -> Option<String> {
    let place = names::of_code(heap, code)?;
    Some(format!("{} ({}:{})", place.name, place.file, place.line))
}

/// Whether a function has `x[y] = z`. An instruction is two bytes, the first of them its number; since 3.11 it may be
/// replaced by one that is faster for the types at hand.
fn stores_item(heap: &Heap, code: u64) -> bool {
    let layout = heap.layout();
    let numbers: &[u8] = match layout.minor {
        ..=10 => &[60],
        11 => &[60, 168, 169, 170],
        12 => &[60, 159, 160],
        _ => &[39, 212, 213],
    };
    let read = || {
        let (start, count) = match layout.minor {
            ..=10 => {
                let bytes = heap.pages.pointer(code, layout.code.byte_code)?;
                (bytes.checked_add(32)?, heap.pages.word(bytes.checked_add(SIZE)?)?)
            }
            _ => {
                let units = heap.pages.word(code.checked_add(SIZE)?)?;
                (code.checked_add(layout.code.byte_code)?, units.checked_mul(2)?)
            }
        };
        heap.pages.bytes(start, count.min(BYTE_CODE_MAX), BYTE_CODE_MAX)
    };
    let code = read().unwrap_or_default();
    code.chunks(2).any(|unit| numbers.contains(&unit[0]))
}
