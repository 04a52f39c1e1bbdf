//! Values of WeakMaps: held as long as their key is, so they come last.

use super::build::{Builder, Stop};
use super::heap::pointer;
use super::shapes::entries;
use crate::node::graph::EdgeKind;

/// A value may hold a key of another table, and so on.
const ROUNDS_MAX: usize = 16;
const ENTRIES_MAX: usize = 1 << 20;

impl Builder<'_> {
    /// The values of keys that are held, and what they hold.
    pub fn reach_weakly_keyed(&mut self) -> Result<(), Stop> {
        let name = self.name("part of key -> value pair in a WeakMap");
        for _ in 0..ROUNDS_MAX {
            let before = self.graph.len();
            for index in 0..self.tables.len() {
                self.reach_values(self.tables[index], name)?;
            }
            self.drain()?;
            if self.graph.len() == before {
                break;
            }
        }
        Ok(())
    }

    fn reach_values(&mut self, table: u32, name: u32) -> Result<(), Stop> {
        const ENTRY_WORDS: u64 = 2;
        self.check()?;
        let Some(address) = self.nodes.address(table) else {
            return Ok(());
        };
        let mut held = Vec::new();
        entries(&self.heap, address | 1, ENTRY_WORDS, &mut |key, value| {
            let key = pointer(key).and_then(|key| self.nodes.find(key));
            let is_new = pointer(value).is_some_and(|value| self.nodes.find(value).is_none());
            if is_new && held.len() < ENTRIES_MAX {
                held.extend(key.map(|key| (key, value)));
            }
        });
        for (key, value) in held {
            if let Some(to) = self.node(value) {
                self.late_edges.push((key, name, to));
            }
        }
        Ok(())
    }

    /// Puts the references that were found late behind the others of their owner.
    pub fn merge_late_edges(&mut self) {
        let mut late = std::mem::take(&mut self.late_edges);
        late.sort_unstable();
        let graph = &mut self.graph;
        let mut from = graph.edge_kinds.len();
        let mut to = from + late.len();
        graph.edge_kinds.resize(to, EdgeKind::Internal);
        graph.edge_names.resize(to, 0);
        graph.edge_targets.resize(to, 0);
        for node in (0..graph.first_edges.len()).rev() {
            while let Some((_, name, target)) = late.pop_if(|edge| edge.0 as usize == node) {
                to -= 1;
                graph.edge_kinds[to] = EdgeKind::Internal;
                graph.edge_names[to] = name;
                graph.edge_targets[to] = target;
            }
            let first = graph.first_edges[node] as usize;
            let moved = from - first;
            to -= moved;
            if to == first {
                // Nothing is late before.
                break;
            }
            graph.edge_kinds.copy_within(first..from, to);
            graph.edge_names.copy_within(first..from, to);
            graph.edge_targets.copy_within(first..from, to);
            graph.first_edges[node] = to as u32;
            from = first;
        }
    }
}
