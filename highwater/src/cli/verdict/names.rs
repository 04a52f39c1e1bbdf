//! The names of the series that were read: where those are that are held, and which are gone. Of a pipe of any length
//! the names would fill the memory in the end, so eight bytes are kept of each that is gone.

use std::collections::{HashMap, HashSet, hash_map::RandomState};
use std::hash::BuildHasher;

/// Names so far.
#[derive(Debug, Default)]
pub struct Names {
    places: HashMap<String, usize>,
    /// Hashes of those that are gone: of a million names two have the same one with a chance of 3 in 100 million.
    gone: HashSet<u64>,
    hasher: RandomState,
    /// Those that are gone, when files beside the series are to be compared with them.
    told: Option<HashSet<String>>,
}

impl Names {
    /// `whole` keeps all of them.
    pub fn new(whole: bool) -> Names {
        Names {
            told: whole.then(HashSet::new),
            ..Names::default()
        }
    }

    /// The place of a series that is held.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub fn hold(&mut self, name: &str, place: usize) {
        self.places.insert(name.to_owned(), place);
    }

    /// A series is held no longer.
    pub fn let_go(&mut self, name: &str) {
        self.gone.insert(self.hasher.hash_one(name));
        if let Some((name, _)) = self.places.remove_entry(name)
            && let Some(told) = &mut self.told
        {
            told.insert(name);
        }
    }

    pub fn is_gone(&self, name: &str) -> bool {
        !self.gone.is_empty() && self.gone.contains(&self.hasher.hash_one(name))
    }

    /// Whether there was a series of this name; of those that are gone only if all names were to be kept.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name) || self.told.as_ref().is_some_and(|told| told.contains(name))
    }

    /// All that are known.
    pub fn all(&self) -> impl Iterator<Item = &str> + Clone {
        let told = self.told.iter().flatten();
        self.places.keys().chain(told).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_remembered_by_name_only_when_asked() {
        for whole in [false, true] {
            let mut names = Names::new(whole);
            names.hold("a", 0);
            names.hold("b", 1);
            names.let_go("a");
            assert_eq!((names.place("a"), names.place("b")), (None, Some(1)));
            assert!(names.is_gone("a") && !names.is_gone("b") && !names.is_gone("c"));
            assert_eq!((names.has("a"), names.has("b")), (whole, true));
            assert_eq!(names.all().count(), if whole { 2 } else { 1 });
        }
    }
}
