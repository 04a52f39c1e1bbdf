//! Where a thread is that runs, where nobody may sample the kernel: read from its stack, downwards.
//!
//! What lies outermost on the stack is known from the last time that the thread waited. Whatever such a function calls
//! now, the address to return to lies below its caller's, and says what is called: from there it goes on. A thread
//! inside the kernel is in such a call; one in its own code may have made its innermost one before.

use super::Watch;
use crate::event::StackId;
use symbols::call_site::Target;
use symbols::memory::Memory;

/// Bytes of stack searched below and above the place where the thread waited last.
const BELOW: u64 = 8 * 1024;
const ABOVE: usize = 8 * 1024;

/// Where code begins, and its bytes.
type Code = (u64, u64);

impl Watch {
    /// The calls that `tid` is in just now; 0 where that cannot be told.
    pub(super) fn stack_of_running(&mut self, tid: u32) -> StackId {
        let seen = self.threads.get(tid).and_then(|known| known.seen);
        let addresses = seen.and_then(|(sp, stack)| self.calls_of_running(sp, stack));
        addresses.map_or(0, |addresses| self.places.stack(&addresses))
    }

    fn calls_of_running(&mut self, sp: u64, stack: StackId) -> Option<Vec<u64>> {
        let seen = self.places.addresses(stack).to_vec();
        let entry = (0..seen.len()).rev();
        let mut own = entry.filter_map(|at| Some((at, self.places.own_code(seen[at])?)));
        let (at, code) = own.next()?;
        let outside = seen.get(at + 1..).filter(|outside| !outside.is_empty())?;
        let words = self.words(sp.saturating_sub(BELOW))?;
        let top = words.iter().rposition(|word| *word == outside[0] + 1)?;
        let mut calls = calls_below(&words[..top], code, |to| self.callee(to));
        if calls.is_empty() {
            return None;
        }
        calls.reverse();
        calls.extend(outside);
        Some(calls)
    }

    fn words(&self, from: u64) -> Option<Vec<u64>> {
        let memory = Memory { pid: self.pid };
        let bytes = memory.stretch(from, BELOW as usize + ABOVE);
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        words.collect()
    }

    /// The code of the program's own function that is called by the call before a return address.
    fn callee(&mut self, return_address: u64) -> Option<Code> {
        match self.calls.before(return_address)? {
            Target::Function(called) => self.places.own_code(called),
            Target::Slot(_) => None,
        }
    }
}

/// Calls that lie on a stack below that of a function with this `code`, outermost first: the last byte of each.
fn calls_below(
    words: &[u64],
    mut code: Code,
    mut callee: impl FnMut(u64) -> Option<Code>,
) -> Vec<u64> {
    let (mut calls, mut end) = (Vec::new(), words.len());
    let inside = |(start, bytes): Code, word: u64| word > start && word - start < bytes;
    while let Some(at) = words[..end].iter().rposition(|word| inside(code, *word)) {
        calls.push(words[at] - 1);
        end = at;
        match callee(words[at]) {
            Some(called) => code = called,
            None => break,
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_followed_downwards_as_far_as_they_say_what_is_called() {
        // From the lowest address on: junk, in the library, in 200 to 300, junk, in 100 to 200.
        let words = [150, 901, 0, 250, 7, 0, 120, 8];
        let callee = |to| (to == 120).then_some((200, 100));
        assert_eq!(calls_below(&words, (100, 100), callee), [119, 249]);
        assert!(calls_below(&words, (400, 100), callee).is_empty());
        let start = [100, 120];
        assert!(
            calls_below(&start[..1], (100, 100), callee).is_empty(),
            "no call"
        );
    }
}
