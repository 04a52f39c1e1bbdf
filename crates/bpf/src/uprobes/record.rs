//! The record of a hit, as programs/hits.bpf.c writes it.

use bytemuck::{Pod, Zeroable};

use crate::btf::{Field, View};
use crate::map::begins_with;

/// Most registers of a record.
pub const REGISTERS_MAX: usize = 4;
/// As the program calls them.
const REGISTERS: [&str; REGISTERS_MAX] = ["first", "second", "third", "fourth"];

/// What a record holds.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// In the kernel's `pt_regs`, bytes; [`REGISTERS_MAX`] at most.
    pub registers: &'static [i16],
    /// Frames of the stack, by frame pointers, innermost first.
    pub frames: u16,
}

impl Fields {
    /// Where the program finds the registers.
    pub(super) fn view(&self) -> View {
        let place = |number: usize| self.registers.get(number).copied().unwrap_or(0);
        let fields = REGISTERS.iter().enumerate();
        View {
            name: "registers",
            fields: fields
                .map(|(number, name)| Field::word(name, place(number)))
                .collect(),
        }
    }
}

/// What the program writes before the frames.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct Head {
    pub at_ns: u64,
    pub kind: u32,
    pub tid: u32,
    pub registers: [u64; REGISTERS_MAX],
    /// Of the frames; below zero where the kernel could not walk the stack.
    pub stack_bytes: i64,
}

/// One hit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    pub at_ns: u64,
    pub tid: u32,
    pub kind: u32,
    pub registers: [u64; REGISTERS_MAX],
    pub stack: Vec<u64>,
}

/// `None`: it is cut.
pub fn parse(bytes: &[u8]) -> Option<Hit> {
    let (head, rest) = begins_with::<Head>(bytes)?;
    let frames = usize::try_from(head.stack_bytes / 8).unwrap_or(0);
    let stack = rest
        .chunks_exact(8)
        .take(frames)
        .map(bytemuck::pod_read_unaligned);
    Some(Hit {
        at_ns: head.at_ns,
        tid: head.tid,
        kind: head.kind,
        registers: head.registers,
        stack: stack.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Object, hits};

    #[test]
    fn the_record_is_as_the_program_writes_it() {
        let object = Object::parse(hits()).unwrap();
        crate::assert_layout!(
            object,
            "hit",
            Head {
                at_ns,
                kind,
                tid,
                registers,
                stack_bytes
            }
        );
    }

    #[test]
    fn a_record_that_is_cut_is_no_hit() {
        let mut head = Head {
            stack_bytes: 16,
            ..Head::zeroed()
        };
        let mut bytes = bytemuck::bytes_of(&head).to_vec();
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length}");
        }
        bytes.extend(7u64.to_ne_bytes());
        assert_eq!(parse(&bytes).unwrap().stack, [7], "one of two frames came");
        head.stack_bytes = -14;
        bytes.splice(
            ..size_of::<Head>(),
            bytemuck::bytes_of(&head).iter().copied(),
        );
        assert!(parse(&bytes).unwrap().stack.is_empty());
    }
}
