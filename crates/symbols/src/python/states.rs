//! The states of the threads of a process that runs Python: which one belongs to which thread.

use std::collections::{HashMap, HashSet};

use observe::fact::memory::Memory;

use super::find::Runtime;
use super::layout::Layout;

/// Threads that are gone through; more are not looked for.
const STATES_MAX: usize = 4_096;
const INTERPRETERS_MAX: usize = 64;
/// Readings of a list that changes meanwhile: what each of them finds is kept.
const TRIES: usize = 4;
/// In a state the one before comes in front of the next one, bytes.
const BEFORE_NEXT: u64 = 8;
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
    /// `alive`: the numbers of the threads that there are, where the process lives. Some may have begun or ended since.
    pub fn of(memory: &dyn Memory, runtime: &Runtime, alive: &HashSet<u64>) -> Option<Number> {
        if runtime.layout.minor >= 11 {
            return Some(Number::InState);
        }
        let offsets = NUMBER_AT.map(Number::InLibrary);
        offsets.into_iter().find(|number| {
            let found = states(memory, runtime, *number);
            let known = found.iter().filter(|state| alive.contains(&state.native));
            2 * known.count() > found.len()
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

/// The states of all threads, one of each in an interpreter. Threads come and go meanwhile: who uses one compares its
/// number again.
///
/// Up to 3.11 a thread that is started has its creator's number until it runs. A creator's state is the older one, and
/// behind the other in the list.
pub fn states(memory: &dyn Memory, runtime: &Runtime, number: Number) -> Vec<State> {
    let layout = &runtime.layout;
    let (mut found, mut steps) = (HashMap::new(), 0);
    let mut interpreter = word(memory, runtime.address, layout.interpreters);
    while let Some(at) = interpreter.filter(|_| steps < INTERPRETERS_MAX) {
        for _ in 0..TRIES {
            let list = List {
                memory,
                layout,
                number,
            };
            let mut add = |state: State| {
                let key = (at, state.native);
                if found.len() < STATES_MAX || found.contains_key(&key) {
                    found.insert(key, state);
                }
            };
            if list.read(at, &mut add) {
                break;
            }
        }
        interpreter = word(memory, at, layout.next_interpreter);
        steps += 1;
    }
    found.into_values().collect()
}

/// A word that is not zero.
fn word(memory: &dyn Memory, at: u64, offset: u64) -> Option<u64> {
    memory.u64(at.checked_add(offset)?).filter(|to| *to != 0)
}

/// The threads of one interpreter.
struct List<'a> {
    memory: &'a dyn Memory,
    layout: &'a Layout,
    number: Number,
}

impl List<'_> {
    /// Adds them, the newest first; `false`: a state was freed while the list was read, and those behind it are not
    /// known. Each state points to the one before too.
    fn read(&self, interpreter: u64, add: &mut dyn FnMut(State)) -> bool {
        let (memory, layout) = (self.memory, self.layout);
        let Some(mut at) = word(memory, interpreter, layout.threads) else {
            return true;
        };
        // Where the pointer to it is.
        let mut from = interpreter.wrapping_add(layout.threads);
        for _ in 0..STATES_MAX {
            if let Some(state) = self.state(at) {
                add(state);
            }
            let next = at.checked_add(layout.next_thread);
            let Some(next) = next.and_then(|next| memory.u64(next)) else {
                return false;
            };
            let before = layout.next_thread - BEFORE_NEXT;
            match next {
                // A state that was freed meanwhile, and is being made anew, has no next one either.
                0 => return memory.u64(from) == Some(at),
                _ if word(memory, next, before) == Some(at) => {
                    from = at.wrapping_add(layout.next_thread);
                    at = next;
                }
                _ => return false,
            }
        }
        true
    }

    fn state(&self, address: u64) -> Option<State> {
        let thread_id = word(self.memory, address, self.layout.thread_id)?;
        let native = self
            .number
            .read(self.memory, self.layout, address, thread_id)?;
        Some(State {
            address,
            thread_id,
            native,
        })
    }
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
            (0x9000 + layout.next_thread - BEFORE_NEXT, 0x9000),
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
            assert_eq!(found, [expected]);
            assert_eq!(
                newest(&words, &runtime),
                Some(0x2000 + runtime.layout.threads)
            );
        }
    }

    /// A list whose states are freed while it is read: the first reading ends early.
    struct Changing {
        words: Words,
        reads: std::cell::Cell<u32>,
    }

    impl Memory for Changing {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            self.reads.set(self.reads.get() + 1);
            self.words.read(address, out)?;
            if self.reads.get() < 8 && address == 0x9000 + Layout::of(11)?.next_thread {
                out.fill(0x5a);
            }
            Some(())
        }
    }

    #[test]
    fn a_list_that_changes_is_read_again() {
        let layout = Layout::of(11).unwrap();
        let mut words = circles(11).0;
        words.extend([
            (0x9000 + layout.next_thread, 0xb000),
            (0xb000 + layout.next_thread - BEFORE_NEXT, 0x9000),
            (0xb000 + layout.thread_id, 0xc000),
            (0xb000 + layout.thread_id + NATIVE_BEHIND, 8),
        ]);
        let changing = Changing {
            words: Words(words),
            reads: std::cell::Cell::new(0),
        };
        let found = states(&changing, &runtime(11), Number::InState);
        let mut numbers: Vec<u64> = found.iter().map(|state| state.native).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [7, 8]);
    }

    /// The newest state is freed when its successor is read, and its memory is that of a state which is in no list yet.
    struct Remade {
        words: Words,
        is_freed: std::cell::Cell<bool>,
    }

    impl Memory for Remade {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let layout = Layout::of(10)?;
            self.words.read(address, out)?;
            let (head, next) = (0x2000 + layout.threads, 0x9000 + layout.next_thread);
            match self.is_freed.get() {
                false if address == next => {
                    self.is_freed.set(true);
                    out.fill(0);
                }
                true if address == head => out.copy_from_slice(&0xb000_u64.to_le_bytes()),
                _ => {}
            }
            Some(())
        }
    }

    #[test]
    fn a_state_that_is_made_anew_is_not_the_end_of_the_list() {
        let layout = Layout::of(10).unwrap();
        let mut words = circles(10).0;
        words.extend([
            (0x9000 + layout.next_thread, 0xb000),
            (0xb000 + layout.thread_id, 0xc000),
            (0xc000 + NUMBER_AT[1], 8),
        ]);
        let remade = Remade {
            words: Words(words),
            is_freed: std::cell::Cell::new(false),
        };
        let number = Number::InLibrary(NUMBER_AT[1]);
        let found = states(&remade, &runtime(10), number);
        assert!(found.iter().any(|state| state.native == 8), "{found:?}");
    }

    /// Its creator's is found, which is the older one.
    #[test]
    fn a_thread_that_does_not_run_yet_has_its_creators_number() {
        let layout = Layout::of(10).unwrap();
        let mut words = circles(10).0;
        words.extend([
            (0x9000 + layout.next_thread, 0xb000),
            (0xb000 + layout.next_thread - BEFORE_NEXT, 0x9000),
            (0xb000 + layout.thread_id, 0xa000),
        ]);
        let number = Number::InLibrary(NUMBER_AT[1]);
        let found = states(&Words(words), &runtime(10), number);
        let addresses: Vec<u64> = found.iter().map(|state| state.address).collect();
        assert_eq!(addresses, [0xb000]);
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
