//! Every object that is held, once: from the roots on, one step of references after the other.
//!
//! ```text
//! roots --> objects one step away, in the order of their addresses --> two steps away --> ...
//! ```
//!
//! In the order of addresses each part of the heap is read once a step, so a heap that is larger than our cache is read
//! a few times and not once an object.

use std::collections::HashMap;
use std::rc::Rc;

use observe::fact::memory::Memory;

use super::classes::{Classes, Kind, Shape};
use super::groups::{Edge, Groups, Of};
use super::heap::Heap;
use super::layout::Narrow;
use super::live::{Count, Entry, Live, ROOT, UNIT};
use super::roots::Roots;
use super::seen::Seen;
use crate::memory::hash::AddressHash;

const ROOTS_MAX: usize = (u32::MAX - ROOT) as usize;
/// Read of an object at once, bytes.
const PIECE: usize = 4_096;
/// Objects that are read again because of a list that changed meanwhile, and how often each.
const ANEW_MAX: usize = 10_000;
const ANEW_TIMES: u32 = 50;
const STEPS_MAX: u32 = 1 << 22;

/// Why a reading ended too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    TooLarge,
    Late,
}

struct Tracer<'m, 'h> {
    heap: &'h Heap<'m>,
    live: Live,
    seen: Seen,
    /// Of our memory that may be used.
    bytes: usize,
    buffer: Vec<u8>,
    /// Entries that were read again, and how often.
    anew: HashMap<u32, u32, AddressHash>,
    /// On the way to the beginning of lists, of the whole reading.
    steps_left: u32,
}

/// In so many bytes of our memory.
pub fn trace(heap: &Heap, classes: Classes, roots: &Roots, bytes: usize) -> Result<Live, Stop> {
    let (start, end) = heap.layout.heap;
    let units = usize::try_from((end - start) / UNIT).unwrap_or(usize::MAX);
    let counts = vec![Count::default(); classes.all.len()];
    let mut tracer = Tracer {
        heap,
        seen: Seen::new(units),
        bytes,
        buffer: vec![0; PIECE],
        anew: HashMap::default(),
        steps_left: STEPS_MAX,
        live: Live {
            start,
            entries: Vec::new(),
            roots: Vec::new(),
            classes,
            counts,
            groups: Groups::default(),
            lost: 0,
        },
    };
    for (roots, edge) in [(&roots.named, Edge::ROOT), (&roots.stacks, Edge::STACK)] {
        let from = tracer.live.entries.len();
        for (root, object) in roots.iter().take(ROOTS_MAX - tracer.live.roots.len()) {
            let number = ROOT + tracer.live.roots.len() as u32;
            tracer.live.roots.push(*root);
            tracer.reach(*object, number, edge)?;
        }
        tracer.follow(from)?;
    }
    // An array that was read as far as the time went is not all of it.
    tracer.in_time()?;
    Ok(tracer.live)
}

impl Tracer<'_, '_> {
    /// Follows all references from the entry `from` on.
    fn follow(&mut self, mut from: usize) -> Result<(), Stop> {
        while from < self.live.entries.len() {
            let end = self.live.entries.len();
            self.live.entries[from..end].sort_unstable_by_key(|entry| entry.place);
            for at in from..end {
                if at % 4_096 == 0 {
                    self.in_time()?;
                }
                self.object(at as u32)?;
            }
            from = end;
        }
        Ok(())
    }

    fn in_time(&self) -> Result<(), Stop> {
        match self.heap.pages.is_late() {
            true => Err(Stop::Late),
            false => Ok(()),
        }
    }

    /// An object that something refers to; counted when it is read.
    fn reach(&mut self, object: u64, parent: u32, edge: Edge) -> Result<(), Stop> {
        if !self.heap.in_heap(object) {
            // It moved, and its place was given up.
            self.live.lost += u64::from(object != 0);
            return Ok(());
        }
        let place = (object - self.live.start) / UNIT;
        let Ok(place) = u32::try_from(place) else {
            return Ok(());
        };
        if !self.seen.add(place) {
            return Ok(());
        }
        let count = self.live.entries.len();
        let taken = count * size_of::<Entry>() + self.seen.bytes();
        if taken >= self.bytes || count >= ROOT as usize {
            return Err(Stop::TooLarge);
        }
        self.live.entries.push(Entry {
            place,
            parent,
            group: edge.0,
        });
        Ok(())
    }

    fn object(&mut self, entry: u32) -> Result<(), Stop> {
        let object = self.live.address(entry);
        let class = self.live.classes.of_object(self.heap, object);
        let shape = class.and_then(|class| self.live.classes.shape(self.heap, class));
        let (Some(class), Some(shape)) = (class, shape) else {
            self.live.lost += 1;
            return Ok(());
        };
        if self.live.counts[class as usize].objects == 0 {
            self.class(class, entry)?;
        }
        let (group, counts) = self.group(object, entry, class, shape.kind);
        self.live.entries[entry as usize].group = group;
        let bytes = match shape.kind {
            Kind::Instance => {
                self.instance(object, &shape, entry)?;
                Some(shape.bytes)
            }
            Kind::Mirror => {
                self.instance(object, &shape, entry)?;
                self.mirror(object, entry)?
            }
            Kind::Frames => {
                self.instance(object, &shape, entry)?;
                self.frames(object, &shape, entry)?
            }
            Kind::Plain => self.heap.length(object).map(|length| shape.array(length)),
            Kind::Objects => self.items(object, &shape, entry)?,
        };
        match bytes {
            Some(bytes) => {
                let count = &mut self.live.counts[class as usize];
                count.objects += 1;
                count.bytes = count.bytes.saturating_add(bytes);
                if counts {
                    self.live.groups.add(group, bytes, entry);
                }
            }
            None => self.live.lost += 1,
        }
        Ok(())
    }

    /// A class of which there are objects is held by them.
    fn class(&mut self, class: u32, entry: u32) -> Result<(), Stop> {
        self.in_time()?;
        let address = self.live.classes.all[class as usize].address;
        match self.heap.handle(address, self.heap.layout.klass.mirror) {
            Some(mirror) => self.reach(mirror, entry, Edge::CLASS),
            None => Ok(()),
        }
    }

    /// The group of an object that is being read, and whether it counts there.
    fn group(&mut self, object: u64, entry: u32, class: u32, kind: Kind) -> (u32, bool) {
        let Entry { parent, group, .. } = self.live.entries[entry as usize];
        let live = &mut self.live;
        let of = |class: u32| {
            let class = &live.classes.all[class as usize];
            Of {
                class: class.same_name,
                name: class.symbol,
            }
        };
        if kind == Kind::Mirror {
            let described = self.heap.pointer(object, self.heap.layout.mirror.klass);
            let described = described.and_then(|class| live.classes.find(class));
            // Of a class that many loaders have, what holds the loader matters.
            let alone = described.filter(|class| live.classes.of_same_name(*class) == 1);
            if let Some(described) = alone {
                return live.groups.of_statics(of(described), of(class));
            }
        }
        let above = live.entries.get(parent as usize).map(|entry| entry.group);
        live.groups.of(above, Edge(group), of(class))
    }

    /// An object that refers to itself was taken out of its list, as queues of java.util.concurrent mark it: what holds
    /// the list leads to another one now.
    fn instance(&mut self, object: u64, shape: &Rc<Shape>, entry: u32) -> Result<(), Stop> {
        if !self.references(object, shape, entry)? || self.anew.len() >= ANEW_MAX {
            return Ok(());
        }
        let Some(holder) = self.live.holder_of_list(entry, &mut self.steps_left) else {
            return Ok(());
        };
        let times = self.anew.entry(holder).or_default();
        *times += 1;
        if *times > ANEW_TIMES {
            return Ok(());
        }
        let above = self.live.address(holder);
        self.heap.pages.forget(above);
        let class = self.live.classes.of_object(self.heap, above);
        let shape = class.and_then(|class| self.live.classes.shape(self.heap, class));
        match shape.filter(|shape| shape.kind == Kind::Instance) {
            Some(shape) => self.references(above, &shape, holder).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether one of them is to the object itself.
    fn references(&mut self, object: u64, shape: &Shape, entry: u32) -> Result<bool, Stop> {
        let Some(last) = shape.references.last() else {
            return Ok(false);
        };
        let mut to_itself = false;
        let length = u64::from(*last) + self.heap.reference_bytes();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > PIECE {
            self.in_time()?;
            for offset in &shape.references {
                if let Some(to) = self.heap.reference(object, u64::from(*offset)) {
                    self.reach(to, entry, Edge::field(*offset))?;
                }
            }
            return Ok(false);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let is_read = self.heap.pages.read(object, &mut buffer[..length]);
        let mut reached = Ok(());
        if is_read.is_some() {
            for offset in &shape.references {
                let to = reference(self.heap.layout.oops, &buffer[*offset as usize..]);
                to_itself |= to == object;
                reached = reached.and_then(|()| self.reach(to, entry, Edge::field(*offset)));
            }
        }
        self.buffer = buffer;
        reached.map(|()| to_itself)
    }

    /// Static fields, and what the constants of the class were resolved to. The bytes of the object.
    fn mirror(&mut self, object: u64, entry: u32) -> Result<Option<u64>, Stop> {
        self.in_time()?;
        let of = self.heap.layout.mirror;
        let words = self.heap.int(object, of.size);
        // Of a primitive type there is no class.
        let class = self.heap.pointer(object, of.klass);
        if let Some(class) = class.filter(|class| self.live.classes.find(*class).is_some()) {
            for (to, edge) in self.heap.statics(class, object) {
                self.reach(to, entry, edge)?;
            }
        }
        Ok(words.map(|words| u64::from(words) * UNIT))
    }

    /// The bytes of the array.
    fn items(&mut self, object: u64, shape: &Shape, entry: u32) -> Result<Option<u64>, Stop> {
        let Some(length) = self.heap.length(object) else {
            return Ok(None);
        };
        let bytes = shape.array(length);
        self.words(
            object + shape.bytes,
            bytes.saturating_sub(shape.bytes),
            entry,
            true,
        )?;
        Ok(Some(bytes))
    }

    /// The stack of a virtual thread, word by word. The bytes of the object: it says how many words it has.
    fn frames(&mut self, object: u64, shape: &Shape, entry: u32) -> Result<Option<u64>, Stop> {
        let class = self.heap.class_of(object);
        let field = class.and_then(|class| self.heap.field_named(class, "size"));
        let size = field.and_then(|field| self.heap.int(object, field.offset.into()));
        let bytes = u64::from(size.unwrap_or(0)) * UNIT;
        self.words(object + shape.bytes, bytes, entry, false)?;
        Ok(Some(shape.bytes + bytes))
    }

    /// References next to each other. `are_references`: nothing else is there.
    fn words(
        &mut self,
        from: u64,
        bytes: u64,
        parent: u32,
        are_references: bool,
    ) -> Result<(), Stop> {
        let (mut at, end) = (
            from,
            from.saturating_add(bytes).min(self.heap.layout.heap.1),
        );
        let mut buffer = vec![0; PIECE.min(usize::try_from(bytes).unwrap_or(PIECE))];
        while at < end {
            let length = (end - at).min(PIECE as u64) as usize;
            let piece = &mut buffer[..length];
            if self.heap.pages.read(at, piece).is_none() || self.heap.pages.is_late() {
                return Ok(());
            }
            let width = self.heap.reference_bytes() as usize;
            let oops = self.heap.layout.oops;
            for item in piece.chunks_exact(if are_references { width } else { 8 }) {
                if are_references {
                    self.reach(reference(oops, item), parent, Edge::ITEM)?;
                } else {
                    self.frame_word(item, parent)?;
                }
            }
            at += length as u64;
        }
        Ok(())
    }

    fn frame_word(&mut self, item: &[u8], parent: u32) -> Result<(), Stop> {
        let halves = [&item[..4], &item[4..]].map(|half| reference(self.heap.layout.oops, half));
        for to in [reference(None, item)].into_iter().chain(halves) {
            let is_object =
                self.heap.in_heap(to) && self.live.classes.of_object(self.heap, to).is_some();
            if is_object {
                self.reach(to, parent, Edge::ITEM)?;
            }
        }
        Ok(())
    }
}

/// A reference in the first bytes; what is none leads out of the heap.
fn reference(oops: Option<Narrow>, bytes: &[u8]) -> u64 {
    match oops {
        Some(by) => match bytes.first_chunk().map(|word| u32::from_le_bytes(*word)) {
            Some(0) | None => 0,
            Some(narrow) => by.base.wrapping_add(u64::from(narrow) << by.shift),
        },
        None => bytes
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word)),
    }
}

impl Shape {
    /// Bytes of an array of so many items.
    fn array(&self, length: u64) -> u64 {
        (self.bytes + (length << self.item)).next_multiple_of(UNIT)
    }
}
