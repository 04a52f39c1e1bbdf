//! Who calls an allocator besides native code: of runtimes whose functions no native stack leads to.

use std::ops::Range;

use bpf::python::Interpreter;
use symbols::golang::functions::Functions;
use symbols::registers::Registers;

/// Of one process. A sample has the functions of one runtime at most: those of Python, where there are both.
#[derive(Default)]
pub struct Callers {
    pub python: Option<Interpreter>,
    pub go: Option<Go>,
}

/// A Go program that calls C.
#[derive(Debug)]
pub struct Go {
    /// The code of the function by which it does.
    pub asmcgocall: Range<u64>,
    /// How many words further out than its return address it leaves how deep the goroutine's stack is, and behind that
    /// the goroutine.
    pub depth_at: u32,
    /// All of Go's code.
    text: Range<u64>,
}

/// A goroutine's stack as `asmcgocall` left it, with as much of it as was there.
#[derive(Debug, Clone, PartialEq)]
pub struct Left<'a> {
    pub sp: u64,
    pub fp: u64,
    pub stack: &'a [u8],
}

impl Callers {
    pub fn of(pid: u32) -> Callers {
        let python = Interpreter::of(pid);
        let go = match python {
            Some(_) => None,
            None => Go::of(pid),
        };
        Callers { python, go }
    }
}

impl Go {
    /// On machines other than x86-64 the goroutine is left elsewhere.
    fn of(pid: u32) -> Option<Go> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let program = Functions::of(pid).ok()??;
        let found = program.named(&["runtime.asmcgocall"]);
        Some(Go {
            asmcgocall: found.into_iter().next()??,
            depth_at: match program.minor {
                ..=21 => 6,
                _ => 1,
            },
            text: program.text(),
        })
    }

    /// One that is never found: the walk takes longest then.
    pub fn unfound() -> Go {
        Go {
            asmcgocall: u64::MAX - 1..u64::MAX,
            depth_at: 1,
            text: 0..0,
        }
    }

    /// Who called `asmcgocall`, and the stack from there on: in front of the return address may be the caller's frame
    /// pointer, as the version of Go has it.
    pub fn caller<'a>(&self, left: &Left<'a>) -> Option<(Registers, &'a [u8])> {
        let (words, _) = left.stack.as_chunks::<8>();
        let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
        let is_return = |at: &usize| word(*at).is_some_and(|word| self.text.contains(&word));
        let at = (0..2).find(is_return)?;
        let pc = word(at)?;
        let caller = Registers {
            pc,
            sp: left.sp + 8 * (at as u64 + 1),
            fp: if at == 0 { left.fp } else { word(0)? },
            lr: pc,
        };
        Some((caller, &left.stack[8 * (at + 1)..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(stack: &[u8]) -> Left<'_> {
        Left {
            sp: 0x7000_0000,
            fp: 0x7000_0100,
            stack,
        }
    }

    #[test]
    fn a_frame_pointer_may_be_in_front_of_the_return_address() {
        let go = Go {
            asmcgocall: 0x1000..0x1100,
            depth_at: 1,
            text: 0x1000..0x9000,
        };
        let stack = |words: [u64; 3]| words.map(u64::to_le_bytes).concat();
        let caller = |words| {
            let stack = stack(words);
            let (at, rest) = go.caller(&left(&stack))?;
            Some((at.pc, at.sp, at.fp, rest.len()))
        };
        let without = caller([0x2345, 0x7000_0200, 7]);
        assert_eq!(without, Some((0x2345, 0x7000_0008, 0x7000_0100, 16)));
        let with = caller([0x7000_0200, 0x2345, 7]);
        assert_eq!(with, Some((0x2345, 0x7000_0010, 0x7000_0200, 8)));
        assert_eq!(caller([0x7000_0200, 7, 0x2345]), None);
        assert!(go.caller(&left(&[1; 7])).is_none());
    }
}
