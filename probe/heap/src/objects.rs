//! The loaded objects that framehop knows, held against what the loader has at every step.
//!
//! An object may be closed and another one opened, or code generated, at the same addresses. So framehop keeps unwind
//! data of an object only while the loader still answers for it: every address is looked up again before it is
//! unwound ([`modules::find`]), and an object is used in a trace only after its headers were found unchanged in that
//! trace. [`crate::unwind::Unwinder::closing`] keeps objects from being unmapped in the middle of a trace.

use framehop::{
    ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder as _, UnwinderNative,
};

use crate::arena::Arena;
use crate::modules::{self, Object, Tables};

/// Objects known at a time. A further one takes the place of another.
const KNOWN_MAX: usize = 256;
/// Slots that an object may be in.
const PROBES: usize = 8;
/// What the arena must have left before an object is added: framehop's list doubles.
pub const ARENA_RESERVE_BYTES: usize = 96 << 10;

/// What the unwinder learned of the loader's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An object is there.
    There(Object),
    /// An object is no longer there: its addresses are another's, or nobody's.
    Gone(Object),
}

/// Called for each change of the loaded objects.
pub type OnChange<'a> = &'a mut dyn FnMut(Change);

/// An object that framehop knows.
#[derive(Clone, Copy)]
pub struct Known {
    pub object: Object,
    pub tables: Option<Tables>,
    pub is_cpp_library: bool,
    pub is_go: bool,
    fingerprint: u64,
    /// The trace in which it was last found unchanged.
    checked_in: u64,
}

/// Framehop, and what it knows.
pub struct Objects {
    pub unwinder: UnwinderNative<&'static [u8], MustNotAllocateDuringUnwind>,
    known: [Option<Known>; KNOWN_MAX],
    /// Address ranges of `known`, packed for a scan; (0, 0) where there is none.
    ranges: [(u64, u64); KNOWN_MAX],
    trace: u64,
}

impl Objects {
    /// Knows none.
    pub fn new() -> Objects {
        Objects {
            unwinder: UnwinderNative::new(),
            known: [None; KNOWN_MAX],
            ranges: [(0, 0); KNOWN_MAX],
            trace: 0,
        }
    }

    /// A new trace begins: nothing is known to be unchanged.
    pub fn begin_trace(&mut self) {
        self.trace += 1;
    }

    /// The object in a slot that [`Self::current`] returned in this trace.
    pub fn at(&self, slot: u16) -> Option<&Known> {
        self.known.get(slot as usize)?.as_ref()
    }

    /// Makes framehop's knowledge of `address` what the loader says now, and returns the object's slot; `None`: it lies
    /// in no object, or there is no room. Framehop then has no unwind data for it either.
    pub fn current(
        &mut self,
        address: u64,
        arena: Option<&'static Arena>,
        on_change: OnChange,
    ) -> Option<usize> {
        let Some(object) = modules::find(address) else {
            self.forget(address, address.saturating_add(1), on_change);
            return None;
        };
        let first = (object.start >> 12) as usize;
        let slots = || (0..PROBES).map(|step| (first + step) % KNOWN_MAX);
        let there = slots().find(|slot| self.known[*slot].is_some_and(|at| at.object == object));
        if let Some(slot) = there
            && self.is_unchanged(slot)
        {
            return Some(slot);
        }
        self.forget(object.start, object.end, on_change);
        let free = slots().find(|slot| self.known[*slot].is_none());
        let slot = free.unwrap_or(first % KNOWN_MAX);
        self.remove(slot);
        if arena.is_some_and(|arena| arena.untouched_bytes() < ARENA_RESERVE_BYTES) {
            return None;
        }
        self.add(slot, object);
        on_change(Change::There(object));
        Some(slot)
    }

    /// Whether the object in a slot is still the one whose tables framehop has: the loader may have opened another at
    /// the same address, with a record at the same place.
    fn is_unchanged(&mut self, slot: usize) -> bool {
        let trace = self.trace;
        let Some(known) = &mut self.known[slot] else {
            return false;
        };
        let same = known.checked_in == trace || known.object.fingerprint() == known.fingerprint;
        known.checked_in = trace;
        same
    }

    /// Forgets every object that has an address in `[start, end)`.
    fn forget(&mut self, start: u64, end: u64, on_change: OnChange) {
        for slot in 0..KNOWN_MAX {
            let (from, to) = self.ranges[slot];
            if from < end
                && start < to
                && let Some(known) = self.known[slot]
            {
                self.remove(slot);
                on_change(Change::Gone(known.object));
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        if let Some(known) = self.known[slot].take() {
            self.unwinder.remove_module(known.object.start);
        }
        self.ranges[slot] = (0, 0);
    }

    fn add(&mut self, slot: usize, object: Object) {
        let tables = object.tables();
        if let Some(tables) = tables {
            self.unwinder.add_module(module(object, tables));
        }
        let mut path = [0; 64];
        let (bytes, _) = object.name_and_bias(&mut path);
        let has = |name: &[u8]| path[..bytes].windows(name.len()).any(|part| part == name);
        self.known[slot] = Some(Known {
            object,
            tables,
            is_cpp_library: has(b"libstdc++.so") || has(b"libc++.so"),
            is_go: object.is_go(),
            fingerprint: object.fingerprint(),
            checked_in: self.trace,
        });
        self.ranges[slot] = (object.start, object.end);
    }
}

fn module(object: Object, tables: Tables) -> Module<&'static [u8]> {
    let range = |(start, bytes): (u64, u64)| start..start + bytes;
    // SAFETY: `tables` found them readable inside the object's segments. They are read in a trace only after
    // `Objects::current` found the same object there in that trace, and `Unwinder::closing` holds a dlclose until the
    // trace is over; the 'static is that promise.
    let bytes = |(start, bytes): (u64, u64)| unsafe {
        std::slice::from_raw_parts(start as *const u8, bytes as usize)
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: object.start,
        text_svma: Some(range(tables.text)),
        eh_frame_svma: Some(range(tables.eh_frame)),
        eh_frame: Some(bytes(tables.eh_frame)),
        eh_frame_hdr_svma: Some(range(tables.eh_frame_hdr)),
        eh_frame_hdr: Some(bytes(tables.eh_frame_hdr)),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new(
        String::new(),
        object.start..object.end,
        object.start,
        sections,
    )
}
