//! What V8 keeps once for all closures of a function: its name, its file, where it begins (SharedFunctionInfo,
//! ScopeInfo, Script).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::functions::{Function, address_of};
use super::heap::{Heap, pointer, small};
use super::layout::{Layout, Numbers};
use crate::memory::Memory;

const NAME_LETTERS: usize = 256;
const FILE_LETTERS: usize = 1_024;
/// What stands as file of code that no file is known of (`eval`, `new Function`).
const EVALUATED: &str = "(evaluated code)";
/// Longer scripts have no lines.
const SOURCE_LETTERS: usize = 2 << 20;
/// Scripts whose lines are kept, and lines of all of them.
const SCRIPTS_MAX: usize = 64;
const LINES_MAX: usize = 1 << 20;
const KNOWN_MAX: usize = 8_192;
/// An object may have moved, and another one lie in its place.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Of a SharedFunctionInfo; of a ScopeInfo behind its map, and behind its local variables.
const SHARED_BYTES: usize = 64;
const HEADER_WORDS: usize = 6;
const TAIL_WORDS: usize = 8;
/// With more local variables their names are in a table apart (`kScopeInfoMaxInlinedLocalNamesSize`).
const INLINED_LOCALS_MAX: usize = 75;

/// Functions that were read, by their addresses.
pub struct Shared {
    known: HashMap<u64, Option<u64>>,
    /// Where lines end, by script and source; `None`: it could not be read.
    lines: HashMap<(u64, u64), Option<Arc<[u32]>>>,
    since: Instant,
}

impl Shared {
    pub fn new() -> Shared {
        Shared {
            known: HashMap::new(),
            lines: HashMap::new(),
            since: Instant::now(),
        }
    }

    /// What stands in a stack for the function that a word points to.
    pub fn function(&mut self, heap: &Heap, word: u64) -> Option<u64> {
        if self.since.elapsed() > KNOWN_FOR || self.known.len() == KNOWN_MAX {
            self.known.clear();
            self.since = Instant::now();
        }
        if let Some(known) = self.known.get(&word) {
            return *known;
        }
        let found = self.read(heap, word).map(address_of);
        self.known.insert(word, found);
        found
    }

    fn read(&mut self, heap: &Heap, word: u64) -> Option<Function> {
        let of = &heap.layout.shared;
        let bytes = heap.bytes(pointer(word)?, SHARED_BYTES)?;
        let field = |offset: u64| {
            let at = usize::try_from(offset).ok()?;
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        if heap.type_by(field(0)?)? != of.own_type {
            return None;
        }
        let (name, range) = name_and_range(heap, field(of.name)?);
        let script = field(of.script).and_then(|word| heap.object(word));
        let script = script.filter(|(_, own_type)| *own_type == of.script_type);
        let file = script.map(|(script, _)| {
            let name = heap.word(script + heap.layout.script_name);
            let name = name.and_then(|name| heap.string(name, FILE_LETTERS));
            let name = name.filter(|name| !name.is_empty());
            name.unwrap_or_else(|| EVALUATED.to_owned())
        });
        let line = range
            .zip(script)
            .and_then(|((start, _), (script, _))| self.line(heap, script, start));
        let name = Some(name).filter(|name| !name.is_empty());
        Some(Function {
            name: name.or_else(|| place(file.as_deref()?, line))?,
            file,
            line,
        })
    }

    fn line(&mut self, heap: &Heap, script: u64, start: u32) -> Option<u32> {
        let source = heap.word(script + heap.layout.script_source)?;
        let key = (script, source);
        if !self.lines.contains_key(&key) {
            let source = heap.flat(source);
            let ends = source.and_then(|source| heap.line_ends(&source, SOURCE_LETTERS));
            self.make_room(ends.as_ref().map_or(0, Vec::len));
            self.lines.insert(key, ends.map(Arc::from));
        }
        let ends = self.lines.get(&key)?.as_ref()?;
        u32::try_from(ends.partition_point(|end| *end < start) + 1).ok()
    }

    /// For one more script with so many lines.
    fn make_room(&mut self, lines: usize) {
        let count = |ends: &Option<Arc<[u32]>>| ends.as_ref().map_or(0, |ends| ends.len());
        let mut kept: usize = self.lines.values().map(count).sum();
        while self.lines.len() >= SCRIPTS_MAX || kept + lines > LINES_MAX {
            let Some(one) = self.lines.keys().next().copied() else {
                return;
            };
            kept -= self.lines.remove(&one).as_ref().map_or(0, count);
        }
    }
}

/// The functions of one process, read one by one.
pub struct Functions {
    heap: Heap,
    shared: Shared,
}

impl Functions {
    /// `None`: this V8 describes its functions in another way.
    pub fn of(pid: u32, numbers: &Numbers) -> Option<Functions> {
        Some(Functions {
            heap: Heap::new(Memory { pid }, Layout::of(numbers)?),
            shared: Shared::new(),
        })
    }

    /// The function that a word points to (a SharedFunctionInfo).
    pub fn read(&mut self, word: u64) -> Option<Function> {
        self.shared.read(&self.heap, word)
    }

    /// Its source of up to so many letters; `None`: it is longer, or it was not compiled.
    pub fn text(&self, word: u64, most: usize) -> Option<Text> {
        let (heap, of) = (&self.heap, &self.heap.layout.shared);
        let (address, own_type) = heap.object(word)?;
        if own_type != of.own_type {
            return None;
        }
        let (_, range) = name_and_range(heap, heap.word(address + of.name)?);
        let (start, end) = range?;
        let (script, own_type) = heap.object(heap.word(address + of.script)?)?;
        let letters = end.checked_sub(start)? as usize;
        if own_type != of.script_type || letters > most {
            return None;
        }
        let source = heap.flat(heap.word(script + heap.layout.script_source)?)?;
        let letters = heap.read_letters(&source, start as usize, letters)?;
        Some(Text {
            script,
            start,
            end,
            text: String::from_utf16_lossy(&letters),
        })
    }
}

/// A function's part of its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Where the script is.
    pub script: u64,
    /// In letters of the script.
    pub start: u32,
    pub end: u32,
    /// From the parameters on.
    pub text: String,
}

/// Of a function without a name: `server.js:42`.
fn place(file: &str, line: Option<u32>) -> Option<String> {
    let short = file.rsplit('/').next().unwrap_or(file);
    match line {
        Some(line) => Some(format!("{short}:{line}")),
        None if short.is_empty() => None,
        None => Some(format!("a function of {short}")),
    }
}

/// The name, empty where it has none, and where the function starts and ends in its source, in letters.
fn name_and_range(heap: &Heap, word: u64) -> (String, Option<(u32, u32)>) {
    let is_scope = heap
        .object(word)
        .is_some_and(|(_, own_type)| own_type == heap.layout.shared.scope_type);
    match is_scope {
        true => of_scope(heap, word).unwrap_or_default(),
        false => (heap.string(word, NAME_LETTERS).unwrap_or_default(), None),
    }
}

/// Behind the local variables: the name and the name that V8 inferred (`exports.handle`), each where there is one, with
/// small numbers between them, of which the last two are start and end (later at a fixed place), and the outer scope.
fn of_scope(heap: &Heap, word: u64) -> Option<(String, Option<(u32, u32)>)> {
    let of = &heap.layout.scope;
    let data = pointer(word)?.checked_add(8)?;
    let header = heap.words(data, HEADER_WORDS)?;
    let locals = usize::try_from(small(*header.get(of.locals)?)?).ok()?;
    let names = match locals > INLINED_LOCALS_MAX {
        true => 1,
        false => locals,
    };
    let behind = of.first.checked_add(names)?.checked_add(locals)?;
    let tail = heap.words(data.checked_add(8 * behind as u64)?, TAIL_WORDS);
    let tail = tail.unwrap_or_default();
    let at = |index: usize| header.get(index).and_then(|word| small(*word));
    let positions = match of.positions {
        Some(index) => at(index).zip(at(index + 1)),
        None => last_numbers(&tail),
    };
    let positions = positions.filter(|(start, end)| start < end);
    let range = positions
        .and_then(|(start, end)| Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?)));
    let strings = tail.iter().filter(|word| small(**word).is_none());
    let name = strings
        .map_while(|word| heap.string(*word, NAME_LETTERS))
        .find(|name| !name.is_empty());
    Some((name.unwrap_or_default(), range))
}

/// The two numbers before the first object that follows two of them.
fn last_numbers(words: &[u64]) -> Option<(i32, i32)> {
    let mut before: Vec<i32> = Vec::new();
    for word in words {
        match small(*word) {
            Some(number) => before.push(number),
            None if before.len() >= 2 => break,
            None => before.clear(),
        }
    }
    let [.., start, end] = before[..] else {
        return None;
    };
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(of: i32) -> u64 {
        (of as u64) << 32
    }

    #[test]
    fn start_and_end_are_the_last_numbers_before_the_outer_scope() {
        const OBJECT: u64 = 0x7f00_0000_0001;
        for (words, expected) in [
            // A name, no variable of it, an inferred name, start and end.
            (
                vec![OBJECT, number(-1), OBJECT, number(10), number(90), OBJECT],
                Some((10, 90)),
            ),
            (
                vec![OBJECT, number(-1), number(10), number(90), OBJECT],
                Some((10, 90)),
            ),
            (vec![number(0), number(90), OBJECT], Some((0, 90))),
            (vec![OBJECT, number(3), OBJECT], None),
            (vec![], None),
        ] {
            assert_eq!(last_numbers(&words), expected, "{words:x?}");
        }
    }

    #[test]
    fn a_function_without_a_name_is_named_by_its_place() {
        assert_eq!(
            place("file:///srv/app/server.mjs", Some(42)).as_deref(),
            Some("server.mjs:42")
        );
        assert_eq!(
            place("/srv/bundle.js", None).as_deref(),
            Some("a function of bundle.js")
        );
        assert_eq!(place("", None), None);
    }
}
