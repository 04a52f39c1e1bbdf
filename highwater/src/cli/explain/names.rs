//! What takes long and is needed once: allocators, runtimes, and the names of frames. Files are there even
//! when the process is not any more.

use std::time::Instant;

use super::tracked::Tracked;
use heap::namer::{Request, unnamed};
use observe::fact::library::Libraries;
use symbols::frame::Frame;

/// Stacks that are named.
const NAMED_MAX: usize = 4096;

/// Code without a file, and without a name so far.
fn was_made_meanwhile(frame: &Frame) -> bool {
    frame.function.is_none() && !frame.module.starts_with('/')
}

impl Tracked {
    /// Who lives in the process, and names for its stacks: those that come until a moment, module and offset for the
    /// rest.
    pub fn settle(&mut self, until: Instant) {
        let exe = self.exe.clone().unwrap_or_default();
        let mut libraries = Libraries::default();
        self.managers =
            self.reader
                .managers(&exe, &self.preloads, &self.snapshot.areas, &mut libraries);
        self.namer.collect(until, &mut self.frames);
        self.show_unnamed();
    }

    /// Asks for the names of the stacks that are not asked after yet, or go through code whose name was not written
    /// yet: those that grow most first, then those with most outstanding.
    pub fn ask_names(&mut self) {
        self.namer.collect(Instant::now(), &mut self.frames);
        let Some(probe) = &self.snapshot.probe else {
            return;
        };
        let mut wanted = self.stacks();
        let has_names = |stack: &u64| {
            let frames = self.frames.get(stack);
            frames.is_none_or(|frames| !frames.iter().any(was_made_meanwhile))
        };
        wanted.retain(|(.., stack)| !(self.namer.has_asked(*stack) && has_names(stack)));
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let addresses = |stack: u64| Some((stack, probe.stacks.get(&stack)?.addresses.clone()));
        let stacks = wanted.iter().filter_map(|(.., stack)| addresses(*stack));
        self.namer.ask(Request {
            stacks: stacks.take(NAMED_MAX).collect(),
            areas: self.snapshot.areas.clone(),
            objects: probe.objects.clone(),
            python: probe.python.clone(),
        });
    }

    /// (bytes grown, bytes, stack) of the live heap and of mappings.
    fn stacks(&self) -> Vec<(f64, f64, u64)> {
        let moments = &self.history.moments;
        let (Some(last), Some(window)) = (moments.last(), self.history.window()) else {
            return Vec::new();
        };
        let first = &moments[window.from];
        let heap = last.outstanding.iter().map(|(stack, now)| {
            let before = first.outstanding.get(stack).map_or(0.0, |sum| sum.bytes);
            (now.bytes - before, now.bytes, *stack)
        });
        let mapped = last.mapped.iter().map(|(key @ (_, stack), now)| {
            let before = first.mapped.get(key).copied().unwrap_or(0.0);
            (now - before, *now, *stack)
        });
        heap.chain(mapped).collect()
    }

    fn show_unnamed(&mut self) {
        let Some(probe) = &self.snapshot.probe else {
            return;
        };
        let stacks = self.stacks();
        let missing = stacks
            .iter()
            .filter(|(.., stack)| self.namer.has_asked(*stack) && !self.frames.contains_key(stack));
        let missing: Vec<u64> = missing.map(|(.., stack)| *stack).collect();
        self.unnamed = missing.len();
        for stack in missing {
            if let Some(site) = probe.stacks.get(&stack) {
                let frames = unnamed(&self.snapshot.areas, &site.addresses);
                self.frames.insert(stack, frames);
            }
        }
    }
}
