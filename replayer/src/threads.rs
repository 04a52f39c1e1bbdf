//! The replayed threads: started when their first operation comes, on stacks in shared memory, ended when theirs ended.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use replayer::{STACK_BYTES, Thread};

use crate::memory::shared;

/// Tries before a thread with nothing to do sleeps.
const SPINS: u32 = 400;

/// What a thread waits on: the index of its next segment and one, or [`NOTHING`].
pub const NOTHING: u32 = 0;

/// The threads and what they wait on. All in shared memory.
#[derive(Clone, Copy)]
pub struct Threads {
    next: *const AtomicU32,
    has_started: *const AtomicU32,
    /// pthread_t of the last thread on each lane; 0: none.
    on_lane: *const AtomicU64,
    stacks: *mut u8,
    threads: &'static [Thread],
}

// SAFETY: shared words are atomic; a stack belongs to one thread at a time.
unsafe impl Sync for Threads {}

impl Threads {
    pub fn new(threads: &'static [Thread], lanes: u32) -> Option<Threads> {
        let words = shared(threads.len() * 4)?;
        let started = shared(threads.len() * 4)?;
        let on_lane = shared(lanes as usize * 8)?;
        let stacks = shared(lanes as usize * STACK_BYTES)?;
        let is_whole = threads.iter().all(|thread| thread.lane < lanes);
        is_whole.then_some(Threads {
            next: words.cast(),
            has_started: started.cast(),
            on_lane: on_lane.cast(),
            stacks,
            threads,
        })
    }

    /// Of a thread of the plan.
    pub fn get(&self, thread: u32) -> &'static Thread {
        &self.threads[thread as usize]
    }

    pub fn count(&self) -> u32 {
        self.threads.len() as u32
    }

    fn word(&self, thread: u32) -> &'static AtomicU32 {
        // SAFETY: a word for each thread.
        unsafe { &*self.next.add(thread as usize) }
    }

    /// Gives a thread its next segment; wakes it unless it is the caller.
    pub fn give(&self, thread: u32, segment: u32, caller: u32) {
        let word = self.word(thread);
        word.store(segment + 1, Ordering::Release);
        if thread != caller {
            // SAFETY: a word of shared memory.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
        }
    }

    /// The next segment of a thread, when it is there.
    pub fn wait(&self, thread: u32) -> u32 {
        let word = self.word(thread);
        let mut tries = 0;
        loop {
            match word.swap(NOTHING, Ordering::Acquire) {
                NOTHING => {}
                segment => return segment - 1,
            }
            tries += 1;
            if tries < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let none = std::ptr::null::<libc::timespec>();
            // SAFETY: a word of shared memory; returns at once where it has changed.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, NOTHING, none) };
        }
    }

    /// Marks a thread as started; whether it was.
    pub fn set_started(&self, thread: u32) -> bool {
        // SAFETY: a word for each thread.
        unsafe { (*self.has_started.add(thread as usize)).swap(1, Ordering::AcqRel) == 1 }
    }

    /// Starts a thread on its lane, after the one before on it has ended. False: the kernel gives none.
    pub fn start(
        &self,
        thread: u32,
        body: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    ) -> bool {
        let lane = self.get(thread).lane as usize;
        // SAFETY: the lane's stack is free once its last thread has ended; the number is no pointer.
        unsafe {
            let on_lane = &*self.on_lane.add(lane);
            let before = on_lane.load(Ordering::Acquire);
            if before != 0 {
                libc::pthread_join(before as libc::pthread_t, std::ptr::null_mut());
            }
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            if libc::pthread_attr_init(&mut attributes) != 0 {
                return false;
            }
            let stack = self.stacks.add(lane * STACK_BYTES).cast();
            let mut handle: libc::pthread_t = std::mem::zeroed();
            let failed = libc::pthread_attr_setstack(&mut attributes, stack, STACK_BYTES) != 0
                || libc::pthread_create(&mut handle, &attributes, body, thread as usize as *mut _)
                    != 0;
            libc::pthread_attr_destroy(&mut attributes);
            on_lane.store(handle as u64, Ordering::Release);
            !failed
        }
    }
}
