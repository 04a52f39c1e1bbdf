//! Functions that refer to a global variable: candidates for what fills it; and those that call them.
//!
//! On amd64 the compiler refers to a variable, and to a function, by its distance from the next instruction. The code
//! is searched for distances that lead to it; the instructions in front of each show whether it is one.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use observe::fact::memory::Memory;

use super::super::budget::Budget;
use crate::is_of_the_standard_library;
use symbols::golang::binary::{Binary, Mapped};
use symbols::golang::module::Module;
use symbols::golang::paged::Paged;
use symbols::golang::pclntab::{Call, Table};
use symbols::golang::words::u32_at;

/// Of the code at once; 16 bytes more are read, which the next part has, too.
const CHUNK: u64 = 1 << 20;
const OVERLAP: u64 = 16;
/// Code that is searched; a Kubernetes server has about 40 MB.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// Bytes of an immediate operand between the distance and the next instruction.
const IMMEDIATES: [u64; 4] = [0, 1, 2, 4];
/// Of one function that are decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// Places that are decoded, of all variables.
const PLACES_MAX: usize = 10_000;
const USERS_MAX: usize = 5;
/// Callers that are reported: a function with more is a helper, and its callers say little.
const CALLERS_MAX: usize = 3;

/// Finds them for ranges of addresses of the process.
pub struct Users<'a> {
    file: Mapped<'a>,
    text: Range<u64>,
    table: Table<Paged<'a>>,
}

impl<'a> Users<'a> {
    pub fn new(binary: &'a Binary, memory: &'a dyn Memory, module: &Module) -> Users<'a> {
        let end = module
            .text
            .end
            .min(module.text.start.saturating_add(TEXT_BYTES_MAX));
        Users {
            file: Mapped(binary),
            text: module.text.start..end,
            table: Table::new(Paged::new(memory), module.clone()),
        }
    }

    /// For each range the functions, those of the program first, and those that refer to it more often; then those that
    /// call the first of them.
    pub fn of(&self, ranges: &[Range<u64>], budget: &mut Budget) -> Vec<Vec<String>> {
        let users = self.referring(ranges, budget);
        let firsts = users.iter().map(|users| users.first());
        let entries: Vec<Range<u64>> = firsts
            .map(|first| first.map_or(0..0, |(_, user)| user.entry..user.entry + 1))
            .collect();
        let callers = match entries.iter().all(Range::is_empty) {
            true => Vec::new(),
            false => self.referring(&entries, budget),
        };
        let mut callers = callers.into_iter();
        let all = users.into_iter().map(|mut users| {
            let mut callers = callers.next().unwrap_or_default();
            callers.retain(|(_, caller)| !caller.is_last);
            let is_few = callers.len() <= CALLERS_MAX;
            users.truncate(USERS_MAX);
            let known: Vec<String> = users.iter().map(|(name, _)| name.clone()).collect();
            let others = callers
                .into_iter()
                .filter(|(name, _)| is_few && !known.contains(name));
            users.extend(others);
            written(users)
        });
        all.collect()
    }

    fn referring(&self, ranges: &[Range<u64>], budget: &mut Budget) -> Vec<Vec<(String, User)>> {
        let mut counts: Vec<HashMap<String, User>> = vec![HashMap::new(); ranges.len()];
        for place in self.places(ranges, budget) {
            if !budget.step() {
                break;
            }
            let Some((at, target)) = self.reference(place) else {
                continue;
            };
            let range = ranges.iter().position(|range| range.contains(&target));
            if let (Some(range), Some((name, user))) = (range, self.user(at)) {
                let known = counts[range].entry(name).or_insert(user);
                known.line = known.line.min(user.line);
                known.references += 1;
            }
        }
        counts.into_iter().map(ordered).collect()
    }

    /// Addresses of distances that may lead into a range.
    fn places(&self, ranges: &[Range<u64>], budget: &mut Budget) -> Vec<u64> {
        let low = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let high = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let mut places = Vec::new();
        let mut at = self.text.start;
        while at < self.text.end && budget.step() {
            let length = (CHUNK + OVERLAP).min(self.text.end - at);
            let bytes = self
                .file
                .bytes(at, length, CHUNK + OVERLAP)
                .unwrap_or_default();
            for (place, window) in (at..at.saturating_add(CHUNK)).zip(bytes.windows(4)) {
                let distance = u32_at(window, 0).unwrap_or_default() as i32;
                let target = (place + 4).wrapping_add_signed(distance.into());
                // Without the longest immediate in front of the lowest.
                if target.wrapping_add(4) < low || target >= high {
                    continue;
                }
                let leads = |more: u64| {
                    ranges
                        .iter()
                        .any(|range| range.contains(&target.wrapping_add(more)))
                };
                if IMMEDIATES.into_iter().any(leads) && places.len() < PLACES_MAX {
                    places.push(place);
                }
            }
            at += CHUNK;
        }
        places
    }

    /// The instruction that holds a place, and what it refers to.
    fn reference(&self, place: u64) -> Option<(u64, u64)> {
        let start = self.table.function(place)?.entry;
        let length = place.checked_sub(start)? + OVERLAP;
        let bytes =
            self.file
                .bytes(start, length.min(self.text.end - start), FUNCTION_BYTES_MAX)?;
        let mut decoder = Decoder::with_ip(64, &bytes, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() && decoder.ip() <= place {
            decoder.decode_out(&mut instruction);
        }
        if instruction.next_ip() <= place {
            return None;
        }
        if instruction.is_call_near() {
            return Some((instruction.ip(), instruction.near_branch_target()));
        }
        let is_it = instruction.is_ip_rel_memory_operand();
        is_it.then(|| (instruction.ip(), instruction.ip_rel_memory_address()))
    }

    /// The function at an instruction, with its file: the innermost of the program.
    fn user(&self, at: u64) -> Option<(String, User)> {
        let is_of_program =
            |call: &Call| !is_of_the_standard_library(&call.name, call.file.as_deref());
        let mut calls = self.table.calls(at);
        let index = calls.iter().position(is_of_program);
        let call = calls.swap_remove(index.unwrap_or(0));
        let entry = self.table.function(at)?.entry;
        let line = match call.is_inlined {
            true => call.line,
            false => self.table.calls(entry).pop()?.line,
        };
        let file = call
            .file
            .as_deref()
            .map(|file| file.rsplit('/').next().unwrap_or(file));
        let user = User {
            // What gives a variable its first value does not fill it.
            is_last: index.is_none() || call.name.ends_with(".init"),
            line: line.unwrap_or_default(),
            references: 0,
            entry,
        };
        Some((format!("{} ({}", call.name, file.unwrap_or("?")), user))
    }
}

/// A function that refers to a variable.
#[derive(Debug, Clone, Copy)]
struct User {
    /// Others are named before it.
    is_last: bool,
    /// Where it starts; of one that was inlined, where it first refers to the variable.
    line: u32,
    references: u32,
    /// Of the code that it is in.
    entry: u64,
}

fn ordered(users: HashMap<String, User>) -> Vec<(String, User)> {
    let mut users: Vec<(String, User)> = users.into_iter().collect();
    users.sort_by(|(a, first), (b, second)| {
        let by_kind = first.is_last.cmp(&second.is_last);
        by_kind
            .then(second.references.cmp(&first.references))
            .then_with(|| a.cmp(b))
    });
    users
}

fn written(users: Vec<(String, User)>) -> Vec<String> {
    let written = |(name, user): (String, User)| format!("{name}:{})", user.line);
    users.into_iter().map(written).collect()
}
