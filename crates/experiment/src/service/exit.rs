//! How a process ended, in words.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use signal_hook::low_level::signal_name;

/// The exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal {
        number: i32,
        core_dumped: bool,
    },
    /// Not our child, or it could not be waited for.
    Unknown,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(number)) => Self::Signal {
                number,
                core_dumped: status.core_dumped(),
            },
            (None, None) => Self::Unknown,
        }
    }
}

impl Exit {
    /// `exit code 127 (a shell's "command not found")`, `SIGSEGV (11, invalid memory access), core dumped`.
    /// `None` when it is not known.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Code(code) => Some(format!("exit code {code}{}", code_hint(code))),
            Self::Signal {
                number,
                core_dumped,
            } => {
                let core = if core_dumped { ", core dumped" } else { "" };
                Some(format!("{}{core}", signal_words(number)))
            }
            Self::Unknown => None,
        }
    }

    pub fn is_signal(self, wanted: i32) -> bool {
        matches!(self, Self::Signal { number, .. } if number == wanted)
    }
}

/// `SIGTERM (15)`.
pub fn signal_words(number: i32) -> String {
    let name = signal_name(number).unwrap_or("signal");
    format!("{name} ({number}{})", signal_hint(number))
}

fn code_hint(code: i32) -> &'static str {
    match code {
        126 => " (a shell's \"cannot execute\")",
        127 => " (a shell's or the loader's \"not found\": a command or a library is missing)",
        _ => "",
    }
}

fn signal_hint(number: i32) -> &'static str {
    match number {
        libc::SIGSEGV | libc::SIGBUS => ", invalid memory access",
        libc::SIGABRT => ", it aborted itself: an assertion, or an allocator that found damage",
        libc::SIGILL => ", illegal instruction: built for another CPU?",
        libc::SIGFPE => ", arithmetic error",
        libc::SIGSYS => ", a system call that is forbidden to it",
        libc::SIGXFSZ => ", a file grew past its limit",
        libc::SIGXCPU => ", CPU time limit",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_every_kind() {
        assert_eq!(Exit::Code(3).words().unwrap(), "exit code 3");
        assert!(Exit::Code(127).words().unwrap().contains("not found"));
        // A wait status: signal in the low 7 bits, 0x80 for a core, code in the next byte.
        let segv = Exit::from(ExitStatus::from_raw(libc::SIGSEGV | 0x80));
        assert_eq!(
            segv.words().unwrap(),
            "SIGSEGV (11, invalid memory access), core dumped"
        );
        assert!(segv.is_signal(libc::SIGSEGV));
        assert_eq!(Exit::from(ExitStatus::from_raw(3 << 8)), Exit::Code(3));
        assert_eq!(signal_words(libc::SIGKILL), "SIGKILL (9)");
        assert_eq!(signal_words(40), "signal (40)");
        assert_eq!(Exit::Unknown.words(), None);
    }
}
