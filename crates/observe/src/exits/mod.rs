//! Where a function returns: its `ret` instructions and those of the code that it ends in by a jump.
//!
//! A return probe (uretprobe) replaces the return address on the stack, and then an exception, a `longjmp` or a switch
//! of stacks out of the function ends the process. A plain uprobe on each `ret` leaves the stack as it is. The code is
//! followed from the function's start, jump by jump, so that a probe stands on an instruction and never within one.
//! What is not found (a jump by a table, a call through a pointer at the end) only costs results.

pub mod text;

use std::collections::BTreeMap;

/// Instructions that are followed for one function.
const INSTRUCTIONS_MAX: usize = 8_192;
/// The longest instruction of x86-64.
const INSTRUCTION_BYTES: usize = 15;

/// An instruction after which the caller goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit {
    /// An address, or later the offset in the file.
    pub at: u64,
    pub result: ResultIn,
    /// The kernel emulates the instruction, and need not step it.
    pub is_emulated: bool,
}

/// Where the function's result is at an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultIn {
    ReturnRegister,
    /// It jumps to `memset` or its like, which returns its first argument.
    FirstArgument,
}

/// What a jump leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// Code at an address, whose exits are the function's own.
    Code(u64),
    /// A function that returns its first argument, and that the whole program calls.
    ToFirstArgument,
    Unknown,
}

/// The code of a program.
pub trait Text {
    /// Bytes from `address` on; how many there are.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
    fn leads(&self, target: u64) -> Leads;
    /// Of a jump through a pointer in memory.
    fn leads_by(&self, pointer: u64) -> Leads;
    /// Whether a function starts or ends there.
    fn is_bound(&self, address: u64) -> bool;
}

/// How one instruction goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Next,
    Call,
    Branch(u64),
    Jump(u64),
    /// Through a pointer, whose address may be known.
    JumpBy(Option<u64>),
    Return,
    End,
}

/// Exits of the function at `start`, by address; none where its instructions overlap.
pub fn exits(text: &impl Text, start: u64) -> Vec<Exit> {
    let mut walk = Walk {
        text,
        seen: BTreeMap::new(),
        queue: vec![start],
        found: Vec::new(),
    };
    while let Some(at) = walk.queue.pop() {
        if walk.follow(at).is_none() {
            return Vec::new();
        }
    }
    walk.found.sort_unstable();
    walk.found
}

/// An instruction's length, and how it goes on.
pub fn decode(text: &impl Text, at: u64) -> Option<(u64, Step)> {
    let mut bytes = [0; INSTRUCTION_BYTES];
    let read = text.read(at, &mut bytes);
    arch::decode(&bytes[..read], at)
}

struct Walk<'a, T> {
    text: &'a T,
    /// Lengths of instructions, by address.
    seen: BTreeMap<u64, u64>,
    queue: Vec<u64>,
    found: Vec<Exit>,
}

impl<T: Text> Walk<'_, T> {
    /// `None`: instructions overlap, so that some of them are none.
    fn follow(&mut self, mut at: u64) -> Option<()> {
        while !self.seen.contains_key(&at) && self.seen.len() < INSTRUCTIONS_MAX {
            let Some((length, step)) = decode(self.text, at) else {
                return Some(());
            };
            let before = self.seen.range(..at).next_back();
            let is_within = before.is_some_and(|(start, length)| start + length > at);
            if is_within || self.seen.range(at..at + length).next().is_some() {
                return None;
            }
            self.seen.insert(at, length);
            let Some(next) = self.step(at, length, step) else {
                return Some(());
            };
            at = next;
        }
        Some(())
    }

    /// The instruction that follows; `None`: the path ends.
    fn step(&mut self, at: u64, length: u64, step: Step) -> Option<u64> {
        let next = at + length;
        // After a call that does not return, another function may start, or data: a breakpoint there would change it.
        let on = (!self.text.is_bound(next)).then_some(next);
        match step {
            Step::Next | Step::Call => on,
            Step::Branch(target) => {
                if let Leads::Code(at) = self.text.leads(target) {
                    self.queue.push(at);
                }
                on
            }
            Step::Jump(target) => self.leaves(at, self.text.leads(target), true),
            Step::JumpBy(pointer) => {
                let leads = pointer.map_or(Leads::Unknown, |at| self.text.leads_by(at));
                self.leaves(at, leads, false)
            }
            Step::Return => {
                self.found.push(Exit {
                    at,
                    result: ResultIn::ReturnRegister,
                    is_emulated: arch::RETURN_IS_EMULATED,
                });
                None
            }
            Step::End => None,
        }
    }

    /// By a jump; where it goes on.
    fn leaves(&mut self, at: u64, leads: Leads, is_emulated: bool) -> Option<u64> {
        match leads {
            Leads::Code(target) => Some(target),
            Leads::ToFirstArgument => {
                self.found.push(Exit {
                    at,
                    result: ResultIn::FirstArgument,
                    is_emulated,
                });
                None
            }
            Leads::Unknown => None,
        }
    }
}

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(any(test, target_arch = "x86_64"))]
mod x86_64 {
    use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

    use super::Step;

    /// arch/x86/kernel/uprobes.c emulates calls and jumps, but no return.
    pub const RETURN_IS_EMULATED: bool = false;

    pub fn decode(bytes: &[u8], at: u64) -> Option<(u64, Step)> {
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let target = instruction.near_branch_target();
        let step = match instruction.flow_control() {
            FlowControl::Next => Step::Next,
            FlowControl::Call | FlowControl::IndirectCall => Step::Call,
            FlowControl::ConditionalBranch => Step::Branch(target),
            FlowControl::UnconditionalBranch => Step::Jump(target),
            FlowControl::IndirectBranch => Step::JumpBy(
                instruction
                    .is_ip_rel_memory_operand()
                    .then(|| instruction.ip_rel_memory_address()),
            ),
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Step::Return,
            _ => Step::End,
        };
        Some((instruction.len() as u64, step))
    }
}

#[cfg(any(test, target_arch = "aarch64"))]
mod aarch64 {
    use super::Step;

    /// arch/arm64/kernel/probes/simulate-insn.c. A return with authentication (retaa) the kernel refuses to probe.
    #[cfg_attr(not(target_arch = "aarch64"), expect(dead_code))]
    pub const RETURN_IS_EMULATED: bool = true;

    pub fn decode(bytes: &[u8], at: u64) -> Option<(u64, Step)> {
        let word = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        // An offset in words, of `bits` bits from bit `low` on.
        let target = |low: u32, bits: u32| {
            let signed = (word << (32 - low - bits)) as i32 >> (32 - bits);
            at.wrapping_add_signed(4 * i64::from(signed))
        };
        let step = match word {
            0 => return None,
            _ if word & 0xfc00_0000 == 0x1400_0000 => Step::Jump(target(0, 26)),
            _ if word & 0xfc00_0000 == 0x9400_0000 => Step::Call,
            // b.cond; cbz and cbnz; tbz and tbnz.
            _ if word & 0xff00_0000 == 0x5400_0000 => Step::Branch(target(5, 19)),
            _ if word & 0x7e00_0000 == 0x3400_0000 => Step::Branch(target(5, 19)),
            _ if word & 0x7e00_0000 == 0x3600_0000 => Step::Branch(target(5, 14)),
            // Through a register, with authentication (braa, blraa, retaa) or without.
            _ if word & 0xfe00_0000 == 0xd600_0000 => match word >> 21 & 0xf {
                0 | 8 => Step::JumpBy(None),
                1 | 9 => Step::Call,
                2 => Step::Return,
                _ => Step::End,
            },
            // brk and hlt.
            _ if word & 0xffc0_001f == 0xd400_0000 && word & 0x0060_0000 != 0 => Step::End,
            _ => Step::Next,
        };
        Some((4, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at 0x1000; `memset` at 0x2000, a function that nobody knows at 0x3000, a pointer to memset at 0x4000 and
    /// one into the code at 0x5000.
    struct Bytes(&'static [u8]);

    impl Text for Bytes {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            let from = address.wrapping_sub(0x1000) as usize;
            let code = self.0.get(from..).unwrap_or_default();
            let length = code.len().min(into.len());
            into[..length].copy_from_slice(&code[..length]);
            length
        }
        fn leads(&self, target: u64) -> Leads {
            match target {
                0x2000 => Leads::ToFirstArgument,
                0x3000 => Leads::Unknown,
                _ => Leads::Code(target),
            }
        }
        fn leads_by(&self, pointer: u64) -> Leads {
            self.leads(match pointer {
                0x4000 => 0x2000,
                0x5000 => 0x1006,
                _ => 0x3000,
            })
        }
        fn is_bound(&self, address: u64) -> bool {
            address == 0x1010
        }
    }

    fn found(code: &'static [u8]) -> Vec<u64> {
        let exits = exits(&Bytes(code), 0x1000);
        exits.iter().map(|exit| exit.at - 0x1000).collect()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_return_is_found_and_nothing_that_only_seems_one() {
        let cases: [(&[u8], &[u64]); 11] = [
            // endbr64; ret
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3], &[4]),
            // rep ret; bnd ret; ret 16
            (&[0xf3, 0xc3], &[0]),
            (&[0xf2, 0xc3], &[0]),
            (&[0xc2, 0x10, 0x00], &[0]),
            // test edi, edi; je to the second; ret; xor eax, eax; ret
            (&[0x85, 0xff, 0x74, 1, 0xc3, 0x31, 0xc0, 0xc3], &[4, 7]),
            // mov eax, 0xc3c3c3c3; jmp on over a byte that is none; ret
            (&[0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xeb, 1, 0xc3, 0xc3], &[8]),
            // jmp rax; a far return: nothing is known.
            (&[0xff, 0xe0, 0xc3], &[]),
            (&[0xcb], &[]),
            // A branch into an instruction: je to the immediate of mov eax, 0xc3c3c3c3.
            (&[0x74, 1, 0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3], &[]),
            // A loop: dec edi; jne back; ret
            (&[0xff, 0xcf, 0x75, 0xfc, 0xc3], &[4]),
            // call; then another function starts.
            (
                &[
                    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xe8, 0, 0,
                    0, 0, 0xc3,
                ],
                &[],
            ),
        ];
        for (code, expected) in cases {
            assert_eq!(found(code), expected, "{code:x?}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_jump_to_memset_has_the_result_in_the_first_argument() {
        let at = |at: u64, is_emulated| Exit {
            at: 0x1000 + at,
            result: ResultIn::FirstArgument,
            is_emulated,
        };
        // jmp memset; jmp [memset]; jmp to a function that nobody knows
        let direct = Bytes(&[0x90, 0xe9, 0xfa, 0x0f, 0, 0]);
        assert_eq!(exits(&direct, 0x1000), [at(1, true)]);
        let pointer = Bytes(&[0xff, 0x25, 0xfa, 0x2f, 0, 0]);
        assert_eq!(exits(&pointer, 0x1000), [at(0, false)]);
        assert!(found(&[0xe9, 0xfb, 0x1f, 0, 0]).is_empty());
    }

    /// A library calls its own exported functions so.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_jump_by_a_pointer_to_own_code_goes_on_there() {
        assert_eq!(found(&[0xff, 0x25, 0xfa, 0x3f, 0, 0, 0xc3]), [6]);
    }

    #[test]
    fn instructions_of_aarch64_go_on_as_its_manual_says() {
        let cases = [
            (0xd65f_03c0u32, Step::Return),
            (0xd65f_0bff, Step::Return),
            (0xd65f_0fff, Step::Return),
            (0xd61f_0200, Step::JumpBy(None)),
            (0xd63f_0000, Step::Call),
            (0x97ff_ffff, Step::Call),
            (0x1400_0004, Step::Jump(0x1010)),
            (0x17ff_ffff, Step::Jump(0xffc)),
            (0x5400_0040, Step::Branch(0x1008)),
            (0xb4ff_ffe0, Step::Branch(0xffc)),
            (0x3700_0040, Step::Branch(0x1008)),
            (0xd420_0000, Step::End),
            // svc; ldr x0, [x0]
            (0xd400_0001, Step::Next),
            (0xf940_0000, Step::Next),
        ];
        for (word, expected) in cases {
            let bytes = word.to_le_bytes();
            let decoded = aarch64::decode(&bytes, 0x1000);
            assert_eq!(decoded, Some((4, expected)), "{word:x}");
        }
    }
}
