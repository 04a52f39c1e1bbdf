//! eBPF instructions by name, with labels for jumps. The encoding is the kernel's
//! Documentation/bpf/standardization/instruction-set.rst.
//!
//! SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only

use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reg(pub u8);

pub const R0: Reg = Reg(0);
pub const R1: Reg = Reg(1);
pub const R2: Reg = Reg(2);
pub const R3: Reg = Reg(3);
pub const R4: Reg = Reg(4);
pub const R6: Reg = Reg(6);
pub const R7: Reg = Reg(7);
pub const R8: Reg = Reg(8);
pub const R9: Reg = Reg(9);
/// The frame; read only.
pub const R10: Reg = Reg(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    B1 = 0x10,
    B4 = 0x00,
    B8 = 0x18,
}

/// Helpers of the kernel, by number (include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeNs = 5,
    RandomU32 = 7,
    CurrentPidTgid = 14,
    GetStack = 67,
    ProbeReadUser = 112,
    RingOutput = 130,
    RingReserve = 131,
    RingSubmit = 132,
    CurrentTask = 158,
    TaskRegs = 175,
}

/// A program under construction.
#[derive(Debug, Default)]
pub struct Code {
    slots: Vec<u64>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
}

impl Code {
    fn emit(&mut self, opcode: u8, dst: Reg, src: Reg, offset: i16, value: i32) {
        let slot = u64::from(opcode)
            | u64::from(dst.0) << 8
            | u64::from(src.0) << 12
            | u64::from(offset as u16) << 16
            | u64::from(value as u32) << 32;
        self.slots.push(slot);
    }

    pub fn copy(&mut self, dst: Reg, src: Reg) {
        self.emit(0xbf, dst, src, 0, 0);
    }

    pub fn set(&mut self, dst: Reg, value: i32) {
        self.emit(0xb7, dst, R0, 0, value);
    }

    pub fn add(&mut self, dst: Reg, value: i32) {
        self.emit(0x07, dst, R0, 0, value);
    }

    pub fn add_register(&mut self, dst: Reg, src: Reg) {
        self.emit(0x0f, dst, src, 0, 0);
    }

    pub fn subtract(&mut self, dst: Reg, src: Reg) {
        self.emit(0x1f, dst, src, 0, 0);
    }

    pub fn multiply(&mut self, dst: Reg, src: Reg) {
        self.emit(0x2f, dst, src, 0, 0);
    }

    pub fn and(&mut self, dst: Reg, value: i32) {
        self.emit(0x57, dst, R0, 0, value);
    }

    pub fn shift_right(&mut self, dst: Reg, bits: i32) {
        self.emit(0x77, dst, R0, 0, bits);
    }

    /// `dst = *(size *)(src + offset)`
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, offset: i16) {
        self.emit(0x61 | size as u8, dst, src, offset, 0);
    }

    /// `*(size *)(dst + offset) = src`
    pub fn store(&mut self, size: Size, dst: Reg, offset: i16, src: Reg) {
        self.emit(0x63 | size as u8, dst, src, offset, 0);
    }

    /// `*(size *)(dst + offset) = value`
    pub fn store_value(&mut self, size: Size, dst: Reg, offset: i16, value: i32) {
        self.emit(0x62 | size as u8, dst, R0, offset, value);
    }

    /// `*(u64 *)(dst + offset) += src`, as one step for all CPUs
    pub fn atomic_add(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.emit(0xdb, dst, src, offset, 0);
    }

    /// The address of a map, from its descriptor; two slots.
    pub fn map(&mut self, dst: Reg, fd: i32) {
        const MAP_FD: Reg = Reg(1);
        self.emit(0x18, dst, MAP_FD, 0, fd);
        self.emit(0, R0, R0, 0, 0);
    }

    /// All 64 bits; two slots.
    pub fn set_wide(&mut self, dst: Reg, value: u64) {
        self.emit(0x18, dst, R0, 0, value as u32 as i32);
        self.emit(0, R0, R0, 0, (value >> 32) as u32 as i32);
    }

    pub fn call(&mut self, helper: Helper) {
        self.emit(0x85, R0, R0, 0, helper as i32);
    }

    pub fn jump(&mut self, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x05, R0, R0, 0, 0);
    }

    pub fn jump_if_zero(&mut self, of: Reg, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x15, of, R0, 0, 0);
    }

    pub fn jump_if_not_zero(&mut self, of: Reg, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x55, of, R0, 0, 0);
    }

    pub fn jump_unless_equal(&mut self, of: Reg, value: i32, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x55, of, R0, 0, value);
    }

    pub fn jump_if_same(&mut self, of: Reg, other: Reg, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x1d, of, other, 0, 0);
    }

    /// As signed numbers.
    pub fn jump_unless_negative(&mut self, of: Reg, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0x75, of, R0, 0, 0);
    }

    /// As unsigned numbers.
    pub fn jump_if_below(&mut self, of: Reg, other: Reg, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0xad, of, other, 0, 0);
    }

    /// As unsigned numbers.
    pub fn jump_if_less(&mut self, of: Reg, value: i32, to: &'static str) {
        self.jumps.push((self.slots.len(), to));
        self.emit(0xa5, of, R0, 0, value);
    }

    pub fn label(&mut self, name: &'static str) {
        self.labels.insert(name, self.slots.len());
    }

    pub fn exit(&mut self) {
        self.emit(0x95, R0, R0, 0, 0);
    }

    /// The slots, with every jump resolved.
    ///
    /// # Panics
    /// When a label is missing: a mistake in the program, which its tests find.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, name) in &self.jumps {
            let to = self.labels[name];
            let offset = (to as i64 - *at as i64 - 1) as i16;
            self.slots[*at] |= u64::from(offset as u16) << 16;
        }
        self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_standard_says() {
        let mut code = Code::default();
        code.copy(R6, R1);
        code.load(Size::B4, R1, R6, 24);
        code.store(Size::B8, R10, -8, R0);
        code.jump_if_zero(R0, "end");
        code.set(R0, 7);
        code.label("end");
        code.exit();
        let slots = code.finish();
        assert_eq!(slots[0], 0x0000_0000_0000_16bf);
        assert_eq!(slots[1], 0x0000_0000_0018_6161);
        assert_eq!(slots[2], 0x0000_0000_fff8_0a7b);
        assert_eq!(slots[3], 0x0000_0000_0001_0015, "over one instruction");
        assert_eq!(slots[5], 0x95);
    }
}
