//! What keeps the objects of a type alive: the paths of a sample of them, the most frequent first.

use std::collections::HashMap;

use super::census::Census;
use super::heap::Heap;
use super::interpreters::Interpreter;
use super::names;
use super::path::{Path, Paths};
use super::reach::reach;
use super::users::Users;
use crate::Holder;
use observe::fact::memory::Memory;

/// Objects of a type whose paths are asked for.
const SAMPLE_MAX: usize = 200;
/// Groups that are reported of each type.
const GROUPS_MAX: usize = 5;

pub fn holders(
    heap: &Heap,
    live: &dyn Memory,
    census: &Census,
    interpreters: &[Interpreter],
    types: &[String],
) -> Vec<Holder> {
    let reach = reach(heap, live, census, interpreters);
    let mut paths = Paths::new(heap, census, &reach);
    let users = Users::new(heap, census, &reach.frames);
    let mut found = Vec::new();
    for name in types {
        let (objects, in_order) = of_type(heap, census, name);
        let sample = sample(&objects, in_order);
        let mut groups: HashMap<Path, u64> = HashMap::new();
        for number in &sample {
            *groups.entry(paths.path(*number)).or_default() += 1;
        }
        let mut groups: Vec<(Path, u64)> = groups.into_iter().collect();
        groups.sort_by(|(one, count), (other, more)| more.cmp(count).then_with(|| one.steps.cmp(&other.steps)));
        found.extend(groups.into_iter().take(GROUPS_MAX).map(|(path, objects)| Holder {
            type_name: name.clone(),
            users: path.named.as_ref().map(|named| users.of(heap, named)).unwrap_or_default(),
            path: path.steps,
            objects,
            asked: sample.len() as u64,
        }));
    }
    found
}

/// Numbers of all objects of a type; and whether the collector knows them: the oldest is the first then.
fn of_type(heap: &Heap, census: &Census, name: &str) -> (Vec<u32>, bool) {
    let is_one = |number: u32| census.totals.get(number as usize).is_some_and(|total| total.0 > 0);
    let is_named = |number: u32| is_one(number) && names::of_type(heap, &heap.info(number)) == name;
    let wanted: Vec<bool> = (0..heap.type_count() as u32).map(is_named).collect();
    let objects = census.objects.iter().enumerate();
    let objects = objects.filter(|(_, object)| wanted[object.type_number as usize]);
    let objects: Vec<u32> = objects.map(|(number, _)| number as u32).collect();
    let is_tracked = |number: &u32| heap.info(census.objects[*number as usize].type_number).is_tracked();
    let in_order = objects.first().is_some_and(is_tracked);
    (objects, in_order)
}

/// Evenly; where their order is that of their age, out of the newer half: what grows is there.
fn sample(objects: &[u32], in_order: bool) -> Vec<u32> {
    let newer = match objects.len() {
        _ if !in_order => objects,
        ..=SAMPLE_MAX => objects,
        count => &objects[(count / 2).min(count - SAMPLE_MAX)..],
    };
    let count = newer.len().min(SAMPLE_MAX);
    (0..count).map(|index| newer[index * newer.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_the_newer_half() {
        assert_eq!(sample(&[], true), Vec::<u32>::new());
        assert_eq!(sample(&[5, 6], true), [5, 6]);
        let many: Vec<u32> = (0..1_000).collect();
        assert_eq!(sample(&many, false)[..2], [0, 5]);
        let sample = sample(&many, true);
        assert_eq!((sample.len(), sample[0]), (200, 500));
        assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
