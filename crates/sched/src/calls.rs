//! Calls as they stand in the subject's machine code: what the one before a return address calls, and where in a
//! function something is called. Without privileges nobody sees a thread let go of a lock; but the function on its
//! stack that calls what the waiters are in is the one that took it.

use observe::table::Table;
use symbols::call_site::{CALL_BYTES, Target, target_before};
use symbols::memory::Memory;

/// Longer functions are searched as far as this.
const FUNCTION_BYTES_MAX: usize = 256 * 1024;
/// Calls remembered; past it they are read anew.
const KEPT_MAX: usize = 16_384;

pub struct Calls {
    memory: Memory,
    before: Table<u64, Option<Target>>,
}

impl Calls {
    pub fn of(pid: u32) -> Calls {
        Calls {
            memory: Memory { pid },
            before: Table::default(),
        }
    }

    /// What the call instruction before a return address calls, when it says so itself.
    pub fn before(&mut self, return_address: u64) -> Option<Target> {
        if self.before.len() == KEPT_MAX {
            self.before.clear();
        }
        let memory = self.memory;
        let read = || {
            let mut bytes = [0; CALL_BYTES];
            let start = return_address.checked_sub(CALL_BYTES as u64)?;
            let have = memory.read(start, &mut bytes).ok()?;
            (have == CALL_BYTES).then_some(())?;
            target_before(&bytes, return_address)
        };
        *self.before.entry(return_address).or_insert_with(read)
    }

    /// Where the function of `bytes` bytes from `start` on calls `target`: the last place before `at`, or the
    /// first one after it.
    pub fn within(&self, (start, bytes): (u64, u64), target: Target, at: u64) -> Option<u64> {
        let mut code = vec![0; (bytes as usize).min(FUNCTION_BYTES_MAX)];
        let have = self.memory.read(start, &mut code).ok()?;
        code.truncate(have);
        let sites = sites(&code, start).filter(|(_, called)| *called == target);
        let (mut before, mut after) = (None, None);
        for (site, _) in sites {
            match site < at {
                true => before = Some(site),
                false => after = after.or(Some(site)),
            }
        }
        before.or(after)
    }
}

/// Calls in `code`, which begins at `start`: the address of each one's last byte, and what it calls. No instruction is
/// decoded: four bytes that happen to be the distance to what is looked for are not met with in practice.
fn sites(code: &[u8], start: u64) -> impl Iterator<Item = (u64, Target)> + '_ {
    code.windows(CALL_BYTES)
        .enumerate()
        .filter_map(move |(at, bytes)| {
            let end = start + (at + CALL_BYTES) as u64;
            Some((end - 1, target_before(bytes.try_into().ok()?, end)?))
        })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    // objdump of a C program built by gcc 12: call 1030 <pthread_mutex_lock@plt> at 0x11a4, ret.
    const DIRECT: [u8; 7] = [0x90, 0xe8, 0x87, 0xfe, 0xff, 0xff, 0xc3];

    #[test]
    fn a_functions_calls_are_found_in_its_code() {
        let found: Vec<_> = sites(&DIRECT, 0x11a3).collect();
        assert_eq!(found, [(0x11a8, Target::Function(0x1030))]);
        assert_eq!(sites(&DIRECT[..5], 0x11a3).count(), 0);
    }

    #[test]
    fn the_last_call_before_the_present_place_is_taken() {
        let mut calls = Calls::of(std::process::id());
        let code: Vec<u8> = [&DIRECT[..6], &DIRECT[..6]].concat();
        let start = code.as_ptr() as u64;
        let called = |calls: &mut Calls, end| calls.before(end).unwrap();
        let (first, second) = (
            called(&mut calls, start + 6),
            called(&mut calls, start + 12),
        );
        let function = (start, code.len() as u64);
        assert_eq!(calls.within(function, first, start + 7), Some(start + 5));
        assert_eq!(calls.within(function, second, start), Some(start + 11));
        assert_eq!(calls.within(function, Target::Slot(start), start), None);
    }
}
