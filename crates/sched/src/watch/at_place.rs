//! Stacks of waits for a device, by their place: of many short waits few are told with their stack, and the others at
//! the same place have the same.

use super::Watch;
use super::sample::place_of;
use super::seen::Placed;
use super::short::AWAY_PART;
use crate::event::{StackId, Wait, Waker, What};
use crate::waits::Call;
use symbols::registers::Registers;

/// Places that are kept; each is a few words.
const PLACES_MAX: usize = 4_096;
/// Of the stacks that are unwound in one turn, so many may be these; the rest is for samples.
const UNWOUND_PER_TURN: u32 = super::UNWOUND_PER_TURN / 4;

/// A place is told every 200 ms at most ([`super::super::ebpf`]): what was told so long ago holds for a stretch still.
const RECENT_NS: u64 = 400_000_000;

/// Past this time no further stack gets its names in a turn.
const NAMING_NS: u64 = 5_000_000;

impl Watch {
    /// `stack` is the lower end of the stack with which a wait for a device began at `at_ns`, in `call`.
    pub(super) fn placed(
        &mut self,
        at_ns: u64,
        tid: u32,
        (call, at): (Call, Registers),
        stack: &[u8],
    ) {
        if self.unwound >= UNWOUND_PER_TURN {
            return;
        }
        self.unwound += 1;
        let wait = self.waits.of_call(&call, &mut self.places);
        let mut addresses = self.stacks.of_bytes(at, stack);
        let native = self.places.stack_unnamed(&addresses);
        self.add_walked_python((tid, at_ns), &mut addresses);
        let stack = self.places.stack_unnamed(&addresses);
        if stack == 0 {
            return;
        }
        let wait = Wait { stack, ..wait };
        self.threads.at(tid).placed = Some(Placed { at_ns, wait });
        if self.at_places.len() == PLACES_MAX {
            self.at_places.clear();
        }
        let kept = self.at_places.entry(place_of(at.pc, at.sp));
        let kept = kept.or_insert(Some((native, stack)));
        // Functions of Python call others at the same place of the native stack.
        *kept = match *kept {
            Some((known, all)) if known == native && all == stack => Some((native, stack)),
            Some((known, _)) if known == native => Some((native, native)),
            _ => None,
        };
    }

    /// The stack of a wait that began at `since_ns`: its own, where that was told, or that of all others there; 0: not
    /// known.
    pub(super) fn stack_of_place(&mut self, since_ns: u64, tid: u32, place: u32) -> StackId {
        let own = self.threads.at(tid).placed;
        if let Some(own) = own.filter(|own| own.at_ns == since_ns) {
            return own.wait.stack;
        }
        let kept = self.at_places.get(&place).copied().flatten();
        kept.map_or(0, |(_, stack)| stack)
    }

    /// Of a thread that leaves at `at_ns`, and since it came was away for `deep_ns` in waits for devices that were left
    /// out: told as one wait, of the kind that was told last. False: they are a small part of the stretch, or it is not
    /// known of what kind.
    pub(super) fn waited_for_devices(&mut self, at_ns: u64, tid: u32, deep_ns: u64) -> bool {
        let known = self.threads.at(tid);
        let came_ns = known.came_ns;
        let stretch_ns = at_ns.saturating_sub(came_ns);
        let is_recent = |placed: &Placed| placed.at_ns + RECENT_NS >= came_ns;
        let Some(placed) = known.placed.filter(is_recent) else {
            return false;
        };
        if known.running_since_ns.is_none() || deep_ns * AWAY_PART <= stretch_ns {
            return false;
        }
        let back_ns = came_ns + 1 + deep_ns.min(stretch_ns.saturating_sub(3));
        self.tell(came_ns + 1, tid, What::Blocked(placed.wait));
        let woken = What::Woken {
            by: Waker::Outside,
            release: 0,
        };
        self.tell(back_ns, tid, woken);
        self.tell(back_ns + 1, tid, What::In { after: 0 });
        true
    }

    /// Of stacks whose names could wait.
    pub(super) fn name_stacks(&mut self) {
        let begun_ns = crate::time::now_ns();
        while self.places.name_one() && crate::time::now_ns() - begun_ns < NAMING_NS {}
    }

    /// What looking up names for this watch cost; the thread that does it is everybody's.
    pub fn named_cpu_ns(&self) -> u64 {
        self.places.named_cpu_ns
    }

    /// What the watch does without, in words.
    pub fn all_missing(&self) -> Vec<String> {
        let ignored = self.places.ignored_perf_map.iter();
        let ignored = ignored.map(ToString::to_string);
        let missing = self.missing.iter().cloned().chain(ignored);
        missing.chain(self.waits.answers.sentence()).collect()
    }
}
