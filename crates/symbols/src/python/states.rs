//! The states of the threads of a process that runs Python: which one belongs to which thread.

use std::collections::HashSet;

use observe::fact::memory::Memory;

use super::find::Runtime;
use super::layout::Layout;

/// Interpreters and threads that are gone through; more are not looked for.
const STATES_MAX: usize = 4_096;
/// Since 3.11 the kernel's number of a thread is behind that of the thread library.
pub const NATIVE_BEHIND: u64 = 8;
/// Where thread libraries have the kernel's number of a thread, from what `pthread_self` gives: glibc, musl.
const NUMBER_AT: [u64; 2] = if cfg!(target_arch = "aarch64") {
    [208, 32]
} else {
    [720, 48]
};

/// The state of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub address: u64,
    /// What `pthread_self` says there: it is compared again before the state is believed.
    pub thread_id: u64,
    /// The kernel's number of the thread, where the process lives.
    pub native: u64,
}

/// How the kernel's number of a thread is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// In its state (3.11 and later).
    InState,
    /// In the thread library's own description of it, at this offset.
    InLibrary(u64),
}

impl Number {
    /// `None`: the thread library is not known (3.8 to 3.10).
    /// `alive`: the numbers of the threads that there are, where the process lives.
    pub fn of(memory: &dyn Memory, runtime: &Runtime, alive: &HashSet<u64>) -> Option<Number> {
        if runtime.layout.minor >= 11 {
            return Some(Number::InState);
        }
        let offsets = NUMBER_AT.map(Number::InLibrary);
        offsets.into_iter().find(|number| {
            let found = states(memory, runtime, *number);
            !found.is_empty() && found.iter().all(|state| alive.contains(&state.native))
        })
    }

    fn read(self, memory: &dyn Memory, layout: &Layout, state: u64, thread_id: u64) -> Option<u64> {
        match self {
            Number::InState => memory.u64(state.checked_add(layout.thread_id + NATIVE_BEHIND)?),
            Number::InLibrary(at) => memory.u32(thread_id.checked_add(at)?).map(u64::from),
        }
    }
}

/// Where the list of the threads of the first interpreter begins: the address of the pointer to its newest.
pub fn newest(memory: &dyn Memory, runtime: &Runtime) -> Option<u64> {
    let layout = &runtime.layout;
    let interpreter = memory.u64(runtime.address.checked_add(layout.interpreters)?)?;
    interpreter
        .checked_add(layout.threads)
        .filter(|_| interpreter != 0)
}

/// The states of all threads. Threads come and go meanwhile: who uses one compares its number again.
pub fn states(memory: &dyn Memory, runtime: &Runtime, number: Number) -> Vec<State> {
    let layout = &runtime.layout;
    let word = |at: u64, offset| memory.u64(at.checked_add(offset)?).filter(|to| *to != 0);
    let (mut states, mut steps) = (Vec::new(), 0);
    let mut interpreter = word(runtime.address, layout.interpreters);
    while let Some(at) = interpreter.filter(|_| steps < STATES_MAX) {
        let mut thread = word(at, layout.threads);
        while let Some(address) = thread.filter(|_| steps < STATES_MAX) {
            let thread_id = word(address, layout.thread_id);
            states.extend(thread_id.and_then(|thread_id| {
                Some(State {
                    address,
                    thread_id,
                    native: number.read(memory, layout, address, thread_id)?,
                })
            }));
            thread = word(address, layout.next_thread);
            steps += 1;
        }
        interpreter = word(at, layout.next_interpreter);
        steps += 1;
    }
    states
}

/// The threads of a process, by their numbers where it lives.
pub fn alive(pid: u32) -> HashSet<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let status = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("status")).ok();
    let threads = threads.into_iter().flatten().flatten().take(STATES_MAX);
    threads
        .filter_map(status)
        .filter_map(|status| inner(&status))
        .collect()
}

/// The last number of `NSpid`: that of the innermost namespace.
fn inner(status: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(status);
    let mut lines = text.lines();
    let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use super::super::find::tests::version;
    use super::*;

    /// Words of eight bytes; all others are zero.
    pub struct Words(pub HashMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            for (at, word) in (address..).step_by(8).zip(out.chunks_mut(8)) {
                let known = self.0.get(&at).copied().unwrap_or(0);
                word.copy_from_slice(&known.to_le_bytes()[..word.len()]);
            }
            Some(())
        }
    }

    /// With `_PyRuntime` at 0x1000.
    pub fn runtime(minor: u8) -> Runtime {
        Runtime {
            address: 0x1000,
            type_type: 0,
            version: version(minor, None),
            layout: Layout::of(minor).unwrap(),
        }
    }

    /// One interpreter and one thread, both lists of which lead in a circle.
    pub fn circles(minor: u8) -> Words {
        let layout = Layout::of(minor).unwrap();
        Words(HashMap::from([
            (0x1000 + layout.interpreters, 0x2000),
            (0x2000 + layout.threads, 0x9000),
            (0x2000 + layout.next_interpreter, 0x2000),
            (0x9000 + layout.thread_id, 0xa000),
            (0x9000 + layout.thread_id + NATIVE_BEHIND, 7),
            (0xa000 + NUMBER_AT[1], 7),
            (0x9000 + layout.next_thread, 0x9000),
        ]))
    }

    #[test]
    fn lists_that_lead_in_circles_come_to_an_end() {
        for minor in 8..=14 {
            let (words, runtime) = (circles(minor), runtime(minor));
            let number = Number::of(&words, &runtime, &HashSet::from([7])).unwrap();
            assert_eq!(
                number,
                match minor {
                    ..=10 => Number::InLibrary(NUMBER_AT[1]),
                    _ => Number::InState,
                }
            );
            let found = states(&words, &runtime, number);
            let expected = State {
                address: 0x9000,
                thread_id: 0xa000,
                native: 7,
            };
            assert!(found.len() <= STATES_MAX && found.iter().all(|state| *state == expected));
            assert_eq!(
                newest(&words, &runtime),
                Some(0x2000 + runtime.layout.threads)
            );
        }
    }

    #[test]
    fn a_thread_library_that_is_not_known_gives_no_numbers() {
        let words = circles(9);
        assert_eq!(Number::of(&words, &runtime(9), &HashSet::from([8])), None);
    }

    #[test]
    fn numbers_of_namespaces() {
        assert_eq!(
            inner(b"Name:\tx\nNSpid:\t4242\t17\nThreads:\t1\n"),
            Some(17)
        );
        assert_eq!(inner(b"NSpid:\n"), None);
        assert_eq!(inner(b""), None);
        assert!(alive(std::process::id()).contains(&u64::from(std::process::id())));
    }
}
