//! Collects ended spans and exports them twice a second: under the lock that the end of a span takes, as the history
//! did it, or after taking them out.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;

use super::Ended;
use crate::lock::lock;

/// Spans that wait at most: ten seconds of 200 requests a second with four spans each.
pub const QUEUE_MAX: usize = 8_192;
/// From the end of one export to the beginning of the next.
pub const EVERY: Duration = Duration::from_millis(500);

/// What sends a batch away.
pub trait Export: Send {
    /// # Errors
    /// When the other end did not take the batch.
    fn export(&mut self, batch: &[Ended]) -> Result<()>;
}

/// What the lock is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To take the spans out.
    Drain,
    /// For as long as the export takes: the fault.
    UnderLock,
}

pub struct Processor {
    queue: Mutex<Queue>,
    wake: Condvar,
    way: Way,
    every: Duration,
    pub exported: AtomicU64,
    pub failed: AtomicU64,
    pub dropped: AtomicU64,
    pub posts: AtomicU64,
}

#[derive(Default)]
struct Queue {
    spans: Vec<Ended>,
    is_closed: bool,
}

impl Processor {
    pub fn new(way: Way, every: Duration) -> Processor {
        Processor {
            queue: Mutex::default(),
            wake: Condvar::new(),
            way,
            every,
            exported: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            posts: AtomicU64::new(0),
        }
    }

    /// Takes a span that has ended; one too many is dropped and counted.
    pub fn on_end(&self, span: Ended) {
        let mut queue = lock(&self.queue);
        if queue.spans.len() >= QUEUE_MAX {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        queue.spans.push(span);
    }

    /// Exports until [`Processor::close`], and then once more.
    pub fn run(&self, exporter: &mut dyn Export) {
        let mut was_well = true;
        loop {
            let queue = self.wait();
            let is_closed = queue.is_closed;
            let result = match self.way {
                Way::Drain => self.drain_and_export(queue, exporter),
                Way::UnderLock => self.export_under_lock(queue, exporter),
            };
            if let (Err(error), true) = (&result, was_well) {
                eprintln!("search: spans are lost until the collector takes them again: {error:#}");
            }
            was_well = result.is_ok();
            if is_closed {
                return;
            }
        }
    }

    /// No span is awaited any more.
    pub fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.wake.notify_all();
    }

    fn wait(&self) -> MutexGuard<'_, Queue> {
        let waited = self
            .wake
            .wait_timeout_while(lock(&self.queue), self.every, |queue| !queue.is_closed);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn drain_and_export(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        exporter: &mut dyn Export,
    ) -> Result<()> {
        let batch = std::mem::take(&mut queue.spans);
        drop(queue);
        self.export(&batch, exporter)
    }

    fn export_under_lock(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        exporter: &mut dyn Export,
    ) -> Result<()> {
        let result = self.export(&queue.spans, exporter);
        queue.spans.clear();
        result
    }

    fn export(&self, batch: &[Ended], exporter: &mut dyn Export) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let result = exporter.export(batch);
        let count = if result.is_ok() {
            &self.exported
        } else {
            &self.failed
        };
        count.fetch_add(batch.len() as u64, Relaxed);
        self.posts.fetch_add(1, Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;
    use crate::spans::Tracer;

    /// Says that it has begun, and goes on when it is told to.
    struct Slow {
        begun: Sender<usize>,
        go_on: Receiver<()>,
    }

    impl Export for Slow {
        fn export(&mut self, batch: &[Ended]) -> Result<()> {
            self.begun.send(batch.len()).unwrap();
            self.go_on.recv()?;
            Ok(())
        }
    }

    struct Bench {
        processor: Arc<Processor>,
        tracer: Tracer,
        begun: Receiver<usize>,
        go_on: Sender<()>,
        thread: thread::JoinHandle<()>,
    }

    fn bench(way: Way) -> Bench {
        let processor = Arc::new(Processor::new(way, Duration::from_millis(1)));
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        let mut exporter = Slow {
            begun,
            go_on: may_go_on,
        };
        let of_thread = processor.clone();
        Bench {
            tracer: Tracer::new(Some(processor.clone()), 1),
            processor,
            begun: has_begun,
            go_on,
            thread: thread::spawn(move || of_thread.run(&mut exporter)),
        }
    }

    impl Bench {
        fn end(self) {
            drop(self.go_on);
            self.processor.close();
            self.thread.join().unwrap();
        }
    }

    #[test]
    fn a_span_ends_during_an_export_when_spans_are_drained_first() {
        let bench = bench(Way::Drain);
        drop(bench.tracer.start("first", 1));
        assert_eq!(bench.begun.recv().unwrap(), 1);
        let tracer = bench.tracer.clone();
        let (ended, has_ended) = channel();
        thread::spawn(move || {
            drop(tracer.start("second", 1));
            ended.send(())
        });
        // Never reached unless the lock is held: the exporter waits for this thread.
        has_ended.recv_timeout(Duration::from_secs(60)).unwrap();
        bench.end();
    }

    #[test]
    fn the_lock_is_held_for_as_long_as_an_export_takes_when_that_is_the_fault() {
        let bench = bench(Way::UnderLock);
        drop(bench.tracer.start("first", 1));
        assert_eq!(bench.begun.recv().unwrap(), 1);
        assert!(bench.processor.queue.try_lock().is_err());
        let processor = bench.processor.clone();
        bench.end();
        assert!(processor.queue.try_lock().is_ok());
    }

    #[test]
    fn what_is_left_at_the_end_is_exported() {
        let bench = bench(Way::Drain);
        (0..5).for_each(|_| drop(bench.tracer.start("last", 1)));
        (0..5).for_each(|_| bench.go_on.send(()).unwrap());
        bench.processor.close();
        bench.thread.join().unwrap();
        assert_eq!(bench.begun.try_iter().sum::<usize>(), 5);
        assert_eq!(bench.processor.exported.load(Relaxed), 5);
    }

    #[test]
    fn one_too_many_is_dropped_and_a_lost_batch_is_counted() {
        struct Broken;
        impl Export for Broken {
            fn export(&mut self, _: &[Ended]) -> Result<()> {
                anyhow::bail!("no collector")
            }
        }
        let processor = Arc::new(Processor::new(Way::Drain, EVERY));
        let tracer = Tracer::new(Some(processor.clone()), 1);
        (0..QUEUE_MAX + 3).for_each(|_| drop(tracer.start("any", 1)));
        processor.close();
        processor.run(&mut Broken);
        assert_eq!(processor.dropped.load(Relaxed), 3);
        assert_eq!(processor.failed.load(Relaxed), QUEUE_MAX as u64);
    }
}
