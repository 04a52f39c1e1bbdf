//! Rows of threads, the one that they share, and the filter.

use abi::{Header, SectionKind, Thread};
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use super::{Shared, header, leaked, model, section};
use crate::filter::Level;
use crate::threads::Threads;
use crate::word::{atomic, atomic32};
use crate::{count, shared};

/// A thread's own block is held, whatever another puts into its cell or takes out.
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
    threads_of(capacity, |_, _| ())
}

/// `begin`: with the header and the rows, before there are threads.
fn threads_of(capacity: u32, begin: fn(*mut Header, *mut Thread)) -> &'static Shared<Threads> {
    let words = |header: *mut Header| unsafe {
        // SAFETY: fields of the header.
        atomic32(&raw mut (*header).sections[SectionKind::Threads as usize].used);
        atomic32(&raw mut (*header).forks);
        let counters = &raw mut (*header).counters;
        atomic(&raw mut (*counters).threads_seen);
        atomic(&raw mut (*counters).threads_recycled);
        atomic(&raw mut (*counters).threads_overflowed);
    };
    let rows = section(Thread::default(), capacity as usize);
    for at in 0..capacity as usize {
        // SAFETY: fields of a row.
        unsafe {
            atomic32(&raw mut (*rows.add(at)).tid);
            atomic32(&raw mut (*rows.add(at)).forks);
        }
    }
    let header = header(words);
    // SAFETY: zeroed sections that are never freed.
    let threads = leaked(unsafe { Threads::new(header, rows, capacity) });
    begin(header, rows);
    threads
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

/// Two threads of a forked child, and the row of a thread of its parent: one of them gets it, whatever the other sees
/// of it meanwhile.
#[test]
fn one_thread_of_a_child_gets_a_row_of_the_parent() {
    const FORKS: u32 = 1;
    // SAFETY: words of the header and of the row.
    let begin = |header: *mut Header, rows: *mut Thread| unsafe {
        atomic32(&raw mut (*header).forks).store(FORKS, Relaxed);
        let used = &raw mut (*header).sections[SectionKind::Threads as usize].used;
        atomic32(used).store(2, Relaxed);
        atomic32(&raw mut (*rows.add(1)).tid).store(7, Relaxed);
    };
    // SAFETY: a word of the row.
    let is_gone =
        |row: *mut Thread, _| unsafe { atomic32(&raw mut (*row).forks) }.load(Relaxed) != FORKS;
    model(3, move || {
        let all = threads_of(2, begin);
        let other = thread::spawn(move || all.0.take(1, is_gone).is_some());
        let mine = all.0.take(2, is_gone).is_some();
        assert_ne!(mine, other.join().unwrap(), "one row for one thread");
    });
}

/// A row that one thread gives back and another takes: it goes on from what the first has counted.
#[test]
fn a_row_is_handed_over_with_its_counts() {
    // SAFETY: this thread's row until it is given back.
    let run = |row| unsafe {
        count::free_exactly(row, 10);
        row
    };
    model(3, move || {
        let all = threads(2);
        let mine = all.0.take(1, never).expect("a row");
        let other = thread::spawn(move || all.0.take(2, never).map(run).is_some());
        // SAFETY: as above.
        unsafe { all.0.give_back(run(mine)) };
        let frees = 1 + u64::from(other.join().unwrap());
        // SAFETY: no thread counts any more.
        let bytes = |row: *mut Thread| unsafe { atomic(&raw mut (*row).usable_freed_bytes) };
        let freed = all.0.rows().map(|row| bytes(row).load(Relaxed));
        assert_eq!((all.0.frees(), freed.sum()), (frees, frees * 10));
    });
}

/// Counts, bytes and the distance of the overflow row are exact.
#[test]
fn the_shared_row_counts_exactly() {
    model(3, || {
        let row = leaked(section(Thread::default(), 1));
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
