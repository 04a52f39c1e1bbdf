//! The objects of a heap snapshot of V8, and the references between them.

use std::collections::{BTreeMap, HashMap};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub kind: EdgeKind,
    pub to: u32,
    name: u32,
}

#[derive(Debug, Default)]
pub struct Graph {
    pub(super) kinds: Vec<Kind>,
    pub(super) names: Vec<u32>,
    pub(super) sizes: Vec<u32>,
    /// Of each object; its edges end where the next one's begin.
    pub(super) first_edges: Vec<u32>,
    pub(super) edge_kinds: Vec<EdgeKind>,
    pub(super) edge_names: Vec<u32>,
    pub(super) edge_targets: Vec<u32>,
    /// Lines of functions, from zero.
    pub(super) lines: HashMap<u32, u32>,
    /// Where a function is described (a SharedFunctionInfo), with one of its closures. Read from outside alone.
    pub(super) shared: BTreeMap<u64, u32>,
    pub(super) strings: Vec<Box<str>>,
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
        self.lines.get(&node).map(|line| line.saturating_add(1))
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
        let end = self.edge_kinds.len() as u32;
        let first = |node: usize| self.first_edges.get(node).map_or(end, |first| *first);
        first(node as usize)..first(node as usize + 1)
    }

    pub fn edge(&self, edge: u32) -> Edge {
        let at = edge as usize;
        Edge {
            kind: self.edge_kinds[at],
            to: self.edge_targets[at],
            name: self.edge_names[at],
        }
    }

    /// What a reference has in common with others: its name, what it leads to, what it belongs to. Two that are equal
    /// are written alike.
    pub fn sort_of(&self, edge: u32, owner: u32) -> (Edge, u32, bool) {
        let edge = self.edge(edge);
        let name = self.names[edge.to as usize];
        let to = self.kind(edge.to) as u32;
        (Edge { to, ..edge }, name, owner == 0)
    }
}
