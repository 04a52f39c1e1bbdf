//! What a malloc and its free cost in this process. In: nothing; out: [`Times`]. `observe::overhead::pair` runs it in
//! processes with the probe and without, by `highwater-time-pairs` or by highwater itself.

use std::hint::black_box;

const PAIRS: u32 = 60_000;
const BATCHES: usize = 7;
/// Live blocks of which one is replaced at random: 18 MiB, more than the caches hold.
const LIVE: usize = 32_768;

/// Nanoseconds of CPU time a malloc and its free take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Freed at once.
    pub at_once_ns: f64,
    /// Freed at random among many live blocks.
    pub random_ns: f64,
}

/// Takes some 50 ms, and 18 MiB of memory that it does not free.
pub fn time_pairs() -> Times {
    let at_once = || {
        for _ in 0..PAIRS {
            free(allocate(100));
        }
    };
    let mut live: Vec<*mut libc::c_void> =
        (0..LIVE).map(|at| allocate(64 + at * 7 % 1024)).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let random = || {
        for _ in 0..PAIRS {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = state as usize % LIVE;
            let bytes = 64 + (state >> 32) as usize % 1024;
            free(std::mem::replace(&mut live[at], allocate(bytes)));
        }
    };
    Times {
        at_once_ns: per_pair(at_once),
        random_ns: per_pair(random),
    }
}

fn allocate(bytes: usize) -> *mut libc::c_void {
    // SAFETY: any size may be asked for; a null is freed like a block.
    black_box(unsafe { libc::malloc(black_box(bytes)) })
}

fn free(block: *mut libc::c_void) {
    // SAFETY: from `allocate`, and freed once: its only copy was taken.
    unsafe { libc::free(black_box(block)) };
}

/// The median of some batches.
fn per_pair(mut batch: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let begin = cpu_ns();
            batch();
            (cpu_ns() - begin) as f64 / f64::from(PAIRS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[BATCHES / 2]
}

/// CPU time of this thread.
fn cpu_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills one record; the clock of the calling thread is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pair_takes_a_time_that_a_machine_can_take() {
        let times = super::time_pairs();
        for ns in [times.at_once_ns, times.random_ns] {
            assert!((0.5..100_000.0).contains(&ns), "{times:?}");
        }
    }
}
