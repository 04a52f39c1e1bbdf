//! Models for loom: every interleaving of a few threads over small tables (`make loom`).
//!
//! Where a thread yields, loom shows it no old values any more: readers of what another thread publishes do not wait
//! for it ([`reads`]).

mod rows;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use abi::Header;
use loom::thread;

use crate::word::{atomic, forget};

/// Tries `run` with all interleavings of so many preemptions.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        forget();
        run();
    });
}

/// One thread writes and another reads, in all interleavings; `read` says whether it found what was written, which it
/// must in some.
fn reads<T: Copy + Send + 'static>(make: fn() -> T, write: fn(T), read: fn(T) -> bool) {
    let found = Arc::new(AtomicBool::new(false));
    let seen = found.clone();
    model(3, move || {
        let table = make();
        let reader = thread::spawn(move || read(table));
        write(table);
        seen.fetch_or(reader.join().unwrap(), SeqCst);
    });
    assert!(found.load(SeqCst), "the reader comes too early always");
}

/// A zeroed header, never freed. The words that a model uses are made before there are threads.
fn header(words: impl Fn(*mut Header)) -> *mut Header {
    // SAFETY: all zeros are integers.
    let header = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    words(header);
    header
}

fn leaked<T>(table: T) -> &'static Shared<T> {
    Box::leak(Box::new(Shared(table)))
}

/// Memory of a model's tables, never freed: the words of a table are known by their addresses.
fn section<T: Clone + 'static>(value: T, count: usize) -> *mut T {
    let first = vec![value; count].leak().as_mut_ptr();
    for at in 0..count * size_of::<T>() / size_of::<u64>() {
        // The words are made before there are threads.
        // SAFETY: inside the rows.
        unsafe { atomic(first.cast::<u64>().add(at)) };
    }
    first
}

struct Shared<T>(T);
// SAFETY: what the models share is made for it.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}
