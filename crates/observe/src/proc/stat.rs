//! `/proc/PID/stat`: identity, CPU time and faults of the whole process.

use super::fields::{Malformed, number};

const FILE: &str = "/proc/PID/stat";

/// What is used of `/proc/PID/stat`. Times are of all threads, ended ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Of the main thread: R, S, D, Z, T, t, X, I.
    pub state: char,
    pub threads: u64,
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Clock ticks after boot; with the pid it names the process.
    pub start_ticks: u64,
    pub image: Image,
}

/// Addresses that the kernel draws anew at each `exec`: the cheap sign that the program changed.
/// All of them are 0 or 1 for a process of another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Image {
    pub start_code: u64,
    pub end_code: u64,
    pub start_stack: u64,
    pub arg_start: u64,
}

/// Nanoseconds of one clock tick, in which the kernel counts CPU time here (10 ms nearly always).
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// Fields by their number in proc(5); the name in field 2 may hold blanks and parentheses, so
/// counting starts behind the last `)`.
pub fn parse_stat(text: &[u8], tick_ns: u64) -> Result<Stat, Malformed> {
    let close = text.iter().rposition(|&byte| byte == b')');
    let rest = close
        .map(|at| &text[at + 1..])
        .ok_or_else(|| short("no name in parentheses"))?;
    let words = rest
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    // Up to field 48 (arg_start); on the stack, since this runs for each process at each snapshot.
    let mut fields: [&[u8]; 52] = [b""; 52];
    for (field, word) in fields.iter_mut().skip(3).zip(words) {
        *field = word;
    }
    let at = |index: usize| {
        number(fields[index]).ok_or_else(|| short(format!("field {index} is not a number")))
    };
    Ok(Stat {
        state: fields[3].first().map_or('?', |&byte| byte as char),
        threads: at(20)?,
        cpu_user_ns: at(14)?.saturating_mul(tick_ns),
        cpu_system_ns: at(15)?.saturating_mul(tick_ns),
        minor_faults: at(10)?,
        major_faults: at(12)?,
        start_ticks: at(22)?,
        image: Image {
            start_code: at(26)?,
            end_code: at(27)?,
            start_stack: at(28)?,
            // Absent before Linux 3.5.
            arg_start: at(48).unwrap_or(0),
        },
    })
}

fn short(problem: impl Into<String>) -> Malformed {
    Malformed::new(FILE, problem)
}
