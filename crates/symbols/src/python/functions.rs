//! Functions of Python by their code objects, read from the process.

use std::collections::HashMap;
use std::fs::File;

use super::code::Code;
use super::find::find;
use super::layout::Layout;
use crate::frame::Frame;
use observe::fact::memory::ProcessMemory;

/// Functions that are remembered; the memory is emptied when it is full.
const KNOWN_MAX: usize = 20_000;

/// The functions of one process.
#[derive(Debug, Default)]
pub struct PythonFunctions {
    /// Of its version, once that was looked for.
    layout: Option<Option<Layout>>,
    known: HashMap<u64, Frame>,
}

impl PythonFunctions {
    /// The function of a code object, at its first line; `None` where there is none at that address any more.
    pub fn at(&mut self, pid: i32, code: u64) -> Option<Frame> {
        if let Some(known) = self.known.get(&code) {
            return Some(known.clone());
        }
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        let memory = ProcessMemory::new(memory.into());
        let layout = *self.layout.get_or_insert_with(|| layout_of(pid, &memory));
        // What was none may be one later.
        let found = Code::read(&memory, &layout?, code)?.frame();
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(code, found.clone());
        Some(found)
    }
}

fn layout_of(pid: i32, memory: &ProcessMemory) -> Option<Layout> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(find(memory, &maps)?.ok()?.layout)
}
