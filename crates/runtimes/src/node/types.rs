//! Objects of a heap snapshot by their constructors.

use std::collections::HashMap;

use super::graph::{EdgeKind, Graph, Kind};
use crate::TypeCount;

/// Internal references to memory that belongs to one object: items of an array, the table of a map, bytes of a buffer.
const OWN: [&str; 4] = ["elements", "properties", "table", "backing_store"];

/// The name that users know: a constructor's, `(closure) NAME` for a function, V8's own words in parentheses.
pub fn name_of(graph: &Graph, node: u32) -> String {
    let name = graph.name(node);
    match graph.kind(node) {
        Kind::Closure if name.is_empty() => "(closure)".into(),
        Kind::Closure => format!("(closure) {name}"),
        Kind::String => "(string)".into(),
        Kind::Array => "(array)".into(),
        Kind::Code => "(compiled code)".into(),
        Kind::Synthetic | Kind::Hidden => "(system)".into(),
        Kind::Other => "(number, symbol, regexp)".into(),
        Kind::Object | Kind::Native => name.to_owned(),
    }
}

pub fn count(graph: &Graph) -> Vec<TypeCount> {
    let owners = owners(graph);
    let mut types: HashMap<String, TypeCount> = HashMap::new();
    for node in 0..graph.len() {
        let owner = owners.get(&node).copied();
        let name = name_of(graph, owner.unwrap_or(node));
        let count = types.entry(name).or_default();
        count.objects += u64::from(owner.is_none());
        count.bytes += graph.bytes(node);
    }
    let named = types
        .into_iter()
        .map(|(name, count)| TypeCount { name, ..count });
    let mut types: Vec<TypeCount> = named.filter(|count| count.bytes > 0).collect();
    types.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    types
}

/// The objects to which other ones belong.
fn owners(graph: &Graph) -> HashMap<u32, u32> {
    let mut owners = HashMap::new();
    for node in (0..graph.len()).filter(|node| graph.kind(*node) == Kind::Object) {
        let edges = graph.edges_of(node).map(|edge| graph.edge(edge));
        let own = edges.filter(|edge| {
            edge.kind == EdgeKind::Internal && OWN.contains(&graph.edge_name(*edge))
        });
        let parts = own.filter(|edge| matches!(graph.kind(edge.to), Kind::Array | Kind::Native));
        for part in parts {
            owners.entry(part.to).or_insert(node);
        }
    }
    owners
}
