//! One thread that writes the log for many connections: what came in while it wrote is its next batch.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::figures::Figures;
use crate::log::Lane;

/// How often an idle writer looks for a new generation.
const TICK: Duration = Duration::from_millis(100);
/// Failed batches that are remembered, for waiters that have not been woken yet.
const FAILED_MAX: usize = 1024;

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Number of the batch that `bytes` will be.
    batch: u64,
    failed: VecDeque<u64>,
    /// The last failed batch that was forgotten: all up to it count as failed, for whoever still waits.
    forgotten: u64,
}

/// Shared by connections; its thread runs [`Committer::run`].
pub struct Committer {
    pending: Mutex<Pending>,
    wake: Condvar,
    done: watch::Sender<u64>,
    ended: AtomicBool,
    figures: Arc<Figures>,
}

impl Committer {
    pub fn new(figures: Arc<Figures>) -> Committer {
        Committer {
            pending: Mutex::new(Pending {
                batch: 1,
                ..Pending::default()
            }),
            wake: Condvar::new(),
            done: watch::Sender::new(0),
            ended: AtomicBool::new(false),
            figures,
        }
    }

    /// Adds records to the next batch.
    pub fn append(&self, records: &[u8]) -> u64 {
        let mut pending = self.lock();
        let is_first = pending.bytes.is_empty();
        pending.bytes.extend_from_slice(records);
        let batch = pending.batch;
        drop(pending);
        if is_first {
            self.wake.notify_one();
        }
        batch
    }

    /// Waits until a batch is written.
    ///
    /// # Errors
    /// When it could not be.
    pub async fn stored(&self, batch: u64) -> io::Result<()> {
        let mut done = self.done.subscribe();
        done.wait_for(|done| *done >= batch)
            .await
            .map_err(io::Error::other)?;
        let pending = self.lock();
        if batch <= pending.forgotten || pending.failed.contains(&batch) {
            return Err(io::Error::other("the log could not be written"));
        }
        Ok(())
    }

    /// Appends, and waits in a thread of its own kind: not in one of tokio's.
    ///
    /// # Errors
    /// When it could not be written, or there is no runtime to wait in.
    pub fn store(&self, records: &[u8]) -> io::Result<()> {
        let waiting = tokio::runtime::Builder::new_current_thread().build()?;
        waiting.block_on(self.stored(self.append(records)))
    }

    /// Writes batches until the end.
    pub fn run(&self, mut lane: Lane) {
        let mut bytes = Vec::new();
        while let Some(batch) = self.next(&mut bytes, &mut lane) {
            let is_stored = lane.write(&bytes).is_ok();
            self.figures.logged(bytes.len(), is_stored);
            if !is_stored {
                let mut pending = self.lock();
                if pending.failed.len() == FAILED_MAX {
                    pending.forgotten = pending.failed.pop_front().unwrap_or(0);
                }
                pending.failed.push_back(batch);
            }
            bytes.clear();
            self.done.send_replace(batch);
        }
    }

    /// The next batch into `bytes`; `None` at the end, when all is written.
    fn next(&self, bytes: &mut Vec<u8>, lane: &mut Lane) -> Option<u64> {
        let mut pending = self.lock();
        while pending.bytes.is_empty() {
            if self.ended.load(SeqCst) {
                return None;
            }
            let waited = self.wake.wait_timeout(pending, TICK);
            pending = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if pending.bytes.is_empty() {
                // Failing, the snapshot that waits for it gives up and says so.
                let _ = lane.tick();
            }
        }
        std::mem::swap(&mut pending.bytes, bytes);
        pending.batch += 1;
        Some(pending.batch - 1)
    }

    /// Ends [`Committer::run`] after what is pending.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
