//! The names of a recorded watch, by the numbers that its events use.

use std::collections::{BTreeMap, HashMap};

use super::NewNames;
use crate::event::{GOROUTINES, StackId, TextId, Tid};
use crate::stack::Stack;

/// A watch keeps no more texts and stacks than this; further ones in a file are damage.
const KEPT_MAX: usize = 20_001;
/// Nor threads, or pairs of stacks.
const THREADS_MAX: usize = 200_000;
/// Nor bytes: 20,000 stacks of 64 frames take a fifth of it.
const BYTES_MAX: usize = 512 << 20;

#[derive(Debug, Default)]
pub struct RecordedNames {
    texts: HashMap<TextId, String>,
    stacks: HashMap<StackId, Stack>,
    threads: BTreeMap<Tid, String>,
    holders: HashMap<(StackId, StackId), Option<String>>,
    none: Stack,
    /// Of all of them, about.
    bytes: usize,
    /// Control groups with a CPU quota; known at the end alone.
    pub quota_groups: Vec<String>,
}

impl RecordedNames {
    pub(super) fn add(&mut self, new: NewNames) {
        self.bytes += bytes_of(&new);
        self.texts.extend(new.texts);
        let stacks = new.stacks.into_iter().map(|stack| {
            let named = Stack {
                frames: stack.frames,
                allocator: stack.allocator,
                locks: stack.locks,
                ..Stack::default()
            };
            (stack.id, named)
        });
        self.stacks.extend(stacks);
        self.threads.extend(new.threads);
        let holders = new.holders.into_iter();
        self.holders
            .extend(holders.map(|(waiter, during, name)| ((waiter, during), name)));
    }

    /// More names than any watch has.
    pub(super) fn are_too_many(&self) -> bool {
        self.texts.len().max(self.stacks.len()) > KEPT_MAX
            || self.threads.len().max(self.holders.len()) > THREADS_MAX
            || self.bytes > BYTES_MAX
    }

    /// Nothing where the thread has no name.
    pub fn thread(&self, tid: Tid) -> String {
        match tid >= GOROUTINES {
            true => "goroutine".to_owned(),
            false => self.threads.get(&tid).cloned().unwrap_or_default(),
        }
    }

    /// One without frames where there is none of that number.
    pub fn stack(&self, id: StackId) -> &Stack {
        self.stacks.get(&id).unwrap_or(&self.none)
    }

    /// Nothing where there are none of that number.
    pub fn words(&self, id: TextId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }

    /// The function that took the lock which a waiter with one stack waits for, while its holder had another.
    pub fn holder(&self, waiter: StackId, during: StackId) -> Option<&str> {
        self.holders.get(&(waiter, during))?.as_deref()
    }

    /// Threads with a name.
    pub fn threads(&self) -> impl Iterator<Item = Tid> + '_ {
        self.threads.keys().copied()
    }
}

fn bytes_of(new: &NewNames) -> usize {
    let frames = new.stacks.iter().flat_map(|stack| &stack.frames);
    let frames = frames.map(|frame| {
        size_of_val(frame) + frame.name.len() + frame.module.len() + frame.package.len()
    });
    let texts = new.texts.iter().map(|(_, words)| words.len());
    let threads = new.threads.iter().map(|(_, name)| name.len());
    let holders = new
        .holders
        .iter()
        .map(|(.., name)| name.as_ref().map_or(0, String::len));
    frames.chain(texts).chain(threads).chain(holders).sum()
}
