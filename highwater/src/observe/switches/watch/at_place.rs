//! Stacks of waits for a device, by their place: of many short waits few are told with their stack, and the others at
//! the same place have the same.

use super::Watch;
use super::look::place_of;
use crate::observe::switches::event::StackId;
use crate::observe::switches::ring::Registers;

/// Places that are kept; each is a few words.
const PLACES_MAX: usize = 4_096;
/// Of the stacks that are unwound in one turn, so many may be these; the rest is for samples.
const UNWOUND_PER_TURN: u32 = super::UNWOUND_PER_TURN / 4;

/// Past this time no further stack gets its names in a turn.
const NAMING_NS: u64 = 5_000_000;

impl Watch {
    /// `stack` is the lower end of the stack with which a wait for a device began at `at_ns`.
    pub(super) fn placed(&mut self, at_ns: u64, tid: u32, at: Registers, stack: &[u8]) {
        if self.unwound >= UNWOUND_PER_TURN {
            return;
        }
        self.unwound += 1;
        let addresses = self.stacks.of_bytes(at, stack);
        let stack = self.places.stack_unnamed(&addresses);
        if stack == 0 {
            return;
        }
        self.threads.at(tid).placed = (at_ns, stack);
        if self.at_places.len() == PLACES_MAX {
            self.at_places.clear();
        }
        let kept = self.at_places.entry(place_of(at.pc, at.sp));
        let kept = kept.or_insert(Some(stack));
        if *kept != Some(stack) {
            *kept = None;
        }
    }

    /// The stack of a wait that began at `since_ns`: its own, where that was told, or that of all others there; 0: not
    /// known.
    pub(super) fn stack_of_place(&mut self, since_ns: u64, tid: u32, place: u32) -> StackId {
        let (placed_ns, own) = self.threads.at(tid).placed;
        if placed_ns == since_ns {
            return own;
        }
        self.at_places.get(&place).copied().flatten().unwrap_or(0)
    }

    /// Of stacks whose names could wait.
    pub(super) fn name_stacks(&mut self) {
        let begun_ns = super::now_ns();
        while self.places.name_one() && super::now_ns() - begun_ns < NAMING_NS {}
    }

    /// What looking up names for this watch cost; the thread that does it is everybody's.
    pub fn named_cpu_ns(&self) -> u64 {
        self.places.named_cpu_ns
    }
}
