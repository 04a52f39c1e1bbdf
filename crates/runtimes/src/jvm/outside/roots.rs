//! Where references into the heap start: threads with their stacks, handles of native code, and the JVM's own classes.

use std::collections::HashSet;
use std::fs;

use observe::proc::pagemap::PAGE_BYTES;

use super::classes::Classes;
use super::heap::Heap;
use super::layout::ThreadList;
use crate::memory::pages::ADDRESS_MAX;

const THREADS_MAX: usize = 100_000;
const STACK_BYTES_MAX: u64 = 64 << 20;
/// Below the stack pointer a leaf function of the ABI may keep data.
const RED_ZONE: u64 = 128;
/// Blocks of local handles of a thread.
const BLOCKS_MAX: usize = 4_096;
const HANDLES_OF_BLOCK: u64 = 32;
/// Words of an OopStorage in which its list of blocks may be, and blocks of the list.
const STORAGE_WORDS: u64 = 16;
const STORAGE_BLOCKS_MAX: u64 = 1 << 16;
/// A block of an OopStorage has 64 handles first, then which are in use, then whose it is (`oopStorage.inline.hpp`).
const HANDLES_OF_STORAGE: u64 = 64;
/// References of all stacks, and of all lasting handles.
const WORDS_MAX: usize = 1 << 20;

/// What holds an object from outside of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A class of the JVM itself.
    Class,
    /// The object of a thread that runs.
    Thread,
    /// A variable on the stack of a thread, whose object is at that address.
    Stack {
        thread: u64,
    },
    /// A JNI handle of a thread, or one that lasts.
    Local {
        thread: u64,
    },
    Global,
}

/// Roots by how much they say: an object is held by the first kind that leads to it.
#[derive(Debug, Default)]
pub struct Roots {
    /// Static fields, threads and lasting handles.
    pub named: Vec<(Root, u64)>,
    /// Stacks and handles of one call.
    pub stacks: Vec<(Root, u64)>,
}

/// A thread of Java.
pub struct Thread {
    /// Of the JVM's own structure.
    pub address: u64,
    /// The java.lang.Thread.
    pub object: u64,
    /// Where its stack begins, above all frames, and the least address that it may have.
    pub base: u64,
    end: u64,
}

/// `None`: the time is over.
pub fn roots(heap: &Heap, classes: &Classes, pid: u32) -> Option<Roots> {
    let mut roots = Roots::default();
    for (number, class) in classes.all.iter().enumerate() {
        if classes.is_boot(heap, number as u32) {
            let mirror = heap.handle(class.address, heap.layout.klass.mirror);
            roots
                .named
                .extend(mirror.map(|mirror| (Root::Class, mirror)));
        }
    }
    roots
        .named
        .extend(globals(heap).into_iter().map(|to| (Root::Global, to)));
    let threads = threads(heap);
    let tops = stack_tops(heap, pid, &threads);
    let mut words = HashSet::new();
    for (thread, top) in threads.iter().zip(tops) {
        if heap.pages.is_late() {
            return None;
        }
        roots.named.push((Root::Thread, thread.object));
        let of = thread.object;
        let left = WORDS_MAX.saturating_sub(roots.stacks.len());
        let locals = locals(heap, thread).unwrap_or_default();
        let locals = locals.into_iter().take(left);
        roots
            .stacks
            .extend(locals.map(|to| (Root::Local { thread: of }, to)));
        words.clear();
        scan(heap, classes, top, thread.base, &mut words);
        let found = words.iter().map(|to| (Root::Stack { thread: of }, *to));
        let left = WORDS_MAX.saturating_sub(roots.stacks.len());
        roots.stacks.extend(found.take(left));
    }
    Some(roots)
}

pub fn threads(heap: &Heap) -> Vec<Thread> {
    let of = heap.layout.threads;
    let addresses = match of.list {
        ThreadList::Linked { first, next } => {
            let mut at = heap.pages.word(first);
            let mut addresses = Vec::new();
            while let Some(thread) = at.filter(|at| *at != 0 && addresses.len() < THREADS_MAX) {
                addresses.push(thread);
                at = heap.word(thread, next);
            }
            addresses
        }
        ThreadList::Array {
            list,
            length,
            threads,
        } => array(heap, list, length, threads).unwrap_or_default(),
    };
    let thread = |address: u64| {
        let base = heap.word(address, of.stack_base)?;
        if base >= ADDRESS_MAX || heap.pages.is_late() {
            return None;
        }
        let bytes = heap.word(address, of.stack_bytes)?.min(STACK_BYTES_MAX);
        Some(Thread {
            address,
            object: heap.handle(address, of.object)?,
            base,
            end: base.checked_sub(bytes)?,
        })
    };
    addresses.into_iter().filter_map(thread).collect()
}

fn array(heap: &Heap, list: u64, length: u64, threads: u64) -> Option<Vec<u64>> {
    let list = heap.pages.word(list)?;
    let count = u64::from(heap.int(list, length)?).min(THREADS_MAX as u64);
    let items = heap.pointer(list, threads)?;
    Some(
        (0..count)
            .filter_map(|at| heap.word(items, 8 * at))
            .collect(),
    )
}

/// Where each stack ends now: by the JVM where the thread is outside of Java, by the kernel where it waits, and where
/// neither says it, at its limit.
fn stack_tops(heap: &Heap, pid: u32, threads: &[Thread]) -> Vec<u64> {
    let mut waiting: Option<Vec<u64>> = None;
    let mut top = |thread: &Thread| {
        let by_java = heap.pointer(thread.address, heap.layout.threads.last_java[0]);
        let is_on_it = |top: &u64| (thread.end..thread.base).contains(top);
        if let Some(top) = by_java.filter(is_on_it) {
            return top;
        }
        let waiting = waiting.get_or_insert_with(|| waiting_tops(pid));
        let after = waiting.partition_point(|top| *top < thread.end);
        let by_kernel = waiting.get(after).copied().filter(is_on_it);
        by_kernel.map_or(thread.end, |top| top.saturating_sub(RED_ZONE))
    };
    threads.iter().map(&mut top).collect()
}

/// Stack pointers of the threads that are in the kernel, sorted.
fn waiting_tops(pid: u32) -> Vec<u64> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = folder.into_iter().flatten().flatten().take(THREADS_MAX);
    let top = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("syscall")).ok()?;
        let word = text.split_ascii_whitespace().rev().nth(1)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    let mut tops: Vec<u64> = tasks.filter_map(top).collect();
    tops.sort_unstable();
    tops
}

/// Words of a stack that point to objects. Compiled code keeps compressed references in halves of words.
fn scan(heap: &Heap, classes: &Classes, from: u64, to: u64, words: &mut HashSet<u64>) {
    let is_object = |at: &u64| heap.in_heap(*at) && classes.of_object(heap, *at).is_some();
    let mut at = from & !7;
    while at < to && words.len() < WORDS_MAX && !heap.pages.is_late() {
        let end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        heap.pages
            .words(at, (end.min(to) - at) / 8, &mut |_, word| {
                if is_object(&word) {
                    words.insert(word);
                    return;
                }
                let Some(by) = heap.layout.oops else {
                    return;
                };
                let halves = [word as u32, (word >> 32) as u32];
                let objects = halves.iter().filter_map(|half| heap.widened(*half, by));
                words.extend(objects.filter(is_object));
            });
        at = end;
    }
}

fn locals(heap: &Heap, thread: &Thread) -> Option<Vec<u64>> {
    let of = heap.layout.threads.handles?;
    let mut block = heap.word(thread.address, of.at)?;
    let mut found = Vec::new();
    for _ in 0..BLOCKS_MAX {
        if block == 0 {
            break;
        }
        let count = u64::from(heap.int(block, of.top)?).min(HANDLES_OF_BLOCK);
        let handles = (0..count).filter_map(|at| heap.word(block, 8 * at));
        found.extend(handles.filter(|to| heap.in_heap(*to)));
        block = heap.word(block, of.next)?;
    }
    Some(found)
}

/// Global JNI handles. What an OopStorage is made of is not published: its list of blocks is found by what it must be,
/// a capacity, a number, and blocks that say whose they are.
fn globals(heap: &Heap) -> Vec<u64> {
    let Some(storage) = heap
        .layout
        .global_handles
        .and_then(|at| heap.pages.word(at))
    else {
        return Vec::new();
    };
    let list = (0..STORAGE_WORDS)
        .filter_map(|at| heap.pointer(storage, 8 * at))
        .find_map(|list| blocks(heap, storage, list));
    let handles = list.into_iter().flatten().flat_map(|block| {
        let used = heap.word(block, 8 * HANDLES_OF_STORAGE).unwrap_or(0);
        (0..HANDLES_OF_STORAGE)
            .filter(move |at| used & 1 << at != 0)
            .filter_map(move |at| heap.word(block, 8 * at))
    });
    let in_heap = handles.filter(|to| heap.in_heap(*to));
    in_heap.take(WORDS_MAX).collect()
}

fn blocks(heap: &Heap, storage: u64, list: u64) -> Option<Vec<u64>> {
    /// Capacity, number, references.
    const HEADER_BYTES: u64 = 24;
    let (capacity, count) = (heap.word(list, 0)?, heap.word(list, 8)?);
    if !(1..=capacity.min(STORAGE_BLOCKS_MAX)).contains(&count) {
        return None;
    }
    let blocks: Option<Vec<u64>> = (0..count)
        .map(|at| heap.pointer(list, HEADER_BYTES + 8 * at))
        .collect();
    let is_of = |block: &u64| {
        let owner = heap.word(*block, 8 * (HANDLES_OF_STORAGE + 1));
        owner == Some(storage) && !heap.pages.is_late()
    };
    blocks.filter(|blocks| blocks.iter().all(is_of))
}
