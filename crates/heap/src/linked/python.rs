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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::python_number;
    use observe::fact::memory::Made;

    fn layout() -> Layout {
        Layout::of(11).unwrap()
    }

    fn frame(code: u64) -> PythonFrame {
        PythonFrame {
            code,
            instruction: u64::MAX,
        }
    }

    /// Code objects at 0x1000 and 0x1100 of a type at 0x1200, with names at 0x1400 and 0x1500.
    fn memory(names: [&str; 2]) -> Made {
        let layout = layout();
        let mut bytes = vec![0; 0x1000];
        let mut put = |at: u64, with: &[u8]| {
            let at = (at - 0x1000) as usize;
            bytes[at..at + with.len()].copy_from_slice(with);
        };
        put(0x1200 + 24, &0x1300_u64.to_le_bytes());
        put(0x1300, b"code\0");
        for (number, name) in (0..).zip(names) {
            let (code, text) = (0x1000 + 0x100 * number, 0x1400 + 0x100 * number);
            put(code + 8, &0x1200_u64.to_le_bytes());
            let qualified_name = layout.code.qualified_name.unwrap();
            put(code + qualified_name, &text.to_le_bytes());
            put(code + layout.code.first_line, &7_u32.to_le_bytes());
            put(text + 16, &(name.len() as u64).to_le_bytes());
            put(text + 32, &0xe4_u32.to_le_bytes());
            put(text + layout.str_bytes[0], name.as_bytes());
        }
        Made { at: 0x1000, bytes }
    }

    fn names(known: &PythonNames, addresses: &[u64]) -> Vec<String> {
        let name = |at: &u64| known.frames[python_number(*at)?].function.clone();
        addresses.iter().filter_map(name).collect()
    }

    #[test]
    fn a_code_object_that_another_one_took_the_place_of_is_read_again() {
        let (mut known, layout) = (PythonNames::default(), layout());
        let mut turn = |names_now: [&str; 2]| {
            known.begin_turn();
            let frames = [frame(0x1000), frame(0x1100)];
            let addresses = known.addresses_in(&memory(names_now), &layout, &frames);
            (names(&known, &addresses), addresses)
        };
        let (first, before) = turn(["one", "two"]);
        assert_eq!(first, ["one", "two"]);
        assert_eq!(turn(["one", "two"]).1, before);
        // What is at another address is another object, though of one name it is the same function.
        let mut moved = memory(["one", "one"]);
        let at = 0x1000 + layout.code.qualified_name.unwrap() as usize - 0x1000;
        moved.bytes[at..at + 8].copy_from_slice(&0x1500_u64.to_le_bytes());
        known.begin_turn();
        let again = known.addresses_in(&moved, &layout, &[frame(0x1000)]);
        assert_eq!(names(&known, &again), ["one"]);
        assert_eq!(again, before[..1]);
    }

    #[test]
    fn garbage_is_left_out() {
        let (mut known, layout) = (PythonNames::default(), layout());
        let wild = [1, 0x1001, 0x1fff, 0x2000, 1 << 62, u64::MAX];
        let frames: Vec<PythonFrame> = wild.into_iter().map(frame).collect();
        for _ in 0..2 {
            known.begin_turn();
            let addresses = known.addresses_in(&memory(["one", "two"]), &layout, &frames);
            assert!(addresses.is_empty(), "{addresses:x?}");
        }
    }

    #[test]
    fn the_reader_has_all_frames() {
        let (mut known, layout) = (PythonNames::default(), layout());
        let read = Mutex::default();
        known.publish(&read);
        assert!(lock(&read).is_empty());
        known.addresses_in(&memory(["one", "two"]), &layout, &[frame(0x1100)]);
        known.publish(&read);
        assert_eq!(lock(&read)[0].function.as_deref(), Some("two"));
        assert_eq!(lock(&read)[0].line, Some(7), "of no instruction");
    }
}
