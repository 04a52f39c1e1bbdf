//! Children of children: alone in its process, so that no other thread is in the allocator at a fork.
#![cfg(feature = "meter")]

use std::hint::black_box;
use std::sync::{Arc, Barrier};

use highwater_alloc::meter::figures;

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

const THREADS: usize = 60;
/// More threads in all than there are rows.
const GENERATIONS: usize = 72;
const LOST: i32 = 3;

/// Threads do not live on in a child: their rows are free there.
#[test]
fn rows_of_a_parent_s_threads_are_used_again_in_its_children() {
    // SAFETY: the calls take no pointer; children start threads and end by _exit.
    unsafe {
        // Whose parent is gone becomes this process's child.
        assert_eq!(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1), 0);
        if libc::fork() == 0 {
            (0..GENERATIONS).for_each(|_| start_threads_and_fork());
            let lost = figures().map_or(99, |figures| figures.lost.threads);
            libc::_exit(if lost > 0 { LOST } else { 0 });
        }
        let mut status = 0;
        let mut ended = 0;
        while libc::wait(&mut status) > 0 {
            assert!(libc::WIFEXITED(status), "ended by {status}");
            assert_eq!(libc::WEXITSTATUS(status), 0, "rows ran out");
            ended += 1;
        }
        assert_eq!(ended, GENERATIONS + 1);
    }
}

/// Goes on in the child.
fn start_threads_and_fork() {
    let all_started = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let all_started = all_started.clone();
        std::thread::spawn(move || {
            black_box(vec![1u8; 100]);
            all_started.wait();
            loop {
                std::thread::park();
            }
        });
    }
    all_started.wait();
    // SAFETY: as above.
    unsafe {
        if libc::fork() != 0 {
            libc::_exit(0);
        }
    }
}
