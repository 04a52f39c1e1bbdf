//! Events paired: each allocation and its free have the same slot. A slot is used again after its block is freed, so
//! that there are as many as blocks were live at once.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use trace_abi::{Event, TouchOf};

use crate::merge::TimedEvent;

/// Reallocs of one thread that have started and not ended; more than one only where a signal handler interrupts.
const PENDING_MAX: usize = 8;

/// By which kind of call a block is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocated {
    Malloc,
    Calloc,
    /// log2 of the alignment.
    Aligned(u8),
}

/// Pages of a large block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub resident: u64,
    /// Whole pages inside the block.
    pub pages: u64,
}

/// What happens to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Allocate {
        how: Allocated,
        bytes: u64,
    },
    /// `touch`: what was resident of it, where that is known.
    Free {
        touch: Option<Touch>,
    },
    /// The block has another size now; `touch` is of the block before.
    Resize {
        bytes: u64,
        touch: Option<Touch>,
    },
    /// What was resident of a large block when it had just been allocated.
    Fresh {
        touch: Touch,
    },
}

/// One operation of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the start of the trace.
    pub time_ns: u64,
    /// Index of the thread in the trace.
    pub thread: u32,
    pub slot: u32,
    /// Of the block, after this step where it moves.
    pub address: u64,
    /// Of the block before, of a resize.
    pub old_address: u64,
    pub kind: StepKind,
}

/// Counts of what did not pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Frees of blocks that the trace does not know: allocated before it started, or where events are missing.
    pub unknown_frees: u64,
    /// Allocations at the address of a live block: its free is missing.
    pub unseen_frees: u64,
    /// Blocks live now, and at most at once.
    pub live: u64,
    pub live_max: u64,
    /// Bytes requested that are live now, and at most at once.
    pub live_bytes: u64,
    pub live_bytes_max: u64,
}

#[derive(Clone, Copy)]
struct Live {
    slot: u32,
    bytes: u64,
}

#[derive(Default)]
struct OfThread {
    pending: Vec<(u64, Option<Live>, Option<Touch>)>,
    touched: Option<Touch>,
    /// The slot of the last allocation, for the touch record behind it.
    fresh: Option<(u32, u64)>,
}

/// Pairs the events of a source.
pub struct Steps<I> {
    source: I,
    live: HashMap<u64, Live, FixedState>,
    free_slots: Vec<u32>,
    slots: u32,
    threads: Vec<OfThread>,
    /// A second step of the same event.
    queued: Option<Step>,
    pairing: Pairing,
}

impl<I: Iterator<Item = TimedEvent>> Steps<I> {
    pub fn new(source: I) -> Steps<I> {
        Steps {
            source,
            live: HashMap::with_hasher(FixedState::default()),
            free_slots: Vec::new(),
            slots: 0,
            threads: Vec::new(),
            queued: None,
            pairing: Pairing::default(),
        }
    }

    /// Slots used so far.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// What the events come from.
    pub fn source(&self) -> &I {
        &self.source
    }

    /// Blocks that are live now: slot, address, bytes.
    pub fn live(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.live
            .iter()
            .map(|(address, live)| (live.slot, *address, live.bytes))
    }

    fn thread(&mut self, index: u32) -> &mut OfThread {
        let index = index as usize;
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, OfThread::default);
        }
        &mut self.threads[index]
    }

    fn enter(&mut self, address: u64, slot: u32, bytes: u64) {
        self.live.insert(address, Live { slot, bytes });
        let pairing = &mut self.pairing;
        pairing.live += 1;
        pairing.live_bytes = pairing.live_bytes.saturating_add(bytes);
        pairing.live_max = pairing.live_max.max(pairing.live);
        pairing.live_bytes_max = pairing.live_bytes_max.max(pairing.live_bytes);
    }

    fn leave(&mut self, address: u64) -> Option<Live> {
        let live = self.live.remove(&address)?;
        self.pairing.live -= 1;
        self.pairing.live_bytes = self.pairing.live_bytes.saturating_sub(live.bytes);
        Some(live)
    }

    /// A block that is there already loses its slot: its free is missing.
    fn displace(&mut self, at: &TimedEvent, address: u64) -> Option<Step> {
        let live = self.leave(address)?;
        self.pairing.unseen_frees += 1;
        self.free_slots.push(live.slot);
        Some(step(at, live.slot, address, StepKind::Free { touch: None }))
    }

    fn allocate(&mut self, at: &TimedEvent, how: Allocated, bytes: u64, address: u64) -> Step {
        let displaced = self.displace(at, address);
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.enter(address, slot, bytes);
        self.thread(at.thread).fresh = Some((slot, address));
        let allocated = step(at, slot, address, StepKind::Allocate { how, bytes });
        self.with(displaced, allocated)
    }

    /// A step, after the one that goes before it.
    fn with(&mut self, first: Option<Step>, then: Step) -> Step {
        match first {
            Some(first) => {
                self.queued = Some(then);
                first
            }
            None => then,
        }
    }

    fn free(&mut self, at: &TimedEvent, address: u64) -> Option<Step> {
        let touch = self.thread(at.thread).touched.take();
        let Some(live) = self.leave(address) else {
            self.pairing.unknown_frees += 1;
            return None;
        };
        self.free_slots.push(live.slot);
        Some(step(at, live.slot, address, StepKind::Free { touch }))
    }

    fn resize_starts(&mut self, at: &TimedEvent, address: u64) {
        let live = self.leave(address);
        self.pairing.unknown_frees += u64::from(live.is_none());
        let thread = self.thread(at.thread);
        let touch = thread.touched.take();
        if thread.pending.len() < PENDING_MAX {
            thread.pending.push((address, live, touch));
        }
    }

    fn resize_ends(&mut self, at: &TimedEvent, bytes: u64, address: u64) -> Option<Step> {
        let pending = self.thread(at.thread).pending.pop();
        let Some((old_address, Some(live), touch)) = pending else {
            let is_block = address != 0;
            return is_block.then(|| self.allocate(at, Allocated::Malloc, bytes, address));
        };
        if address == 0 {
            self.free_slots.push(live.slot);
            return Some(step(at, live.slot, old_address, StepKind::Free { touch }));
        }
        let displaced = self.displace(at, address);
        self.enter(address, live.slot, bytes);
        self.thread(at.thread).fresh = Some((live.slot, address));
        let mut resized = step(at, live.slot, address, StepKind::Resize { bytes, touch });
        resized.old_address = old_address;
        Some(self.with(displaced, resized))
    }

    fn take(&mut self, at: &TimedEvent) -> Option<Step> {
        match at.event {
            Event::Malloc { bytes, address } => {
                Some(self.allocate(at, Allocated::Malloc, bytes, address))
            }
            Event::Calloc { bytes, address } => {
                Some(self.allocate(at, Allocated::Calloc, bytes, address))
            }
            Event::Aligned {
                bytes,
                address,
                align_log2,
            } => Some(self.allocate(at, Allocated::Aligned(align_log2), bytes, address)),
            Event::Free { address } => self.free(at, address),
            Event::ReallocStart { address } => {
                self.resize_starts(at, address);
                None
            }
            Event::ReallocEnd { bytes, address } => self.resize_ends(at, bytes, address),
            Event::ReallocFailed => {
                if let Some((address, Some(live), _)) = self.thread(at.thread).pending.pop() {
                    self.enter(address, live.slot, live.bytes);
                }
                None
            }
            Event::Touched {
                of,
                resident,
                pages,
            } => {
                let touch = Touch { resident, pages };
                let thread = self.thread(at.thread);
                match of {
                    TouchOf::Old => thread.touched = Some(touch),
                    TouchOf::New => {
                        let (slot, address) = thread.fresh.take()?;
                        return Some(step(at, slot, address, StepKind::Fresh { touch }));
                    }
                }
                None
            }
        }
    }
}

fn step(at: &TimedEvent, slot: u32, address: u64, kind: StepKind) -> Step {
    Step {
        time_ns: at.time_ns,
        thread: at.thread,
        slot,
        address,
        old_address: address,
        kind,
    }
}

impl<I: Iterator<Item = TimedEvent>> Iterator for Steps<I> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.queued.take() {
            return Some(step);
        }
        loop {
            let event = self.source.next()?;
            if let Some(step) = self.take(&event) {
                return Some(step);
            }
        }
    }
}
