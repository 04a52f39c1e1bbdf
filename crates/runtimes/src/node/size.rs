//! Sizes of V8's heap, and of the memory that belongs to objects outside of it.

use std::time::Duration;

use serde::Deserialize;

use super::session::Session;
use crate::{Error, HeapSize};

const ANSWER: Duration = Duration::from_secs(5);

const BUFFERS: &str = "array buffers";
const EXTERNAL: &str = "other external memory";

/// The counters of the `v8` module: no collection, under 1 ms.
const EXPRESSION: &str = "(function highwater() { const v8 = require('v8'), heap = v8.getHeapStatistics(), \
    memory = process.memoryUsage(); \
    return { used: heap.used_heap_size, committed: heap.total_heap_size, limit: heap.heap_size_limit, \
    malloced: heap.malloced_memory, external: memory.external, buffers: memory.arrayBuffers, \
    spaces: v8.getHeapSpaceStatistics().map(space => [space.space_name, space.space_used_size]) } })()";

#[derive(Debug, Deserialize)]
struct Figures {
    used: u64,
    committed: u64,
    limit: u64,
    malloced: u64,
    /// With the buffers.
    external: u64,
    buffers: u64,
    spaces: Vec<(String, u64)>,
}

pub fn read(session: &mut Session) -> Result<HeapSize, Error> {
    let value = session.evaluate(EXPRESSION, ANSWER)?;
    let figures = Figures::deserialize(value);
    Ok(sizes(figures.map_err(|error| {
        Error::Refused(format!("the heap's counters are broken: {error}"))
    })?))
}

/// Used bytes of the heap, and the memory outside of it that belongs to its objects.
pub fn with_external(size: &HeapSize) -> u64 {
    let is_external = |name: &str| name == BUFFERS || name == EXTERNAL;
    let others = size.others.iter().filter(|(name, _)| is_external(name));
    others.fold(size.used_bytes, |sum, (_, bytes)| {
        sum.saturating_add(*bytes)
    })
}

fn sizes(figures: Figures) -> HeapSize {
    let mut others = vec![
        (BUFFERS.to_owned(), figures.buffers),
        (
            EXTERNAL.to_owned(),
            figures.external.saturating_sub(figures.buffers),
        ),
        ("V8's own malloc".to_owned(), figures.malloced),
    ];
    // Parts of the used bytes, not more than them.
    let spaces = figures.spaces.into_iter().filter(|(_, used)| *used > 0);
    others.extend(spaces.map(|(name, used)| (format!("in {}", name.replace('_', " ")), used)));
    HeapSize {
        used_bytes: figures.used,
        committed_bytes: Some(figures.committed),
        limit_bytes: Some(figures.limit),
        idle_bytes: Some(figures.committed.saturating_sub(figures.used)),
        others,
        ..HeapSize::default()
    }
}
