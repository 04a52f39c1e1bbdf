//! From the roots to every object that is held, each once: the graph that a heap snapshot of V8 would have.

use std::collections::btree_map::Entry;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use symbols::v8::Functions;

use super::heap::{Heap, count, pointer};
use super::nodes::Nodes;
use super::roots::Roots;
use super::shapes::{self, Form, Place, Shape};
use crate::memory::hash::AddressHash;
use crate::node::graph::{EdgeKind, Graph, Kind};

/// Between two checks of the time and of our memory.
const NODES_PER_CHECK: u32 = 256;
/// Of a hash table: the pointer, the key, and room that is left.
pub const ENTRY_BYTES: usize = 40;
const STRING_BYTES: usize = 96;
/// A file's name.
const FILE_LETTERS: usize = 256;
/// The node of all conservative roots.
const ROOTS: u32 = 1;

/// Why there is no graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    TooLarge,
    Late,
}

/// A graph, and what was lost on the way.
pub struct Built {
    pub graph: Graph,
    /// Sum of the references that lead nowhere, because what was there has moved: zero, there are none.
    pub lost: u64,
}

/// A function, as its SharedFunctionInfo describes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Described {
    pub name: u32,
    /// From zero.
    pub line: Option<u32>,
}

/// Builds a graph.
pub struct Builder<'m> {
    pub heap: Heap<'m>,
    pub graph: Graph,
    pub nodes: Nodes,
    functions: Option<Functions>,
    names: HashMap<Box<str>, u32>,
    shapes: HashMap<u64, Option<Rc<Shape>>, AddressHash>,
    described: HashMap<u64, Described, AddressHash>,
    /// Names of the variables of a ScopeInfo.
    pub variables: HashMap<u64, Rc<[u32]>, AddressHash>,
    pub stores: HashSet<u64, AddressHash>,
    /// Maps of which a node was made.
    pub mapped: HashSet<u64, AddressHash>,
    /// Tables of WeakMaps and WeakSets, and the type that such tables have.
    pub weak_tables: HashSet<u32>,
    pub weak_type: Option<u16>,
    /// Such tables that were visited.
    pub tables: Vec<u32>,
    /// References that were found after their owner's: owner, name, target.
    pub late_edges: Vec<(u32, u32, u32)>,
    /// Names of what belongs to one object.
    pub own_arrays: [u32; 3],
    /// Sum of the references that lead nowhere and should lead to an object.
    pub lost: u64,
    /// Of names, shapes and tables.
    bytes: usize,
    bytes_max: usize,
}

impl<'m> Builder<'m> {
    pub fn new(heap: Heap<'m>, functions: Option<Functions>, bytes_max: usize) -> Builder<'m> {
        let mut builder = Builder {
            heap,
            graph: Graph::default(),
            nodes: Nodes::default(),
            functions,
            names: HashMap::new(),
            shapes: HashMap::default(),
            described: HashMap::default(),
            variables: HashMap::default(),
            stores: HashSet::default(),
            mapped: HashSet::default(),
            weak_tables: HashSet::new(),
            weak_type: None,
            tables: Vec::new(),
            late_edges: Vec::new(),
            own_arrays: [0; 3],
            lost: 0,
            bytes: 0,
            bytes_max,
        };
        builder.name("");
        builder.own_arrays = ["properties", "elements", "table"].map(|name| builder.name(name));
        builder
    }

    /// Everything that the roots hold.
    pub fn build(mut self, roots: &Roots) -> Result<Built, Stop> {
        let name = self.name("(GC roots)");
        self.add(0, Kind::Synthetic, 0, 0);
        self.add(0, Kind::Synthetic, name, 0);
        self.graph.first_edges.push(0);
        for global in &roots.globals {
            self.refer(*global, EdgeKind::Other, 0);
        }
        self.edge(EdgeKind::Other, 0, ROOTS);
        self.graph
            .first_edges
            .push(self.graph.edge_kinds.len() as u32);
        for word in &roots.words {
            self.refer(*word, EdgeKind::Other, 0);
        }
        self.check()?;
        self.drain()?;
        self.reach_weakly_keyed()?;
        self.merge_late_edges();
        Ok(Built {
            graph: self.graph,
            lost: self.lost,
        })
    }

    /// Visits the nodes that were not visited yet, in the order in which they were made.
    pub fn drain(&mut self) -> Result<(), Stop> {
        loop {
            let node = self.graph.first_edges.len() as u32;
            if node >= self.graph.len() {
                return Ok(());
            }
            self.graph
                .first_edges
                .push(self.graph.edge_kinds.len() as u32);
            if node.is_multiple_of(NODES_PER_CHECK) {
                self.check()?;
            }
            self.visit(node)?;
        }
    }

    /// Ends the reading when its time or its memory is over.
    pub fn check(&self) -> Result<(), Stop> {
        if self.heap.pages.is_late() {
            return Err(Stop::Late);
        }
        let graph = &self.graph;
        let nodes = graph.kinds.capacity() * 13 + self.nodes.bytes();
        let edges = graph.edge_kinds.capacity() * 9 + self.late_edges.capacity() * 12;
        // Numbers of objects and of references are 32 bits.
        let is_full = graph.edge_kinds.len().max(graph.kinds.len()) > u32::MAX as usize / 2;
        match is_full || nodes + edges + self.bytes > self.bytes_max {
            true => Err(Stop::TooLarge),
            false => Ok(()),
        }
    }

    /// Counts memory of ours.
    pub fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub fn add(&mut self, address: u64, kind: Kind, name: u32, bytes: u64) -> u32 {
        self.graph.kinds.push(kind);
        self.graph.names.push(name);
        self.graph
            .sizes
            .push(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.nodes.add(address)
    }

    /// Of the node that is visited.
    pub fn edge(&mut self, kind: EdgeKind, name: u32, to: u32) {
        self.graph.edge_kinds.push(kind);
        self.graph.edge_names.push(name);
        self.graph.edge_targets.push(to);
    }

    /// A reference of the node that is visited, if the word is one.
    pub fn refer(&mut self, word: u64, kind: EdgeKind, name: u32) -> Option<u32> {
        let to = self.node(word)?;
        self.edge(kind, name, to);
        Some(to)
    }

    /// The node of the object that a word points to, made if there is none yet.
    pub fn node(&mut self, word: u64) -> Option<u32> {
        let mut address = pointer(word)?;
        if let Some(known) = self.nodes.find(address) {
            return Some(known);
        }
        // What may not be written is V8's own and holds nothing of the program.
        let areas = &self.heap.pages.source().areas;
        if !areas.is_writable_anonymous(address) {
            return None;
        }
        let mut map = self.heap.word(address, 0)?;
        if map & 1 == 0 && map.is_multiple_of(8) && map != 0 {
            // The object has moved there.
            address = map;
            if let Some(known) = self.nodes.find(address) {
                return Some(known);
            }
            if !self
                .heap
                .pages
                .source()
                .areas
                .is_writable_anonymous(address)
            {
                return None;
            }
            map = self.heap.word(address, 0)?;
        }
        let shape = self.shape(map)?;
        Some(self.add_object(address, &shape))
    }

    fn add_object(&mut self, address: u64, shape: &Shape) -> u32 {
        let types = &self.heap.layout.types;
        let (mut kind, mut name, mut line) = (shape.kind, shape.name, None);
        let mut function = None;
        if types.may_be_function(shape.own_type) {
            let shared = self.heap.word(address, self.heap.layout.function_shared);
            if let Some(described) = shared.and_then(|shared| self.described(shared)) {
                (kind, name, line) = (Kind::Closure, described.name, described.line);
                function = shared;
            }
        } else if shape.own_type == types.script {
            let file = self.heap.word(address, self.heap.layout.script_name);
            let file = file.and_then(|word| self.heap.text(word, FILE_LETTERS));
            name = self.name(&file.unwrap_or_default());
        }
        let bytes = self.size(address, shape);
        let node = self.add(address, kind, name, bytes);
        if let Some(line) = line {
            self.spend(ENTRY_BYTES);
            self.graph.lines.insert(node, line);
        }
        if let Some(shared) = function
            && let Entry::Vacant(entry) = self.graph.shared.entry(shared)
        {
            entry.insert(node);
            self.spend(ENTRY_BYTES);
        }
        node
    }

    fn size(&self, address: u64, shape: &Shape) -> u64 {
        if shape.words > 0 {
            return 8 * shape.words;
        }
        8 * self.words(address, shape).unwrap_or(2)
    }

    /// Of an object whose Map does not say it; `None`: its count is garbage, it would end where nothing is mapped.
    pub fn words(&self, address: u64, shape: &Shape) -> Option<u64> {
        let words = self.count_words(address, shape)?;
        let areas = &self.heap.pages.source().areas;
        areas.holds(address, words.checked_mul(8)?).then_some(words)
    }

    fn count_words(&self, address: u64, shape: &Shape) -> Option<u64> {
        let heap = &self.heap;
        let length = || count(heap.word(address, 8)?);
        Some(match shape.form {
            Form::Words => shape.words,
            Form::Array | Form::Doubles => length()? + 2,
            Form::Bytes => length()?.div_ceil(8) + 2,
            Form::Properties => (count(heap.word(address, 8)?)? & 0x3ff) + 2,
            Form::Descriptors => {
                let property = &heap.layout.property;
                property.header / 8 + property.words * u64::from(heap.half(address, 8)?)
            }
            Form::Bytecode => (heap.layout.bytecode_data + length()?).div_ceil(8),
            Form::Feedback => u64::from(heap.int(address, 8)?) + 6,
            Form::Scope => {
                let locals = heap.word(address, 8 * (heap.layout.scope_locals + 1));
                heap.layout.scope_names + 2 * count(locals?)? + 6
            }
            Form::Text { is_wide } => {
                (u64::from(heap.int(address, 12)?) << u64::from(is_wide)).div_ceil(8) + 2
            }
            Form::Leaf => return None,
        })
    }

    pub fn name(&mut self, text: &str) -> u32 {
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        let number = self.graph.strings.len() as u32;
        self.spend(STRING_BYTES + 2 * text.len());
        self.graph.strings.push(text.into());
        self.names.insert(text.into(), number);
        number
    }

    /// The function of a SharedFunctionInfo; `None`: the word points to none.
    fn described(&mut self, word: u64) -> Option<Described> {
        let address = self.heap.is(word, self.heap.layout.types.shared)?;
        if let Some(known) = self.described.get(&address) {
            return Some(*known);
        }
        let function = self
            .functions
            .as_mut()
            .and_then(|functions| functions.read(word));
        let described = function.map_or_else(Described::default, |function| {
            // The name of one without a name is its place.
            let file = function.file.as_deref().unwrap_or_default();
            let short = file.rsplit('/').next().unwrap_or_default();
            let place = function.line.map(|line| format!("{short}:{line}"));
            let is_place = Some(&function.name) == place.as_ref();
            Described {
                name: if is_place {
                    0
                } else {
                    self.name(&function.name)
                },
                line: function.line.and_then(|line| line.checked_sub(1)),
            }
        });
        self.spend(ENTRY_BYTES);
        self.described.insert(address, described);
        Some(described)
    }

    /// Of the objects whose first word this is; `None`: it is no Map.
    pub fn shape(&mut self, map: u64) -> Option<Rc<Shape>> {
        if let Some(known) = self.shapes.get(&map) {
            return known.clone();
        }
        let shape = self.read_shape(map).map(Rc::new);
        self.spend(ENTRY_BYTES + shape.as_ref().map_or(0, |shape| shape.bytes()));
        self.shapes.insert(map, shape.clone());
        shape
    }

    fn read_shape(&mut self, word: u64) -> Option<Shape> {
        let map = self.heap.map(word)?;
        let of = &self.heap.layout.map;
        let own_type = self.heap.half(map, of.instance_type)?;
        let words = u64::from(self.heap.byte(map, of.words)?);
        let types = &self.heap.layout.types;
        let mut shape = Shape {
            own_type,
            form: shapes::form(types, own_type, words),
            words,
            kind: shapes::kind(types, own_type),
            name: 0,
            internal: Vec::new(),
            fields: Vec::new(),
            far: Vec::new(),
            is_dictionary: false,
        };
        if own_type >= types.receiver {
            shape.is_dictionary = shapes::is_dictionary(&self.heap, map);
            shape.name = self.constructor(map, own_type);
            if !shape.is_dictionary {
                self.name_fields(&mut shape, map);
            }
        }
        self.name_words(&mut shape);
        Some(shape)
    }

    fn name_fields(&mut self, shape: &mut Shape, map: u64) {
        for field in shapes::fields(&self.heap, map) {
            let name = self.name(&field.name);
            match field.place {
                Place::Inside(word) => shape.fields.push((word, name)),
                Place::Far(index) => shape.far.push((index, name)),
            }
        }
        shape.fields.sort_unstable();
    }

    /// V8's own names, as in its heap snapshots.
    fn name_words(&mut self, shape: &mut Shape) {
        let layout = self.heap.layout;
        let types = &layout.types;
        let own_type = shape.own_type;
        let mut named: Vec<(u64, &str)> = Vec::new();
        if own_type > types.receiver {
            named.extend([(8, "properties"), (16, "elements")]);
        }
        if own_type == types.js_map || own_type == types.js_set {
            named.push((24, "table"));
        }
        if types.may_be_function(own_type) {
            named.extend([
                (layout.function_shared, "shared"),
                (layout.function_context, "context"),
            ]);
        }
        if own_type == types.shared {
            named.extend(layout.shared_script.map(|offset| (offset, "script")));
        }
        for (offset, name) in named {
            shape.internal.push(((offset / 8) as u16, self.name(name)));
        }
    }

    /// The name of the function that makes the objects with a Map.
    fn constructor(&mut self, map: u64, own_type: u16) -> u32 {
        if own_type == self.heap.layout.types.global {
            return self.name("global");
        }
        let named = shapes::constructor(&self.heap, map).and_then(|word| self.name_of(word));
        named
            .filter(|name| *name != 0)
            .unwrap_or_else(|| self.name("Object"))
    }

    fn name_of(&mut self, word: u64) -> Option<u32> {
        const TEMPLATE_WORDS: u64 = 12;
        let (address, own_type) = self.heap.object(word)?;
        let types = &self.heap.layout.types;
        if types.may_be_function(own_type) {
            let shared = self.heap.word(address, self.heap.layout.function_shared)?;
            return self.described(shared).map(|described| described.name);
        }
        if own_type != types.template {
            return None;
        }
        let text = |index: u64| {
            let word = self.heap.word(address, 8 * index)?;
            let (_, own_type) = self.heap.object(word)?;
            let text = (own_type < types.non_string).then(|| self.heap.text(word, 100))?;
            text.filter(|text| !text.is_empty())
        };
        let text = (1..TEMPLATE_WORDS).find_map(text)?;
        Some(self.name(&text))
    }
}
