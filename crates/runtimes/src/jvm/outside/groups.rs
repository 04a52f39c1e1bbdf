//! Objects that are reached the same way, through fields and classes of the same kind: a way that grows is told from
//! one that does not, though the objects on both are of one class.

use std::collections::HashMap;

use crate::memory::hash::AddressHash;

/// Beyond it the objects of a new way are counted by their class alone.
const GROUPS_MAX: usize = 1 << 17;
/// A class that is so few steps above already is the same group again: lists and trees have any number of steps.
const SAME_WITHIN: usize = 6;
/// Objects of a group that are remembered, drawn at random.
const SAMPLES: usize = 4;
const NONE: u32 = u32::MAX;

/// By what an object is reached: a field has its place in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edge(pub u32);

impl Edge {
    const KIND: u32 = 1 << 31;
    pub const ITEM: Edge = Edge(Edge::KIND);
    pub const CLASS: Edge = Edge(Edge::KIND + 1);
    pub const ROOT: Edge = Edge(Edge::KIND + 2);
    pub const STACK: Edge = Edge(Edge::KIND + 3);
    const STATICS: Edge = Edge(Edge::KIND + 4);

    pub fn field(offset: u32) -> Edge {
        Edge(offset & !Edge::KIND)
    }
}

/// Objects of one class that are reached the same way.
#[derive(Debug, Clone)]
pub struct Group {
    above: u32,
    pub class: u32,
    pub objects: u64,
    pub bytes: u64,
    samples: [u32; SAMPLES],
    /// Of the way; the same in every reading.
    pub hash: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Groups {
    pub all: Vec<Group>,
    by_way: HashMap<(u32, Edge, u32), u32, AddressHash>,
    random: u64,
}

/// A class, with the address of its name.
#[derive(Debug, Clone, Copy)]
pub struct Of {
    pub class: u32,
    pub name: u64,
}

impl Groups {
    /// The group of an object, and whether it counts there. `above`: of what refers to it.
    pub fn of(&mut self, above: Option<u32>, edge: Edge, of: Of) -> (u32, bool) {
        if let Some(same) = above.and_then(|above| self.same_above(above, of.class)) {
            return (same, true);
        }
        self.find(above.unwrap_or(NONE), edge, of, of.class)
    }

    /// Of a java.lang.Class: what is above it does not matter, static fields are a beginning.
    pub fn of_statics(&mut self, described: Of, class: Of) -> (u32, bool) {
        self.find(NONE, Edge::STATICS, described, class.class)
    }

    fn same_above(&self, above: u32, class: u32) -> Option<u32> {
        let mut at = above;
        for _ in 0..SAME_WITHIN {
            let group = self.all.get(at as usize)?;
            if group.class == class {
                return Some(at);
            }
            at = group.above;
        }
        None
    }

    fn find(&mut self, above: u32, edge: Edge, of: Of, class: u32) -> (u32, bool) {
        let key = (above, edge, of.class);
        if let Some(known) = self.by_way.get(&key) {
            return (*known, true);
        }
        if self.all.len() >= GROUPS_MAX {
            return (above, false);
        }
        let number = self.all.len() as u32;
        let before = self.all.get(above as usize).map_or(0, |group| group.hash);
        self.all.push(Group {
            above,
            class,
            objects: 0,
            bytes: 0,
            samples: [NONE; SAMPLES],
            hash: mixed(mixed(before, u64::from(edge.0)), of.name),
        });
        self.by_way.insert(key, number);
        (number, true)
    }

    pub fn add(&mut self, number: u32, bytes: u64, entry: u32) {
        // xorshift64
        self.random = self.random.max(1);
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let Some(group) = self.all.get_mut(number as usize) else {
            return;
        };
        group.objects += 1;
        group.bytes = group.bytes.saturating_add(bytes);
        let place = match group.objects <= SAMPLES as u64 {
            true => group.objects - 1,
            false => self.random % group.objects,
        };
        if let Some(sample) = group.samples.get_mut(place as usize) {
            *sample = entry;
        }
    }
}

impl Group {
    /// Entries.
    pub fn samples(&self) -> impl Iterator<Item = u32> {
        self.samples.into_iter().filter(|sample| *sample != NONE)
    }
}

/// splitmix64
fn mixed(hash: u64, value: u64) -> u64 {
    let mut mixed = (hash ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: u32) -> Of {
        Of {
            class,
            name: 0x1000 + u64::from(class),
        }
    }

    #[test]
    fn the_same_way_is_one_group() {
        let mut groups = Groups::default();
        let (statics, _) = groups.of_statics(of(9), of(8));
        let (map, _) = groups.of(Some(statics), Edge::field(112), of(1));
        let (other, _) = groups.of(Some(statics), Edge::field(116), of(1));
        assert_ne!(map, other, "another field");
        let (node, _) = groups.of(Some(map), Edge::field(12), of(2));
        let (value, _) = groups.of(Some(node), Edge::field(20), of(3));
        // A list of nodes has one group, and a value at its end that of the others.
        let (next, _) = groups.of(Some(node), Edge::field(24), of(2));
        assert_eq!(next, node);
        assert_eq!(groups.of(Some(next), Edge::field(20), of(3)), (value, true));
        // Wherever a class is reached from, its static fields are one beginning.
        groups.of(Some(value), Edge::field(8), of(4));
        assert_eq!(groups.of_statics(of(9), of(8)).0, statics);
        for entry in 0..100 {
            groups.add(value, 24, entry);
        }
        let group = &groups.all[value as usize];
        assert_eq!((group.objects, group.bytes), (100, 2_400));
        assert_eq!(group.samples().count(), SAMPLES);
        // Another reading has the same hash.
        let mut again = Groups::default();
        let (statics, _) = again.of_statics(of(9), of(8));
        let (map, _) = again.of(Some(statics), Edge::field(112), of(1));
        assert_eq!(again.all[map as usize].hash, groups.all[1].hash);
    }
}
