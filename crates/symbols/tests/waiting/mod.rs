//! Where a thread waits, by what the kernel says of it.

use symbols::registers::Registers;

/// Registers of a thread that waits in a system call; `None`: it runs.
pub fn waiting(pid: u32, tid: u32) -> Option<Registers> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let [.., sp, pc] = words[..] else { return None };
    (words.len() == 9).then_some(Registers {
        pc: number(pc)?,
        sp: number(sp)?,
        ..Registers::default()
    })
}
