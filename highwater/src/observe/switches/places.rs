//! Texts and stacks, each kept once under a number: the analysis passes numbers around.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use crate::observe::heap::symbols::in_standard_library;
use crate::observe::switches::event::{StackId, TextId};
pub use crate::observe::switches::stack::{Frame, Stack};
use crate::observe::switches::stack::{is_allocation, is_locking};

/// Different stacks kept; further ones have no names, and are counted.
const STACKS_MAX: usize = 20_000;
const TEXTS_MAX: usize = 20_000;
/// Names with more letters are told without their types.
const NAME_LONG: usize = 60;

pub struct Places {
    pid: u32,
    symbolizer: Symbolizer,
    names: HashMap<u64, Vec<Frame>>,
    stacks: Vec<Stack>,
    stack_ids: HashMap<Rc<[u64]>, StackId>,
    texts: Vec<String>,
    text_ids: HashMap<String, TextId>,
    /// Stacks of which no frame has a name.
    pub unresolved: u64,
    pub refused: u64,
}

impl Places {
    pub fn new(pid: u32) -> Places {
        Places {
            pid,
            symbolizer: Symbolizer::builder().enable_auto_reload(false).build(),
            names: HashMap::new(),
            stacks: vec![Stack::default()],
            stack_ids: HashMap::new(),
            texts: vec![String::new()],
            text_ids: HashMap::new(),
            unresolved: 0,
            refused: 0,
        }
    }

    pub fn text(&mut self, words: &str) -> TextId {
        if let Some(id) = self.text_ids.get(words) {
            return *id;
        }
        if self.texts.len() >= TEXTS_MAX {
            return 0;
        }
        let id = self.texts.len() as TextId;
        self.texts.push(words.to_string());
        self.text_ids.insert(words.to_string(), id);
        id
    }

    pub fn words(&self, id: TextId) -> &str {
        self.texts.get(id as usize).map_or("", String::as_str)
    }

    pub fn stack_of(&self, id: StackId) -> &Stack {
        self.stacks.get(id as usize).unwrap_or(&self.stacks[0])
    }

    /// The number of a stack, its addresses named at once: later the process may be gone.
    pub fn stack(&mut self, addresses: &[u64]) -> StackId {
        if addresses.is_empty() {
            return 0;
        }
        if let Some(id) = self.stack_ids.get(addresses) {
            return *id;
        }
        if self.stacks.len() >= STACKS_MAX {
            self.refused += 1;
            return 0;
        }
        self.name(addresses);
        let frames: Vec<Frame> = addresses
            .iter()
            .flat_map(|address| self.names.get(address).cloned().unwrap_or_default())
            .collect();
        if frames.iter().all(|frame| frame.name.starts_with("0x")) {
            self.unresolved += 1;
        }
        let id = self.stacks.len() as StackId;
        let addresses: Rc<[u64]> = Rc::from(addresses);
        self.stacks.push(Stack {
            addresses: addresses.clone(),
            allocator: frames.iter().any(|frame| is_allocation(&frame.name)),
            locks: is_locking(&frames),
            frames,
        });
        self.stack_ids.insert(addresses, id);
        id
    }

    pub fn addresses(&self, id: StackId) -> &[u64] {
        &self.stack_of(id).addresses
    }

    /// Where the code of the function at `address` begins, and its bytes, when it is the program's own.
    pub fn own_code(&mut self, address: u64) -> Option<(u64, u64)> {
        self.name(&[address]);
        let whole = self.names.get(&address)?.last()?;
        (whole.is_own() && whole.bytes > 0).then_some((whole.start, whole.bytes))
    }

    /// The innermost function of the program's own at `address`, inlined ones too.
    pub fn own_name(&mut self, address: u64) -> Option<String> {
        self.name(&[address]);
        let own = self
            .names
            .get(&address)?
            .iter()
            .find(|frame| frame.is_own());
        own.map(|frame| frame.name.clone())
    }

    /// `called` is the beginning of a function of the program's own, and not of the one that
    /// `inner` is in.
    pub fn is_another_function(&mut self, called: u64, inner: u64) -> bool {
        self.name(&[called, inner]);
        let start = |address| {
            let frames: Option<&Vec<Frame>> = self.names.get(&address);
            frames.and_then(|frames| frames.last())
        };
        let begins = start(called).is_some_and(|frame| frame.start == called && frame.is_own());
        begins && start(inner).is_none_or(|frame| frame.start != called)
    }

    fn name(&mut self, addresses: &[u64]) {
        let fresh: Vec<u64> = addresses
            .iter()
            .copied()
            .filter(|address| !self.names.contains_key(address))
            .collect();
        if fresh.is_empty() {
            return;
        }
        let mut process = Process::new(self.pid.into());
        process.map_files = false;
        let found = self
            .symbolizer
            .symbolize(&Source::Process(process), Input::AbsAddr(&fresh));
        let Ok(found) = found else {
            for address in fresh {
                self.names.insert(address, vec![nameless(address)]);
            }
            return;
        };
        for (address, symbol) in fresh.into_iter().zip(found) {
            self.names.insert(address, frames(address, &symbol));
        }
    }
}

fn nameless(address: u64) -> Frame {
    Frame {
        name: format!("{address:#x}"),
        module: String::new(),
        start: 0,
        bytes: 0,
        borrowed: false,
    }
}

fn frames(address: u64, symbol: &Symbolized) -> Vec<Frame> {
    let Symbolized::Sym(symbol) = symbol else {
        return vec![nameless(address)];
    };
    let module = symbol
        .module
        .as_deref()
        .and_then(|path| Path::new(path).file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let frame = |name: &str, code: Option<&CodeInfo<'_>>| Frame {
        name: without_types(name),
        module: module.clone(),
        start: address - symbol.offset as u64,
        bytes: symbol.size.unwrap_or(0) as u64,
        borrowed: code.is_some_and(|code| is_borrowed(&code.to_path().to_string_lossy())),
    };
    let inlined = symbol.inlined.iter().rev();
    let inlined = inlined.map(|f| frame(&f.name, f.code_info.as_ref()));
    let outermost = frame(&symbol.name, symbol.code_info.as_deref());
    inlined.chain([outermost]).collect()
}

/// A source that is no program's own: a standard library's, or that of the usual crates for locks.
fn is_borrowed(file: &str) -> bool {
    let crates = ["/parking_lot-", "/parking_lot_core-", "/lock_api-"];
    in_standard_library(file) || crates.iter().any(|name| file.contains(name))
}

/// A name as the source has it; a long one without its type parameters: `near<..>`,
/// `<Vec<..> as Extend<..>>::extend`.
fn without_types(name: &str) -> String {
    // Go's wrapper of a deferred call is the function that defers.
    let name = name.split(".deferwrap").next().unwrap_or(name);
    if name.len() <= NAME_LONG {
        return name.to_string();
    }
    let (mut depth, mut kept) = (0_usize, String::new());
    // What stands in front of the first name is not a parameter but the type itself.
    let outer = usize::from(name.starts_with('<'));
    let mut before = ' ';
    for letter in name.chars() {
        let closes = letter == '>' && !matches!(before, '-' | '=');
        before = letter;
        if closes {
            depth = depth.saturating_sub(1);
        }
        if depth <= outer {
            kept.push(letter);
        }
        if letter == '<' {
            if depth == outer {
                kept.push_str("..");
            }
            depth += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_told_without_their_types() {
        let cases = [
            ("near<f32>", "near<f32>"),
            ("main.(*weir).flush.deferwrap1", "main.(*weir).flush"),
            (
                "search::database::vectors::near<alloc::vec::Vec<f32, alloc::alloc::Global>, core::cmp::Ordering>",
                "search::database::vectors::near<..>",
            ),
            (
                "<search::pool::Pool<alloc::boxed::Box<dyn Fn() -> i32>> as core::ops::Drop<a::b::C>>::drop",
                "<search::pool::Pool<..> as core::ops::Drop<..>>::drop",
            ),
        ];
        for (name, told) in cases {
            assert_eq!(without_types(name), told);
        }
    }

    #[test]
    fn what_is_inlined_from_a_library_is_not_the_programs_own() {
        let files = [
            ("/rustc/5980/library/std/src/sync/poison/mutex.rs", true),
            ("/x/registry/src/i/lock_api-0.4.14/src/mutex.rs", true),
            ("/usr/include/c++/12/bits/std_mutex.h", true),
            ("/srv/search/src/spans/processor.rs", false),
        ];
        for (file, borrowed) in files {
            assert_eq!(is_borrowed(file), borrowed, "{file}");
        }
    }
}
