//! Where a function is probed: at its first instruction or at the one behind `endbr64`, which costs less.
//!
//! The kernel emulates a push, a jump, a call and a nop; any other instruction it runs elsewhere, one step, and takes a
//! second trap (arch/x86/kernel/uprobes.c). In a virtual machine the step costs ten times as much: 14.8 us a hit where
//! an emulated one took 1.0.

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes of code that tell.
pub const TELLS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Bytes from the function's start to the probe.
    pub skip: u64,
    /// The kernel need not step what stands there.
    pub is_emulated: bool,
}

/// `code`: the first bytes of a function, which is entered at its start only.
pub fn entry(code: &[u8]) -> Entry {
    if !cfg!(target_arch = "x86_64") {
        return Entry {
            skip: 0,
            is_emulated: false,
        };
    }
    let behind = code.strip_prefix(&ENDBR64).filter(|code| is_emulated(code));
    Entry {
        skip: behind.map_or(0, |_| ENDBR64.len() as u64),
        is_emulated: behind.is_some() || is_emulated(code),
    }
}

fn is_emulated(code: &[u8]) -> bool {
    const PUSH: std::ops::RangeInclusive<u8> = 0x50..=0x57;
    match code {
        [0x41, second, ..] => PUSH.contains(second),
        [first, ..] => PUSH.contains(first) || matches!(first, 0x90 | 0xe8 | 0xe9 | 0xeb),
        [] => false,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_emulated_and_reached_behind_endbr64() {
        let at = |skip, is_emulated| Entry { skip, is_emulated };
        let cases: [(&[u8], Entry); 8] = [
            (&[0x55, 0x48, 0x89, 0xe5], at(0, true)),
            (&[0x41, 0x57, 0x41, 0x56], at(0, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48], at(4, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54], at(4, true)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85], at(0, false)),
            (&[0xe9, 1, 0, 0, 0], at(0, true)),
            (&[0x41, 0x89, 0xf8], at(0, false)),
            (&[], at(0, false)),
        ];
        for (code, expected) in cases {
            assert_eq!(entry(code), expected, "{code:x?}");
        }
    }
}
