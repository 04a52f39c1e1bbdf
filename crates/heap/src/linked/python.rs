//! Names the frames of Python of samples, right after they are taken: later their code objects may be gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::lock;
use crate::probe::python_address;
use bpf::python::{Interpreter, PythonFrame};
use observe::fact::memory::Memory;
use symbols::frame::Frame;
use symbols::python::code::Code;
use symbols::python::layout::Layout;

/// Code objects that are remembered, and bytes of their tables of lines; the memory is emptied when it is full.
const KNOWN_MAX: usize = 20_000;
const KNOWN_BYTES_MAX: usize = 16 << 20;
/// Different functions and lines; further ones are left out of stacks.
const FRAMES_MAX: usize = 50_000;
/// Instructions of one function whose lines are remembered.
const INSTRUCTIONS_MAX: usize = 1_024;

/// The functions of one process, by code object and instruction, and by number.
#[derive(Default)]
pub struct PythonNames {
    known: HashMap<u64, Known>,
    known_bytes: usize,
    numbers: HashMap<Frame, usize>,
    frames: Arc<Vec<Frame>>,
    /// How many of them the reader of the account has.
    published: usize,
    turn: u64,
}

/// What is at an address.
struct Known {
    /// `None`: no code object.
    code: Option<Code>,
    /// When it was last seen to be there still.
    turn: u64,
    /// Addresses that stand for its instructions.
    addresses: HashMap<u64, Option<u64>>,
}

impl PythonNames {
    /// Within a turn, what is known of a code object is not compared again.
    pub fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// What stands for frames in a stack ([`crate::probe::python_number`]), innermost first. Those whose code object is
    /// gone, and the interpreter's own, are left out.
    pub fn addresses(&mut self, interpreter: &Interpreter, frames: &[PythonFrame]) -> Vec<u64> {
        let layout = &interpreter.runtime.layout;
        self.addresses_in(&interpreter.memory, layout, frames)
    }

    fn addresses_in(
        &mut self,
        memory: &dyn Memory,
        layout: &Layout,
        frames: &[PythonFrame],
    ) -> Vec<u64> {
        let mut addresses = Vec::new();
        for frame in frames {
            addresses.extend(self.address(memory, layout, *frame));
        }
        addresses
    }

    fn address(&mut self, memory: &dyn Memory, layout: &Layout, at: PythonFrame) -> Option<u64> {
        let code = layout.untagged(at.code);
        let turn = self.turn;
        let is_current = |known: &mut Known| {
            let is_same = known.turn == turn
                || known
                    .code
                    .as_ref()
                    .is_some_and(|code| code.is_still(memory, layout));
            known.turn = turn;
            is_same
        };
        if !self.known.get_mut(&code).is_some_and(is_current) {
            self.read(memory, layout, code);
        }
        let known = self.known.get_mut(&code)?;
        if let Some(address) = known.addresses.get(&at.instruction) {
            return *address;
        }
        let frame = known.code.as_ref()?.frame_at(at.instruction);
        let address = number(&mut self.numbers, &mut self.frames, frame).map(python_address);
        if known.addresses.len() >= INSTRUCTIONS_MAX {
            known.addresses.clear();
        }
        known.addresses.insert(at.instruction, address);
        address
    }

    fn read(&mut self, memory: &dyn Memory, layout: &Layout, at: u64) {
        let code = Code::read(memory, layout, at);
        let bytes = code.as_ref().map_or(0, Code::bytes);
        if self.known.len() >= KNOWN_MAX || self.known_bytes + bytes > KNOWN_BYTES_MAX {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += bytes;
        let known = Known {
            code,
            turn: self.turn,
            addresses: HashMap::new(),
        };
        self.known.insert(at, known);
    }

    /// Gives the frames to the reader of the account, when there are new ones.
    pub fn publish(&mut self, frames: &Mutex<Arc<Vec<Frame>>>) {
        if self.frames.len() > self.published {
            self.published = self.frames.len();
            *lock(frames) = self.frames.clone();
        }
    }
}

/// The number of a function at a line. `None`: there is no room.
fn number(
    numbers: &mut HashMap<Frame, usize>,
    frames: &mut Arc<Vec<Frame>>,
    frame: Frame,
) -> Option<usize> {
    // A code object that is made anew, as that of a module which is loaded again, is the same function.
    let key = Frame {
        offset: 0,
        ..frame.clone()
    };
    let next = frames.len();
    if let Some(number) = numbers.get(&key) {
        return Some(*number);
    }
    if next >= FRAMES_MAX {
        return None;
    }
    numbers.insert(key, next);
    Arc::make_mut(frames).push(frame);
    Some(next)
}
