//! What each request did: spans, ended from any thread, exported in batches.

pub mod otlp;
pub mod processor;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

pub use processor::{Export, Processor, Way};

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub trace: [u8; 16],
    pub id: [u8; 8],
    /// Empty for the first of a trace.
    pub parent: Vec<u8>,
    pub name: &'static str,
    /// Since 1970, as the format wants it.
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: Vec<(&'static str, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// Starts spans; one that is off starts none, and costs nothing.
#[derive(Clone)]
pub struct Tracer {
    processor: Option<Arc<Processor>>,
    seed: u64,
    count: Arc<AtomicU64>,
}

impl Tracer {
    /// The numbers of spans and traces follow from the seed.
    pub fn new(processor: Option<Arc<Processor>>, seed: u64) -> Tracer {
        Tracer {
            processor,
            seed,
            count: Arc::default(),
        }
    }

    /// The first span of a trace, which began at `start_ns`.
    pub fn start(&self, name: &'static str, start_ns: u64) -> Span<'_> {
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&self.number());
        trace[8..].copy_from_slice(&self.number());
        self.span(name, trace, Vec::new(), start_ns)
    }

    fn span(
        &self,
        name: &'static str,
        trace: [u8; 16],
        parent: Vec<u8>,
        start_ns: u64,
    ) -> Span<'_> {
        let ended = self.processor.is_some().then(|| Ended {
            trace,
            id: self.number(),
            parent,
            name,
            start_ns,
            end_ns: start_ns,
            attributes: Vec::new(),
        });
        Span {
            tracer: self,
            ended,
        }
    }

    /// Never zero, which the format forbids.
    fn number(&self) -> [u8; 8] {
        let count = self.count.fetch_add(1, Relaxed);
        fastrand::Rng::with_seed(self.seed.wrapping_add(count))
            .u64(1..)
            .to_be_bytes()
    }
}

/// A span under way; dropping it ends it.
pub struct Span<'a> {
    tracer: &'a Tracer,
    ended: Option<Ended>,
}

impl<'a> Span<'a> {
    pub fn child(&self, name: &'static str) -> Span<'a> {
        match &self.ended {
            Some(of) => self.tracer.span(name, of.trace, of.id.to_vec(), unix_ns()),
            None => Span {
                tracer: self.tracer,
                ended: None,
            },
        }
    }

    pub fn set(&mut self, key: &'static str, value: Value) {
        if let Some(ended) = &mut self.ended {
            ended.attributes.push((key, value));
        }
    }

    /// Runs a query in a span of its own, which has ended when this returns.
    pub fn query<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let mut span = self.child("db.query");
        span.set("db.operation.name", Value::Text(name.to_string()));
        work()
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        if let (Some(mut ended), Some(processor)) = (self.ended.take(), &self.tracer.processor) {
            ended.end_ns = unix_ns().max(ended.start_ns);
            processor.on_end(ended);
        }
    }
}

/// Nanoseconds since 1970 by the machine's calendar.
pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
