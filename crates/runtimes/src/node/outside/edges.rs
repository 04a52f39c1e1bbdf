//! What one object refers to, and how the references are named.

use std::rc::Rc;

use super::build::{Builder, ENTRY_BYTES, Stop};
use super::heap::{count, pointer};
use super::shapes::{Form, Shape, entries};
use crate::node::graph::{EdgeKind, Kind};

/// Read at once.
const SLICE_WORDS: usize = 256;
/// An object with more properties is a dictionary: its keys are data, and are not kept.
const KEYS_MAX: u64 = 100;
/// Of the global object.
const GLOBALS_MAX: u64 = 10_000;
const NAME_LETTERS: usize = 100;
/// With more variables their names are in a hash table (`kScopeInfoMaxInlinedLocalNamesSize`).
const VARIABLES_INLINED_MAX: u64 = 75;
const VARIABLES_MAX: u64 = 10_000;
/// Words of a context before its variables.
const CONTEXT_HEADER: std::ops::RangeInclusive<u64> = 2..=3;

/// How references are named, by the index of their word.
enum Labels {
    Shape(Rc<Shape>),
    Items,
    Context { header: u64, names: Rc<[u32]> },
    Unnamed,
}

impl Labels {
    fn of(&self, index: u64) -> (EdgeKind, u32) {
        let find = |named: &[(u16, u32)]| {
            let index = u16::try_from(index).ok()?;
            named
                .iter()
                .find(|(word, _)| *word == index)
                .map(|(_, name)| *name)
        };
        match self {
            Labels::Shape(shape) => match (find(&shape.internal), find(&shape.fields)) {
                (Some(name), _) => (EdgeKind::Internal, name),
                (None, Some(name)) => (EdgeKind::Property, name),
                (None, None) => (EdgeKind::Other, 0),
            },
            Labels::Items => (EdgeKind::Element, 0),
            Labels::Context { header, names } => {
                let at = index
                    .checked_sub(2 + header)
                    .and_then(|at| usize::try_from(at).ok());
                match at.and_then(|at| names.get(at)) {
                    Some(name) => (EdgeKind::Context, *name),
                    None => (EdgeKind::Other, 0),
                }
            }
            Labels::Unnamed => (EdgeKind::Other, 0),
        }
    }
}

impl Builder<'_> {
    /// Adds the references of a node.
    pub fn visit(&mut self, node: u32) -> Result<(), Stop> {
        let Some(address) = self.nodes.address(node) else {
            return Ok(());
        };
        let Some(map) = self.heap.word(address, 0) else {
            return Ok(());
        };
        let Some(shape) = self.shape(map) else {
            return Ok(());
        };
        if self.mapped.insert(map) {
            self.refer(map, EdgeKind::Other, 0);
        }
        if self.is_weak_table(node, &shape) {
            self.tables.push(node);
            return Ok(());
        }
        let types = &self.heap.layout.types;
        let own_type = shape.own_type;
        let words = self.words(address, &shape).unwrap_or(0);
        match shape.form {
            Form::Words if own_type == types.weak_ref => {
                self.scan(address, 1..3, &Labels::Shape(shape))
            }
            Form::Words if own_type >= types.receiver => self.visit_object(address, &shape),
            Form::Words => self.scan(address, 1..words, &Labels::Shape(shape)),
            Form::Array if types.is_context(own_type) => self.visit_context(address, words),
            Form::Array => self.scan(address, 2..words, &Labels::Items),
            Form::Properties => self.scan(address, 2..words, &Labels::Items),
            Form::Descriptors => self.scan(address, 2..words, &Labels::Unnamed),
            Form::Scope | Form::Feedback => self.scan_to_end(address, words),
            Form::Bytecode => {
                let header = self.heap.layout.bytecode_data / 8;
                self.scan(address, 1..header, &Labels::Unnamed)
            }
            Form::Leaf if own_type == types.code => self.scan(address, 1..6, &Labels::Unnamed),
            Form::Doubles | Form::Bytes | Form::Text { .. } | Form::Leaf => Ok(()),
        }
    }

    fn is_weak_table(&self, node: u32, shape: &Shape) -> bool {
        self.weak_type == Some(shape.own_type) || self.weak_tables.contains(&node)
    }

    fn scan(
        &mut self,
        address: u64,
        words: std::ops::Range<u64>,
        labels: &Labels,
    ) -> Result<(), Stop> {
        let mut buffer = [0; SLICE_WORDS * 8];
        let mut at = words.start;
        while at < words.end {
            let part = (words.end - at).min(SLICE_WORDS as u64);
            let bytes = &mut buffer[..part as usize * 8];
            let from = at
                .checked_mul(8)
                .and_then(|offset| address.checked_add(offset));
            if from.and_then(|from| self.read(from, bytes)).is_none() {
                return Ok(());
            }
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_le_bytes(*word);
                if pointer(word).is_some() {
                    let (kind, name) = labels.of(at + index as u64);
                    let to = self.refer(word, kind, name);
                    self.count_lost(word, (kind, name), to);
                }
            }
            at += part;
            if part == SLICE_WORDS as u64 {
                self.check()?;
            }
        }
        Ok(())
    }

    /// What leads nowhere and always leads to an object: variables, and the arrays that belong to one object.
    fn count_lost(&mut self, word: u64, (kind, name): (EdgeKind, u32), to: Option<u32>) {
        let is_own = kind == EdgeKind::Internal && self.own_arrays.contains(&name);
        let is_right = match to {
            Some(to) => !is_own || self.graph.kind(to) == Kind::Array,
            None if is_own || kind == EdgeKind::Context => {
                // What may not be written was left out.
                let areas = &self.heap.pages.source().areas;
                areas.is_anonymous(word) && !areas.is_writable_anonymous(word)
            }
            None => true,
        };
        if !is_right {
            self.lost = self.lost.wrapping_add(word);
        }
    }

    fn read(&self, from: u64, bytes: &mut [u8]) -> Option<()> {
        observe::fact::memory::Memory::read(&self.heap.pages, from, bytes)
    }

    /// An object of which only about is known how long it is: the next one starts with a strong pointer to a Map, and
    /// it has none.
    fn scan_to_end(&mut self, address: u64, words: u64) -> Result<(), Stop> {
        const WORDS_MAX: u64 = 1 << 16;
        for index in 1..words.min(WORDS_MAX) {
            let Some(word) = self.heap.word(address, 8 * index) else {
                break;
            };
            if pointer(word).is_none() {
                continue;
            }
            if self.heap.is(word, self.heap.layout.types.map).is_some() {
                break;
            }
            self.refer(word, EdgeKind::Other, 0);
        }
        self.check()
    }

    fn visit_object(&mut self, address: u64, shape: &Rc<Shape>) -> Result<(), Stop> {
        let types = &self.heap.layout.types;
        let (own_type, properties) = (shape.own_type, self.heap.word(address, 8));
        let (is_global, is_buffer) = (own_type == types.global, own_type == types.buffer);
        if own_type == types.weak_map || own_type == types.weak_set {
            let table = self.heap.word(address, 24);
            self.weak_table(table.unwrap_or(0));
        }
        self.scan(address, 1..shape.words, &Labels::Shape(shape.clone()))?;
        let Some(properties) = properties else {
            return Ok(());
        };
        if is_global {
            self.refer_to_globals(properties);
        } else if shape.is_dictionary {
            self.refer_to_entries(properties);
        }
        for (index, name) in &shape.far {
            let array = pointer(properties);
            let word = array.and_then(|array| self.heap.item(array, (*index).into()));
            if let Some(word) = word {
                self.refer(word, EdgeKind::Property, *name);
            }
        }
        if is_buffer {
            self.refer_to_store(address);
        }
        Ok(())
    }

    fn weak_table(&mut self, word: u64) {
        if let Some((_, own_type)) = self.heap.object(word)
            && self.heap.layout.types.is_array(own_type)
            && let Some(to) = self.refer(word, EdgeKind::Other, 0)
        {
            self.weak_type.get_or_insert(own_type);
            self.weak_tables.insert(to);
        }
    }

    /// Properties of an object in a NameDictionary.
    fn refer_to_entries(&mut self, table: u64) {
        const ENTRY_WORDS: u64 = 3;
        for (key, value) in self.entries(table, ENTRY_WORDS) {
            let name = key.map_or(0, |key| self.text(key));
            self.refer(value, EdgeKind::Property, name);
        }
    }

    /// Keys, if they are names, and values that are references.
    fn entries(&self, table: u64, words: u64) -> Vec<(Option<u64>, u64)> {
        const ENTRIES_MAX: usize = 1 << 20;
        let mut found = Vec::new();
        let read = entries(&self.heap, table, words, &mut |key, value| {
            if pointer(value).is_some() && found.len() < ENTRIES_MAX {
                found.push((Some(key), value));
            }
        });
        if read.is_none() || found.len() as u64 > KEYS_MAX {
            for (key, _) in &mut found {
                *key = None;
            }
        }
        found
    }

    fn text(&mut self, word: u64) -> u32 {
        let text = self.heap.text(word, NAME_LETTERS);
        text.map_or(0, |text| self.name(&text))
    }

    /// The global object's GlobalDictionary has a PropertyCell for each: name, details, value.
    fn refer_to_globals(&mut self, table: u64) {
        let mut cells = Vec::new();
        let most = GLOBALS_MAX as usize;
        entries(&self.heap, table, 1, &mut |cell, _| {
            if cells.len() < most {
                cells.push(cell);
            }
        });
        for cell in cells {
            let Some(cell) = self.heap.is(cell, self.heap.layout.types.cell) else {
                continue;
            };
            let words = self.heap.word(cell, 8).zip(self.heap.word(cell, 24));
            let Some((name, value)) = words.filter(|(_, value)| pointer(*value).is_some()) else {
                continue;
            };
            let name = self.text(name);
            self.refer(value, EdgeKind::Property, name);
        }
    }

    /// The memory of an ArrayBuffer, once however many buffers share it.
    fn refer_to_store(&mut self, address: u64) {
        let layout = self.heap.layout;
        let store = self.heap.word(address, layout.buffer_store).unwrap_or(0);
        let bytes = self.heap.word(address, layout.buffer_bytes).unwrap_or(0);
        let is_mapped = self.heap.pages.source().areas.holds(store, bytes);
        if bytes > 0 && is_mapped && self.stores.insert(store) {
            let name = self.name("system / JSArrayBufferData");
            let to = self.add(0, Kind::Native, name, bytes);
            let name = self.name("backing_store");
            self.edge(EdgeKind::Internal, name, to);
        }
    }

    fn visit_context(&mut self, address: u64, words: u64) -> Result<(), Stop> {
        let scope = self.heap.word(address, 16).unwrap_or(0);
        let names = self.variables_of(scope);
        let length = words.saturating_sub(2);
        let header = length.saturating_sub(names.len() as u64);
        let header = header.clamp(*CONTEXT_HEADER.start(), *CONTEXT_HEADER.end());
        self.scan(address, 2..words, &Labels::Context { header, names })
    }

    fn variables_of(&mut self, scope: u64) -> Rc<[u32]> {
        if let Some(known) = self.variables.get(&scope) {
            return known.clone();
        }
        let names: Rc<[u32]> = self.read_variables(scope).unwrap_or_default().into();
        self.spend(ENTRY_BYTES + 4 * names.len());
        self.variables.insert(scope, names.clone());
        names
    }

    fn read_variables(&mut self, scope: u64) -> Option<Vec<u32>> {
        let scope = self.heap.is(scope, self.heap.layout.types.scope)?;
        let layout = self.heap.layout;
        let locals = count(self.heap.word(scope, 8 * (layout.scope_locals + 1))?)?;
        if locals > VARIABLES_MAX {
            return None;
        }
        let first = 8 * (layout.scope_names + 1);
        // Of a module how many variables it has comes first.
        let is_number = count(self.heap.word(scope, first)?).is_some();
        let first = first + 8 * u64::from(is_number);
        if locals > VARIABLES_INLINED_MAX {
            return self.variables_of_table(self.heap.word(scope, first)?, locals);
        }
        let name = |index: u64| {
            let word = self.heap.word(scope, first + 8 * index);
            word.map_or(0, |word| self.text(word))
        };
        Some((0..locals).map(name).collect())
    }

    /// Names with the number of their variable.
    fn variables_of_table(&mut self, table: u64, locals: u64) -> Option<Vec<u32>> {
        let mut names = vec![0; usize::try_from(locals).ok()?];
        let mut found = Vec::new();
        entries(&self.heap, table, 2, &mut |name, number| {
            if found.len() < names.len() {
                found.push((name, count(number)));
            }
        })?;
        for (name, number) in found {
            let at = number.and_then(|number| usize::try_from(number).ok());
            let number = self.text(name);
            if let Some(slot) = at.and_then(|at| names.get_mut(at)) {
                *slot = number;
            }
        }
        Some(names)
    }
}
