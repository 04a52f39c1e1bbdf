//! Which global variable, or which function's frames, hold the objects of the heap: a mark phase from outside.
//!
//! In: the program's symbols and the memory of the process. Out: [`RootCount`]s. Called by: each snapshot.
//!
//! ```text
//! .symtab, DWARF --> globals: variables, fields --\
//! allgs ----------> stacks: frames --------------- marks: nearest root of each object --> RootCount
//! mheap_ ---------> spans: address -> object -----/        blocks: memory, 64 KiB at once
//! ```
//!
//! The program runs on meanwhile: an object may move from one container to another, and is missed or counted to the
//! wrong root. The sums are as good as the heap is still for the time of the walk.

mod blocks;
mod globals;
mod marks;
mod seeds;
mod spans;
mod stacks;
#[cfg(test)]
mod tests;
mod types;
mod users;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use observe::fact::memory::Memory;
use observe::proc::pagemap::Pagemap;

pub(super) use self::globals::Globals;

use self::blocks::{Blocks, Resident};
use self::globals::Group;
use self::marks::Marks;
use self::seeds::{Seeds, TIMERS};
use self::spans::Heap;
use self::stacks::Stacks;
use self::users::Users;
use super::Go;
use super::budget::Budget;
use super::goroutines::{Machine, Reader};
use crate::{Holder, Limits, RootCount, Snapshot, is_of_the_standard_library};
use symbols::golang::binary::Mapped;
use symbols::golang::paged::Paged;
use symbols::golang::pclntab::Table;

/// Of the memory that a snapshot may take, the part for copies of the heap: a half.
const COPIES: usize = 2;
/// Roots that are reported.
const REPORTED_MAX: usize = 1000;
const NO_SYMBOLS: &str =
    "Which variables hold the objects is not known: the program has no symbols (-ldflags=-s).";

impl Go {
    /// Adds what each root holds.
    pub(super) fn add_roots(&mut self, limits: &Limits, snapshot: &mut Snapshot) {
        let copies = limits.bytes / COPIES;
        let mut budget = Budget::new(&Limits {
            bytes: limits.bytes - copies,
            ..*limits
        });
        if self.globals.is_none() {
            let globals = Globals::read(
                &self.memory,
                &self.binary,
                &self.module,
                copies as u64,
                &mut budget,
            );
            if budget.spent().is_none() {
                self.globals = Some(globals);
            }
        }
        match self.mark(copies, &mut budget) {
            Ok((marks, is_whole)) => {
                snapshot.roots = counts(&marks);
                if !is_whole {
                    let why = budget.spent().unwrap_or_default();
                    partial(
                        snapshot,
                        format!(
                            "Not all objects were counted to the variables that hold them: {why}."
                        ),
                    );
                }
                if marks.swapped_bytes() > 0 {
                    let swapped = marks.swapped_bytes() >> 10;
                    partial(
                        snapshot,
                        format!("{swapped} KiB of the heap are in swap and were not followed."),
                    );
                }
            }
            Err(why) => {
                snapshot.is_partial |= budget.spent().is_some();
                snapshot.missing.push(why);
            }
        }
        if let Some(globals) = &mut self.globals {
            globals.last.clone_from(&snapshot.roots);
        }
    }

    /// Roots of the last snapshot by name, with the functions that refer to their variables.
    pub(super) fn holders_of(&self, names: &[String], limits: &Limits) -> Vec<Holder> {
        let Some(globals) = &self.globals else {
            return Vec::new();
        };
        let roots = names
            .iter()
            .filter_map(|name| globals.last.iter().find(|root| root.name == *name));
        let roots: Vec<&RootCount> = roots.collect();
        let place = |root: &&RootCount| match root.name == TIMERS {
            // Who sets them is found by what they call.
            true => self.callback_of_timers(globals),
            false => globals.range_of(&root.name),
        };
        let ranges: Vec<_> = (roots.iter())
            .map(|root| place(root).unwrap_or_default())
            .collect();
        let mut users = vec![Vec::new(); roots.len()];
        if self.machine == Machine::Amd64 && ranges.iter().any(|range| !range.is_empty()) {
            let file = Mapped(&self.binary);
            users =
                Users::new(&self.binary, &file, &self.module).of(&ranges, &mut Budget::new(limits));
        }
        let holder = |(root, users): (&RootCount, Vec<String>)| Holder {
            first_new: None,
            type_name: root.name.clone(),
            path: vec![root.to_string()],
            objects: root.objects,
            asked: root.objects,
            users,
            ..Holder::default()
        };
        roots.into_iter().zip(users).map(holder).collect()
    }

    /// The code that most of the timers of the program will call.
    fn callback_of_timers(&self, globals: &Globals) -> Option<Range<u64>> {
        let memory = Paged::new(&self.memory);
        let file = Mapped(&self.binary);
        let table = Table::new(Paged::new(&file), self.module.clone());
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for word in seeds::words_of_timers(globals, &memory, &self.layout) {
            // A pointer to a closure, whose first word is its code.
            let code = memory.u64(word).filter(|code| table.holds(*code));
            let function = code.and_then(|code| table.function(code));
            *counts
                .entry(function.map_or(0, |function| function.entry))
                .or_default() += 1;
        }
        let is_own = |entry: u64| {
            let call = table.calls(entry).pop()?;
            (!is_of_the_standard_library(&call.name, call.file.as_deref())).then_some(())
        };
        let mut counts: Vec<(usize, u64)> = (counts.into_iter())
            .filter(|(entry, _)| *entry != 0)
            .map(|(entry, count)| (count, entry))
            .collect();
        counts.sort_unstable();
        let most = counts
            .into_iter()
            .rev()
            .find(|(_, entry)| is_own(*entry).is_some());
        most.map(|(_, entry)| entry..entry + 1)
    }

    fn mark(&self, copies: usize, budget: &mut Budget) -> Result<(Marks<'_>, bool), String> {
        let Some(globals) = &self.globals else {
            let why = budget.spent().unwrap_or_default();
            return Err(format!(
                "Which variables hold the objects is not known: {why}."
            ));
        };
        let Some(list) = globals.heap else {
            return Err(NO_SYMBOLS.to_owned());
        };
        let list = list.wrapping_add(self.layout.all_spans);
        let heap = Heap::read(&self.memory, list, &self.layout.span, budget)?;
        let resident = Resident {
            memory: &self.memory,
            pages: Pagemap::open(self.pid),
            swapped_bytes: 0,
        };
        let mut marks = Marks::new(Blocks::new(resident, copies as u64, &heap), heap);
        let is_whole = self.run(globals, &mut marks, budget);
        Ok((marks, is_whole))
    }

    /// Variables of the program and of its main function, of the standard library, then the other stacks, then the
    /// runtime's. From an open connection of the standard library all that waits for it can be reached.
    fn run(&self, globals: &Globals, marks: &mut Marks, budget: &mut Budget) -> bool {
        let memory = Paged::new(&self.memory);
        let mut seeds = Seeds::new(globals, &memory);
        let (all, count) = self.all_goroutines().unwrap_or_default();
        let main = (all, count.min(1));
        let others = (all.wrapping_add(8), count.saturating_sub(1));
        for (group, goroutines) in [(Group::Program, main), (Group::Standard, others)] {
            let is_seeded = seeds.add(group, &mut marks.found, budget);
            if !is_seeded || !marks.run(budget) || !self.add_stacks(goroutines, marks, budget) {
                return false;
            }
        }
        // Nearer than from the P's that the runtime's own variables lead to.
        seeds.add_timers(self.layout.timers, &mut marks.found);
        let is_seeded = seeds.add(Group::Runtime, &mut marks.found, budget);
        is_seeded && seeds.add_rest(&mut marks.found, budget) && marks.run(budget)
    }

    /// Of so many goroutines from there on in the list.
    fn add_stacks(&self, (at, count): (u64, u64), marks: &mut Marks, budget: &mut Budget) -> bool {
        let file = Mapped(&self.binary);
        let table = Table::new(Paged::new(&file), self.module.clone());
        let reader = Reader {
            memory: &self.memory,
            table: &table,
            layout: self.layout,
            machine: self.machine,
            steps: RefCell::default(),
        };
        let mut stacks = Stacks::new(&reader);
        stacks.add(at, count, &mut marks.found, budget) && marks.run(budget)
    }
}

fn partial(snapshot: &mut Snapshot, why: String) {
    snapshot.is_partial = true;
    snapshot.missing.push(why);
}

fn counts(marks: &Marks) -> Vec<RootCount> {
    let roots = marks.found.roots.iter().filter(|root| root.objects > 0);
    let mut roots: Vec<RootCount> = roots.cloned().collect();
    roots.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    roots.truncate(REPORTED_MAX);
    roots
}
