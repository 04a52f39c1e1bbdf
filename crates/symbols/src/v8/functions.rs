//! The functions that were seen on stacks, each kept once under a number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{JAVASCRIPT, is_javascript};
use crate::frame::{Frame, JAVASCRIPT_MODULE};

/// Of what is kept, of all processes; further functions have no names.
const BYTES_MAX: usize = 32 << 20;

/// Of a table, for each function.
const ENTRY_BYTES: usize = 64;
/// No function has this number.
const UNNAMED: u64 = u32::MAX as u64;

/// A function of JavaScript. Two of one name, file and line are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    pub name: String,
    /// As the script was loaded: a path, `file://…`, or `node:fs` of Node's own. `None`: V8's own.
    pub file: Option<String>,
    /// Where it begins, from 1.
    pub line: Option<u32>,
}

#[derive(Default)]
struct Kept {
    functions: Vec<Arc<Function>>,
    numbers: HashMap<Arc<Function>, u64>,
    bytes: usize,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// What stands for a function in a stack.
pub fn address_of(function: Function) -> u64 {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(number) = kept.numbers.get(&function) {
        return JAVASCRIPT | number;
    }
    let file = function.file.as_ref().map_or(0, String::len);
    let bytes = size_of::<Function>() + ENTRY_BYTES + function.name.len() + file;
    if kept.bytes + bytes > BYTES_MAX {
        return JAVASCRIPT | UNNAMED;
    }
    kept.bytes += bytes;
    let number = kept.functions.len() as u64;
    let function = Arc::new(function);
    kept.functions.push(function.clone());
    kept.numbers.insert(function, number);
    JAVASCRIPT | number
}

/// A function on a stack; `None`: the address is none.
pub fn named(address: u64) -> Option<Frame> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = is_javascript(address).then_some(address & !JAVASCRIPT)?;
    let number = usize::try_from(number).ok()?;
    let function = kept.as_ref()?.functions.get(number)?;
    Some(Frame {
        function: Some(function.name.clone()),
        file: function.file.clone(),
        line: function.line,
        module: JAVASCRIPT_MODULE.to_owned(),
        ..Frame::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_one_number_and_comes_back_by_it() {
        let function = |line| Function {
            name: "handle".to_owned(),
            file: Some("/srv/app/server.js".to_owned()),
            line: Some(line),
        };
        let first = address_of(function(3));
        assert_eq!(address_of(function(3)), first);
        assert_ne!(address_of(function(4)), first);
        let frame = named(first).unwrap();
        assert_eq!(frame.function.as_deref(), Some("handle"));
        assert_eq!(frame.file.as_deref(), Some("/srv/app/server.js"));
        assert_eq!(frame.line, Some(3));
        for none in [0x7f41_cd94_b280, JAVASCRIPT | UNNAMED, 1 << 62 | 1] {
            assert_eq!(named(none), None, "{none:#x}");
        }
    }
}
