//! Models for loom: every interleaving of a few threads over small tables (`make loom`).

//!
//! A reader is made to come after the writer by a loop that yields: loom then tries every value that it may see.

use abi::{Header, MODULE_PATH_BYTES, Module, ROLES, Role, Sample, SectionKind, Stack, Thread};
use loom::sync::atomic::Ordering::{Acquire, Relaxed};
use loom::thread;

use crate::filter::Level;
use crate::modules::Modules;
use crate::roles::Roles;
use crate::samples::{Inserted, Samples};
use crate::stacks::Stacks;
use crate::threads::Threads;
use crate::word::{atomic, atomic32, forget};
use crate::{count, shared};

/// Tries `run` with all interleavings of so many preemptions.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        forget();
        run();
    });
}

/// Yields until there is a result.
fn until<T>(mut result: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = result() {
            return found;
        }
        thread::yield_now();
    }
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
    leaked(samples)
}

/// A removed sample is whole and is removed once.
#[test]
fn samples_are_whole_and_removed_once() {
    model(3, || {
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
    model(3, || {
        let table = table();
        let other = thread::spawn(|| table.0.insert(16, sample(16)));
        let removed = until(|| table.0.remove(16));
        assert_eq!(removed, checked(16));
        assert_eq!(other.join().unwrap(), Inserted::Done);
    });
}

/// Two blocks at one moment, in a bucket of two: each has a row of its own.
#[test]
fn two_samples_never_have_one_row() {
    model(3, || {
        let table = table();
        let other = thread::spawn(|| table.0.insert(16, sample(16)));
        let mine = table.0.insert(32, sample(32));
        assert_eq!(
            (mine, other.join().unwrap()),
            (Inserted::Done, Inserted::Done)
        );
        assert_eq!(table.0.remove(16), Some(checked(16)));
        assert_eq!(table.0.remove(32), Some(checked(32)));
    });
}

/// A row that changes hands meanwhile: a copy from outside is of one sample, or its check fails.
#[test]
fn a_copy_from_outside_is_whole_or_fails_its_check() {
    model(2, || {
        let (keys, samples) = (rows(0u64, 2), rows(Sample::default(), 2));
        // SAFETY: two zeroed rows that are never freed.
        let table = leaked((unsafe { Samples::new(keys, samples, 2) }, keys, samples));
        assert_eq!(table.0.0.insert(16, sample(16)), Inserted::Done);
        let other = thread::spawn(|| {
            table.0.0.remove(16);
            table.0.0.insert(16, sample(48))
        });
        // SAFETY: words of the rows.
        let (key, copy) = unsafe {
            let word = |at| atomic(table.0.2.cast::<u64>().add(at)).load(Relaxed);
            let words: [u64; 6] = std::array::from_fn(word);
            let key = atomic(table.0.1).load(Relaxed);
            (key, std::mem::transmute::<[u64; 6], Sample>(words))
        };
        if key == 16 && abi::sample_check(key, &copy) == copy.check {
            assert!(
                copy == checked(16)
                    || copy
                        == Sample {
                            check: copy.check,
                            ..sample(48)
                        }
            );
        }
        other.join().unwrap();
    });
}

/// The first sample of [`sample`] at its own address, as the table keeps it.
fn checked(address: u64) -> Sample {
    let check = abi::sample_check(address, &sample(address));
    Sample {
        check,
        ..sample(address)
    }
}

type Table = (Stacks, *mut Stack, *mut u64);

fn stacks() -> &'static Shared<Table> {
    let used = |header: *mut Header| unsafe {
        // SAFETY: a field of the header.
        atomic32(&raw mut (*header).sections[SectionKind::Frames as usize].used);
    };
    let (stacks, frames) = (rows(Stack::default(), 4), rows(0u64, 8));
    // SAFETY: zeroed sections that are never freed.
    let table = unsafe { Stacks::new(header(used), (stacks, 4), (frames, 8)) };
    leaked((table, stacks, frames))
}

/// Frames of a row, when it is published.
fn frames_of(table: &Table, row: usize) -> Option<Vec<u64>> {
    // SAFETY: words of the table.
    unsafe {
        let row = table.1.add(row);
        if atomic(&raw mut (*row).hash).load(Acquire) < 2 {
            return None;
        }
        assert_eq!(atomic(&raw mut (*row).first_ns).load(Relaxed), 5);
        let place = atomic((&raw mut (*row).frames_at).cast()).load(Relaxed);
        let (first, depth) = (place as u32 as usize, (place >> 32) as u16 as usize);
        let frame = |at| atomic(table.2.add(at)).load(Relaxed);
        Some((first..first + depth).map(frame).collect())
    }
}

/// What a reader finds is written.
#[test]
fn a_stack_is_whole_when_it_is_found() {
    model(3, || {
        let table = stacks();
        let other = thread::spawn(|| table.0.0.find(&[7, 8], 0, 5));
        let found = until(|| (0..4).find_map(|row| frames_of(&table.0, row)));
        assert_eq!(found, [7, 8]);
        other.join().unwrap();
    });
}

/// Two threads that come by one stack, or by two, at the same time: a stack may have two rows, never a broken one.
#[test]
fn stacks_that_are_entered_at_once_are_whole() {
    for frames in [[7, 8], [9, 10]] {
        model(2, move || {
            let table = stacks();
            let find = move |frames: [u64; 2]| {
                let row = table.0.0.find(&frames, 0, 5).expect("room");
                assert_eq!(frames_of(&table.0, row as usize).unwrap(), frames);
                row
            };
            let other = thread::spawn(move || find([7, 8]));
            let (mine, theirs) = (find(frames), other.join().unwrap());
            assert_eq!(frames_of(&table.0, mine as usize).unwrap(), frames);
            assert_eq!(frames_of(&table.0, theirs as usize).unwrap(), [7, 8]);
        });
    }
}

/// A role that a reader finds in use has its name.
#[test]
fn a_role_is_whole_when_it_is_found() {
    model(2, || {
        let rows = rows(role(), ROLES);
        // SAFETY: fields of the second row.
        unsafe {
            atomic32(&raw mut (*rows.add(1)).state);
            atomic32(&raw mut (*rows.add(1)).threads);
        }
        // SAFETY: a zeroed section that is never freed.
        let table = leaked((unsafe { Roles::new(rows) }, rows));
        let name = *b"worker\0\0\0\0\0\0\0\0\0\0";
        let other = thread::spawn(move || table.0.0.find(name, 3));
        // SAFETY: words of the second row.
        let found = until(|| unsafe {
            let row = table.0.1.add(1);
            let is_used = atomic32(&raw mut (*row).state).load(Acquire) == 2;
            let word = |at| atomic((&raw mut (*row).root).add(at)).load(Relaxed);
            is_used.then(|| [word(0), word(1)])
        });
        let first = u64::from_ne_bytes(*b"worker\0\0");
        assert_eq!(found, [3, first]);
        assert_eq!(other.join().unwrap(), 1);
    });
}

fn role() -> Role {
    Role {
        state: 0,
        threads: 0,
        root: 0,
        name: [0; 16],
        allocated_bytes: 0,
        freed_bytes: 0,
    }
}

/// An object that is counted has its addresses.
#[test]
fn a_module_is_whole_when_it_is_counted() {
    model(3, || {
        let module = Module {
            start: 0x1000,
            end: 0x2000,
            bias: 0,
            first_ns: 1,
            gone_ns: 0,
            path_bytes: 0,
            reserved: 0,
            path: [0; MODULE_PATH_BYTES],
        };
        let rows = rows(
            Module {
                start: 0,
                end: 0,
                first_ns: 0,
                ..module
            },
            2,
        );
        let header = header(|header| {
            // SAFETY: a field of the header.
            unsafe { atomic32(&raw mut (*header).sections[SectionKind::Modules as usize].used) };
        });
        // SAFETY: a zeroed section that is never freed.
        let table = leaked((unsafe { Modules::new(header, rows, 2) }, header));
        // SAFETY: no other thread writes.
        let other = thread::spawn(move || unsafe { table.0.0.there(&module) });
        // SAFETY: a field of the header.
        let used =
            unsafe { atomic32(&raw mut (*table.0.1).sections[SectionKind::Modules as usize].used) };
        until(|| (used.load(Acquire) == 1).then_some(()));
        assert!(table.0.0.hold(0x1fff));
        assert!(other.join().unwrap());
    });
}

/// Nothing of a free that a thread makes of its own block may say no, whatever others put into the cell or take out.
#[test]
fn the_filter_holds_what_was_added() {
    model(4, || {
        let level: &'static Level<1, 64> = Box::leak(Box::new(Level::new()));
        let other = thread::spawn(|| {
            if level.add(0) {
                level.remove(0);
            }
        });
        let added = level.add(0);
        assert!(!added || level.may_hold(0));
        other.join().unwrap();
        assert!(!added || level.may_hold(0));
        if added {
            level.remove(0);
            assert!(!level.may_hold(0), "all have left");
        }
    });
}

/// Two threads that leave one cell, and one that is pinned meanwhile.
#[test]
fn the_filter_holds_what_was_pinned() {
    model(3, || {
        let level: &'static Level<1, 64> = Box::leak(Box::new(Level::new()));
        assert!(level.add(0));
        let other = thread::spawn(|| level.remove(0));
        level.pin(0);
        other.join().unwrap();
        assert!(level.may_hold(0));
    });
}

fn threads(capacity: u32) -> &'static Shared<Threads> {
    let words = |header: *mut Header| unsafe {
        // SAFETY: fields of the header.
        atomic32(&raw mut (*header).sections[SectionKind::Threads as usize].used);
        atomic32(&raw mut (*header).forks);
        let counters = &raw mut (*header).counters;
        atomic(&raw mut (*counters).threads_seen);
        atomic(&raw mut (*counters).threads_recycled);
        atomic(&raw mut (*counters).threads_overflowed);
    };
    let rows = rows(Thread::default(), capacity as usize);
    for at in 0..capacity as usize {
        // SAFETY: fields of a row.
        unsafe {
            atomic32(&raw mut (*rows.add(at)).tid);
            atomic32(&raw mut (*rows.add(at)).forks);
        }
    }
    // SAFETY: zeroed sections that are never freed.
    leaked(unsafe { Threads::new(header(words), rows, capacity) })
}

fn never(_: *mut Thread, _: u32) -> bool {
    false
}

/// Two threads that start at once: each has a row of its own.
#[test]
fn two_threads_never_have_one_row() {
    model(3, || {
        let all = threads(3);
        let other = thread::spawn(|| all.0.take(1, never).map(|row| row as usize));
        let mine = all.0.take(2, never).map(|row| row as usize);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() && theirs.is_some() && mine != theirs);
    });
}

/// One row, and three threads one after another: it goes on from what each has counted.
#[test]
fn a_row_is_handed_over_with_its_counts() {
    model(2, || {
        let all = threads(2);
        let run = |tid| {
            let row = until(|| all.0.take(tid, never));
            // SAFETY: this thread's row until it is given back.
            unsafe {
                count::free_exactly(row, 10);
                all.0.give_back(row);
            }
        };
        let other = thread::spawn(move || run(1));
        run(2);
        other.join().unwrap();
        assert_eq!(all.0.frees(), 2);
        // SAFETY: no thread has a row any more.
        let bytes = |row: *mut Thread| unsafe { atomic(&raw mut (*row).usable_freed_bytes) };
        let freed = all.0.rows().map(|row| bytes(row).load(Relaxed));
        assert_eq!(freed.sum::<u64>(), 20);
    });
}

/// Counts, bytes and the distance of the overflow row are exact.
#[test]
fn the_shared_row_counts_exactly() {
    model(3, || {
        let row = leaked(rows(Thread::default(), 1));
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
        let read = |place: *mut u64| unsafe { atomic(place) }.load(Relaxed);
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
