//! Roles: threads of the same name and entry. With them the matrix says which kind of thread frees
//! what another allocated.

use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::{ROLES, Role};

use crate::word::{AtomicU64, add, atomic, atomic32};

const FREE: u32 = 0;
const BUSY: u32 = 1;
const USED: u32 = 2;
/// The first thread's.
pub const MAIN: u16 = 0;
/// All that do not fit.
pub const OTHER: u16 = ROLES as u16 - 1;

/// The rows.
pub struct Roles {
    rows: *mut Role,
}

impl Roles {
    /// # Safety
    /// `rows` is the zeroed section of [`ROLES`] rows.
    pub unsafe fn new(rows: *mut Role) -> Roles {
        let roles = Roles { rows };
        // SAFETY: the first and the last row, which no other thread knows of yet.
        unsafe {
            roles.fill(MAIN, words_of(*b"main\0\0\0\0\0\0\0\0\0\0\0\0", 0));
            roles.fill(OTHER, words_of(*b"other\0\0\0\0\0\0\0\0\0\0\0", 0));
        }
        roles
    }

    /// The role of a thread called `name` whose entry is the function at `root` (0 unknown).
    pub fn find(&self, name: [u8; 16], root: u64) -> u16 {
        let words = words_of(without_number(name), root);
        for at in MAIN + 1..OTHER {
            let row = self.row(at);
            // SAFETY: a row of the section; the state says whether its other words are written.
            unsafe {
                let state = atomic32(&raw mut (*row).state);
                let found = state.load(Acquire);
                if found == USED && self.is(at, words) {
                    return self.join(at);
                }
                if found == FREE && state.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok() {
                    self.fill(at, words);
                    return self.join(at);
                }
            }
        }
        self.join(OTHER)
    }

    /// Counts a thread in.
    pub fn join(&self, role: u16) -> u16 {
        // SAFETY: a row of the section.
        unsafe { atomic32(&raw mut (*self.row(role)).threads) }.fetch_add(1, Relaxed);
        role
    }

    /// Adds to what the role allocated and freed.
    pub fn note(&self, role: u16, allocated_bytes: u64, freed_bytes: u64) {
        let row = self.row(role);
        // SAFETY: a row of the section.
        unsafe {
            add(&raw mut (*row).allocated_bytes, allocated_bytes);
            add(&raw mut (*row).freed_bytes, freed_bytes);
        }
    }

    unsafe fn fill(&self, role: u16, words: [u64; 3]) {
        // SAFETY: words of a row, which is the caller's until its state says that it is written.
        unsafe {
            for (at, word) in words.into_iter().enumerate() {
                self.word(role, at).store(word, Relaxed);
            }
            atomic32(&raw mut (*self.row(role)).state).store(USED, Release);
        }
    }

    fn is(&self, role: u16, words: [u64; 3]) -> bool {
        let mut words = words.into_iter().enumerate();
        words.all(|(at, word)| self.word(role, at).load(Relaxed) == word)
    }

    /// The root and, behind it, the two words of the name.
    fn word(&self, role: u16, at: usize) -> &AtomicU64 {
        debug_assert!(at < 3);
        // SAFETY: a word of a row of the section.
        unsafe { atomic((&raw mut (*self.row(role)).root).add(at)) }
    }

    fn row(&self, role: u16) -> *mut Role {
        // SAFETY: never past the last row.
        unsafe { self.rows.add(role.min(OTHER) as usize) }
    }
}

const _: () = assert!(offset_of!(Role, name) == offset_of!(Role, root) + 8);

fn words_of(name: [u8; 16], root: u64) -> [u64; 3] {
    let [first, second] = [0, 8].map(|at| core::array::from_fn(|byte| name[at + byte]));
    [root, u64::from_ne_bytes(first), u64::from_ne_bytes(second)]
}

/// `worker-12` and `worker-3` are one role.
fn without_number(mut name: [u8; 16]) -> [u8; 16] {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(16);
    let is_counter =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'#' | b':' | b'/' | b' ');
    let mut keep = end;
    while keep > 1 && is_counter(name[keep - 1]) {
        keep -= 1;
    }
    name[keep..].fill(0);
    name
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn name(text: &str) -> [u8; 16] {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    #[test]
    fn numbered_threads_share_a_role_and_others_do_not() {
        // SAFETY: all zeros are integers.
        let mut rows = vec![unsafe { std::mem::zeroed::<Role>() }; ROLES];
        // SAFETY: the rows live as long as the table.
        let roles = unsafe { Roles::new(rows.as_mut_ptr()) };
        let worker = roles.find(name("worker-1"), 0x100);
        assert_eq!(roles.find(name("worker-22"), 0x100), worker);
        assert_ne!(roles.find(name("worker-1"), 0x200), worker);
        assert_ne!(roles.find(name("reader"), 0x100), worker);
        assert_eq!(rows[worker as usize].threads, 2);
    }

    #[test]
    fn the_last_role_takes_the_rest() {
        // SAFETY: all zeros are integers.
        let mut rows = vec![unsafe { std::mem::zeroed::<Role>() }; ROLES];
        // SAFETY: the rows live as long as the table.
        let roles = unsafe { Roles::new(rows.as_mut_ptr()) };
        let found: Vec<u16> = (1..80).map(|root| roles.find(name("x"), root)).collect();
        assert_eq!(found.last(), Some(&OTHER));
        assert_eq!(rows[OTHER as usize].threads, 79 - 62);
    }

    #[test]
    fn a_name_of_digits_keeps_one() {
        assert_eq!(without_number(name("1234"))[..2], *b"1\0");
        assert_eq!(
            without_number(name("tokio-rt-worker")),
            name("tokio-rt-worker")
        );
    }
}
