//! Allocations at odd times: before `main`, and while a thread ends.
#![cfg(feature = "meter")]

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use highwater_alloc::meter::figures;

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

const EARLY: u64 = 3_000;
static EARLY_LIVE: AtomicU64 = AtomicU64::new(0);

/// Run by the loader, before Rust's own start.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    (0..EARLY).for_each(|_| std::mem::forget(black_box(Box::new([1u8; 100]))));
    let live = figures().map_or(0, |figures| figures.live_bytes());
    EARLY_LIVE.store(live, SeqCst);
}

#[test]
fn what_was_allocated_before_main_is_counted() {
    let live = EARLY_LIVE.load(SeqCst);
    assert!(
        (EARLY * 100..EARLY * 100 + 10_000).contains(&live),
        "{live}"
    );
}

/// Keeps blocks until its thread's end, and allocates in its own.
#[allow(clippy::vec_box)] // each is to be freed by itself
struct Last(Vec<Box<[u8; 64]>>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.clear();
        (0..5_000).for_each(|_| drop(black_box(Box::new([1u8; 64]))));
        std::mem::forget(black_box(vec![1u8; 10_000]));
    }
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last(Vec::new())) };
}

fn end_late() {
    std::thread::spawn(|| {
        LAST.with_borrow_mut(|last| (0..2_000).for_each(|_| last.0.push(Box::new([2; 64]))));
    })
    .join()
    .unwrap();
}

/// Other tests of this process allocate meanwhile: only what is large is asked for.
#[test]
fn what_a_thread_allocates_while_it_ends_is_counted_and_its_row_is_used_again() {
    end_late();
    let before = figures().unwrap();
    (0..200).for_each(|_| end_late());
    let now = figures().unwrap();
    let live = now.live_bytes() - before.live_bytes();
    assert!((2_000_000..2_400_000).contains(&live), "{live}");
    assert!(now.allocations - before.allocations >= 200 * 7_001);
    assert_eq!(now.lost.threads, 0);
}
