//! Does a seccomp filter allow the system calls that the probe makes after its start?
//!
//! The filter is a classic BPF program over `struct seccomp_data` (seccomp(2), `linux/filter.h`). The program under
//! study installs it, so it can be run here first, for each of the probe's calls.

/// One instruction: `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub if_true: u8,
    /// Instructions to skip otherwise.
    pub if_false: u8,
    /// Operand.
    pub k: u32,
}

/// Instructions of a filter at most (`BPF_MAXINSNS`).
pub const INSTRUCTIONS_MAX: usize = 4096;

const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Signal sets of the kernel, bytes.
const SET_BYTES: u64 = 8;

/// True when this thread has a filter; of the start, one from before its program began, as in a container or a systemd
/// unit.
pub fn is_confined() -> bool {
    filters() > 0
}

/// Filters of this thread: fields `Seccomp` and, from Linux 5.9 on, `Seccomp_filters` of proc(5); one where the kernel
/// does not count them. What a filter allows cannot be read. Opens, reads and closes a file, as the loader just did.
pub fn filters() -> u64 {
    let mut status = [0u8; 4096];
    // SAFETY: a path that ends with NUL, and a buffer of that length.
    let bytes = unsafe {
        let file = libc::open(
            c"/proc/self/status".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return 0;
        }
        let bytes = libc::read(file, status.as_mut_ptr().cast(), status.len());
        libc::close(file);
        bytes
    };
    count(&status[..bytes.max(0) as usize])
}

fn count(status: &[u8]) -> u64 {
    let field = |name: &[u8]| {
        let mut lines = status.split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
    };
    let is_confined = field(b"Seccomp:").is_some_and(|mode: u64| mode != 0);
    let counted = field(b"Seccomp_filters:").unwrap_or(0);
    counted.max(u64::from(is_confined))
}

/// A system call: number and arguments; those that are addresses are 0 here.
type Call = (libc::c_long, [u64; 4]);

/// What the probe calls in its slow paths.
const CALLS: [Call; 9] = [
    (
        libc::SYS_rt_sigprocmask,
        [libc::SIG_BLOCK as u64, 0, 0, SET_BYTES],
    ),
    (
        libc::SYS_rt_sigprocmask,
        [libc::SIG_SETMASK as u64, 0, 0, SET_BYTES],
    ),
    (libc::SYS_rt_sigprocmask, [u64::MAX, 0, 0, SET_BYTES]),
    (libc::SYS_gettid, [0; 4]),
    (libc::SYS_getpid, [0; 4]),
    (libc::SYS_tgkill, [0; 4]),
    (libc::SYS_prctl, [libc::PR_GET_NAME as u64, 0, 0, 0]),
    (
        libc::SYS_clock_gettime,
        [libc::CLOCK_PROCESS_CPUTIME_ID as u64, 0, 0, 0],
    ),
    (libc::SYS_nanosleep, [0; 4]),
];

/// True when the filter lets every call of the probe through. A filter that cannot be followed does not.
pub fn allows_the_probe(filter: &[Instruction]) -> bool {
    CALLS.iter().all(|call| {
        let action = run(filter, &data(*call)).map(|value| value & ACTION);
        matches!(action, Some(ALLOW | LOG))
    })
}

/// `struct seccomp_data` in words: number, architecture, instruction pointer, six arguments.
fn data((number, arguments): Call) -> [u32; 16] {
    let mut words = [0; 16];
    (words[0], words[1]) = (number as u32, ARCHITECTURE);
    for (at, argument) in arguments.iter().enumerate() {
        words[4 + 2 * at] = *argument as u32;
        words[5 + 2 * at] = (*argument >> 32) as u32;
    }
    words
}

/// The filter's result. It ends: a jump goes forwards only.
fn run(filter: &[Instruction], data: &[u32; 16]) -> Option<u32> {
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut at = 0;
    loop {
        let Instruction {
            code,
            if_true,
            if_false,
            k,
        } = *filter.get(at)?;
        at += 1;
        match code {
            // BPF_LD: an absolute word of the data, a constant, the length, a word of memory.
            0x20 => a = *data.get((k / 4) as usize).filter(|_| k.is_multiple_of(4))?,
            0x00 => a = k,
            0x80 => a = size_of_val(data) as u32,
            0x60 => a = *memory.get(k as usize)?,
            // BPF_LDX.
            0x01 => x = k,
            0x81 => x = size_of_val(data) as u32,
            0x61 => x = *memory.get(k as usize)?,
            // BPF_ST, BPF_STX.
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            // BPF_MISC: TAX, TXA.
            0x07 => x = a,
            0x87 => a = x,
            // BPF_RET: a constant, the accumulator.
            0x06 => return Some(k),
            0x16 => return Some(a),
            // BPF_JMP | BPF_JA.
            0x05 => at = at.checked_add(k as usize)?,
            // BPF_ALU and BPF_JMP with a constant, or with X.
            _ => {
                let operand = if code & 0x08 == 0 { k } else { x };
                match code & 0x07 {
                    0x04 => a = calculated(code, a, operand)?,
                    0x05 => {
                        at += usize::from(if compared(code, a, operand)? {
                            if_true
                        } else {
                            if_false
                        })
                    }
                    _ => return None,
                }
            }
        }
    }
}

fn calculated(code: u16, a: u32, operand: u32) -> Option<u32> {
    match code & 0xf0 {
        0x00 => Some(a.wrapping_add(operand)),
        0x10 => Some(a.wrapping_sub(operand)),
        0x20 => Some(a.wrapping_mul(operand)),
        0x30 => a.checked_div(operand),
        0x40 => Some(a | operand),
        0x50 => Some(a & operand),
        0x60 => a.checked_shl(operand),
        0x70 => a.checked_shr(operand),
        0x80 => Some(a.wrapping_neg()),
        0xa0 => Some(a ^ operand),
        _ => None,
    }
}

fn compared(code: u16, a: u32, operand: u32) -> Option<bool> {
    match code & 0xf0 {
        0x10 => Some(a == operand),
        0x20 => Some(a > operand),
        0x30 => Some(a >= operand),
        0x40 => Some(a & operand != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD_NUMBER: Instruction = step(0x20, 0, 0, 0);

    const fn step(code: u16, if_true: u8, if_false: u8, k: u32) -> Instruction {
        Instruction {
            code,
            if_true,
            if_false,
            k,
        }
    }

    fn ends_with(action: u32) -> Instruction {
        step(0x06, 0, 0, action)
    }

    #[test]
    fn filters_are_counted_in_the_status() {
        let of = |fields: &str| count(format!("Name:\tx\nNoNewPrivs:\t0\n{fields}").as_bytes());
        assert_eq!(of("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(of("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
        assert_eq!(of("Seccomp:\t2\n"), 1, "before Linux 5.9");
        assert_eq!(of("Seccomp:\t1\nSeccomp_filters:\t0\n"), 1, "strict");
        assert_eq!(of(""), 0);
    }

    #[test]
    fn a_filter_that_allows_all_allows_the_probe() {
        assert!(allows_the_probe(&[ends_with(ALLOW)]));
        assert!(allows_the_probe(&[ends_with(LOG | 7)]));
    }

    #[test]
    fn one_call_refused_is_enough() {
        for (number, _) in CALLS {
            let refuses = [
                LOAD_NUMBER,
                step(0x15, 0, 1, number as u32),
                ends_with(0),
                ends_with(ALLOW),
            ];
            assert!(!allows_the_probe(&refuses), "call {number}");
        }
        let another = [
            LOAD_NUMBER,
            step(0x15, 0, 1, libc::SYS_ptrace as u32),
            ends_with(0),
            ends_with(ALLOW),
        ];
        assert!(allows_the_probe(&another));
    }

    #[test]
    fn arguments_and_the_architecture_are_seen() {
        // Kills another architecture, then rt_sigprocmask with SIG_SETMASK.
        let filter = [
            step(0x20, 0, 0, 4),
            step(0x15, 1, 0, ARCHITECTURE),
            ends_with(0),
            LOAD_NUMBER,
            step(0x15, 0, 3, libc::SYS_rt_sigprocmask as u32),
            step(0x20, 0, 0, 16),
            step(0x15, 0, 1, libc::SIG_SETMASK as u32),
            ends_with(0),
            ends_with(ALLOW),
        ];
        assert!(!allows_the_probe(&filter));
        let mut other = filter;
        other[6].k = 77;
        assert!(allows_the_probe(&other));
    }

    #[test]
    fn arithmetic_is_the_kernels() {
        let filter = [
            step(0x00, 0, 0, 6),
            step(0x07, 0, 0, 0),
            step(0x0c, 0, 0, 0),
            step(0x64, 0, 0, 16),
            step(0x02, 0, 0, 3),
            step(0x60, 0, 0, 3),
            step(0x16, 0, 0, 0),
        ];
        assert_eq!(run(&filter, &[0; 16]), Some(12 << 16));
    }

    #[test]
    fn what_cannot_be_followed_allows_nothing() {
        let no_end = [LOAD_NUMBER];
        let beyond = [step(0x20, 0, 0, 64), ends_with(ALLOW)];
        let unaligned = [step(0x20, 0, 0, 2), ends_with(ALLOW)];
        let by_zero = [step(0x34, 0, 0, 0), ends_with(ALLOW)];
        let unknown = [step(0xff, 0, 0, 0), ends_with(ALLOW)];
        let far = [step(0x05, 0, 0, u32::MAX), ends_with(ALLOW)];
        for filter in [
            &no_end[..],
            &beyond,
            &unaligned,
            &by_zero,
            &unknown,
            &far,
            &[],
        ] {
            assert!(!allows_the_probe(filter), "{filter:?}");
        }
    }
}
