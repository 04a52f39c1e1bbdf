//! Functions of the program that fill the field which holds objects, or make objects of a type: by their bytecodes.

use std::collections::{HashMap, HashSet};

use observe::fact::memory::Memory;
use symbols::hotspot::{JavaMethods, in_platform, tagged};

use super::super::held::{self, OwnField};
use super::super::sample::Sample;
use super::bytecodes::{Use, uses};
use super::classes::Classes;
use super::heap::{Heap, class_name};
use super::layout::Entries;
use crate::{Holder, Language, is_of_the_language};

const METHODS_MAX: u64 = 65_535;
const LISTED_MAX: usize = 3;
/// Places in the code that are kept of each kind.
const PLACES_MAX: usize = 64;

/// Methods that put something into what they are called on.
const ADDS: [&str; 21] = [
    "add",
    "addAll",
    "addElement",
    "addFirst",
    "addLast",
    "append",
    "compute",
    "computeIfAbsent",
    "enqueue",
    "insert",
    "merge",
    "offer",
    "offerFirst",
    "offerLast",
    "push",
    "put",
    "putAll",
    "putIfAbsent",
    "register",
    "set",
    "write",
];

/// What is added to these is text.
const TEXT: [&str; 3] = [
    "java.io.PrintStream",
    "java.lang.StringBuffer",
    "java.lang.StringBuilder",
];

/// Classes of which any call of these methods starts a thread, at once or later.
const STARTS: [(&str, &str); 7] = [
    ("java.lang.Thread", "<init>"),
    ("java.util.Timer", "<init>"),
    ("java.util.concurrent.Executors", "new"),
    ("java.util.concurrent.ForkJoinPool", "<init>"),
    ("java.util.concurrent.ScheduledThreadPoolExecutor", "<init>"),
    ("java.util.concurrent.ThreadPoolExecutor", "<init>"),
    ("java.lang.Thread", "ofVirtual"),
];
const THREAD: &str = "java.lang.Thread";

/// What is looked for: fields with all classes that they may be named by, and types.
#[derive(Default)]
struct Wanted {
    fields: Vec<HashSet<(String, String)>>,
    types: Vec<String>,
    found: Vec<Found>,
}

/// Places in the code, as a stack has them ([`tagged`]).
#[derive(Default, Clone)]
struct Found {
    adds: Vec<u64>,
    puts: Vec<u64>,
    makes: Vec<u64>,
}

/// What a method does.
#[derive(Default)]
struct Does {
    gets: Vec<(u16, (String, String))>,
    puts: Vec<(u16, (String, String))>,
    news: Vec<(u16, String)>,
    adds: bool,
    starts: Option<u16>,
}

/// From samples of objects, by type, to what holds them and the code that fills it.
pub fn holders(
    pid: u32,
    heap: &Heap,
    classes: &Classes,
    samples: Vec<(String, Vec<Sample>)>,
) -> Vec<Holder> {
    let groups = samples
        .iter()
        .flat_map(|(name, samples)| held::groups(samples, name));
    let groups: Vec<(Holder, Option<OwnField>)> = groups.collect();
    let mut wanted = Wanted::default();
    for (holder, field) in &groups {
        let names = field.iter().flat_map(|field| {
            let owners = above(heap, classes, &field.class);
            owners.into_iter().map(|owner| (owner, field.name.clone()))
        });
        wanted.fields.push(names.collect());
        wanted.types.push(holder.type_name.clone());
        wanted.found.push(Found::default());
    }
    wanted.search(heap, classes);
    let mut methods = JavaMethods::default();
    let mut named = |places: &[u64]| {
        let mut names: Vec<String> = Vec::new();
        for place in places {
            if names.len() == LISTED_MAX {
                break;
            }
            let frame = methods.at(pid, *place);
            let written = frame.and_then(|frame| held::written(&frame));
            names.extend(written.filter(|name| !names.contains(name)));
        }
        names
    };
    let filled = groups.into_iter().zip(&wanted.found);
    filled
        .map(|((holder, _), found)| Holder {
            users: named(if found.adds.is_empty() {
                &found.puts
            } else {
                &found.adds
            }),
            makers: named(match names_a_maker(&holder.type_name) {
                true => &found.makes,
                false => &[],
            }),
            ..holder
        })
        .collect()
}

/// Types of the language are made anywhere.
fn names_a_maker(type_name: &str) -> bool {
    type_name == THREAD || !is_of_the_language(Language::Java, type_name)
}

/// A class and all that it inherits from, by name.
fn above(heap: &Heap, classes: &Classes, name: &str) -> Vec<String> {
    let mut numbers = 0..classes.all.len() as u32;
    let is_it = |number: &u32| classes.name(heap, *number).as_deref() == Some(name);
    let class = numbers.find(|number| heap.pages.is_late() || is_it(number));
    let class = class.and_then(|class| classes.all.get(class as usize));
    let above = class
        .into_iter()
        .flat_map(|class| heap.lineage(class.address))
        .skip(1);
    let names = above.filter_map(|class| Some(class_name(&heap.class_symbol(class)?)));
    std::iter::once(name.to_owned()).chain(names).collect()
}

impl Wanted {
    fn search(&mut self, heap: &Heap, classes: &Classes) {
        if self.fields.is_empty() {
            return;
        }
        for class in &classes.all {
            if heap.pages.is_late() {
                return;
            }
            let is_array = heap.helper(class.address).is_none_or(|helper| helper < 0);
            let symbol = heap.class_symbol(class.address).filter(|_| !is_array);
            let Some(name) = symbol.map(|symbol| class_name(&symbol)) else {
                continue;
            };
            if !in_platform(&name) {
                self.class(heap, class.address);
            }
        }
    }

    fn class(&mut self, heap: &Heap, class: u64) -> Option<()> {
        let methods = heap.pointer(class, heap.layout.instance.methods)?;
        let pool = Pool::of(heap, class)?;
        let count = u64::from(heap.int(methods, 0)?).min(METHODS_MAX);
        for at in 0..count {
            if heap.pages.is_late() {
                return None;
            }
            let method = heap.word(methods, 8 + 8 * at)?;
            if let Some(does) = does(heap, &pool, method) {
                self.method(method, &does);
            }
        }
        Some(())
    }

    fn method(&mut self, method: u64, does: &Does) {
        let place = |at: u16| tagged(method, Some(u64::from(at)));
        let wanted = self.fields.iter().zip(&self.types).zip(&mut self.found);
        for ((fields, type_name), found) in wanted {
            let used = |uses: &[(u16, (String, String))]| {
                let use_of = uses.iter().find(|(_, field)| fields.contains(field));
                use_of.map(|(at, _)| place(*at))
            };
            let made = does.news.iter().find(|(_, name)| name == type_name);
            let started = does.starts.filter(|_| type_name == THREAD);
            let made = made.map(|(at, _)| place(*at)).or(started.map(place));
            let all = [
                (&mut found.adds, used(&does.gets).filter(|_| does.adds)),
                (&mut found.puts, used(&does.puts)),
                (&mut found.makes, made),
            ];
            for (places, place) in all {
                let has_room = places.len() < PLACES_MAX;
                places.extend(place.filter(|_| has_room));
            }
        }
    }
}

fn does(heap: &Heap, pool: &Pool, method: u64) -> Option<Does> {
    let of = heap.layout.method;
    let const_method = heap.pointer(method, of.const_method)?;
    let length = u64::from(heap.half(const_method, of.code_size)?);
    let begin = const_method.checked_add(of.const_method_bytes)?;
    let code = heap.pages.bytes(begin, length, METHODS_MAX)?;
    let mut does = Does::default();
    for (at, found) in uses(&code) {
        match found {
            Use::Get(index) => does.gets.extend(pool.field(heap, index).map(|of| (at, of))),
            Use::Put(index) => does.puts.extend(pool.field(heap, index).map(|of| (at, of))),
            Use::Call(index) => {
                let Some((class, name)) = pool.method(heap, index) else {
                    continue;
                };
                does.adds |= ADDS.contains(&name.as_str()) && !TEXT.contains(&class.as_str());
                let starts = |(of, what): &(&str, &str)| *of == class && name.starts_with(what);
                if STARTS.iter().any(starts) {
                    does.starts.get_or_insert(at);
                }
            }
            Use::New(index) => does.news.extend(pool.class(heap, index).map(|of| (at, of))),
        }
    }
    Some(does)
}

/// The constants of a class. Names are looked up once.
struct Pool {
    address: u64,
    /// `None`: the class was not linked, and its code was not rewritten.
    cache: Option<u64>,
    names: std::cell::RefCell<HashMap<u16, Option<String>>>,
}

impl Pool {
    fn of(heap: &Heap, class: u64) -> Option<Pool> {
        let address = heap.pointer(class, heap.layout.instance.constants)?;
        Some(Pool {
            address,
            cache: heap.pointer(address, heap.layout.pool.cache),
            names: Default::default(),
        })
    }

    fn name(&self, heap: &Heap, index: u16) -> Option<String> {
        let mut names = self.names.borrow_mut();
        let name = names
            .entry(index)
            .or_insert_with(|| heap.constant(self.address, index));
        name.clone()
    }

    /// The number in an instruction leads to the cache, and that to the constants.
    fn constant_index(&self, heap: &Heap, index: u16, is_field: bool) -> Option<u16> {
        let cache = self.cache?;
        let index = u64::from(index);
        let pool = heap.layout.pool;
        match if is_field { pool.fields } else { pool.methods } {
            Entries::Inside {
                begin,
                bytes,
                index: at,
            } => heap.half(cache, begin + bytes * index + at),
            Entries::Apart {
                array,
                bytes,
                index: at,
            } => {
                let array = heap.pointer(cache, array)?;
                let length = u64::from(heap.int(array, 0)?);
                let offset = 8 + bytes * index + at;
                (index < length).then(|| heap.half(array, offset))?
            }
        }
    }

    /// Class and name of what a field or method instruction is about.
    fn member(&self, heap: &Heap, index: u16, is_field: bool) -> Option<(u16, u16)> {
        let index = self.constant_index(heap, index, is_field)?;
        let word = heap.constant_word(self.address, index)? as u32;
        let (class, name_and_type) = (word as u16, (word >> 16) as u16);
        let name = heap.constant_word(self.address, name_and_type)? as u16;
        Some((class, name))
    }

    fn field(&self, heap: &Heap, index: u16) -> Option<(String, String)> {
        let (class, name) = self.member(heap, index, true)?;
        Some((self.class(heap, class)?, self.name(heap, name)?))
    }

    fn method(&self, heap: &Heap, index: u16) -> Option<(String, String)> {
        let (class, name) = self.member(heap, index, false)?;
        Some((self.class(heap, class)?, self.name(heap, name)?))
    }

    /// A constant that is a class has the index of its name in the upper half.
    fn class(&self, heap: &Heap, index: u16) -> Option<String> {
        let word = heap.constant_word(self.address, index)? as u32;
        let name = self.name(heap, (word >> 16) as u16)?;
        Some(class_name(&name))
    }
}
