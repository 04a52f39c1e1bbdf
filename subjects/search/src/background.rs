//! The threads that are not asked by anyone: edits come in, batches are written, counts are flushed and moved on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::Result;

use crate::database::write;
use crate::lock::lock;
use crate::service::State;

/// Edits that one batch holds at most.
const BATCH_MAX: usize = 500;
const FLUSH_EVERY: Duration = Duration::from_secs(1);
const ACTIVITY_EVERY: Duration = Duration::from_secs(1);
/// Seconds that /activity tells of.
const ACTIVITY_KEPT: usize = 300;

/// Set once; wakes those that sleep.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    pub fn set(&self) {
        *lock(&self.is_set) = true;
        self.wake.notify_all();
    }

    pub fn is_set(&self) -> bool {
        *lock(&self.is_set)
    }

    /// Sleeps; false when it is time to end.
    pub fn sleep(&self, time: Duration) -> bool {
        let slept = self
            .wake
            .wait_timeout_while(lock(&self.is_set), time, |is_set| !*is_set);
        !*slept.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// Requests of the last minutes, by second.
#[derive(Debug, Default)]
pub struct Activity {
    pub now: AtomicU64,
    past: Mutex<VecDeque<u64>>,
}

impl Activity {
    /// The newest last.
    pub fn per_second(&self) -> Vec<u64> {
        lock(&self.past).iter().copied().collect()
    }

    fn turn(&self) {
        let mut past = lock(&self.past);
        past.push_back(self.now.swap(0, Relaxed));
        if past.len() > ACTIVITY_KEPT {
            past.pop_front();
        }
    }
}

/// Turns the counts of the second that is over into history.
pub fn track_activity(state: &State, stop: &Stop) {
    while stop.sleep(ACTIVITY_EVERY) {
        state.activity.turn();
    }
}

/// Documents are edited somewhere, `per_second` of them; each edit is taken and waits for the next batch.
pub fn consume_events(state: &State, stop: &Stop, per_second: f64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let gap = Duration::from_secs_f64(1.0 / per_second.clamp(1e-3, 1e4));
    for version in 1.. {
        if !stop.sleep(gap) {
            return;
        }
        let edited = state
            .corpus
            .document(random.usize(0..state.corpus.len()), version);
        // A writer that does not keep up loses edits; the next one of the same document mends it.
        let _ = state.edits.push(edited);
    }
}

/// Writes what came in, counts all anew, moves the log, and once more at the end.
pub fn sync_edits(state: &State, stop: &Stop, every: Duration) {
    let mut goes_on = true;
    while goes_on {
        goes_on = stop.sleep(every);
        let edits = state.edits.take(BATCH_MAX);
        if let Err(error) = write_batch(state, &edits) {
            state.figures.sync_errors.fetch_add(1, Relaxed);
            eprintln!("search: {} edits are lost: {error:#}", edits.len());
        } else {
            state.figures.edits.fetch_add(edits.len() as u64, Relaxed);
            state.figures.syncs.fetch_add(1, Relaxed);
        }
    }
}

fn write_batch(state: &State, edits: &[crate::corpus::Document]) -> Result<()> {
    state.access.write(|connection| {
        write::apply_edits(connection, edits)?;
        write::refresh_aggregates(connection)?;
        write::checkpoint(connection)
    })?;
    write::drop_from_page_cache(state.access.path())
}

/// Writes what was searched for. The counts are taken out first: nobody waits for the database by their lock.
pub fn flush_searches(state: &State, stop: &Stop) {
    let mut goes_on = true;
    while goes_on {
        goes_on = stop.sleep(FLUSH_EVERY);
        let counts = std::mem::take(&mut *lock(&state.searches));
        if counts.is_empty() {
            continue;
        }
        match state
            .access
            .write(|connection| write::add_searches(connection, &counts))
        {
            Ok(()) => _ = state.figures.flushes.fetch_add(1, Relaxed),
            Err(error) => eprintln!("search: counts of searches are lost: {error:#}"),
        }
    }
}
