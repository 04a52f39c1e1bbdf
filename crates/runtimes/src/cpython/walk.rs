//! Finds all objects of a heap: those that the collector knows, what they refer to, and what is in the small-object
//! allocator's pools besides.

use observe::fact::memory::Memory;

use super::census::Census;
use super::heap::Heap;
use super::interpreters::{Interpreter, tracked};
use super::objects::Objects;
use super::pools;

/// Finds all objects, and keeps at most `most`.
pub fn take(heap: &Heap, live: &dyn Memory, interpreters: &[Interpreter], most: usize) -> Census {
    let mut census = Census {
        objects: Objects::new(most),
        ..Census::default()
    };
    let broken: usize = interpreters
        .iter()
        .map(|interpreter| tracked(heap, live, interpreter.gc, &mut census))
        .sum();
    if broken > 0 {
        let some =
            "the collector's lists changed while they were read: some objects may be missing";
        census.missing.push(some.to_owned());
    }
    census.follow(heap, 0);
    let from = census.objects.len();
    let pools = pools::each_object(heap, &mut |object| census.add_or_count(heap, object));
    if pools == 0 {
        let unseen = "objects that only native code refers to are not seen: Python does not use its own allocator \
                      (PYTHONMALLOC?)";
        census.missing.push(unseen.to_owned());
    }
    census.follow(heap, from);
    census.conclude(heap);
    census
}
