//! The record of a hit: what the kernel's program stores, and what is read back.

use crate::insn::{Code, Helper, R0, R1, R2, R3, R4, R6, R7, R9, Reg, Size};

/// Most registers of a record.
pub const REGISTERS_MAX: usize = 4;
/// BPF_F_USER_STACK.
const USER_STACK: i32 = 1 << 8;

/// Offsets within a record.
mod at {
    pub const TIME: i16 = 0;
    pub const TID: i16 = 8;
    pub const KIND: i16 = 12;
    pub const REGISTERS: i16 = 16;
    /// Bytes of the stack that follow, or an error.
    pub const STACK_BYTES: i16 = REGISTERS + 8 * super::REGISTERS_MAX as i16;
    pub const STACK: i16 = STACK_BYTES + 8;
}

/// What a record holds.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// In the kernel's `pt_regs`, bytes; [`REGISTERS_MAX`] at most.
    pub registers: &'static [i16],
    /// Frames of the stack, by frame pointers, innermost first.
    pub frames: u16,
}

impl Fields {
    /// Of a record.
    pub fn bytes(&self) -> i32 {
        i32::from(at::STACK) + 8 * i32::from(self.frames)
    }
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

/// Into the record at R9.
pub fn store(code: &mut Code, kind: u32, fields: Fields) {
    const ZERO: Reg = R1;
    code.call(Helper::KtimeNs);
    code.store(Size::B8, R9, at::TIME, R0);
    code.store(Size::B4, R9, at::TID, R7);
    code.store_value(Size::B4, R9, at::KIND, kind as i32);
    for number in 0..REGISTERS_MAX {
        match fields.registers.get(number) {
            Some(register) => code.load(Size::B8, R1, R6, *register),
            None => code.set(ZERO, 0),
        }
        code.store(Size::B8, R9, at::REGISTERS + 8 * number as i16, R1);
    }
    code.set(R0, 0);
    if fields.frames > 0 {
        code.copy(R1, R6);
        code.copy(R2, R9);
        code.add(R2, i32::from(at::STACK));
        code.set(R3, 8 * i32::from(fields.frames));
        code.set(R4, USER_STACK);
        code.call(Helper::GetStack);
    }
    code.store(Size::B8, R9, at::STACK_BYTES, R0);
}

/// `None`: it is cut.
pub fn parse(bytes: &[u8]) -> Option<Hit> {
    let half = |at: i16| -> Option<u32> {
        let at = at as usize;
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    let mut registers = [0; REGISTERS_MAX];
    for (number, register) in registers.iter_mut().enumerate() {
        *register = word(at::REGISTERS as usize + 8 * number)?;
    }
    // Below zero: the kernel could not walk it.
    let stack_bytes = word(at::STACK_BYTES as usize)? as i64;
    let frames = usize::try_from(stack_bytes / 8).unwrap_or(0);
    let stack = (0..frames).map_while(|frame| word(at::STACK as usize + 8 * frame));
    Some(Hit {
        at_ns: word(at::TIME as usize)?,
        tid: half(at::TID)?,
        kind: half(at::KIND)?,
        registers,
        stack: stack.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_cut_is_no_hit() {
        let mut bytes = vec![0u8; at::STACK as usize];
        bytes[at::STACK_BYTES as usize..].copy_from_slice(&16u64.to_ne_bytes());
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length}");
        }
        bytes.extend(7u64.to_ne_bytes());
        assert_eq!(parse(&bytes).unwrap().stack, [7], "one of two frames came");
        bytes[at::STACK_BYTES as usize..at::STACK as usize]
            .copy_from_slice(&(-14i64).to_ne_bytes());
        assert!(parse(&bytes).unwrap().stack.is_empty());
    }
}
