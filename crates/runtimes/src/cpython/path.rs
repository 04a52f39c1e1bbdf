//! The way to an object, as a user of Python would write it.

use std::collections::HashMap;

use super::census::Census;
use super::heap::{Heap, Via};
use super::layout::TP_BASE;
use super::named::{Fork, Named};
use super::names;
use super::reach::{Parent, Reach, Root};
use super::types::{Kind, TypeInfo};
use crate::Kept;

/// Of a way that is longer, the start and the end are shown.
const START_MAX: usize = 48;
const END_MAX: usize = 8;
/// Steps of a path; the last ones lead to the object.
const STEPS_MAX: usize = 12;

/// The path of an object that was freed while the heap was read.
pub const ONLY_CYCLES: &str = "only reference cycles keep them, until the next collection";
pub const CYCLES_STAY: &str = "only reference cycles keep them, and the garbage collector is off";
/// Behind the type of an object that only native code refers to.
pub const BY_NATIVE_CODE: &str = ", which native code refers to";
pub const GONE: &str = "not found again: freed while the heap was read";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Path {
    pub steps: Vec<String>,
    pub named: Option<Named>,
    pub kept: Kept,
}

impl Path {
    /// Of objects that lie in many others of which native code lost the reference.
    pub fn lost(mut self, holders: usize) -> Path {
        self.kept = Kept::Native;
        if let Some(first) = self.steps.first_mut() {
            *first = format!("{holders} different objects hold them, each a {first}");
        }
        self
    }

    /// Of objects in reference cycles that no collector will free.
    pub fn without_collector() -> Path {
        Path {
            kept: Kept::Cycle,
            ..plain(vec![CYCLES_STAY.to_owned()])
        }
    }
}

/// Writes paths. What was found out of one step is kept for the next object.
pub struct Paths<'a> {
    pub heap: &'a Heap<'a>,
    pub census: &'a Census,
    pub reach: &'a Reach,
    steps: HashMap<(u32, u32), Option<Via>>,
    type_names: HashMap<u32, String>,
    forks: Vec<Fork>,
}

impl<'a> Paths<'a> {
    pub fn new(heap: &'a Heap<'a>, census: &'a Census, reach: &'a Reach) -> Paths<'a> {
        Paths {
            heap,
            census,
            reach,
            steps: HashMap::new(),
            type_names: HashMap::new(),
            forks: Vec::new(),
        }
    }

    /// Of the path that was asked for last.
    pub fn take_forks(&mut self) -> Vec<Fork> {
        std::mem::take(&mut self.forks)
    }

    /// From its root to the object `number`, which itself is left out.
    pub fn path(&mut self, number: u32) -> Path {
        self.forks.clear();
        let (root, mut way) = self.reach.way(number);
        let mut path = match root {
            Some(root) => self.start(root, way[0], number),
            None if way.len() > 1 => plain(vec!["the end of a long chain of objects".to_owned()]),
            None => self.unreached(number),
        };
        if root.is_none() {
            return path;
        }
        let gap = (way.len() > START_MAX + END_MAX).then_some(START_MAX);
        if let Some(gap) = gap {
            way.drain(gap..way.len() - END_MAX);
        }
        for index in 1..way.len() {
            if gap == Some(index) {
                path.steps.push("…".to_owned());
                continue;
            }
            let first = gap.filter(|gap| index > *gap).unwrap_or(0);
            self.step(&mut path, &way[first..=index], index + 1 == way.len());
        }
        collapse(&mut path.steps);
        if path.steps.len() > STEPS_MAX {
            path.steps
                .drain(STEPS_MAX / 2..path.steps.len() - STEPS_MAX / 2);
        }
        path
    }

    pub fn address(&self, number: u32) -> u64 {
        self.census.objects.get(number).address
    }

    pub fn info(&self, number: u32) -> TypeInfo {
        self.heap.info(self.census.objects.get(number).type_number)
    }

    pub fn type_name(&mut self, number: u32) -> String {
        let type_number = self.census.objects.get(number).type_number;
        let info = self.heap.info(type_number);
        let known = self.type_names.entry(type_number);
        known
            .or_insert_with(|| names::of_type(self.heap, &info))
            .clone()
    }

    fn start(&mut self, root: Root, first: u32, target: u32) -> Path {
        let typed = |text: String, paths: &mut Paths| {
            let kind = paths.describe(first);
            if first == target {
                text
            } else {
                format!("{text} ({kind})")
            }
        };
        let place = |code| match names::of_code(self.heap, code) {
            Some(place) => format!(
                "function {} ({}:{}), running",
                place.name, place.file, place.line
            ),
            None => "a function that runs".to_owned(),
        };
        match root {
            Root::Module(module) => Path {
                steps: vec![format!("module {}", self.module_name(module))],
                ..Path::default()
            },
            Root::Local(running, number) => {
                let name = names::of_local(self.heap, running.code, number)
                    .unwrap_or_else(|| "?".to_owned());
                let function = place(running.code);
                Path {
                    steps: vec![function, typed(format!("local variable {name}"), self)],
                    named: Some(Named::Function(running.code)),
                    ..Path::default()
                }
            }
            Root::Stack(running) => Path {
                steps: vec![
                    place(running.code),
                    typed("a value in use".to_owned(), self),
                ],
                named: Some(Named::Function(running.code)),
                ..Path::default()
            },
            Root::Thread => plain(vec![typed(
                "thread state (threading.local, exceptions)".to_owned(),
                self,
            )]),
            Root::Interpreter => plain(vec![typed("interpreter state".to_owned(), self)]),
            Root::Native => self.native(first, target),
        }
    }

    fn native(&mut self, first: u32, target: u32) -> Path {
        let references = self.heap.references_to(self.address(first)).unwrap_or(0);
        let lost =
            format!("(refcount {references}): a reference is held or was lost in native code");
        if first != target {
            let kind = self.describe(first);
            return plain(vec![format!("{kind}{BY_NATIVE_CODE} {lost}")]);
        }
        let step = match self.reach.inside(first) {
            0 => format!("no Python object refers to them {lost}"),
            some => {
                format!("no root leads to them; {some} objects of a cycle refer to them {lost}")
            }
        };
        Path {
            kept: Kept::Native,
            ..plain(vec![step])
        }
    }

    fn unreached(&self, number: u32) -> Path {
        match self.reach.inside(number) {
            0 => plain(vec![GONE.to_owned()]),
            _ => Path {
                kept: Kept::Garbage,
                ..plain(vec![ONLY_CYCLES.to_owned()])
            },
        }
    }

    /// Adds the step to the last object of `way` from the one before it.
    fn step(&mut self, path: &mut Path, way: &[u32], is_last: bool) {
        let [.., parent, child] = *way else {
            return;
        };
        let grandparent = way.len().checked_sub(3).map(|index| way[index]);
        let Some(via) = self.via(parent, child, grandparent) else {
            path.steps.push("…".to_owned());
            return;
        };
        let kind = self.info(parent).kind;
        let child_kind = self.info(child).kind;
        let Some(text) = self.step_text(path, kind, via, parent, child, grandparent) else {
            return;
        };
        let is_item = matches!(via, Via::Item | Via::Key) || text == "[…]";
        if is_item {
            self.forks.push(Fork {
                container: parent,
                named: path.named.clone(),
            });
        }
        if is_last && is_item {
            return;
        }
        let what = self.describe(child);
        let is_own_name = matches!(
            child_kind,
            Kind::Module | Kind::Function | Kind::Type | Kind::LruCache
        );
        if matches!(child_kind, Kind::Function | Kind::LruCache)
            && let Some(code) = self.code_of(child)
        {
            path.named = Some(Named::Function(code));
        }
        if is_own_name && path.steps.len() == 1 || child_kind == Kind::Module {
            path.steps = vec![what];
            if child_kind == Kind::Module {
                path.named = None;
            }
        } else if is_last {
            path.steps.push(text);
        } else {
            path.steps.push(format!("{text} ({what})"));
        }
    }

    /// `None`: the step is no step to the user, as that to the dict of an instance.
    fn step_text(
        &mut self,
        path: &mut Path,
        kind: Kind,
        via: Via,
        parent: u32,
        child: u32,
        grandparent: Option<u32>,
    ) -> Option<String> {
        let layout = *self.heap.layout();
        let owner = grandparent.map(|number| self.info(number).kind);
        match (kind, via) {
            (_, Via::Attributes) => None,
            (_, Via::Attribute(name)) => Some(self.attribute(path, parent, name)),
            (Kind::Dict, Via::Value(key)) if self.is_namespace(parent, grandparent) => {
                if grandparent.is_none_or(|number| self.info(number).kind == Kind::Module) {
                    let name = self.heap.text(key).unwrap_or_else(|| "?".to_owned());
                    path.named = Some(Named::Global(self.address(parent), name.clone()));
                    return Some(format!(".{name}"));
                }
                Some(self.attribute(path, grandparent?, key))
            }
            (_, Via::Key) => Some("a key".to_owned()),
            (Kind::Tuple, Via::Item) if owner == Some(Kind::Function) => {
                self.of_function(grandparent?, parent, child)
            }
            (_, Via::Item | Via::Value(_)) => Some("[…]".to_owned()),
            (Kind::Type, Via::Field(TP_BASE)) => Some(".__base__".to_owned()),
            (Kind::Function, Via::Field(offset)) if offset == layout.function.globals => {
                Some(".__globals__".to_owned())
            }
            // Named with the item of the tuple.
            (Kind::Function, Via::Field(offset))
                if [layout.function.closure, layout.function.defaults].contains(&offset) =>
            {
                None
            }
            (Kind::Function, Via::Field(offset)) if offset == layout.function.keyword_defaults => {
                Some("defaults".to_owned())
            }
            (Kind::Function, Via::Field(offset)) if offset == layout.function.code => {
                Some(".__code__".to_owned())
            }
            (Kind::Cell, Via::Field(_)) => {
                (owner != Some(Kind::Tuple)).then(|| ".cell_contents".to_owned())
            }
            (Kind::LruCache, Via::Field(_)) | (Kind::LruLink, Via::Field(_)) => None,
            (_, Via::Local(number)) => {
                let code = self.code_of(parent);
                path.named = code.map(Named::Function);
                let name = code.and_then(|code| names::of_local(self.heap, code, number));
                Some(format!("local variable {}", name.as_deref().unwrap_or("?")))
            }
            (_, Via::Field(offset)) => Some(self.field(path, parent, offset)),
        }
    }

    /// An attribute of an instance, or of a class.
    fn attribute(&self, path: &mut Path, owner: u32, name: u64) -> String {
        let name = self.heap.text(name).unwrap_or_else(|| "?".to_owned());
        let info = self.info(owner);
        let class = if info.kind == Kind::Type {
            self.address(owner)
        } else {
            info.address
        };
        path.named = Some(Named::Attribute(class, name.clone()));
        format!(".{name}")
    }

    /// Whether a dict holds the attributes of a module, a class or an instance.
    fn is_namespace(&self, dict: u32, owner: Option<u32>) -> bool {
        let Some(owner) = owner else {
            return matches!(self.reach.parent(dict), Parent::Root(Root::Module(_)));
        };
        self.steps.get(&(owner, dict)).copied().flatten() == Some(Via::Attributes)
    }

    /// How an object refers to another. Items are not searched for: there may be millions.
    fn via(&mut self, parent: u32, child: u32, grandparent: Option<u32>) -> Option<Via> {
        if let Some(known) = self.steps.get(&(parent, child)) {
            return *known;
        }
        let (info, target) = (self.info(parent), self.address(child));
        let is_namespace = info.kind == Kind::Dict && self.is_namespace(parent, grandparent);
        if matches!(
            info.kind,
            Kind::List | Kind::Tuple | Kind::Set | Kind::Deque
        ) {
            return Some(Via::Item);
        }
        if info.kind == Kind::Dict && !is_namespace {
            return Some(Via::Value(0));
        }
        let mut found = None;
        self.heap
            .each_reference(self.address(parent), &info, &mut |via, to| {
                // A variable of a generator is a field of it too, and its name says more.
                let is_better = matches!(
                    (found, via),
                    (None, _) | (Some(Via::Field(_)), Via::Local(_) | Via::Attribute(_))
                );
                if to == target && is_better {
                    found = Some(via);
                }
            });
        self.steps.insert((parent, child), found);
        found
    }
}

fn plain(steps: Vec<String>) -> Path {
    Path {
        steps,
        ..Path::default()
    }
}

/// Leaves out what repeats itself: the nodes of a linked list.
fn collapse(steps: &mut Vec<String>) {
    for period in 1..=3 {
        let mut index = period;
        while index + period <= steps.len() {
            if steps[index - period..index] == steps[index..index + period] {
                steps.drain(index..index + period);
            } else {
                index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_repeat_are_shown_once() {
        let mut steps: Vec<String> = "m .a .n .n .n [] .x [] .x [] .x e"
            .split(' ')
            .map(str::to_owned)
            .collect();
        collapse(&mut steps);
        assert_eq!(steps.join(" "), "m .a .n [] .x e");
    }
}
