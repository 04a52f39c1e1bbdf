//! Goroutine stacks as roots: what each function's frames hold.

use std::collections::HashMap;

use observe::fact::memory::Memory;

use super::super::budget::Budget;
use super::super::goroutines::{Goroutine, Reader, State, read_goroutine};
use super::super::names::is_runtime;
use super::marks::Found;
use crate::{RootCount, is_of_the_standard_library};
use symbols::golang::pclntab::words;

/// Of one stack, its outer end: deeper ones recurse.
const STACK_BYTES_MAX: u64 = 1 << 20;
const POINTERS: u64 = 8192;
const COUNT_MAX: u64 = 1 << 32;
/// Functions whose names are remembered.
const FUNCTIONS_MAX: usize = 100_000;

/// What a function is to its frames.
#[derive(Clone)]
enum Owner {
    Program(String),
    Standard(String),
    /// The compiler made it, to adapt a call.
    Wrapper,
    Runtime,
}

pub struct Stacks<'a, 'b, M> {
    pub reader: &'a Reader<'b, M>,
    owners: HashMap<u64, Owner>,
}

impl<'a, 'b, M: Memory> Stacks<'a, 'b, M> {
    pub fn new(reader: &'a Reader<'b, M>) -> Stacks<'a, 'b, M> {
        Stacks {
            reader,
            owners: HashMap::new(),
        }
    }

    /// All goroutines of `runtime.allgs`. `false`: the budget is spent.
    pub fn add(&mut self, all: u64, count: u64, found: &mut Found, budget: &mut Budget) -> bool {
        if count > COUNT_MAX {
            return true;
        }
        for index in (0..count).step_by(POINTERS as usize) {
            let length = 8 * POINTERS.min(count - index);
            let pointers = all.checked_add(8 * index);
            let Some(bytes) =
                pointers.and_then(|at| self.reader.memory.bytes(at, length, 8 * POINTERS))
            else {
                return true;
            };
            for pointer in words(&bytes) {
                if !budget.step() {
                    return false;
                }
                if let Some(Some(goroutine)) =
                    read_goroutine(self.reader.memory, pointer, &self.reader.layout)
                {
                    self.add_stack(&goroutine, found);
                }
            }
        }
        true
    }

    /// The outer frames first: what a function passes on is its own.
    fn add_stack(&mut self, goroutine: &Goroutine, found: &mut Found) {
        let (low, high) = goroutine.stack;
        // It runs: how much of its stack is in use is not known.
        let is_placed =
            goroutine.state != State::Running && (low..high).contains(&goroutine.place.1);
        let places = match is_placed {
            true => self.reader.places(goroutine),
            false => vec![(goroutine.start, low)],
        };
        let Some(owners) = self.owners_of(&places, goroutine.start) else {
            return;
        };
        let start = places
            .first()
            .map_or(low, |place| place.1)
            .max(high.saturating_sub(STACK_BYTES_MAX));
        let Some(start) = start.checked_next_multiple_of(8) else {
            return;
        };
        let length = high.saturating_sub(start);
        let Some(bytes) = self.reader.memory.bytes(start, length, STACK_BYTES_MAX) else {
            return;
        };
        let mut end = bytes.len();
        for ((_, sp), owner) in places.iter().zip(owners).rev() {
            let from = (sp.saturating_sub(start) as usize & !7).min(end);
            if let Some(name) = owner {
                let root = found.root(&RootCount::name_of_stack(&name), None);
                words(&bytes[from..end]).for_each(|word| found.reach(word, root));
            }
            end = from;
        }
    }

    /// The function that each frame counts to: its own, or for those of the standard library the nearest of the program
    /// that called it, or else that it called. Frames of the runtime count to none: they hold goroutines, timers and
    /// processors, from which all others are reached. `None`: no frame is of the program or the standard library.
    fn owners_of(&mut self, places: &[(u64, u64)], start: u64) -> Option<Vec<Option<String>>> {
        let outermost = self.owner(start);
        let all: Vec<Owner> = places
            .iter()
            .map(|(pc, _)| self.owner(*pc))
            .chain([outermost])
            .collect();
        let program = |owner: &Owner| match owner {
            Owner::Program(name) => Some(name.clone()),
            _ => None,
        };
        let standard = |owner: &Owner| match owner {
            Owner::Standard(name) => Some(name.clone()),
            _ => None,
        };
        let mut outward = all.iter().rev();
        let first = outward
            .clone()
            .find_map(program)
            .or_else(|| outward.find_map(standard))?;
        let mut nearest = first;
        let inward = all.iter().rev().skip(1).map(|owner| {
            nearest = program(owner).unwrap_or_else(|| nearest.clone());
            (!matches!(owner, Owner::Runtime)).then(|| nearest.clone())
        });
        let mut owners: Vec<Option<String>> = inward.collect();
        owners.reverse();
        Some(owners)
    }

    fn owner(&mut self, pc: u64) -> Owner {
        if let Some(owner) = self.owners.get(&pc) {
            return owner.clone();
        }
        let table = self.reader.table;
        let at_entry = table
            .function(pc)
            .is_some_and(|function| function.entry == pc);
        let calls = table.calls(if at_entry { pc } else { pc.wrapping_sub(1) });
        let owner = match calls.last() {
            Some(call) if call.name == "runtime.main" => Owner::Standard("main.main".to_owned()),
            Some(call) if call.is_wrapper => Owner::Wrapper,
            Some(call) if is_runtime(&call.name) || is_in_runtime(call.file.as_deref()) => {
                Owner::Runtime
            }
            Some(call) if is_of_the_standard_library(&call.name, call.file.as_deref()) => {
                Owner::Standard(call.name.clone())
            }
            Some(call) => Owner::Program(call.name.clone()),
            None => Owner::Runtime,
        };
        if self.owners.len() == FUNCTIONS_MAX {
            self.owners.clear();
        }
        self.owners.insert(pc, owner.clone());
        owner
    }
}

/// `time.Sleep` and others of the standard library are functions of the runtime.
fn is_in_runtime(file: Option<&str>) -> bool {
    let folder = file
        .and_then(|file| file.rsplit_once('/'))
        .map_or("", |(folder, _)| folder);
    folder == "runtime" || folder.ends_with("/src/runtime")
}
