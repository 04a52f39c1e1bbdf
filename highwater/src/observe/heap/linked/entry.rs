//! Where a function is probed: at its first instruction, or at one soon behind it that costs less.
//!
//! The kernel emulates a push, a jump, a call and a nop; any other instruction it runs elsewhere, one step, and takes a
//! second trap (arch/x86/kernel/uprobes.c). In a virtual machine the step costs ten times as much: 14.8 us a hit where
//! an emulated one took 1.0. So the probe goes behind instructions that leave arguments, stack and return address as
//! they were: `endbr64`, and comparisons or copies into registers that hold none of them.

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes of code that tell.
pub const TELLS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Bytes from the function's start to the probe.
    pub skip: u64,
    /// The kernel need not step what stands there.
    pub is_emulated: bool,
}

/// `code`: the first bytes of a function, which is entered at its start only. `arguments`: of its arguments, how many
/// the probe may read.
pub fn entry(code: &[u8], arguments: usize) -> Entry {
    let found = if cfg!(target_arch = "x86_64") {
        emulated_at(code, arguments)
    } else {
        None
    };
    Entry {
        skip: found.unwrap_or(0) as u64,
        is_emulated: found.is_some(),
    }
}

/// Bytes to the first instruction that is emulated, if all before it may run unseen.
fn emulated_at(code: &[u8], arguments: usize) -> Option<usize> {
    let mut at = 0;
    while !is_emulated(code.get(at..)?) {
        at += harmless_bytes(&code[at..], arguments)?;
    }
    Some(at)
}

fn is_emulated(code: &[u8]) -> bool {
    const PUSH: std::ops::RangeInclusive<u8> = 0x50..=0x57;
    const JUMP_IF: std::ops::RangeInclusive<u8> = 0x70..=0x7f;
    match code {
        [0x41, second, ..] => PUSH.contains(second),
        [0x0f, second, ..] => (0x80..=0x8f).contains(second),
        [first, ..] => {
            PUSH.contains(first)
                || JUMP_IF.contains(first)
                || matches!(first, 0x90 | 0xe8 | 0xe9 | 0xeb)
        }
        [] => false,
    }
}

/// The length of an instruction that changes nothing the probe reads; `None` where that is not certain.
fn harmless_bytes(code: &[u8], arguments: usize) -> Option<usize> {
    if code.starts_with(&ENDBR64) {
        return Some(ENDBR64.len());
    }
    // A segment's prefix (thread-local data), then one that widens registers.
    let segment = usize::from(code.first() == Some(&0x64));
    let rex = code.get(segment).filter(|byte| *byte & 0xf0 == 0x40);
    let prefixes = segment + usize::from(rex.is_some());
    let rex = rex.copied().unwrap_or(0);
    let (opcode, operands) = code.get(prefixes..)?.split_first()?;
    let operand = Operand::of(operands, rex)?;
    let is_free = |register| is_free(register, arguments);
    let immediate = match opcode {
        0x38..=0x3b | 0x84 | 0x85 => 0,
        0x80 | 0x83 if operand.extension == 7 => 1,
        0x81 if operand.extension == 7 => 4,
        0xf6 if operand.extension == 0 => 1,
        0xf7 if operand.extension == 0 => 4,
        0x33 | 0x8b | 0x8d if is_free(operand.register) => 0,
        0x31 | 0x89 if operand.other.is_some_and(is_free) => 0,
        _ => return None,
    };
    Some(prefixes + 1 + operand.bytes + immediate)
}

/// Registers that hold none of so many arguments, and nothing of the caller's: rax, r8 to r11, and rdx and rcx, in
/// which the third and fourth come.
fn is_free(register: u8, arguments: usize) -> bool {
    match register {
        0 | 8..=11 => true,
        2 => arguments < 3,
        1 => arguments < 4,
        _ => false,
    }
}

/// What stands behind an opcode: two operands, or one and more of the opcode.
struct Operand {
    bytes: usize,
    register: u8,
    extension: u8,
    /// The other one, if it is a register too.
    other: Option<u8>,
}

impl Operand {
    fn of(code: &[u8], rex: u8) -> Option<Operand> {
        let first = *code.first()?;
        let (mode, extension, low) = (first >> 6, first >> 3 & 7, first & 7);
        // Scaled: a byte more, whose base may be a number of its own.
        let scaled = (mode != 3 && low == 4).then(|| code.get(1).copied());
        let base = match scaled {
            Some(scale) => scale? & 7,
            None => low,
        };
        let distance = match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        Some(Operand {
            bytes: 1 + usize::from(scaled.is_some()) + distance,
            register: extension | (rex & 4) << 1,
            extension,
            other: (mode == 3).then_some(low | (rex & 1) << 3),
        })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_emulated_is_reached_behind_what_changes_nothing() {
        let at = |skip, is_emulated| Entry { skip, is_emulated };
        let cases: [(&[u8], Entry); 16] = [
            (&[0x55, 0x48, 0x89, 0xe5], at(0, true)),
            (&[0x41, 0x57, 0x41, 0x56], at(0, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48], at(4, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54], at(4, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85], at(0, false)),
            (&[0xe9, 1, 0, 0, 0], at(0, true)),
            (&[0x41, 0x89, 0xf8], at(0, false)),
            (&[], at(0, false)),
            // test rdi, rdi; je
            (&[0x48, 0x85, 0xff, 0x74, 0x10], at(3, true)),
            // test rdi, rdi; je, far
            (&[0x48, 0x85, 0xff, 0x0f, 0x84, 1, 0, 0, 0], at(3, true)),
            // cmp byte [rip+1], 0; push r12
            (&[0x80, 0x3d, 1, 0, 0, 0, 0, 0x41, 0x54], at(7, true)),
            // mov rax, fs:[-8]; cmp rdi, [rax+rcx*8+4]; jmp
            (
                &[
                    0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x3b, 0x7c, 0xc8,
                    4, 0xeb, 2,
                ],
                at(14, true),
            ),
            // mov rdi, rsi; push: an argument goes
            (&[0x48, 0x89, 0xf7, 0x55], at(0, false)),
            // sub rsp, 24; push: the return address is elsewhere
            (&[0x48, 0x83, 0xec, 0x18, 0x55], at(0, false)),
            // mov [rax], rdi; push: memory is written
            (&[0x48, 0x89, 0x38, 0x55], at(0, false)),
            // mov r8d, edi; push
            (&[0x41, 0x89, 0xf8, 0x55], at(3, true)),
        ];
        for (code, expected) in cases {
            assert_eq!(entry(code, 4), expected, "{code:x?}");
        }
        // xor ecx, ecx; jmp: the fourth argument goes, which not every function has
        let rallocx = [0x31, 0xc9, 0xe9, 1, 0, 0, 0];
        assert_eq!(entry(&rallocx, 3), at(2, true));
        assert_eq!(entry(&rallocx, 4), at(0, false));
    }
}
