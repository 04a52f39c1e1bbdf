//! What keeps the objects of a type alive: the paths of a sample of them, the most frequent first.

use std::collections::{HashMap, HashSet};

use super::addresses::AddressSet;
use super::census::Census;
use super::heap::Heap;
use super::interpreters::{Interpreter, is_enabled};
use super::named::{Fork, parted_at};
use super::names;
use super::path::{BY_NATIVE_CODE, GONE, Path, Paths};
use super::reach::{Reach, Root, reach as search};
use super::size;
use super::users::Users;
use crate::{Holder, Kept};
use observe::fact::memory::Memory;

/// Objects of a type whose paths are asked for.
const SAMPLE_MAX: usize = 200;
/// Groups that are reported of each type.
const GROUPS_MAX: usize = 5;
/// A group of less than one in 20 is reported only where there is no larger one.
const SHARE_MIN: u64 = 20;
/// New objects that are enough to leave the old ones out.
const NEW_MIN: usize = 20;

/// Objects that native code alone refers to, from which on they are no container of its own that fills: each was lost.
const LOST_MIN: usize = 10;
/// And one in so many of the objects that they hold.
const LOST_SHARE: usize = 10;

/// `known`: addresses of objects that were there before: what grows is among the others.
pub fn holders(
    heap: &Heap,
    live: &dyn Memory,
    census: &Census,
    interpreters: &[Interpreter],
    types: &[String],
    known: &AddressSet,
) -> Vec<Holder> {
    let reach = search(heap, live, census, interpreters);
    let users = Users::new(heap, census, &reach.frames);
    let samples = types
        .iter()
        .map(|name| sample(&of_type(heap, census, name, known)));
    let samples: Vec<Vec<u32>> = samples.collect();
    // An object that was moved from one container to another meanwhile seems to be in none. It is not twice in a row.
    let is_held = |number: &u32| {
        reach
            .way(*number)
            .0
            .is_some_and(|root| root != Root::Native)
    };
    let again = match samples.iter().flatten().all(is_held) {
        true => None,
        false => Some(search(heap, live, census, interpreters)),
    };
    let mut paths = Paths::new(heap, census, &reach);
    let mut other_paths = again.as_ref().map(|again| Paths::new(heap, census, again));
    let mut found = Vec::new();
    for (name, sample) in types.iter().zip(&samples) {
        let makers = makers(heap, &users, name);
        let mut groups: HashMap<Path, u64> = HashMap::new();
        let mut forks: HashMap<Path, Vec<Vec<Fork>>> = HashMap::new();
        for number in sample {
            let paths = match &mut other_paths {
                Some(others) if !is_held(number) => others,
                _ => &mut paths,
            };
            let path = paths.path(*number);
            forks
                .entry(path.clone())
                .or_default()
                .push(paths.take_forks());
            *groups.entry(path).or_default() += 1;
        }
        let lost = held_by_native_code(again.as_ref().unwrap_or(&reach), sample);
        let groups = largest(groups, sample.len() as u64);
        let is_off = !interpreters.iter().all(|each| is_enabled(live, each.gc));
        let groups = groups.into_iter().map(|(path, objects)| match path.kept {
            Kept::Garbage if is_off => (Path::without_collector(), objects),
            Kept::Path if are_lost(&path, lost, sample.len()) => (path.lost(lost), objects),
            _ => (path, objects),
        });
        found.extend(groups.map(|(path, objects)| {
            let parted = forks.get(&path).and_then(|forks| parted_at(forks));
            let named = parted.as_ref().or(path.named.as_ref());
            Holder {
                first_new: None,
                type_name: name.clone(),
                users: named.map(|named| users.of(heap, named)).unwrap_or_default(),
                makers: makers.clone(),
                kept: path.kept,
                path: path.steps,
                objects,
                asked: sample.len() as u64,
            }
        }));
    }
    found
}

/// Functions that make objects of a type; of the language's own types all do.
fn makers(heap: &Heap, users: &Users, name: &str) -> Vec<String> {
    match crate::is_of_the_language(crate::Language::Python, name) {
        true => Vec::new(),
        false => users.makers(heap, name.rsplit('.').next().unwrap_or(name)),
    }
}

/// How many different objects that only native code refers to hold these.
fn held_by_native_code(reach: &Reach, sample: &[u32]) -> usize {
    let first = |number: &u32| match reach.way(*number) {
        (Some(Root::Native), way) if way.len() > 1 => way.first().copied(),
        _ => None,
    };
    sample
        .iter()
        .filter_map(first)
        .collect::<HashSet<u32>>()
        .len()
}

fn are_lost(path: &Path, lost: usize, asked: usize) -> bool {
    let is_natives = path
        .steps
        .first()
        .is_some_and(|step| step.contains(BY_NATIVE_CODE));
    is_natives && lost >= LOST_MIN && lost * LOST_SHARE >= asked
}

/// The largest groups: those of a share, and the first in any case.
fn largest(groups: HashMap<Path, u64>, asked: u64) -> Vec<(Path, u64)> {
    let mut groups: Vec<(Path, u64)> = groups.into_iter().collect();
    if groups.len() > 1 {
        groups.retain(|(path, _)| path.steps.first().is_none_or(|step| step != GONE));
    }
    groups.sort_by(|(one, count), (other, more)| {
        more.cmp(count).then_with(|| one.steps.cmp(&other.steps))
    });
    let shares = groups
        .iter()
        .take_while(|(_, count)| count * SHARE_MIN >= asked)
        .count();
    groups.truncate(shares.clamp(1, GROUPS_MAX));
    groups
}

/// Numbers of those objects of a type that its growth is in, as far as that is known.
fn of_type(heap: &Heap, census: &Census, name: &str, known: &AddressSet) -> Vec<u32> {
    let is_one = |number: u32| {
        census
            .totals
            .get(number as usize)
            .is_some_and(|total| total.0 > 0)
    };
    let is_named = |number: u32| is_one(number) && names::of_type(heap, &heap.info(number)) == name;
    let wanted: Vec<bool> = (0..heap.type_count() as u32).map(is_named).collect();
    let objects = census.objects.iter().enumerate();
    let objects = objects.filter(|(_, object)| wanted[object.type_number as usize]);
    let objects: Vec<u32> = objects.map(|(number, _)| number as u32).collect();
    let is_new = |number: &u32| !known.has(census.objects.get(*number).address);
    let new: Vec<u32> = objects.iter().copied().filter(is_new).collect();
    match known.is_empty() {
        true => newer_half(heap, census, objects),
        false if new.len() >= NEW_MIN => new,
        false => largest_objects(heap, census, objects),
    }
}

/// The fewest objects with half of the bytes of all: where no objects are new, these have grown.
fn largest_objects(heap: &Heap, census: &Census, objects: Vec<u32>) -> Vec<u32> {
    let bytes = |number: u32| {
        let object = census.objects.get(number);
        size::bytes(heap, object.address, &heap.info(object.type_number))
    };
    let mut sizes: Vec<(u64, u32)> = objects
        .into_iter()
        .map(|number| (bytes(number), number))
        .collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let total = sizes
        .iter()
        .fold(0_u64, |total, (bytes, _)| total.saturating_add(*bytes));
    let mut before = 0_u64;
    let has_half = |(bytes, _): &&(u64, u32)| {
        let is_needed = before < total / 2;
        before = before.saturating_add(*bytes);
        is_needed
    };
    sizes
        .iter()
        .take_while(has_half)
        .map(|(_, number)| *number)
        .collect()
}

/// Where the order of objects is that of their age, the newer half: what grows is there.
fn newer_half(heap: &Heap, census: &Census, mut objects: Vec<u32>) -> Vec<u32> {
    let is_tracked = |number: &u32| {
        heap.info(census.objects.get(*number).type_number)
            .is_tracked()
    };
    if objects.first().is_some_and(is_tracked) && objects.len() > SAMPLE_MAX {
        objects.drain(..(objects.len() / 2).min(objects.len() - SAMPLE_MAX));
    }
    objects
}

fn sample(objects: &[u32]) -> Vec<u32> {
    let count = objects.len().min(SAMPLE_MAX);
    (0..count)
        .map(|index| objects[index * objects.len() / count])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_evenly() {
        assert_eq!(sample(&[]), Vec::<u32>::new());
        assert_eq!(sample(&[5, 6]), [5, 6]);
        let sample = sample(&(0..1_000).collect::<Vec<u32>>());
        assert_eq!((sample.len(), sample[1]), (200, 5));
    }

    #[test]
    fn groups_of_no_weight_are_left_out() {
        let path = |step: &str| Path {
            steps: vec![step.to_owned()],
            ..Path::default()
        };
        let groups = |counts: &[(&str, u64)]| {
            counts
                .iter()
                .map(|(step, count)| (path(step), *count))
                .collect()
        };
        let shown = largest(groups(&[("a", 150), ("b", 30), ("c", 2), (GONE, 18)]), 200);
        assert_eq!(shown, [(path("a"), 150), (path("b"), 30)]);
        assert_eq!(
            largest(groups(&[("a", 2), ("b", 3)]), 200),
            [(path("b"), 3)]
        );
        assert_eq!(largest(groups(&[(GONE, 9)]), 9), [(path(GONE), 9)]);
        assert_eq!(largest(groups(&[]), 0), []);
    }
}
