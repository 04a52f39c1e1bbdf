//! The objects that are held, and the way from a root to each.

use std::collections::VecDeque;

use super::classes::Classes;
#[cfg(doc)]
use super::groups::Edge;
use super::groups::Groups;
use super::roots::Root;

/// Parents from here on are numbers of roots.
pub const ROOT: u32 = 0xff00_0000;
/// Of the places of objects, bytes.
pub const UNIT: u64 = 8;
/// Of a longer way the middle is left out.
const HALF_WAY: usize = 100;

/// An object that was reached.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// From the heap's start, in units of eight bytes.
    pub place: u32,
    /// The entry that refers to it, or [`ROOT`] and the number of a root.
    pub parent: u32,
    /// Its group; until it is read, by what it was reached ([`Edge`]).
    pub group: u32,
}

/// Objects of one class.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub objects: u64,
    pub bytes: u64,
}

/// All objects that are held.
pub struct Live {
    pub start: u64,
    pub entries: Vec<Entry>,
    pub roots: Vec<Root>,
    pub classes: Classes,
    /// By the number of the class.
    pub counts: Vec<Count>,
    pub groups: Groups,
    /// References to what was no object when it was read.
    pub lost: u64,
}

/// From a root to an object.
pub struct Way {
    pub root: Root,
    /// Addresses, the object itself last.
    pub objects: Vec<u64>,
    /// In front of this one some are left out.
    pub gap: Option<usize>,
    /// The first one of a group that became larger.
    pub first_new: Option<usize>,
}

impl Live {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn address(&self, entry: u32) -> u64 {
        let place = self
            .entries
            .get(entry as usize)
            .map_or(0, |entry| entry.place);
        self.start + u64::from(place) * UNIT
    }

    /// What leads to the first object of a list that this one is of.
    pub fn holder_of_list(&self, entry: u32, steps_left: &mut u32) -> Option<u32> {
        let of = self.entries.get(entry as usize)?;
        let mut at = of.parent;
        while *steps_left > 0 {
            *steps_left -= 1;
            let above = self.entries.get(at as usize)?;
            if above.group != of.group {
                return Some(at);
            }
            at = above.parent;
        }
        None
    }

    /// What leads from a root to an object. `is_new`: whether a group became larger.
    pub fn way(&self, entry: u32, is_new: &dyn Fn(u32) -> bool) -> Option<Way> {
        let (mut inner, mut outer) = (Vec::new(), VecDeque::new());
        let (mut at, mut length, mut first_new) = (entry, 0, None);
        let root = loop {
            let Entry { parent, group, .. } = *self.entries.get(at as usize)?;
            if is_new(group) {
                first_new = Some(length);
            }
            length += 1;
            if inner.len() < HALF_WAY {
                inner.push(self.address(at));
            } else {
                outer.push_back(self.address(at));
                if outer.len() > HALF_WAY {
                    outer.pop_front();
                }
            }
            match parent {
                root if root >= ROOT => break *self.roots.get((root - ROOT) as usize)?,
                parent => at = parent,
            }
        };
        let cut = length - inner.len() - outer.len();
        // From the root on.
        let first_new = first_new.map(|from_object: usize| {
            let place = length - 1 - from_object;
            match place < outer.len() {
                true => place,
                false => place.saturating_sub(cut).max(outer.len()),
            }
        });
        let gap = (cut > 0).then_some(outer.len());
        let objects = outer.into_iter().rev().chain(inner.into_iter().rev());
        Some(Way {
            root,
            objects: objects.collect(),
            gap,
            first_new,
        })
    }
}
