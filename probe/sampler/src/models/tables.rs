//! Samples, stacks, roles and modules: what one thread publishes another finds whole.

use abi::{Header, MODULE_PATH_BYTES, Module, ROLES, Role, Sample, SectionKind, Stack};
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed};
use loom::thread;

use super::{Shared, header, leaked, model, reads, section};
use crate::modules::Modules;
use crate::roles::Roles;
use crate::samples::{Inserted, Samples};
use crate::stacks::Stacks;
use crate::word::{atomic, atomic32};

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
    let samples = unsafe { Samples::new(section(0, 2), section(Sample::default(), 2), 2) };
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
    let read = |table: &Shared<Samples>| {
        let removed = table.0.remove(16);
        assert!(removed.is_none() || removed == Some(checked(16)));
        removed.is_some()
    };
    let write = |table: &Shared<Samples>| {
        assert_eq!(table.0.insert(16, sample(16)), Inserted::Done);
    };
    reads(table, write, read);
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
        let (keys, samples) = (section(0u64, 2), section(Sample::default(), 2));
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
    let (stacks, frames) = (section(Stack::default(), 4), section(0u64, 8));
    // SAFETY: zeroed sections that are never freed.
    let table = unsafe { Stacks::new(header(used), (stacks, 4), (frames, 8)) };
    leaked((table, stacks, frames))
}

/// Frames of a row, when it is published. `order`: of the load of its hash.
fn frames_of(table: &Table, row: usize, order: Ordering) -> Option<Vec<u64>> {
    // SAFETY: words of the table.
    unsafe {
        let row = table.1.add(row);
        if atomic(&raw mut (*row).hash).load(order) < 2 {
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
    let read = |table: &Shared<Table>| {
        let found = (0..4).find_map(|row| frames_of(&table.0, row, Acquire));
        assert!(found.is_none() || found == Some(vec![7, 8]));
        found.is_some()
    };
    let write = |table: &Shared<Table>| _ = table.0.0.find(&[7, 8], 0, 5);
    reads(stacks, write, read);
}

/// Two threads that come by one stack, or by two, at the same time: a stack may have two rows, never a broken one.
#[test]
fn stacks_that_are_entered_at_once_are_whole() {
    for frames in [[7, 8], [9, 10]] {
        model(2, move || {
            let table = stacks();
            let find = move |frames: [u64; 2]| {
                let row = table.0.0.find(&frames, 0, 5).expect("room");
                assert_eq!(frames_of(&table.0, row as usize, Relaxed).unwrap(), frames);
                row
            };
            let other = thread::spawn(move || find([7, 8]));
            let (mine, theirs) = (find(frames), other.join().unwrap());
            assert_eq!(frames_of(&table.0, mine as usize, Relaxed).unwrap(), frames);
            assert_eq!(
                frames_of(&table.0, theirs as usize, Relaxed).unwrap(),
                [7, 8]
            );
        });
    }
}

fn roles() -> &'static Shared<(Roles, *mut Role)> {
    let rows = section(role(), ROLES);
    // SAFETY: fields of the second row; a zeroed section that is never freed.
    unsafe {
        atomic32(&raw mut (*rows.add(1)).state);
        atomic32(&raw mut (*rows.add(1)).threads);
        leaked((Roles::new(rows), rows))
    }
}

/// A role that a reader finds in use has its name.
#[test]
fn a_role_is_whole_when_it_is_found() {
    // SAFETY: words of the second row.
    let read = |table: &Shared<(Roles, *mut Role)>| unsafe {
        let row = table.0.1.add(1);
        let is_used = atomic32(&raw mut (*row).state).load(Acquire) == 2;
        let word = |at| atomic((&raw mut (*row).root).add(at)).load(Relaxed);
        let name = u64::from_ne_bytes(*b"worker\0\0");
        assert!(!is_used || [word(0), word(1)] == [3, name]);
        is_used
    };
    let name = |table: &Shared<(Roles, *mut Role)>| {
        let found = table.0.0.find(*b"worker\0\0\0\0\0\0\0\0\0\0", 3);
        assert_eq!(found, 1);
    };
    reads(roles, name, read);
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

const MODULE: Module = Module {
    start: 0x1000,
    end: 0x2000,
    bias: 0,
    first_ns: 1,
    gone_ns: 0,
    path_bytes: 0,
    reserved: 0,
    path: [0; MODULE_PATH_BYTES],
};

fn used_of(header: *mut Header) -> *mut u32 {
    // SAFETY: a field of the header.
    unsafe { &raw mut (*header).sections[SectionKind::Modules as usize].used }
}

fn modules() -> &'static Shared<(Modules, *mut Header)> {
    let empty = Module {
        start: 0,
        end: 0,
        first_ns: 0,
        ..MODULE
    };
    // SAFETY: a word of the header; a zeroed section that is never freed.
    unsafe {
        let header = header(|header| _ = atomic32(used_of(header)));
        leaked((Modules::new(header, section(empty, 2), 2), header))
    }
}

/// An object that is counted has its addresses.
#[test]
fn a_module_is_whole_when_it_is_counted() {
    let read = |table: &Shared<(Modules, *mut Header)>| {
        // SAFETY: a word of the header.
        let used = unsafe { atomic32(used_of(table.0.1)) }.load(Acquire);
        assert!(used == 0 || table.0.0.hold(0x1fff));
        used > 0
    };
    // SAFETY: no other thread writes.
    let write = |table: &Shared<(Modules, *mut Header)>| unsafe {
        assert!(table.0.0.there(&MODULE));
    };
    reads(modules, write, read);
}
