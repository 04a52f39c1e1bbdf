//! The classes of a JVM, and what their objects are made of.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::heap::{Heap, array_header, class_name};
use crate::memory::hash::AddressHash;

/// A large application server has 100,000.
const CLASSES_MAX: usize = 1 << 18;
const LOADERS_MAX: usize = 1 << 18;
/// Places of references of all classes together.
const REFERENCES_MAX: usize = 1 << 22;
/// Of one class: as many fields as a class file may have.
const REFERENCES_OF_CLASS: usize = 65_535;

/// Of `Klass::layout_helper`: negative for arrays, and in the highest bits whether of references.
const ITEMS_ARE_PLAIN: u32 = 3;
/// An object whose size must be asked for: a java.lang.Class among others.
const SIZE_IS_SLOW: i32 = 1;

/// What must not keep an object alive (java.lang.ref.Reference).
const NOT_FOLLOWED: [&str; 2] = ["referent", "discovered"];

/// All classes, by address.
#[derive(Default)]
pub struct Classes {
    pub all: Vec<Class>,
    by_address: HashMap<u64, u32, AddressHash>,
    /// By the address of the name: the first one, and how many there are.
    by_symbol: HashMap<u64, (u32, u32), AddressHash>,
    references: usize,
}

pub struct Class {
    pub address: u64,
    /// The class loader data.
    pub loader: u64,
    /// The first class of the same name: one that several loaders have is one type.
    pub same_name: u32,
    /// The address of its name.
    pub symbol: u64,
    shape: Option<Rc<Shape>>,
}

/// How an object of a class is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    /// Of an object that has always the same size; of an array, those in front of its items.
    pub bytes: u64,
    /// Of an array: an item has 1 << `item` bytes.
    pub item: u32,
    /// Places of references, inherited ones too, bytes.
    pub references: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Instance,
    /// A java.lang.Class, which has the static fields of a class.
    Mirror,
    /// The frames of a virtual thread that does not run.
    Frames,
    Objects,
    /// Numbers.
    Plain,
}

impl Classes {
    /// The classes of all class loaders. `None`: the time is over, or that is no list.
    pub fn of(heap: &Heap) -> Option<Classes> {
        let of = heap.layout.loader;
        let mut classes = Classes::default();
        let mut loader = heap.pages.word(of.head)?;
        for _ in 0..LOADERS_MAX {
            if loader == 0 {
                break;
            }
            if heap.pages.is_late() {
                return None;
            }
            let mut class = heap.word(loader, of.classes)?;
            while class != 0 {
                if classes.all.len() >= CLASSES_MAX || heap.pages.is_late() {
                    return None;
                }
                if !classes.add(heap, class, loader) {
                    break;
                }
                class = heap.word(class, heap.layout.klass.next)?;
            }
            loader = heap.word(loader, of.next)?;
        }
        (!classes.all.is_empty()).then_some(classes)
    }

    /// Whether it is new.
    fn add(&mut self, heap: &Heap, address: u64, loader: u64) -> bool {
        let number = self.all.len() as u32;
        let Entry::Vacant(place) = self.by_address.entry(address) else {
            return false;
        };
        place.insert(number);
        // A name stays in its place as long as a class has it.
        let symbol = heap.word(address, heap.layout.klass.name).unwrap_or(0);
        let same = self.by_symbol.entry(symbol).or_insert((number, 0));
        same.1 += 1;
        self.all.push(Class {
            address,
            loader,
            same_name: same.0,
            symbol,
            shape: None,
        });
        true
    }

    pub fn find(&self, address: u64) -> Option<u32> {
        self.by_address.get(&address).copied()
    }

    /// How many classes have the name of this one.
    pub fn of_same_name(&self, number: u32) -> u32 {
        let class = self.all.get(number as usize);
        let known = class.and_then(|class| self.by_symbol.get(&class.symbol));
        known.map_or(1, |known| known.1)
    }

    /// The class of what may be an object.
    pub fn of_object(&self, heap: &Heap, object: u64) -> Option<u32> {
        self.find(heap.class_of(object)?)
    }

    pub fn shape(&mut self, heap: &Heap, number: u32) -> Option<Rc<Shape>> {
        let class = self.all.get_mut(number as usize)?;
        if class.shape.is_none() && self.references < REFERENCES_MAX {
            let shape = shape(heap, class.address)?;
            self.references += shape.references.len();
            class.shape = Some(Rc::new(shape));
        }
        class.shape.clone()
    }

    pub fn name(&self, heap: &Heap, number: u32) -> Option<String> {
        let class = self.all.get(number as usize)?;
        Some(class_name(&heap.class_symbol(class.address)?))
    }

    /// Objects of boot classes are held by the JVM itself: their loader is none.
    pub fn is_boot(&self, heap: &Heap, number: u32) -> bool {
        let class = self.all.get(number as usize);
        class.is_some_and(|class| {
            heap.handle(class.loader, heap.layout.loader.object)
                .is_none()
        })
    }
}

fn shape(heap: &Heap, class: u64) -> Option<Shape> {
    let helper = heap.helper(class)?;
    if helper < 0 {
        let is_plain = helper as u32 >> 30 == ITEMS_ARE_PLAIN;
        return Some(Shape {
            kind: if is_plain { Kind::Plain } else { Kind::Objects },
            bytes: array_header(helper),
            item: (helper as u32 & 0xff).min(3),
            references: Vec::new(),
        });
    }
    let name = heap.class_symbol(class)?;
    let kind = match name.as_str() {
        "java/lang/Class" => Kind::Mirror,
        "jdk/internal/vm/StackChunk" => Kind::Frames,
        _ => Kind::Instance,
    };
    Some(Shape {
        kind,
        bytes: (helper & !SIZE_IS_SLOW) as u64,
        item: 0,
        references: references(heap, class)?,
    })
}

/// Of a class and of those that it inherits from. What a soft reference refers to stays as long as there is room; what
/// others of java.lang.ref refer to does not stay because of them.
fn references(heap: &Heap, class: u64) -> Option<Vec<u32>> {
    let (mut references, mut is_soft) = (Vec::new(), false);
    for class in heap.lineage(class) {
        let name = heap.class_symbol(class)?;
        is_soft |= matches!(
            name.as_str(),
            "java/lang/ref/SoftReference" | "java/lang/ref/FinalReference"
        );
        let is_reference = name == "java/lang/ref/Reference";
        for field in heap.fields(class)? {
            let name = is_reference
                .then(|| heap.field_name(class, field))
                .flatten();
            let is_left_out = name.is_some_and(|name| {
                NOT_FOLLOWED.contains(&name.as_str()) && !(is_soft && name == "referent")
            });
            if !field.is_static && !is_left_out && references.len() < REFERENCES_OF_CLASS {
                references.push(field.offset);
            }
        }
    }
    references.sort_unstable();
    references.dedup();
    Some(references)
}
