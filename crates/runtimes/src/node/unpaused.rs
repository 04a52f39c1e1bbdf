//! What is read of a process that may not be stopped: its memory, and nothing else of it is touched.

use std::time::Instant;

use super::graph::Graph;
use super::outside::Outside;
use super::{COLLECTION_PER_MIB, Node, pause_of, process, rounded, types};
use crate::{Error, HeapSize, Limits, Snapshot};

impl Node {
    /// The objects that are held now, read from outside; an error says in words why they are not known.
    pub(super) fn read_outside(
        &mut self,
        limits: &Limits,
        until: Instant,
    ) -> Result<Graph, String> {
        // Two graphs at once would take twice the memory.
        self.graph = None;
        if self.outside.is_none() {
            self.outside = Some(Outside::open(self.pid)?);
        }
        let outside = self.outside.as_ref().ok_or("it was not opened")?;
        outside.read(limits.bytes, until)
    }

    /// Without any pause: types alone.
    pub(super) fn read_only(&mut self, limits: &Limits, until: Instant) -> Result<Snapshot, Error> {
        let graph = self.read_outside(limits, until).map_err(|why| match process::rss_bytes(self.pid) {
            Some(1..) => Error::Refused(format!(
                "objects by type, from outside: {why}; a heap snapshot, which stops the program, is taken with \
                 --allow-pause"
            )),
            _ => Error::Gone,
        })?;
        if let Some((major, minor)) = self.outside.as_ref().and_then(Outside::version) {
            self.name = format!("Node.js (V8 {major}.{minor})");
        }
        let types = types::count(&graph);
        let used_bytes = types
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(count.bytes));
        self.graph = Some(graph);
        let about = rounded(pause_of(used_bytes, COLLECTION_PER_MIB));
        Ok(Snapshot {
            types,
            // What nothing holds is not counted.
            heap: Some(HeapSize {
                used_bytes,
                is_collected: true,
                ..HeapSize::default()
            }),
            missing: vec![format!(
                "allocation sites: V8 samples them after a full collection, which stops the program for about \
                 {about:?}; allow it with --allow-pause"
            )],
            ..Snapshot::default()
        })
    }
}
