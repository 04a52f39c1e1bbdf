//! From addresses on a way to what a user reads: types, fields, names of threads.

use std::collections::HashMap;

use super::super::jfr::{Link, Sample, Via};
use super::classes::{Classes, Kind};
use super::heap::Heap;
use super::roots::Root;
use super::trace::Live;

/// Of a longer way the middle is left out.
const WAY_MAX: usize = 200;
/// Classes that one inherits from.
const DEPTH_MAX: usize = 256;
const NAME_MAX: u64 = 120;

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

    /// Of objects of a type, drawn at random, what holds them.
    pub fn samples(&mut self, type_name: &str) -> Vec<Sample> {
        let numbers = 0..self.live.classes.all.len() as u32;
        let of_type: Vec<u32> = numbers
            .filter(|number| self.live.counts[*number as usize].objects > 0)
            .filter(|number| self.classes().name(self.heap, *number).as_deref() == Some(type_name))
            .collect();
        let ways: Vec<_> = of_type
            .into_iter()
            .flat_map(|class| self.live.ways(class))
            .collect();
        ways.into_iter()
            .filter_map(|(root, way)| self.sample(root, way))
            .collect()
    }

    fn classes(&self) -> &Classes {
        &self.live.classes
    }

    /// `None`: the object is no more what it was.
    fn sample(&mut self, root: Root, mut way: Vec<u64>) -> Option<Sample> {
        let mut gap = None;
        if way.len() > WAY_MAX {
            gap = Some(WAY_MAX / 2);
            way.drain(WAY_MAX / 2..way.len() - WAY_MAX / 2);
        }
        let mut links = Vec::with_capacity(way.len());
        for (at, object) in way.iter().enumerate() {
            let via = match at.checked_sub(1).filter(|_| gap != Some(at)) {
                Some(before) => self.via(way[before], *object),
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
        })
    }

    fn link(&mut self, object: u64, via: Via) -> Option<Link> {
        let class = self.classes().of_object(self.heap, object)?;
        let type_name = self.classes().name(self.heap, class)?;
        let description = match self.kind(class)? {
            Kind::Mirror => {
                let of = self.heap.pointer(object, self.heap.layout.mirror.klass);
                let name = of.and_then(|of| self.heap.class_symbol(of));
                name.map(|name| format!("Class Name: {name}"))
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

    fn thread_name(&self, thread: u64) -> String {
        let name = || {
            let class = self.heap.class_of(thread)?;
            let offset = |class, name: &str| {
                let fields = named_fields(self.heap, class);
                let found = fields.into_iter().find(|(_, known)| known == name)?;
                Some(found.0)
            };
            let text = self.heap.reference(thread, offset(class, "name")?)?;
            let string = self.heap.class_of(text)?;
            let coder = self.heap.declared(string)?.into_iter().find(|field| {
                self.heap.field_name(string, *field).as_deref() == Some("coder")
            })?;
            let value = offset(string, "value")?;
            self.heap
                .text(text, value, coder.offset.into(), NAME_MAX)
        };
        name().unwrap_or_else(|| "?".to_owned())
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
