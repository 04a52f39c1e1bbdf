//! A heap snapshot of V8, parsed as it arrives.
//!
//! The format (`.heapsnapshot`) is one JSON object: `snapshot.meta` names the fields, then come flat arrays of numbers
//! (`nodes`, `edges`, `locations`), and last the strings that the numbers point to. Memory is 18 bytes for an object
//! and 9 for a reference; of the strings only names are kept, never the contents of the program's strings.

use super::graph::{EdgeKind, Graph, Kind};
use super::tokens::{Token, Tokenizer};

/// Bytes for an object, with the 5 that finding paths takes; for a reference.
const NODE_BYTES: u64 = 18;
const EDGE_BYTES: u64 = 9;
/// Beside its text: the pointer to it, what the allocator adds, and room that a vector has left.
const STRING_BYTES: u64 = 64;
/// With the room that a hash table has left.
const LINE_BYTES: u64 = 24;
/// V8 has 6 to 8 fields of an object and about 20 types.
const FIELDS_MAX: usize = 64;
/// Names are shown to people.
const NAME_CHARS: usize = 100;

/// Why a snapshot was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Larger than our memory may be.
    TooLarge,
    Broken,
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
    /// Of our memory.
    bytes: u64,
    /// The counts cannot change any more.
    has_begun: bool,
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
            next_edge,
            ..
        } = self.building;
        let whole = graph.kinds.len() as u64 == nodes
            && graph.edge_kinds.len() as u64 == edges
            && next_edge == edges
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
                self.has_begun = true;
                let bytes = self.nodes.saturating_mul(NODE_BYTES);
                let bytes = bytes.saturating_add(self.edges.saturating_mul(EDGE_BYTES));
                // Numbers of objects and of references are 32 bits.
                let is_small = self.nodes.max(self.edges) < u64::from(u32::MAX);
                if !is_small || bytes > self.bytes_max.saturating_sub(self.bytes) {
                    self.failed = Some(Unusable::TooLarge);
                } else {
                    self.reserve();
                }
            }
            "strings" => {
                let indices = named(&self.graph)
                    .max()
                    .map_or(0, |index| u64::from(index) + 1);
                if self.spend(indices) {
                    self.wanted = wanted(&self.graph);
                }
            }
            _ => {}
        }
    }

    /// A vector that grows would take up to twice its size.
    fn reserve(&mut self) {
        let (nodes, edges) = (self.nodes as usize, self.edges as usize);
        let graph = &mut self.graph;
        graph.kinds.reserve_exact(nodes);
        graph.names.reserve_exact(nodes);
        graph.sizes.reserve_exact(nodes);
        graph.first_edges.reserve_exact(nodes);
        graph.edge_kinds.reserve_exact(edges);
        graph.edge_names.reserve_exact(edges);
        graph.edge_targets.reserve_exact(edges);
    }

    /// Counts memory of ours; `false` when it is too much.
    fn spend(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            self.failed = Some(Unusable::TooLarge);
        }
        self.failed.is_none()
    }

    fn text(&mut self, text: &str) {
        let count = match (self.key.as_str(), self.depth) {
            ("node_fields", 1) => add(&mut self.node_fields, text.into()),
            ("edge_fields", 1) => add(&mut self.edge_fields, text.into()),
            ("node_types", 2) => add(&mut self.node_kinds, kind_of(text)),
            ("edge_types", 2) => add(&mut self.edge_kinds, edge_kind_of(text)),
            ("strings", 1) => {
                let is_wanted = self.wanted.get(self.graph.strings.len());
                let text = is_wanted
                    .filter(|wanted| **wanted)
                    .map_or("", |_| cut(text));
                if self.spend(STRING_BYTES + text.len() as u64) {
                    self.graph.strings.push(text.into());
                }
                return;
            }
            _ => return,
        };
        if count > FIELDS_MAX {
            self.failed = Some(Unusable::Broken);
        }
    }

    fn number(&mut self, number: u64) {
        let width = match self.key.as_str() {
            "node_count" if !self.has_begun => return self.nodes = number,
            "edge_count" if !self.has_begun => return self.edges = number,
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
        if added.is_none() && self.failed.is_none() {
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
        if graph.kinds.len() as u64 >= self.nodes || !self.has_begun {
            return None;
        }
        self.bytes = self.bytes.saturating_add(NODE_BYTES);
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
        let to = to.checked_div(self.node_fields.len() as u64)?;
        if graph.edge_kinds.len() as u64 >= self.edges || to >= graph.kinds.len() as u64 {
            return None;
        }
        self.bytes = self.bytes.saturating_add(EDGE_BYTES);
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
        let node = self.row[0].checked_div(self.node_fields.len() as u64)?;
        let (node, line) = (u32::try_from(node).ok()?, u32::try_from(self.row[2]).ok()?);
        if self.graph.kinds.get(node as usize)? == &Kind::Closure && self.spend(LINE_BYTES) {
            self.graph.lines.insert(node, line);
        }
        Some(())
    }
}

fn add<T>(to: &mut Vec<T>, one: T) -> usize {
    to.push(one);
    to.len()
}

/// Numbers of the strings that are names.
fn named(graph: &Graph) -> impl Iterator<Item = u32> {
    let is_node = |kind: &Kind| !matches!(kind, Kind::String | Kind::Other);
    let is_edge = |kind: &EdgeKind| {
        matches!(
            kind,
            EdgeKind::Property | EdgeKind::Context | EdgeKind::Internal
        )
    };
    let nodes = graph.names.iter().zip(&graph.kinds);
    let edges = graph.edge_names.iter().zip(&graph.edge_kinds);
    let nodes = nodes
        .filter(move |(_, kind)| is_node(kind))
        .map(|(name, _)| *name);
    nodes.chain(
        edges
            .filter(move |(_, kind)| is_edge(kind))
            .map(|(name, _)| *name),
    )
}

fn wanted(graph: &Graph) -> Vec<bool> {
    let len = named(graph).max().map_or(0, |index| index as usize + 1);
    let mut wanted = vec![false; len];
    for index in named(graph) {
        wanted[index as usize] = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::code::Code;

    const META: &str = r#""meta":{"node_fields":["type","name","id","self_size","edge_count"],
        "node_types":[["object","closure","synthetic"],"string"],"edge_fields":["type","name_or_index","to_node"],
        "edge_types":[["property","weak"],"string_or_number"]}"#;

    fn parse(text: &str, bytes_max: usize) -> Result<Graph, Unusable> {
        let mut parser = Parser::new(bytes_max);
        parser.push(text.as_bytes())?;
        parser.finish()
    }

    fn snapshot(counts: &str, rest: &str) -> String {
        format!(r#"{{"snapshot":{{{META},{counts}}},{rest},"strings":["a","b"]}}"#)
    }

    const COUNTS: &str = r#""node_count":2,"edge_count":2"#;
    const NODES: &str = r#""nodes":[0,0,1,16,1, 1,1,2,4294967295000,1]"#;
    const EDGES: &str = r#""edges":[0,1,5, 1,0,0],"locations":[5,1,4294967295,0]"#;

    #[test]
    fn a_whole_snapshot_is_a_graph() {
        let text = snapshot(COUNTS, &format!("{NODES},{EDGES}"));
        let graph = parse(&text, 1 << 20).expect("a graph");
        assert_eq!((graph.len(), graph.name(1)), (2, "b"));
        assert_eq!((graph.edges_of(0), graph.edges_of(1)), (0..1, 1..2));
        assert_eq!(graph.line(1), Some(u32::MAX), "numbers do not overflow");
        assert_eq!(graph.bytes(1), u64::from(u32::MAX));
        let holders = super::super::holders::find(
            &graph,
            &Code::default(),
            &["a".into(), "(closure) b".into()],
        );
        assert!(holders.len() <= 2);
    }

    #[test]
    fn broken_snapshots_are_refused() {
        let whole = format!("{NODES},{EDGES}");
        let broken = [
            "{}".to_owned(),
            r#"{"edge_fields":["type","name_or_index","to_node"],"edges":[0,0,0]}"#.into(),
            r#"{"edges":[1]}"#.into(),
            r#"{"locations":[0,0,0,0]}"#.into(),
            r#"{"strings":["a"]}"#.into(),
            // Too few edges for what the objects count, too many, and a target that is no object.
            snapshot(
                r#""node_count":2,"edge_count":1"#,
                &format!(r#"{NODES},"edges":[0,1,5]"#),
            ),
            snapshot(
                r#""node_count":2,"edge_count":3"#,
                &format!(r#"{NODES},"edges":[0,1,5,0,1,5,0,1,5]"#),
            ),
            snapshot(COUNTS, &format!(r#"{NODES},"edges":[0,1,5,0,1,10]"#)),
            snapshot(COUNTS, &format!(r#"{EDGES},{NODES}"#)),
            snapshot(
                COUNTS,
                &format!(r#"{NODES},"edge_count":3,"edges":[0,1,5,0,1,5,0,1,5]"#),
            ),
            snapshot(
                COUNTS,
                &whole.replace("[0,0,1,16,1,", "[0,0,1,16,18446744073709551615,"),
            ),
            snapshot(COUNTS, &whole.replace("[0,0,1,16,1,", "[9,0,1,16,1,")),
            snapshot(COUNTS, &whole.replace("[5,1,", "[50,1,")),
            format!(r#"{{"node_fields":[{}"x"]}}"#, r#""x","#.repeat(100)),
        ];
        for text in broken {
            let why = parse(&text, 1 << 20).expect_err(&text);
            assert_eq!(why, Unusable::Broken, "{text}");
        }
    }

    #[test]
    fn all_that_is_kept_counts_against_the_limit() {
        let whole = format!("{NODES},{EDGES}");
        let many = snapshot(r#""node_count":2,"edge_count":4000000000"#, &whole);
        let strings =
            snapshot(COUNTS, &whole).replace(r#"["a","#, &format!("[{}", r#""","#.repeat(20_000)));
        let index = snapshot(COUNTS, &whole.replace("1,1,2,", "1,3000000,2,"));
        for text in [many, strings, index] {
            let why = parse(&text, 1 << 20).expect_err("too large");
            assert_eq!(why, Unusable::TooLarge);
        }
    }
}
