//! Code objects: the function of each, its file, and its lines, read from the process's memory.
//!
//! A code object may be gone by the time that it is read, and something else be at its address: what does not say of
//! itself that it is one is not believed, and what was read before is compared again ([`Code::is_still`]).

use observe::fact::memory::Memory;

use super::layout::{Layout, SIZE, TP_NAME, TYPE};
use super::{lines, text::text};
use crate::frame::{Frame, PYTHON_MODULE};

/// Bytes from the start of a code object to behind the last field that is read of it.
const HEAD_BYTES: usize = 144;
/// Of a bytes object.
const BYTES: u64 = 32;
/// Longest table of lines; the lines of a longer one are not known.
const LINES_BYTES_MAX: u64 = 256 << 10;
/// The interpreter's own code, by which it enters Python from C and calls `__init__` (3.12, 3.13).
const OWN: [&str; 2] = ["<interpreter trampoline>", "<shim>"];

/// A code object, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    address: u64,
    minor: u8,
    function: String,
    file: Option<String>,
    first_line: u32,
    lines: Vec<u8>,
    /// Where its instructions begin: in 3.8 to 3.10 their numbers begin at zero.
    instructions: u64,
    /// What its fields pointed to.
    identity: [u64; 4],
}

impl Code {
    /// `None`: no code object is there, or it is one of the interpreter's own.
    pub fn read(memory: &dyn Memory, layout: &Layout, address: u64) -> Option<Code> {
        let head = Head::read(memory, address)?;
        let of = &layout.code;
        let identity = head.identity(layout)?;
        let [of_type, name, file, lines] = identity;
        if memory.name(memory.u64(of_type.checked_add(TP_NAME)?)?)? != "code" {
            return None;
        }
        let function = text(memory, layout, name)?;
        if OWN.contains(&function.as_str()) {
            return None;
        }
        let instructions = match layout.minor {
            ..=10 => 0,
            _ => address.checked_add(of.byte_code)?,
        };
        Some(Code {
            address,
            minor: layout.minor,
            function,
            file: text(memory, layout, file),
            first_line: head.word(of.first_line)? as u32,
            lines: table(memory, lines).unwrap_or_default(),
            instructions,
            identity,
        })
    }

    /// Whether the same code object is still there, by its type and what it points to.
    pub fn is_still(&self, memory: &dyn Memory, layout: &Layout) -> bool {
        let head = Head::read(memory, self.address);
        head.and_then(|head| head.identity(layout)) == Some(self.identity)
    }

    /// Of our own memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Code>()
            + self.function.len()
            + self.file.as_ref().map_or(0, String::len)
            + self.lines.len()
    }

    /// The function, at its first line.
    pub fn frame(&self) -> Frame {
        Frame {
            function: Some(self.function.clone()),
            file: self.file.clone(),
            line: Some(self.first_line),
            module: PYTHON_MODULE.to_owned(),
            offset: self.address,
            ..Frame::default()
        }
    }

    /// The function, at the line of an instruction as its frame has it ([`super::layout::FrameLayout::instruction`]).
    pub fn frame_at(&self, instruction: u64) -> Frame {
        let offset = match self.minor {
            // Bytes, in the lower half of the word; below zero before the first one.
            ..=9 => u64::try_from(instruction as u32 as i32).ok(),
            // Instructions.
            10 => u64::try_from(instruction as u32 as i32)
                .ok()
                .map(|number| 2 * number),
            _ => instruction.checked_sub(self.instructions),
        };
        let line =
            offset.and_then(|offset| lines::line(self.minor, &self.lines, self.first_line, offset));
        let frame = self.frame();
        Frame {
            line: line.or(frame.line),
            ..frame
        }
    }
}

/// The first bytes of a code object, read at once.
struct Head([u8; HEAD_BYTES]);

impl Head {
    fn read(memory: &dyn Memory, address: u64) -> Option<Head> {
        let mut bytes = [0; HEAD_BYTES];
        memory.read(address, &mut bytes)?;
        Some(Head(bytes))
    }

    /// A number of eight bytes, or the lower half of it one of four.
    fn word(&self, offset: u64) -> Option<u64> {
        let at = usize::try_from(offset).ok()?;
        let bytes = self.0.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Type, name, file and lines.
    fn identity(&self, layout: &Layout) -> Option<[u64; 4]> {
        let of = &layout.code;
        let name = of.qualified_name.unwrap_or(of.name);
        Some([
            self.word(TYPE)?,
            self.word(name)?,
            self.word(of.file)?,
            self.word(of.lines)?,
        ])
    }
}

fn table(memory: &dyn Memory, bytes: u64) -> Option<Vec<u8>> {
    let length = memory.u64(bytes.checked_add(SIZE)?)?;
    memory.bytes(bytes.checked_add(BYTES)?, length, LINES_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    const AT: u64 = 0x1000;

    fn put(made: &mut Made, address: u64, bytes: &[u8]) {
        let at = (address - made.at) as usize;
        made.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn string(made: &mut Made, layout: &Layout, address: u64, text: &str) {
        put(made, address + SIZE, &(text.len() as u64).to_le_bytes());
        // Of one byte, compact, ASCII, ready.
        put(made, address + 32, &0xe4_u32.to_le_bytes());
        put(made, address + layout.str_bytes[0], text.as_bytes());
    }

    /// A code object at 0x1000, its type at 0x1200, its name, file and lines at 0x1400, 0x1600 and 0x1800.
    fn page(layout: &Layout, type_name: &[u8], lines: &[u8]) -> Made {
        let mut made = Made {
            at: AT,
            bytes: vec![0; 0x1000],
        };
        let of = layout.code;
        for (offset, word) in [
            (TYPE, 0x1200),
            (of.qualified_name.unwrap_or(of.name), 0x1400),
            (of.file, 0x1600),
            (of.lines, 0x1800),
        ] {
            put(&mut made, AT + offset, &u64::to_le_bytes(word));
        }
        put(&mut made, AT + of.first_line, &10_u32.to_le_bytes());
        put(&mut made, 0x1200 + TP_NAME, &0x1300_u64.to_le_bytes());
        put(&mut made, 0x1300, type_name);
        string(&mut made, layout, 0x1400, "Shop.remember");
        string(&mut made, layout, 0x1600, "/srv/shop.py");
        put(
            &mut made,
            0x1800 + SIZE,
            &(lines.len() as u64).to_le_bytes(),
        );
        put(&mut made, 0x1800 + BYTES, lines);
        made
    }

    #[test]
    fn a_function_has_its_file_and_the_line_of_each_instruction() {
        for (minor, lines, instruction) in [
            (8, vec![0, 1, 2, 1], 2),
            (9, vec![0, 1, 2, 1], 2),
            (10, vec![2, 1, 2, 1], 1),
            (11, vec![0x80, 0, 0xd8, 9, 10, 0xd8, 9, 10], 4),
            (14, vec![0x80, 0, 0xd8, 9, 10, 0xd8, 9, 10], 4),
        ] {
            let layout = Layout::of(minor).unwrap();
            let made = page(&layout, b"code\0", &lines);
            let code = Code::read(&made, &layout, AT).unwrap();
            let instruction = match minor {
                ..=10 => instruction | 0xffff << 32,
                _ => AT + layout.code.byte_code + instruction,
            };
            let frame = code.frame_at(instruction);
            assert_eq!(frame.function.as_deref(), Some("Shop.remember"));
            assert_eq!(frame.file.as_deref(), Some("/srv/shop.py"));
            assert_eq!(frame.line, Some(12), "3.{minor}");
            assert_eq!(code.frame().line, Some(10));
            // Before the first instruction, and far behind the last.
            for wild in [u64::from(u32::MAX), 0] {
                assert!(code.frame_at(wild).line.is_some());
            }
            assert!(code.is_still(&made, &layout));
        }
    }

    #[test]
    fn what_is_no_code_object_any_more_is_none() {
        let layout = Layout::of(11).unwrap();
        let made = page(&layout, b"code\0", &[]);
        let code = Code::read(&made, &layout, AT).unwrap();
        let other = page(&layout, b"dict\0", &[]);
        assert_eq!(Code::read(&other, &layout, AT), None);
        let mut moved = page(&layout, b"code\0", &[]);
        put(&mut moved, AT + layout.code.file, &0x1700_u64.to_le_bytes());
        assert!(!code.is_still(&moved, &layout), "another one");
        for wild in [0, 0x1008, 0x1f80, 0x2000, u64::MAX - 4, u64::MAX] {
            assert_eq!(Code::read(&made, &layout, wild), None, "{wild:#x}");
        }
        let mut long = page(&layout, b"code\0", &[]);
        put(&mut long, 0x1400 + SIZE, &u64::MAX.to_le_bytes());
        assert_eq!(Code::read(&long, &layout, AT), None);
        let mut long = page(&layout, b"code\0", &[]);
        put(&mut long, 0x1800 + SIZE, &u64::MAX.to_le_bytes());
        let code = Code::read(&long, &layout, AT).unwrap();
        assert_eq!(code.frame_at(AT + 400).line, Some(10), "without lines");
    }

    #[test]
    fn the_interpreters_own_code_is_no_function() {
        let layout = Layout::of(12).unwrap();
        for own in OWN {
            let mut made = page(&layout, b"code\0", &[]);
            string(&mut made, &layout, 0x1400, own);
            assert_eq!(Code::read(&made, &layout, AT), None);
        }
    }
}
