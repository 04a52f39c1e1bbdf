//! From addresses on a way to what a user reads: types, fields, names of threads.

use std::collections::HashMap;

use super::super::jfr::{Link, Sample, Via};
use super::classes::{Classes, Kind};
use super::groups::Group;
use super::heap::Heap;
use super::roots::Root;
use super::trace::Live;

/// New objects of a group from which on it counts as one that becomes larger.
const NEW_MIN: u64 = 10;
/// Ways to objects of one type, those with most new objects first.
const WAYS_MAX: usize = 24;
/// Of a longer way the middle is left out.
const WAY_MAX: usize = 200;
/// Classes that one inherits from.
const DEPTH_MAX: usize = 256;
const NAME_MAX: u64 = 120;

/// Of a thread that waits (`JavaThreadStatus`), as in `java_lang_Thread::thread_status_name`.
const STATES: [(u32, &str); 6] = [
    (225, "TIMED_WAITING (sleeping)"),
    (401, "WAITING (on object monitor)"),
    (417, "TIMED_WAITING (on object monitor)"),
    (657, "WAITING (parking)"),
    (673, "TIMED_WAITING (parking)"),
    (1025, "BLOCKED (on object monitor)"),
];

/// Names what is on ways, each class once.
pub struct Names<'m, 'h> {
    heap: &'h Heap<'m>,
    live: &'h mut Live,
    /// Fields that objects of a class have, with their names: of it and of all that it inherits from.
    fields: HashMap<u64, Vec<(u64, String)>>,
}

impl<'m, 'h> Names<'m, 'h> {
    pub fn new(heap: &'h Heap<'m>, live: &'h mut Live) -> Names<'m, 'h> {
        Names {
            heap,
            live,
            fields: HashMap::new(),
        }
    }

    /// Of objects of a type, drawn at random, what holds them. `before`: objects by way in an earlier reading; those that
    /// came since then are asked about, or all where none did.
    pub fn samples(&mut self, type_name: &str, before: &HashMap<u64, u64>) -> Vec<Sample> {
        let groups = self.live.groups.all.iter().filter(|group| group.objects > 0);
        let of_type: Vec<&Group> = groups
            .filter(|group| self.classes().name(self.heap, group.class).as_deref() == Some(type_name))
            .collect();
        let grown = |group: &Group| {
            let before = before.get(&group.hash).copied().unwrap_or(0);
            group.objects.saturating_sub(before)
        };
        let new: Vec<bool> = (self.live.groups.all.iter())
            .map(|group| grown(group) >= NEW_MIN)
            .collect();
        let has_grown = of_type.iter().any(|group| grown(group) > 0);
        let mut ways: Vec<(u64, Vec<u32>)> = of_type
            .into_iter()
            .map(|group| {
                let weight = if has_grown { grown(group) } else { group.objects };
                (weight, group.samples().collect())
            })
            .filter(|(weight, _)| *weight > 0)
            .collect();
        ways.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        ways.truncate(WAYS_MAX);
        let mut samples = Vec::new();
        for (weight, entries) in ways {
            let ways = entries.iter().filter_map(|entry| self.live.way(*entry));
            let ways: Vec<(Root, Vec<(u64, u32)>)> = ways.collect();
            let first = samples.len();
            for (root, way) in ways {
                let mut becomes_more = way.iter().map(|(_, group)| new.get(*group as usize));
                let first_new = becomes_more.position(|is_new| is_new == Some(&true));
                samples.extend(self.sample(root, way, first_new));
            }
            share(&mut samples[first..], weight);
        }
        samples
    }

    fn classes(&self) -> &Classes {
        &self.live.classes
    }

    /// `None`: the object is no more what it was.
    fn sample(
        &mut self,
        root: Root,
        mut way: Vec<(u64, u32)>,
        mut first_new: Option<usize>,
    ) -> Option<Sample> {
        let mut gap = None;
        if way.len() > WAY_MAX {
            let cut = way.len() - WAY_MAX;
            first_new = first_new.map(|at| match at < WAY_MAX / 2 {
                true => at,
                false => at.saturating_sub(cut).max(WAY_MAX / 2),
            });
            gap = Some(WAY_MAX / 2);
            way.drain(WAY_MAX / 2..way.len() - WAY_MAX / 2);
        }
        let mut links = Vec::with_capacity(way.len());
        for (at, (object, _)) in way.iter().enumerate() {
            let via = match at.checked_sub(1).filter(|_| gap != Some(at)) {
                Some(before) => self.via(way[before].0, *object),
                None => Via::Unknown,
            };
            links.push(self.link(*object, via)?);
        }
        let of_thread = |thread| format!("Thread Name: {}", self.thread_name(thread));
        let (root, root_description) = match root {
            Root::Class => (None, String::new()),
            Root::Thread => (Some("Thread"), String::new()),
            Root::Stack { thread } => (Some("Stack Variable"), of_thread(thread)),
            Root::Local { thread } => (Some("Local JNI Handle"), of_thread(thread)),
            Root::Global => (Some("Global JNI Handle"), String::new()),
        };
        Some(Sample {
            way: links,
            root: root.map(str::to_owned),
            root_description,
            frames: Vec::new(),
            stands_for: 1,
            first_new,
        })
    }

    fn link(&mut self, object: u64, via: Via) -> Option<Link> {
        let class = self.classes().of_object(self.heap, object)?;
        let type_name = self.classes().name(self.heap, class)?;
        let description = match self.kind(class)? {
            Kind::Mirror => {
                let of = self.heap.pointer(object, self.heap.layout.mirror.klass);
                let number = of.and_then(|of| self.classes().find(of));
                let is_alone = number.is_some_and(|of| self.classes().of_same_name(of) == 1);
                let name = of.and_then(|of| self.heap.class_symbol(of));
                name.filter(|_| is_alone).map(|name| format!("Class Name: {name}"))
            }
            _ if self.is_thread(class) => {
                Some(format!("Thread Name: {}", self.thread_name(object)))
            }
            _ => None,
        };
        Some(Link {
            type_name,
            description: description.unwrap_or_default(),
            via,
        })
    }

    fn kind(&mut self, class: u32) -> Option<Kind> {
        let shape = self.live.classes.shape(self.heap, class)?;
        Some(shape.kind)
    }

    /// How an object refers to another, as it is now.
    fn via(&mut self, object: u64, to: u64) -> Via {
        let found = self.field(object, to);
        found.unwrap_or(Via::Unknown)
    }

    fn field(&mut self, object: u64, to: u64) -> Option<Via> {
        let number = self.classes().of_object(self.heap, object)?;
        let kind = self.kind(number)?;
        if kind == Kind::Objects {
            return Some(Via::Item);
        }
        if kind == Kind::Mirror {
            let class = self.heap.pointer(object, self.heap.layout.mirror.klass);
            let of_class = class.filter(|class| self.classes().find(*class).is_some());
            let fields = of_class.map(|class| (class, self.heap.static_fields(class)));
            let found = fields.and_then(|(class, fields)| {
                let is_it = |offset: u32| self.heap.reference(object, offset.into()) == Some(to);
                let field = fields.into_iter().find(|field| is_it(field.offset))?;
                self.heap.field_name(class, field)
            });
            if let Some(name) = found {
                return Some(Via::Field(name));
            }
        }
        let class = self.classes().all.get(number as usize)?.address;
        let heap = self.heap;
        let fields = self
            .fields
            .entry(class)
            .or_insert_with(|| named_fields(heap, class));
        let field = fields
            .iter()
            .find(|(offset, _)| heap.reference(object, *offset) == Some(to))?;
        Some(Via::Field(field.1.clone()))
    }

    fn is_thread(&self, class: u32) -> bool {
        let class = self.classes().all.get(class as usize);
        let mut at = class.map(|class| class.address);
        for _ in 0..DEPTH_MAX {
            let Some(class) = at else {
                return false;
            };
            if self.heap.class_symbol(class).as_deref() == Some("java/lang/Thread") {
                return true;
            }
            at = self.heap.pointer(class, self.heap.layout.klass.super_class);
        }
        false
    }

    /// What a thread waits for, as the JVM writes it in a dump; `None`: it runs, or that is not known.
    pub fn thread_state(&self, thread: u64) -> Option<String> {
        let holder = self.named_reference(thread, "holder").unwrap_or(thread);
        let status = self.number(holder, "threadStatus")?;
        let state = STATES.iter().find(|(known, _)| *known == status);
        state.map(|(_, name)| (*name).to_owned())
    }

    fn named_reference(&self, object: u64, name: &str) -> Option<u64> {
        let fields = named_fields(self.heap, self.heap.class_of(object)?);
        let (offset, _) = fields.into_iter().find(|(_, known)| known == name)?;
        self.heap.reference(object, offset)
    }

    /// A field of four bytes, of its class or one that it inherits from.
    fn number(&self, object: u64, name: &str) -> Option<u32> {
        let mut class = self.heap.class_of(object)?;
        for _ in 0..DEPTH_MAX {
            let found = self.heap.number_field(class, object, name);
            if found.is_some() {
                return found;
            }
            class = self
                .heap
                .pointer(class, self.heap.layout.klass.super_class)?;
        }
        None
    }

    pub fn thread_name(&self, thread: u64) -> String {
        let name = || {
            let text = self.named_reference(thread, "name")?;
            let string = self.heap.class_of(text)?;
            let coder = self.heap.declared(string)?.into_iter().find(|field| {
                self.heap.field_name(string, *field).as_deref() == Some("coder")
            })?;
            let bytes = self.named_reference(text, "value")?;
            self.heap.text(text, bytes, coder.offset.into(), NAME_MAX)
        };
        name().unwrap_or_else(|| "?".to_owned())
    }
}

/// Each stands for a part of so many objects.
fn share(samples: &mut [Sample], objects: u64) {
    let count = samples.len() as u64;
    for (at, sample) in (0..count).zip(samples) {
        sample.stands_for = objects * (at + 1) / count - objects * at / count;
    }
}

/// Places and names of the references of an object.
fn named_fields(heap: &Heap, class: u64) -> Vec<(u64, String)> {
    let (mut found, mut at) = (Vec::new(), Some(class));
    for _ in 0..DEPTH_MAX {
        let Some(class) = at else {
            break;
        };
        for field in heap.fields(class).unwrap_or_default() {
            let name = (!field.is_static)
                .then(|| heap.field_name(class, field))
                .flatten();
            found.extend(name.map(|name| (u64::from(field.offset), name)));
        }
        at = heap.pointer(class, heap.layout.klass.super_class);
    }
    found
}
