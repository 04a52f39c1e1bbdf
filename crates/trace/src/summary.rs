//! What a trace holds, by reading all of its events once.

use trace_abi::TOUCH_BYTES_MIN;

use crate::chunks::Trace;
use crate::damage::Damage;
use crate::merge::Merged;
use crate::steps::{Pairing, StepKind, Steps};

/// Counts over all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub allocations: u64,
    pub frees: u64,
    pub resizes: u64,
    /// Bytes requested, all together.
    pub requested_bytes: u64,
    /// Blocks of 32 KiB and more that were freed or resized, and those whose resident pages are known.
    pub large: u64,
    pub large_with_touch: u64,
    /// Frees by another thread than the one that allocated.
    pub cross_thread_frees: u64,
    pub pairing: Pairing,
    /// What was missing of the events, with what was missing of the chunks.
    pub damage: Damage,
}

/// Reads all events of a trace.
pub fn summarise(trace: &Trace) -> Summary {
    let mut summary = Summary::default();
    let mut steps = Steps::new(Merged::new(trace));
    // Of each slot: its bytes, and the thread that allocated.
    let mut slots: Vec<(u64, u32)> = Vec::new();
    for step in steps.by_ref() {
        let slot = step.slot as usize;
        if slot >= slots.len() {
            slots.resize(slot + 1, (0, 0));
        }
        match step.kind {
            StepKind::Allocate { bytes, .. } => {
                summary.allocations += 1;
                summary.requested_bytes = summary.requested_bytes.saturating_add(bytes);
                slots[slot] = (bytes, step.thread);
            }
            StepKind::Free { touch } => {
                summary.frees += 1;
                summary.cross_thread_frees += u64::from(slots[slot].1 != step.thread);
                count_large(&mut summary, slots[slot].0, touch.is_some());
            }
            StepKind::Resize { bytes, touch } => {
                summary.resizes += 1;
                summary.requested_bytes = summary.requested_bytes.saturating_add(bytes);
                count_large(&mut summary, slots[slot].0, touch.is_some());
                slots[slot].0 = bytes;
            }
            StepKind::Fresh { .. } => {}
        }
    }
    summary.pairing = steps.pairing();
    summary.damage = trace.damage;
    summary.damage.add(&steps.source().damage());
    summary
}

fn count_large(summary: &mut Summary, bytes: u64, has_touch: bool) {
    if bytes >= TOUCH_BYTES_MIN {
        summary.large += 1;
        summary.large_with_touch += u64::from(has_touch);
    }
}
