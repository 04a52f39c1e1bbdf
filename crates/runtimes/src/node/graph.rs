//! A heap snapshot of V8, parsed as it arrives: objects, and the references between them.
//!
//! The format (`.heapsnapshot`) is one JSON object: `snapshot.meta` names the fields, then come flat arrays of numbers
//! (`nodes`, `edges`, `locations`), and last the strings that the numbers point to. Memory is 18 bytes for an object
//! and 9 for a reference; of the strings only names are kept, never the contents of the program's strings.

use std::collections::HashMap;

use super::tokens::{Token, Tokenizer};

/// Bytes for an object, with the 5 that finding paths takes; for a reference.
const NODE_BYTES: u64 = 18;
const EDGE_BYTES: u64 = 9;
const STRINGS_MAX: usize = 1 << 26;
/// Names are shown to people.
const NAME_CHARS: usize = 100;

/// Kinds of objects, as V8 names them. Those that are not listed hold nothing that users name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Closure,
    Native,
    Array,
    String,
    Code,
    Synthetic,
    Hidden,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    Property,
    /// A variable that a closure uses.
    Context,
    /// The number of an item.
    Element,
    Internal,
    Weak,
    Other,
}

#[derive(Debug, Clone, Copy)]
pub struct Edge {
    pub kind: EdgeKind,
    pub to: u32,
    name: u32,
}

/// Why a snapshot was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Larger than our memory may be.
    TooLarge,
    Broken,
}

#[derive(Debug, Default)]
pub struct Graph {
    kinds: Vec<Kind>,
    names: Vec<u32>,
    sizes: Vec<u32>,
    /// Of each object; its edges end where the next one's begin.
    first_edges: Vec<u32>,
    edge_kinds: Vec<EdgeKind>,
    edge_names: Vec<u32>,
    edge_targets: Vec<u32>,
    /// Lines of functions, from zero.
    lines: HashMap<u32, u32>,
    strings: Vec<Box<str>>,
}

impl Graph {
    pub fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    pub fn kind(&self, node: u32) -> Kind {
        self.kinds[node as usize]
    }

    pub fn bytes(&self, node: u32) -> u64 {
        self.sizes[node as usize].into()
    }

    pub fn name(&self, node: u32) -> &str {
        self.string(self.names[node as usize])
    }

    pub fn line(&self, node: u32) -> Option<u32> {
        self.lines.get(&node).map(|line| line + 1)
    }

    pub fn edge_name(&self, edge: Edge) -> &str {
        match edge.kind {
            EdgeKind::Property | EdgeKind::Context | EdgeKind::Internal => self.string(edge.name),
            _ => "",
        }
    }

    fn string(&self, index: u32) -> &str {
        self.strings.get(index as usize).map_or("", |text| text)
    }

    /// Numbers of the edges of an object.
    pub fn edges_of(&self, node: u32) -> std::ops::Range<u32> {
        let first = |node: usize| self.first_edges.get(node).copied();
        first(node as usize).unwrap_or(0)
            ..first(node as usize + 1).unwrap_or(self.edge_kinds.len() as u32)
    }

    pub fn edge(&self, edge: u32) -> Edge {
        let at = edge as usize;
        Edge {
            kind: self.edge_kinds[at],
            to: self.edge_targets[at],
            name: self.edge_names[at],
        }
    }

    /// The object that an edge belongs to.
    pub fn owner_of(&self, edge: u32) -> u32 {
        self.first_edges
            .partition_point(|first| *first <= edge)
            .saturating_sub(1) as u32
    }
}

/// Builds a [`Graph`] from the pieces of a snapshot.
pub struct Parser {
    tokenizer: Tokenizer,
    building: Building,
}

#[derive(Default)]
struct Building {
    graph: Graph,
    bytes_max: u64,
    key: String,
    depth: u32,
    node_fields: Vec<String>,
    edge_fields: Vec<String>,
    node_kinds: Vec<Kind>,
    edge_kinds: Vec<EdgeKind>,
    nodes: u64,
    edges: u64,
    /// The fields of the object, reference or location that is being read.
    row: Vec<u64>,
    next_edge: u64,
    wanted: Vec<bool>,
    failed: Option<Unusable>,
}

impl Parser {
    pub fn new(bytes_max: usize) -> Parser {
        Parser {
            tokenizer: Tokenizer::default(),
            building: Building {
                bytes_max: bytes_max as u64,
                ..Building::default()
            },
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Unusable> {
        let building = &mut self.building;
        let pushed = self
            .tokenizer
            .push(bytes, &mut |token| building.take(token));
        match (pushed, building.failed) {
            (_, Some(why)) => Err(why),
            (Err(_), None) => Err(Unusable::Broken),
            (Ok(()), None) => Ok(()),
        }
    }

    pub fn finish(self) -> Result<Graph, Unusable> {
        let Building {
            graph,
            nodes,
            edges,
            ..
        } = self.building;
        let whole = graph.kinds.len() as u64 == nodes
            && graph.edge_kinds.len() as u64 == edges
            && nodes > 0;
        (whole && !graph.strings.is_empty())
            .then_some(graph)
            .ok_or(Unusable::Broken)
    }
}

impl Building {
    fn take(&mut self, token: Token) {
        if self.failed.is_some() {
            return;
        }
        match token {
            Token::Key(key) => {
                self.key.clear();
                self.key.push_str(key);
                self.depth = 0;
                self.row.clear();
                self.begin();
            }
            Token::ArrayStart => self.depth += 1,
            Token::ArrayEnd => self.depth = self.depth.saturating_sub(1),
            Token::Number(number) => self.number(number as u64),
            Token::String(text) => self.text(text),
            _ => {}
        }
    }

    fn begin(&mut self) {
        match self.key.as_str() {
            "nodes" => {
                let bytes = self.nodes.saturating_mul(NODE_BYTES);
                if bytes.saturating_add(self.edges.saturating_mul(EDGE_BYTES)) > self.bytes_max {
                    self.failed = Some(Unusable::TooLarge);
                }
            }
            "strings" => self.wanted = wanted(&self.graph),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match (self.key.as_str(), self.depth) {
            ("node_fields", 1) => self.node_fields.push(text.into()),
            ("edge_fields", 1) => self.edge_fields.push(text.into()),
            ("node_types", 2) => self.node_kinds.push(kind_of(text)),
            ("edge_types", 2) => self.edge_kinds.push(edge_kind_of(text)),
            ("strings", 1) => {
                let strings = &mut self.graph.strings;
                let is_wanted = self.wanted.get(strings.len()).copied().unwrap_or(false);
                strings.push(if is_wanted {
                    cut(text).into()
                } else {
                    "".into()
                });
                if strings.len() > STRINGS_MAX {
                    self.failed = Some(Unusable::TooLarge);
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, number: u64) {
        let width = match self.key.as_str() {
            "node_count" => return self.nodes = number,
            "edge_count" => return self.edges = number,
            "nodes" => self.node_fields.len(),
            "edges" => self.edge_fields.len(),
            "locations" => 4,
            _ => return,
        };
        self.row.push(number);
        if self.row.len() < width {
            return;
        }
        let added = match self.key.as_str() {
            "nodes" => self.add_node(),
            "edges" => self.add_edge(),
            _ => self.add_location(),
        };
        if added.is_none() {
            self.failed = Some(Unusable::Broken);
        }
        self.row.clear();
    }

    fn add_node(&mut self) -> Option<()> {
        let field = |name: &str| {
            let at = self.node_fields.iter().position(|field| field == name)?;
            self.row.get(at).copied()
        };
        let (kind, name) = (field("type")?, field("name")?);
        let (size, edges) = (field("self_size")?, field("edge_count")?);
        let graph = &mut self.graph;
        if graph.kinds.len() as u64 >= self.nodes {
            return None;
        }
        graph
            .kinds
            .push(*self.node_kinds.get(usize::try_from(kind).ok()?)?);
        graph.names.push(u32::try_from(name).ok()?);
        graph.sizes.push(u32::try_from(size).unwrap_or(u32::MAX));
        graph.first_edges.push(u32::try_from(self.next_edge).ok()?);
        self.next_edge = self.next_edge.checked_add(edges)?;
        Some(())
    }

    fn add_edge(&mut self) -> Option<()> {
        let field = |name: &str| {
            let at = self.edge_fields.iter().position(|field| field == name)?;
            self.row.get(at).copied()
        };
        let (kind, name, to) = (field("type")?, field("name_or_index")?, field("to_node")?);
        let graph = &mut self.graph;
        // A target is given by its place in the array of nodes.
        let to = to / self.node_fields.len() as u64;
        if graph.edge_kinds.len() as u64 >= self.edges || to >= graph.kinds.len() as u64 {
            return None;
        }
        graph
            .edge_kinds
            .push(*self.edge_kinds.get(usize::try_from(kind).ok()?)?);
        graph
            .edge_names
            .push(u32::try_from(name).unwrap_or(u32::MAX));
        graph.edge_targets.push(to as u32);
        Some(())
    }

    /// `object_index, script_id, line, column`
    fn add_location(&mut self) -> Option<()> {
        let node = u32::try_from(self.row[0] / self.node_fields.len().max(1) as u64).ok()?;
        if self.graph.kinds.get(node as usize)? == &Kind::Closure {
            self.graph
                .lines
                .insert(node, u32::try_from(self.row[2]).ok()?);
        }
        Some(())
    }
}

/// Which strings are names.
fn wanted(graph: &Graph) -> Vec<bool> {
    let nodes = graph.names.iter().zip(&graph.kinds);
    let nodes = nodes.filter(|(_, kind)| !matches!(kind, Kind::String | Kind::Other));
    let is_named = |kind: &EdgeKind| {
        matches!(
            kind,
            EdgeKind::Property | EdgeKind::Context | EdgeKind::Internal
        )
    };
    let edges = graph
        .edge_names
        .iter()
        .zip(&graph.edge_kinds)
        .filter(|(_, kind)| is_named(kind));
    let indices = nodes
        .map(|(name, _)| *name)
        .chain(edges.map(|(name, _)| *name));
    let mut wanted = Vec::new();
    for index in indices
        .map(|index| index as usize)
        .filter(|index| *index < STRINGS_MAX)
    {
        if wanted.len() <= index {
            wanted.resize(index + 1, false);
        }
        wanted[index] = true;
    }
    wanted
}

fn cut(text: &str) -> &str {
    text.char_indices()
        .nth(NAME_CHARS)
        .map_or(text, |(at, _)| &text[..at])
}

fn kind_of(name: &str) -> Kind {
    match name {
        "object" => Kind::Object,
        "closure" => Kind::Closure,
        "native" => Kind::Native,
        "array" => Kind::Array,
        "string" | "concatenated string" | "sliced string" => Kind::String,
        "code" => Kind::Code,
        "synthetic" => Kind::Synthetic,
        "hidden" | "object shape" => Kind::Hidden,
        _ => Kind::Other,
    }
}

fn edge_kind_of(name: &str) -> EdgeKind {
    match name {
        "property" => EdgeKind::Property,
        "context" => EdgeKind::Context,
        "element" => EdgeKind::Element,
        "internal" => EdgeKind::Internal,
        "weak" => EdgeKind::Weak,
        _ => EdgeKind::Other,
    }
}
