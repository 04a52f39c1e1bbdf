//! The shortest way from a root to every object.

use observe::fact::memory::Memory;

use super::census::Census;
use super::frames::{Running, running};
use super::heap::{Heap, IMMORTAL};
use super::interpreters::{Interpreter, threads};
use super::layout::MODULE_DICT;
use super::types::Kind;

/// In [`Reach::parents`]: no root leads to the object.
const NONE: u32 = u32::MAX;
/// From here on a parent is a root.
const ROOTS: u32 = 1 << 31;

/// Frames between two readings of the clock.
const FRAMES_PER_CLOCK: usize = 64;

/// Objects of a way that are followed: a linked list may be longer.
const WAY_MAX: usize = 1 << 17;

/// Where a way starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The dict of a module; with the number of the module.
    Module(u32),
    /// A variable of a function that runs, by its number.
    Local(Running, u64),
    /// A value that a function that runs works with.
    Stack(Running),
    /// The state of a thread: `threading.local` and what is being handled.
    Thread,
    /// The state of the interpreter: `sys.modules`, codecs, callbacks.
    Interpreter,
    /// More references than all objects have to it: C code holds one, or lost it.
    Native,
}

/// How an object is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    Root(Root),
    Object(u32),
    /// From no root: only from objects that are not reached either.
    Nothing,
}

pub struct Reach {
    parents: Vec<u32>,
    roots: Vec<Root>,
    /// Of an object that no root of Python leads to: references from other such objects.
    inside: Vec<u32>,
    pub frames: Vec<Running>,
}

/// Roots that users have names for come first; the others lead only to what these do not.
pub fn reach(
    heap: &Heap,
    live: &dyn Memory,
    census: &Census,
    interpreters: &[Interpreter],
) -> Reach {
    let mut reach = Reach {
        parents: vec![NONE; census.objects.len()],
        roots: Vec::new(),
        inside: Vec::new(),
        frames: running(heap, live, interpreters),
    };
    // Containers are read later than the list of the objects: else one that was created and stored in between would
    // seem to be held by none.
    heap.pages.forget_all();
    let modules = reach.modules(heap, census);
    reach.spread(heap, census, modules);
    let locals = reach.locals(heap, census);
    reach.spread(heap, census, locals);
    let stacks = reach.stacks(heap, census);
    reach.spread(heap, census, stacks);
    let states = reach.states(heap, live, census, interpreters);
    reach.spread(heap, census, states);
    let native = reach.native(heap, census);
    reach.spread(heap, census, native);
    reach
}

impl Reach {
    pub fn parent(&self, number: u32) -> Parent {
        match self.parents.get(number as usize) {
            None | Some(&NONE) => Parent::Nothing,
            Some(&root) if root >= ROOTS => Parent::Root(self.roots[(root - ROOTS) as usize]),
            Some(&object) => Parent::Object(object),
        }
    }

    /// From the first object after a root to this one, and the root.
    pub fn way(&self, number: u32) -> (Option<Root>, Vec<u32>) {
        let (mut way, mut at) = (vec![number], number);
        // A parent was reached before its children: there are no rings.
        let root = loop {
            match self.parent(at) {
                Parent::Nothing => break None,
                Parent::Root(root) => break Some(root),
                Parent::Object(_) if way.len() >= WAY_MAX => break None,
                Parent::Object(parent) => at = parent,
            }
            way.push(at);
        };
        way.reverse();
        (root, way)
    }

    /// References to an unreached object from other such objects.
    pub fn inside(&self, number: u32) -> u64 {
        self.inside
            .get(number as usize)
            .copied()
            .unwrap_or(0)
            .into()
    }

    fn root(&mut self, census: &Census, object: u64, root: Root, found: &mut Vec<u32>) {
        let Some(number) = census.objects.number(object) else {
            return;
        };
        if self.parents[number as usize] == NONE {
            self.parents[number as usize] = ROOTS + self.roots.len() as u32;
            self.roots.push(root);
            found.push(number);
        }
    }

    fn modules(&mut self, heap: &Heap, census: &Census) -> Vec<u32> {
        let mut found = Vec::new();
        for (number, object) in census.objects.iter().enumerate() {
            if heap.info(object.type_number).kind == Kind::Module {
                let root = Root::Module(number as u32);
                if let Some(dict) = heap.pages.pointer(object.address, MODULE_DICT) {
                    self.root(census, dict, root, &mut found);
                }
                self.root(census, object.address, root, &mut found);
            }
        }
        found
    }

    fn locals(&mut self, heap: &Heap, census: &Census) -> Vec<u32> {
        let mut found = Vec::new();
        for (count, running) in self.frames.clone().into_iter().enumerate() {
            if count % FRAMES_PER_CLOCK == 0 && heap.pages.is_late() {
                break;
            }
            heap.each_local(running.frame, &mut |via, object| {
                if let super::heap::Via::Local(number) = via {
                    self.root(census, object, Root::Local(running, number), &mut found);
                }
            });
        }
        found
    }

    /// Behind the variables: what the function works with at the moment. Some of it is old and is used no more.
    fn stacks(&mut self, heap: &Heap, census: &Census) -> Vec<u32> {
        const STACK_MAX: u32 = 4_096;
        let (layout, mut found) = (*heap.layout(), Vec::new());
        for (count, running) in self.frames.clone().into_iter().enumerate() {
            if count % FRAMES_PER_CLOCK == 0 && heap.pages.is_late() {
                break;
            }
            let depth = heap.pages.u32(running.code.wrapping_add(layout.code.stack));
            let first = heap.local_count(running.code) * 8 + layout.frame.locals;
            let depth = u64::from(depth.unwrap_or(0).min(STACK_MAX));
            heap.pages.words(
                running.frame.wrapping_add(first),
                depth,
                &mut |_, object| {
                    let object = layout.untagged(object);
                    self.root(census, object, Root::Stack(running), &mut found);
                },
            );
            self.root(census, running.code, Root::Stack(running), &mut found);
            // Up to 3.10 the frame is an object too.
            self.root(census, running.frame, Root::Stack(running), &mut found);
        }
        found
    }

    fn states(
        &mut self,
        heap: &Heap,
        live: &dyn Memory,
        census: &Census,
        interpreters: &[Interpreter],
    ) -> Vec<u32> {
        let (layout, mut found) = (*heap.layout(), Vec::new());
        for interpreter in interpreters {
            for thread in threads(live, &layout, interpreter.address) {
                if heap.pages.is_late() {
                    return found;
                }
                heap.pages
                    .words(thread, layout.thread_bytes / 8, &mut |_, object| {
                        self.root(census, object, Root::Thread, &mut found);
                    });
            }
            heap.pages.words(
                interpreter.address,
                layout.interpreter_bytes / 8,
                &mut |_, object| {
                    self.root(census, object, Root::Interpreter, &mut found);
                },
            );
        }
        found
    }

    /// Of what is left: objects with more references than the others that are left have to them.
    fn native(&mut self, heap: &Heap, census: &Census) -> Vec<u32> {
        let mut left: Vec<u32> = (0..self.parents.len() as u32)
            .filter(|number| self.parents[*number as usize] == NONE)
            .collect();
        self.inside = vec![0; self.parents.len()];
        self.in_order(heap, census, &mut left, &mut |reach, _, to| {
            let count = &mut reach.inside[to as usize];
            *count = count.saturating_add(1);
        });
        let mut found = Vec::new();
        for number in left {
            let address = census.objects.get(number).address;
            let references = heap.references_to(address).unwrap_or(0);
            if references > self.inside(number) && references < IMMORTAL {
                self.root(census, address, Root::Native, &mut found);
            }
        }
        found
    }

    /// Breadth first, each round in the order of the addresses.
    fn spread(&mut self, heap: &Heap, census: &Census, first: Vec<u32>) {
        let mut round = first;
        while !round.is_empty() && !heap.pages.is_late() {
            let mut next = Vec::new();
            self.in_order(heap, census, &mut round, &mut |reach, from, to| {
                if reach.parents[to as usize] == NONE {
                    reach.parents[to as usize] = from;
                    next.push(to);
                }
            });
            round = next;
        }
    }

    fn in_order(
        &mut self,
        heap: &Heap,
        census: &Census,
        numbers: &mut [u32],
        each: &mut dyn FnMut(&mut Reach, u32, u32),
    ) {
        numbers.sort_unstable_by_key(|number| census.objects.get(*number).address);
        for (count, from) in numbers.iter().copied().enumerate() {
            let object = census.objects.get(from);
            let info = heap.info(object.type_number);
            heap.each_reference(object.address, &info, &mut |_, to| {
                if let Some(to) = census.objects.number(to) {
                    each(self, from, to);
                }
            });
            if count % 1_024 == 0 && heap.pages.is_late() {
                return;
            }
        }
    }
}
