//! Global variables as roots: what they point to is reached first.

use std::collections::{HashMap, HashSet};

use observe::fact::memory::Memory;

use super::super::budget::Budget;
use super::super::layout::Layout;
use super::globals::{BYTES_MAX, Globals, Group, STATIC_PART, Variable, each_word};
use super::marks::Found;
use super::types::{Field, Parts, Type};
use crate::RootCount;

/// More are not believed; GOMAXPROCS is the number of CPUs.
const PROCESSORS_MAX: u64 = 1 << 16;
const TIMERS_MAX: u64 = 1 << 32;
/// Timers of each P of which it is asked what they call, and words of one.
const ASKED_MAX: u64 = 200;
const TIMER_WORDS: u64 = 12;
/// Name of the root that is all timers which wait for their time.
pub const TIMERS: &str = "timers (time.AfterFunc, time.NewTimer)";

/// Words that a root starts with.
struct Piece {
    at: u64,
    bytes: u64,
    root: u32,
}

/// The timers of each P: where they are, and how many.
fn heaps_of_timers(globals: &Globals, memory: &dyn Memory, offset: u64) -> Vec<(u64, u64)> {
    let slice = |at: u64| Some((memory.u64(at)?, memory.u64(at.checked_add(8)?)?));
    let all = globals.processors.and_then(slice);
    let Some((all, count)) = all else {
        return Vec::new();
    };
    let heap = |index: u64| {
        let processor = memory.u64(all.checked_add(8 * index)?)?;
        slice(processor.checked_add(offset)?)
    };
    let heaps = (0..count.min(PROCESSORS_MAX)).filter_map(heap);
    heaps
        .filter(|(_, count)| (1..TIMERS_MAX).contains(count))
        .collect()
}

/// Words of some of the timers, among them the functions that they call.
pub fn words_of_timers(globals: &Globals, memory: &dyn Memory, layout: &Layout) -> Vec<u64> {
    let mut words = Vec::new();
    for (timers, count) in heaps_of_timers(globals, memory, layout.timers) {
        let step = count.div_ceil(ASKED_MAX);
        for index in (0..count).step_by(step as usize) {
            let at = timers.checked_add(layout.timer_bytes * index);
            let Some(timer) = at.and_then(|at| memory.u64(at)) else {
                continue;
            };
            let word = |index: u64| memory.u64(timer.checked_add(8 * index)?);
            words.extend((0..TIMER_WORDS).filter_map(word).filter(|word| *word != 0));
        }
    }
    words
}

/// Puts the variables of a group into the marks.
pub struct Seeds<'a> {
    pub globals: &'a Globals,
    pub memory: &'a dyn Memory,
    pieces: Vec<Piece>,
    /// Roots of the variables that the compiler made, by their places in the list.
    parts: HashMap<usize, u32>,
    /// Addresses that pointers were followed to.
    followed: HashSet<u64>,
}

impl<'a> Seeds<'a> {
    pub fn new(globals: &'a Globals, memory: &'a dyn Memory) -> Seeds<'a> {
        Seeds {
            globals,
            memory,
            pieces: Vec::new(),
            parts: HashMap::new(),
            followed: HashSet::new(),
        }
    }

    /// `false`: the budget is spent.
    pub fn add(&mut self, group: Group, found: &mut Found, budget: &mut Budget) -> bool {
        let (parts, named): (Vec<_>, Vec<_>) = (0..)
            .zip(&self.globals.variables)
            .filter(|(_, variable)| variable.group == group)
            .partition(|(_, variable)| variable.name.contains(STATIC_PART));
        for (_, variable) in named {
            self.add_variable(variable, found);
        }
        for piece in std::mem::take(&mut self.pieces) {
            if !self.seed(&piece, found, budget) {
                return false;
            }
        }
        // What the compiler made and no variable points to.
        for (index, variable) in parts {
            if self.parts.contains_key(&index) {
                continue;
            }
            let name = if group == Group::Runtime {
                RootCount::RUNTIME
            } else {
                &variable.name
            };
            let root = found.root(name, None);
            let piece = Piece {
                at: variable.address,
                bytes: variable.bytes,
                root,
            };
            if !self.seed(&piece, found, budget) {
                return false;
            }
        }
        true
    }

    /// The timers that wait for their time: those of each P. `offset`: in `struct p`.
    pub fn add_timers(&mut self, offset: u64, found: &mut Found) {
        for (timers, _) in heaps_of_timers(self.globals, self.memory, offset) {
            let root = found.root(TIMERS, None);
            found.reach(timers, root);
        }
    }

    /// All of `.data` and `.bss`: what is in no variable that is known.
    pub fn add_rest(&mut self, found: &mut Found, budget: &mut Budget) -> bool {
        let root = found.root(RootCount::RUNTIME, None);
        self.globals.ranges.iter().all(|range| {
            let bytes = range.end.saturating_sub(range.start).min(BYTES_MAX);
            each_word(self.memory, range.start, bytes, budget, &mut |word| {
                found.reach(word, root)
            })
        })
    }

    fn add_variable(&mut self, variable: &Variable, found: &mut Found) {
        if variable.group == Group::Runtime {
            let root = found.root(RootCount::RUNTIME, None);
            return self.pieces.push(Piece {
                at: variable.address,
                bytes: variable.bytes,
                root,
            });
        }
        let Some(kind) = &variable.kind else {
            let root = found.root(&variable.name, None);
            return self.pieces.push(Piece {
                at: variable.address,
                bytes: variable.bytes,
                root,
            });
        };
        self.expand(
            variable.address,
            variable.bytes,
            &variable.name,
            kind,
            found,
        );
    }

    /// Fields in front of the whole that they are in.
    fn expand(&mut self, at: u64, bytes: u64, name: &str, kind: &Type, found: &mut Found) {
        let root = found.root(name, Some(&kind.name));
        match &kind.parts {
            Parts::None => {}
            Parts::Fields(fields) => self.expand_fields(at, name, fields, found),
            Parts::Target(fields, target_bytes) => {
                let target = self
                    .memory
                    .u64(at)
                    .filter(|target| self.is_whole(*target, *target_bytes, found));
                if let Some(target) = target.filter(|target| self.followed.insert(*target)) {
                    found.reach(target, root);
                    self.expand_fields(target, name, fields, found);
                }
            }
        }
        self.pieces.push(Piece { at, bytes, root });
    }

    fn expand_fields(&mut self, at: u64, name: &str, fields: &[Field], found: &mut Found) {
        for field in fields {
            let name = format!("{name}.{}", field.name);
            self.expand(
                at.wrapping_add(field.offset),
                field.kind.bytes,
                &name,
                &field.kind,
                found,
            );
        }
    }

    /// Whether a pointer leads to a value of this size.
    fn is_whole(&self, target: u64, bytes: u64, found: &Found) -> bool {
        if self.globals.holds(target) {
            return true;
        }
        let end = found
            .heap
            .find(target)
            .map(|object| found.heap.range(object).1);
        end.is_some_and(|end| target.checked_add(bytes).is_some_and(|upto| upto <= end))
    }

    /// Its words, and those of the variables that the compiler made for it.
    fn seed(&mut self, piece: &Piece, found: &mut Found, budget: &mut Budget) -> bool {
        let (mut ranges, root) = (vec![(piece.at, piece.bytes)], piece.root);
        while let Some((at, bytes)) = ranges.pop() {
            let mut made = Vec::new();
            let is_read = each_word(self.memory, at, bytes, budget, &mut |word| match self
                .globals
                .holds(word)
            {
                true => made.push(word),
                false => found.reach(word, root),
            });
            if !is_read {
                return false;
            }
            for word in made {
                let Some((index, variable)) = self.globals.at(word) else {
                    continue;
                };
                if variable.name.contains(STATIC_PART) && !self.parts.contains_key(&index) {
                    self.parts.insert(index, root);
                    ranges.push((variable.address, variable.bytes));
                }
            }
        }
        true
    }
}
