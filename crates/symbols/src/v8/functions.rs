//! The functions that were seen on stacks, each kept once under a number.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{JAVASCRIPT, is_javascript};
use crate::frame::{Frame, JAVASCRIPT_MODULE};

/// Different functions kept, of all processes; further ones have no names.
const FUNCTIONS_MAX: usize = 65_536;

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
    functions: Vec<Function>,
    numbers: HashMap<Function, u64>,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// What stands for a function in a stack; `None`: there are too many.
pub fn address_of(function: Function) -> Option<u64> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(number) = kept.numbers.get(&function) {
        return Some(JAVASCRIPT | number);
    }
    if kept.functions.len() == FUNCTIONS_MAX {
        return None;
    }
    let number = kept.functions.len() as u64;
    kept.functions.push(function.clone());
    kept.numbers.insert(function, number);
    Some(JAVASCRIPT | number)
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
        let first = address_of(function(3)).unwrap();
        assert_eq!(address_of(function(3)), Some(first));
        assert_ne!(address_of(function(4)), Some(first));
        let frame = named(first).unwrap();
        assert_eq!(frame.function.as_deref(), Some("handle"));
        assert_eq!(frame.file.as_deref(), Some("/srv/app/server.js"));
        assert_eq!(frame.line, Some(3));
        for none in [0x7f41_cd94_b280, JAVASCRIPT | 0xffff_ffff, 1 << 62 | 1] {
            assert_eq!(named(none), None, "{none:#x}");
        }
    }
}
