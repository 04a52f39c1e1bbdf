//! Which function of a holder's stack took the lock, where nobody saw it let go.

use super::Watch;
use crate::event::StackId;
use symbols::call_site::Target;

/// Calls of the waiter that are looked for: those from the library's own lock outwards to the program's wrapper of it.
const LEVELS: usize = 8;
/// Pairs of stacks remembered.
const KEPT_MAX: usize = 4_096;

impl Watch {
    /// Finds out, while the process is there, which function of the stack `during` took what a thread with the stack
    /// `waiter` waits for.
    pub fn learn_holder(&mut self, waiter: StackId, during: StackId) {
        let pair = (waiter, during);
        if waiter == 0
            || during == 0
            || self.holders.contains_key(&pair)
            || self.holders.len() == KEPT_MAX
        {
            return;
        }
        let found = self.find_holder(waiter, during);
        self.holders.insert(pair, found);
    }

    /// All that [`Watch::learn_holder`] found, by the stacks of a waiter and of a holder.
    pub fn holders(&self) -> impl Iterator<Item = (&(StackId, StackId), &Option<String>)> {
        self.holders.iter()
    }

    /// What [`Watch::learn_holder`] found.
    pub fn holder(&self, waiter: StackId, during: StackId) -> Option<&str> {
        self.holders.get(&(waiter, during))?.as_deref()
    }

    /// The innermost function of the program's own in `during` that calls what the waiter is in: its lock's slow path,
    /// the lock itself, or the program's wrapper of it, whichever is found first.
    fn find_holder(&mut self, waiter: StackId, during: StackId) -> Option<String> {
        let callers = self.places.addresses(waiter).to_vec();
        let stack = self.places.addresses(during).to_vec();
        for caller in callers.into_iter().skip(1).take(LEVELS) {
            let Some(target) = self.calls.before(caller + 1) else {
                continue;
            };
            let taken = stack.iter().find_map(|at| self.taken_in(*at, target));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    fn taken_in(&mut self, at: u64, target: Target) -> Option<String> {
        let function = self.places.own_code(at)?;
        let site = self.calls.within(function, target, at)?;
        self.places.own_name(site)
    }
}
