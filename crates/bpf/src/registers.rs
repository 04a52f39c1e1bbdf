//! What programs/registers.h is told of this machine: whether the kernel gives a thread's registers, or where it keeps
//! them.

use std::io;

use crate::btf::{self, Field, View};
use crate::kernel;
use crate::object::Object;

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
/// The helper in the kernel's `enum bpf_func_id`: kernels of distributions have newer ones than their number says.
const HELPER: &[u8] = b"\0BPF_FUNC_task_pt_regs\0";

/// Says to the object how its programs read registers of the thread that has the CPU.
///
/// # Errors
/// The kernel does not give them (before Linux 5.15), and has no description of its structures.
pub fn prepare(object: &mut Object) -> io::Result<()> {
    let kept = match kernel::is_at_least(5, 15) {
        true => None,
        false => {
            let read = std::fs::read(KERNEL_BTF);
            let why = |error| io::Error::other(format!("{KERNEL_BTF}: {error}"));
            kept(&read.map_err(why)?)?
        }
    };
    object.set("GIVES_REGISTERS", kept.is_none().into());
    let kept = kept.unwrap_or_default();
    object.set("TASK_STACK", kept.task_stack);
    object.set("STACK_REGISTERS", kept.stack_registers);
    object.view(user_registers());
    Ok(())
}

/// Bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    /// Of `struct task_struct`, the pointer to the kernel stack.
    task_stack: u32,
    /// Of that stack, whose last bytes they are (task_pt_regs in arch/x86/include/asm/processor.h).
    stack_registers: u32,
}

/// By the kernel's BTF; `None`: it has the helper that gives them.
fn kept(kernel_btf: &[u8]) -> io::Result<Option<Kept>> {
    if kernel_btf
        .windows(HELPER.len())
        .any(|found| found == HELPER)
    {
        return Ok(None);
    }
    let structure = |name| {
        let found = btf::structure(kernel_btf, name);
        found.ok_or_else(|| io::Error::other(format!("{KERNEL_BTF} has no struct {name}")))
    };
    let task = structure("task_struct")?;
    let stack = task.fields.iter().find(|(name, _)| name == "stack");
    let (_, task_stack) =
        stack.ok_or_else(|| io::Error::other("the kernel's threads have no stack of their own"))?;
    let bytes = structure("pt_regs")?.bytes;
    Ok(Some(Kept {
        task_stack: *task_stack,
        stack_registers: stack_bytes(rustix::param::page_size() as u32) - bytes,
    }))
}

/// A thread's kernel stack (THREAD_SIZE): 16 KiB, or a page where those are larger. Kernels that are built to find
/// mistakes of their own (CONFIG_KASAN) have larger ones: there the calls of threads are unknown.
fn stack_bytes(page_bytes: u32) -> u32 {
    page_bytes.max(16 << 10)
}

/// The lower half of `orig_rax`.
#[cfg(target_arch = "x86_64")]
const NUMBER: u32 = 120;
/// `syscallno`, an int.
#[cfg(target_arch = "aarch64")]
const NUMBER: u32 = 280;

/// `struct user_registers`: of the interrupted user code, within the kernel's `struct pt_regs`.
fn user_registers() -> View {
    let number = Field {
        name: "number",
        offset: NUMBER,
        bytes: 4,
    };
    let words = USER.map(|(name, offset)| Field::word(name, offset));
    View {
        name: "user_registers",
        fields: [number].into_iter().chain(words).collect(),
    }
}

/// Of a register that x86_64 does not have, the program counter.
#[cfg(target_arch = "x86_64")]
const USER: [(&str, i16); 8] = [
    ("link", 128),
    ("pc", 128),
    ("sp", 152),
    ("fp", 32),
    ("first", 112),
    ("second", 104),
    ("third", 96),
    ("fourth", 56),
];
/// As above; the first argument is the one saved before the call.
#[cfg(target_arch = "aarch64")]
const USER: [(&str, i16); 8] = [
    ("link", 240),
    ("pc", 256),
    ("sp", 248),
    ("fp", 232),
    ("first", 272),
    ("second", 8),
    ("third", 16),
    ("fourth", 24),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_helper_says_where_it_keeps_them() {
        let task = View {
            name: "task_struct",
            fields: vec![Field::word("state", 16), Field::word("stack", 24)],
        };
        let registers = View {
            name: "pt_regs",
            fields: vec![Field::word("ss", 160)],
        };
        let old = btf::target(&[task.clone(), registers], &[]);
        let expected = Kept {
            task_stack: 24,
            stack_registers: stack_bytes(rustix::param::page_size() as u32) - 168,
        };
        assert_eq!(kept(&old).unwrap(), Some(expected));
        let new = btf::target(&[], &[("BPF_FUNC_task_pt_regs", 175)]);
        assert_eq!(kept(&new).unwrap(), None);
        let error = kept(&btf::target(&[task], &[])).unwrap_err().to_string();
        assert!(error.contains("pt_regs"), "{error}");
        assert_eq!(
            [4, 16, 64].map(|kib| stack_bytes(kib << 10) >> 10),
            [16, 16, 64]
        );
    }
}
