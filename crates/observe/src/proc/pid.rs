//! What a number stands for that a user gives as a pid, by `/proc/PID/status` (proc_pid_status(5)).

use super::ProcRoot;
use super::fields::{lines, number};
use super::identity::parse_identity;

/// Why there is nothing to observe under a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAProcess {
    #[error("there is no process with pid {0}: it has ended, or never was")]
    Missing(i32),
    #[error("{0} is a thread of process {1}: name that one (--pid {1})")]
    Thread(i32, i32),
    #[error(
        "process {0} has ended, and waits for its parent to collect its exit status (a zombie)"
    )]
    Zombie(i32),
    #[error("{0} is a thread of the kernel: it has no memory of its own, and no program")]
    OfKernel(i32),
}

/// `None`: it is a process with a program.
pub fn why_not(root: &ProcRoot, pid: i32) -> Option<NotAProcess> {
    match std::fs::read(root.process(pid).join("status")) {
        Ok(text) => of_status(pid, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(NotAProcess::Missing(pid))
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Some(NotAProcess::Missing(pid)),
        // It may not be read; what asks for more says why.
        Err(_) => None,
    }
}

fn of_status(pid: i32, text: &[u8]) -> Option<NotAProcess> {
    let field = |key: &[u8]| lines(text).find(|(name, _)| *name == key);
    let whole = |key: &[u8]| field(key).and_then(|(_, value)| i32::try_from(number(value)?).ok());
    if let Some(process) = whole(b"Tgid").filter(|process| *process != pid) {
        return Some(NotAProcess::Thread(pid, process));
    }
    if matches!(parse_identity(text).state, Some(b'Z' | b'X' | b'x')) {
        return Some(NotAProcess::Zombie(pid));
    }
    // A process that is about to end has no memory any more either.
    let is_of_kernel = pid == KTHREADD || whole(b"PPid") == Some(KTHREADD);
    let has_memory = field(b"VmSize").is_some();
    (is_of_kernel && !has_memory).then_some(NotAProcess::OfKernel(pid))
}

/// Parent of all threads of the kernel.
const KTHREADD: i32 = 2;

/// Whether a signal has stopped it: nothing in it runs. A tracer stops a process for moments only.
pub fn is_stopped(root: &ProcRoot, pid: i32) -> bool {
    let text = std::fs::read(root.process(pid).join("status")).unwrap_or_default();
    parse_identity(&text).state == Some(b'T')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_process_is_said_to_be_what_it_is() {
        let own = std::process::id() as i32;
        let root = ProcRoot::default();
        assert_eq!(why_not(&root, own), None);
        assert!(!is_stopped(&root, own));
        assert_eq!(
            why_not(&root, i32::MAX),
            Some(NotAProcess::Missing(i32::MAX))
        );
        let of = |text: &str| of_status(7, text.as_bytes());
        let thread = of("Name:\tio\nState:\tS (sleeping)\nTgid:\t5\nPPid:\t1\nVmSize:\t9 kB\n");
        assert_eq!(thread, Some(NotAProcess::Thread(7, 5)));
        let zombie = of("Name:\tx\nState:\tZ (zombie)\nTgid:\t7\nPPid:\t1\n");
        assert_eq!(zombie, Some(NotAProcess::Zombie(7)));
        let worker = of("Name:\tkworker/0:1\nState:\tI (idle)\nTgid:\t7\nPPid:\t2\n");
        assert_eq!(worker, Some(NotAProcess::OfKernel(7)));
        // In a container somebody's process may have the number 2.
        let child = of("Name:\tapp\nState:\tR (running)\nTgid:\t7\nPPid:\t2\nVmSize:\t9 kB\n");
        assert_eq!(child, None);
    }

    #[test]
    fn a_thread_and_a_child_that_has_ended_are_named() {
        let root = ProcRoot::default();
        // Tests run on threads of their own, but for a single one.
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let process = std::process::id() as i32;
        if own != process {
            assert_eq!(why_not(&root, own), Some(NotAProcess::Thread(own, process)));
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let ended = || why_not(&root, pid) == Some(NotAProcess::Zombie(pid));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !ended() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(ended());
        child.wait().unwrap();
    }
}
