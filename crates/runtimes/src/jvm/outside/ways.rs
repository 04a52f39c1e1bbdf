//! From addresses on a way to what a user reads: types, fields, names of threads.

use std::collections::HashMap;

use super::super::sample::{Link, Sample, Via};
use super::classes::{Classes, Kind};
use super::groups::Group;
use super::heap::Heap;
use super::live::{Live, Way};
use super::roots::Root;

/// New objects of a group from which on it counts as one that becomes larger.
const NEW_MIN: u64 = 10;
/// Of the share by which objects become more, the share by which those above them must.
const SAME_SHARE: f64 = 0.5;
/// Fields of a class that are named, and of all classes.
const FIELDS_MAX: usize = 4_096;
const FIELDS_OF_ALL: usize = 1 << 16;
/// Ways to objects of one type, those with most new objects first.
const WAYS_MAX: usize = 24;
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
    fields_left: usize,
    /// Places of numbers, by class and name.
    numbers: HashMap<(u64, &'static str), Option<u64>>,
}

impl<'m, 'h> Names<'m, 'h> {
    pub fn new(heap: &'h Heap<'m>, live: &'h mut Live) -> Names<'m, 'h> {
        Names {
            heap,
            live,
            fields: HashMap::new(),
            fields_left: FIELDS_OF_ALL,
            numbers: HashMap::new(),
        }
    }

    /// Of objects of a type, drawn at random, what holds them. `before`: objects by way in an earlier reading; those
    /// that came since then are asked about, or all where none did.
    pub fn samples(&mut self, type_name: &str, before: &HashMap<u64, u64>) -> Vec<Sample> {
        let groups = self
            .live
            .groups
            .all
            .iter()
            .filter(|group| group.objects > 0);
        let of_type: Vec<&Group> = groups
            .filter(|group| {
                self.classes().name(self.heap, group.class).as_deref() == Some(type_name)
            })
            .collect();
        let grown = |group: &Group| {
            let before = before.get(&group.hash).copied().unwrap_or(0);
            group.objects.saturating_sub(before)
        };
        let new_part = |group: &Group| grown(group) as f64 / group.objects.max(1) as f64;
        // What comes with each other becomes more by the same share.
        let parts: Vec<f64> = (self.live.groups.all.iter())
            .map(|group| match grown(group) >= NEW_MIN {
                true => new_part(group),
                false => 0.0,
            })
            .collect();
        let has_grown = of_type.iter().any(|group| grown(group) > 0);
        let mut ways: Vec<(u64, f64, Vec<u32>)> = of_type
            .into_iter()
            .map(|group| {
                let weight = if has_grown {
                    grown(group)
                } else {
                    group.objects
                };
                (weight, new_part(group), group.samples().collect())
            })
            .filter(|(weight, ..)| *weight > 0)
            .collect();
        ways.sort_by_key(|(weight, ..)| std::cmp::Reverse(*weight));
        ways.truncate(WAYS_MAX);
        let mut samples = Vec::new();
        for (weight, own, entries) in ways {
            if self.heap.pages.is_late() {
                break;
            }
            let least = (own * SAME_SHARE).max(f64::MIN_POSITIVE);
            let first = samples.len();
            for entry in entries {
                let new_part = |group: u32| parts.get(group as usize).copied();
                let is_new = |group: u32| new_part(group).is_some_and(|of| of >= least);
                let way = self.live.way(entry, &is_new);
                samples.extend(way.and_then(|way| self.sample(&way)));
            }
            share(&mut samples[first..], weight);
        }
        samples
    }

    fn classes(&self) -> &Classes {
        &self.live.classes
    }

    /// `None`: the object is no more what it was.
    fn sample(&mut self, way: &Way) -> Option<Sample> {
        let mut links = Vec::with_capacity(way.objects.len());
        for (at, object) in way.objects.iter().enumerate() {
            let via = match at.checked_sub(1).filter(|_| way.gap != Some(at)) {
                Some(before) => self.via(way.objects[before], *object),
                None => Via::Unknown,
            };
            links.push(self.link(*object, via)?);
        }
        let mut of_thread = |thread| format!("Thread Name: {}", self.thread_name(thread));
        let (root, root_description) = match way.root {
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
            first_new: way.first_new,
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
                name.filter(|_| is_alone)
                    .map(|name| format!("Class Name: {name}"))
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
        let mut fields = self.fields_of(class).iter();
        let field = fields.find(|(offset, _)| heap.reference(object, *offset) == Some(to))?;
        Some(Via::Field(field.1.clone()))
    }

    fn is_thread(&self, class: u32) -> bool {
        let class = self.classes().all.get(class as usize);
        class.is_some_and(|class| {
            let mut above = self.heap.lineage(class.address);
            above.any(|at| self.heap.class_symbol(at).as_deref() == Some("java/lang/Thread"))
        })
    }

    /// What a thread waits for, as the JVM writes it in a dump; `None`: it runs, or that is not known.
    pub fn thread_state(&mut self, thread: u64) -> Option<String> {
        let holder = self.named_reference(thread, "holder").unwrap_or(thread);
        let status = self.number(holder, "threadStatus")?;
        let state = STATES.iter().find(|(known, _)| *known == status);
        state.map(|(_, name)| (*name).to_owned())
    }

    fn named_reference(&mut self, object: u64, name: &str) -> Option<u64> {
        let class = self.heap.class_of(object)?;
        let mut fields = self.fields_of(class).iter();
        let (offset, _) = fields.find(|(_, known)| known == name)?;
        let offset = *offset;
        self.heap.reference(object, offset)
    }

    /// Places and names of the references that objects of a class have.
    fn fields_of(&mut self, class: u64) -> &[(u64, String)] {
        let (heap, left) = (self.heap, &mut self.fields_left);
        let fields = self.fields.entry(class);
        fields.or_insert_with(|| {
            let fields = named_fields(heap, class, FIELDS_MAX.min(*left));
            *left -= fields.len();
            fields
        })
    }

    /// A field of four bytes, of its class or one that it inherits from.
    fn number(&mut self, object: u64, name: &'static str) -> Option<u32> {
        let (heap, class) = (self.heap, self.heap.class_of(object)?);
        let offset = self.numbers.entry((class, name));
        let offset = *offset.or_insert_with(|| number_offset(heap, class, name));
        self.heap.int(object, offset?)
    }

    pub fn thread_name(&mut self, thread: u64) -> String {
        let mut name = || {
            const UTF16: u8 = 1;
            let text = self.named_reference(thread, "name")?;
            let coder = self.number(text, "coder")?;
            let bytes = self.named_reference(text, "value")?;
            self.heap.text(bytes, coder as u8 == UTF16, NAME_MAX)
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

/// Where a class, or one that it inherits from, has a field.
fn number_offset(heap: &Heap, class: u64, name: &str) -> Option<u64> {
    let field = heap
        .lineage(class)
        .find_map(|class| heap.field_named(class, name))?;
    Some(field.offset.into())
}

/// Places and names of the references of an object.
fn named_fields(heap: &Heap, class: u64, most: usize) -> Vec<(u64, String)> {
    let named = |class: u64| {
        let fields = heap.fields(class).unwrap_or_default().into_iter();
        fields.filter_map(move |field| {
            let name = heap.field_name(class, field).filter(|_| !field.is_static)?;
            Some((u64::from(field.offset), name))
        })
    };
    let in_time = |_: &(u64, String)| !heap.pages.is_late();
    heap.lineage(class)
        .flat_map(named)
        .take_while(in_time)
        .take(most)
        .collect()
}
