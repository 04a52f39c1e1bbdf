//! Models for loom: every interleaving of a few threads over small tables (`make loom`).

use abi::{Header, Sample, SectionKind, Stack, Thread};
use loom::thread;

use crate::samples::{Inserted, Samples};
use crate::shared;
use crate::stacks::Stacks;
use crate::word::{atomic, atomic32, forget};

/// Memory of a model's tables, never freed: the words of a table are known by their addresses.
fn rows<T: Clone + 'static>(value: T, count: usize) -> *mut T {
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

fn sample(requested_bytes: u64) -> Sample {
    Sample {
        requested_bytes,
        usable_bytes: requested_bytes,
        mean_bytes: 512,
        ..Sample::default()
    }
}

fn table() -> &'static Shared<Samples> {
    // SAFETY: two zeroed rows that are never freed.
    let samples = unsafe { Samples::new(rows(0, 2), rows(Sample::default(), 2), 2) };
    Box::leak(Box::new(Shared(samples)))
}

/// A removed sample is whole and is removed once.
#[test]
fn samples_are_whole_and_removed_once() {
    loom::model(|| {
        forget();
        let table = table();
        assert_eq!(table.0.insert(16, sample(16)), Inserted::Done);
        let other = thread::spawn(|| {
            let own = table.0.insert(32, sample(32)) == Inserted::Done;
            (own, table.0.remove(16))
        });
        let mine = table.0.remove(16);
        let (own, theirs) = other.join().unwrap();
        assert!(own, "a row is free for the second");
        assert!(mine.is_none() || theirs.is_none());
        for removed in [mine, theirs].into_iter().flatten() {
            assert_eq!((removed.requested_bytes, removed.usable_bytes), (16, 16));
        }
        assert_eq!(
            table.0.remove(32).map(|sample| sample.usable_bytes),
            Some(32)
        );
    });
}

/// A free in another thread than the allocation: what it removes is whole.
#[test]
fn a_sample_of_another_thread_is_whole() {
    loom::model(|| {
        forget();
        let table = table();
        let other = thread::spawn(|| table.0.insert(16, sample(16)));
        // Without it loom tries no run in which the insertion ends first.
        thread::yield_now();
        if let Some(removed) = table.0.remove(16) {
            assert_eq!((removed.requested_bytes, removed.usable_bytes), (16, 16));
        }
        assert_eq!(other.join().unwrap(), Inserted::Done);
    });
}

/// Two threads that come by one stack at the same time: it may have two rows, never a broken one.
#[test]
fn a_stack_is_whole_when_it_is_found() {
    loom::model(|| {
        forget();
        // SAFETY: all zeros are integers.
        let header: *mut Header = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
        // SAFETY: a field of the header.
        unsafe { atomic32(&raw mut (*header).sections[SectionKind::Frames as usize].used) };
        let (stacks, frames) = (rows(Stack::default(), 4), rows(0u64, 8));
        // SAFETY: zeroed sections that are never freed.
        let table = unsafe { Stacks::new(header, (stacks, 4), (frames, 8)) };
        let table: &'static Shared<_> = Box::leak(Box::new(Shared((table, stacks, frames))));
        let find = move || {
            let found = table.0.0.find(&[7, 8], 0, 5).expect("room");
            // SAFETY: a row that was found is written for good.
            unsafe {
                let row = table.0.1.add(found as usize);
                assert_eq!(((*row).depth, (*row).first_ns), (2, 5));
                assert_eq!(*table.0.2.add((*row).frames_at as usize), 7);
            }
        };
        let other = thread::spawn(find);
        find();
        other.join().unwrap();
    });
}

/// Counts, bytes and the distance of the overflow row are exact.
#[test]
fn the_shared_row_counts_exactly() {
    loom::model(|| {
        forget();
        let row: &'static Shared<*mut Thread> =
            Box::leak(Box::new(Shared(rows(Thread::default(), 1))));
        // SAFETY: the row is never freed, and written through atomics.
        let work = move || unsafe {
            if shared::alloc(row.0, 10) {
                shared::begin_distance(row.0, 64);
            }
            shared::free(row.0, 10);
        };
        let other = thread::spawn(work);
        work();
        other.join().unwrap();
        // SAFETY: as above.
        let read =
            |place: *mut u64| unsafe { atomic(place) }.load(loom::sync::atomic::Ordering::Relaxed);
        // SAFETY: fields of the row.
        unsafe {
            assert_eq!(
                (
                    read(&raw mut (*row.0).allocs),
                    read(&raw mut (*row.0).frees)
                ),
                (2, 2)
            );
            assert_eq!(read(&raw mut (*row.0).usable_allocated_bytes), 20);
            assert_eq!(read(&raw mut (*row.0).usable_freed_bytes), 20);
            let drawn = read(&raw mut (*row.0).drawn_bytes);
            assert_eq!(
                drawn.wrapping_sub(read(&raw mut (*row.0).countdown_bytes)),
                20
            );
        }
    });
}
