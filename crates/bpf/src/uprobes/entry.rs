//! Where a function is probed: at its first instruction, or at one soon behind it that costs less.
//!
//! The kernel emulates a push, a jump, a call and a nop; any other instruction it runs elsewhere, one step, and takes a
//! second trap (arch/x86/kernel/uprobes.c). In a virtual machine the step costs ten times as much: 14.8 us a hit where
//! an emulated one took 1.0. So the probe goes behind instructions that leave the stack, the memory and the caller's
//! registers as they were, and looks for the arguments where they were copied to.

/// Bytes of a function that are read: nobody skips more of it than the first line of its code, but it may jump back
/// into that.
pub const TELLS: usize = 4_096;
/// Arguments that come in registers and are read.
pub const ARGUMENTS: usize = 4;

/// Where they are at the function's start, in the kernel's `pt_regs`, bytes.
pub const AT_ENTRY: [i16; ARGUMENTS] = arch::AT_ENTRY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Bytes from the function's start to the probe.
    pub skip: u64,
    /// The kernel need not step what stands there.
    pub is_emulated: bool,
    /// Where each argument is then, in the kernel's `pt_regs`, bytes.
    pub arguments: [i16; ARGUMENTS],
}

/// `code`: a function, which is entered at its start only, or its first [`TELLS`] bytes. `arguments`: of its arguments,
/// how many the probe may read.
pub fn entry(code: &[u8], arguments: usize) -> Entry {
    let found = arch::emulated_at(code, arguments);
    Entry {
        skip: found.map_or(0, |(skip, _)| skip as u64),
        is_emulated: found.is_some(),
        arguments: found.map_or(arch::AT_ENTRY, |(_, places)| places),
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use iced_x86::Register::{self, R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
    use iced_x86::{
        Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
        OpAccess,
    };

    use super::ARGUMENTS;

    /// rdi, rsi, rdx and rcx (System V ABI).
    pub const AT_ENTRY: [i16; ARGUMENTS] = [112, 104, 96, 88];

    /// Registers that a function may use as it likes, with the places of `pt_regs`; arguments come in the first.
    const FREE: [(Register, i16); 9] = [
        (RDI, 112),
        (RSI, 104),
        (RDX, 96),
        (RCX, 88),
        (RAX, 80),
        (R8, 72),
        (R9, 64),
        (R10, 56),
        (R11, 48),
    ];

    /// Which argument each of them holds.
    type Held = [Option<usize>; FREE.len()];

    /// Bytes to the first instruction that is emulated, if all before it may run unseen, and where the arguments are
    /// there.
    pub fn emulated_at(code: &[u8], arguments: usize) -> Option<(usize, [i16; ARGUMENTS])> {
        let mut held: Held = std::array::from_fn(|at| (at < ARGUMENTS).then_some(at));
        let mut about = InstructionInfoFactory::new();
        let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let at = decoder.position();
            if is_emulated(&code[at..]) {
                let found = (at, places(&held, arguments)?);
                return (!comes_back(code, at)).then_some(found);
            }
            let instruction = decoder.decode();
            follow(&instruction, &mut about, &mut held)?;
        }
        None
    }

    /// Whether the function jumps to something behind its start, up to `skip`: then it is there more often than it is
    /// called.
    fn comes_back(code: &[u8], skip: usize) -> bool {
        let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
        let into = |instruction: Instruction| {
            (1..=skip as u64).contains(&instruction.near_branch_target())
        };
        decoder.iter().any(into)
    }

    /// Where the arguments are; those that nobody reads may be anywhere.
    fn places(held: &Held, arguments: usize) -> Option<[i16; ARGUMENTS]> {
        let mut places = AT_ENTRY;
        for (argument, place) in places.iter_mut().enumerate().take(arguments) {
            let at = held.iter().position(|of| *of == Some(argument))?;
            *place = FREE[at].1;
        }
        Some(places)
    }

    /// `None`: it does more than to write to such registers.
    fn follow(
        instruction: &Instruction,
        about: &mut InstructionInfoFactory,
        held: &mut Held,
    ) -> Option<()> {
        if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
            return None;
        }
        let copied = copied(instruction).and_then(|from| held[from]);
        let used = about.info(instruction);
        if used
            .used_memory()
            .iter()
            .any(|memory| writes(memory.access()))
        {
            return None;
        }
        for register in used.used_registers() {
            if writes(register.access()) {
                held[place_of(register.register())?] = copied;
            }
        }
        Some(())
    }

    /// The register that a whole one is copied from.
    fn copied(instruction: &Instruction) -> Option<usize> {
        let (to, from) = (instruction.op0_register(), instruction.op1_register());
        let is_whole = instruction.mnemonic() == Mnemonic::Mov && to.is_gpr64() && from.is_gpr64();
        is_whole.then(|| place_of(from)).flatten()
    }

    fn place_of(register: Register) -> Option<usize> {
        let whole = register.full_register();
        FREE.iter().position(|(free, _)| *free == whole)
    }

    fn writes(access: OpAccess) -> bool {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
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
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    use super::ARGUMENTS;

    /// x0 to x3.
    pub const AT_ENTRY: [i16; ARGUMENTS] = [0, 8, 16, 24];

    /// The kernel of other machines simulates other instructions, and its steps are cheap.
    pub fn emulated_at(_: &[u8], _: usize) -> Option<(usize, [i16; ARGUMENTS])> {
        None
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::arch::AT_ENTRY;
    use super::*;

    fn at(skip: u64) -> Entry {
        Entry {
            skip,
            is_emulated: true,
            arguments: AT_ENTRY,
        }
    }

    fn stepped() -> Entry {
        Entry {
            is_emulated: false,
            ..at(0)
        }
    }

    #[test]
    fn what_is_emulated_is_reached_behind_what_changes_nothing() {
        let cases: [(&[u8], Entry); 15] = [
            (&[0x55, 0x48, 0x89, 0xe5], at(0)),
            (&[0x41, 0x57, 0x41, 0x56], at(0)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48], at(4)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54], at(4)),
            (&[0xe9, 1, 0, 0, 0], at(0)),
            (&[], stepped()),
            // test rdi, rdi; je
            (&[0x48, 0x85, 0xff, 0x74, 0x10], at(3)),
            // test rdi, rdi; je, far
            (&[0x48, 0x85, 0xff, 0x0f, 0x84, 1, 0, 0, 0], at(3)),
            // cmp byte [rip+1], 0; push r12
            (&[0x80, 0x3d, 1, 0, 0, 0, 0, 0x41, 0x54], at(7)),
            // mov rax, fs:[-8]; cmp rdi, [rax+rcx*8+4]; jmp
            (
                &[
                    0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x3b, 0x7c, 0xc8,
                    4, 0xeb, 2,
                ],
                at(14),
            ),
            // mov rdi, rsi; push: an argument goes
            (&[0x48, 0x89, 0xf7, 0x55], stepped()),
            // sub rsp, 24; push: the return address is elsewhere
            (&[0x48, 0x83, 0xec, 0x18, 0x55], stepped()),
            // mov [rax], rdi; push: memory is written
            (&[0x48, 0x89, 0x38, 0x55], stepped()),
            // mov rbx, rdi; push: a register of the caller's
            (&[0x48, 0x89, 0xfb, 0x55], stepped()),
            // mov r8d, edi; push
            (&[0x41, 0x89, 0xf8, 0x55], at(3)),
        ];
        for (code, expected) in cases {
            assert_eq!(entry(code, 4), expected, "{code:x?}");
        }
        // xor ecx, ecx; jmp: the fourth argument goes, which not every function has
        let rallocx = [0x31, 0xc9, 0xe9, 1, 0, 0, 0];
        assert_eq!(entry(&rallocx, 3), at(2));
        assert_eq!(entry(&rallocx, 4), stepped());
    }

    #[test]
    fn an_argument_is_read_where_it_was_copied_to() {
        // mimalloc 2's malloc by gcc 12: mov rsi, rdi; mov rdi, fs:[-0x60]; cmp rsi, 0x400; ja
        let malloc = [
            0x48, 0x89, 0xfe, 0x64, 0x48, 0x8b, 0x3c, 0x25, 0xa0, 0xff, 0xff, 0xff, 0x48, 0x81,
            0xfe, 0, 4, 0, 0, 0x77, 0x2b,
        ];
        let found = entry(&malloc, 1);
        assert_eq!((found.skip, found.arguments[0]), (19, AT_ENTRY[1]));
        assert_eq!(entry(&malloc, 2), stepped(), "its second argument went");
        // Its free: lea rsi, [rdi-1]; mov rdx, rdi; and rsi, ~0x1ffffff; jle
        let free = [
            0x48, 0x8d, 0x77, 0xff, 0x48, 0x89, 0xfa, 0x48, 0x81, 0xe6, 0, 0, 0, 0xfe, 0x7e, 0x55,
        ];
        assert_eq!(entry(&free, 1), at(14));
        // mov rsi, rdi; test rsi, rsi; jne, two back: the test is come to more often than the function is called.
        let again = [0x48, 0x89, 0xfe, 0x48, 0x85, 0xf6, 0x75, 0xfb];
        assert_eq!(entry(&again, 1), stepped());
        // mov edx, edi; xor edi, edi; push: half of it is not it.
        assert_eq!(entry(&[0x89, 0xfa, 0x31, 0xff, 0x55], 1), stepped());
    }
}
