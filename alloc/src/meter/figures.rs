//! What the meter has counted, read from inside the process.

use core::sync::atomic::Ordering::Relaxed;

use abi::{SectionKind, Thread, class_upper_bytes, latency_upper_ns};
use sampler::word::atomic;

use super::map;
use super::sampling::{Meter, counter, crossed};

/// The process's heap, as far as it goes through this allocator. Sums over all threads, those that exited included.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Blocks handed out, exact. A realloc counts as one handed out and one taken back.
    pub allocations: u64,
    /// Blocks taken back, exact.
    pub frees: u64,
    /// Requested bytes of blocks handed out, exact.
    pub allocated_bytes: u64,
    /// Requested bytes of blocks taken back, exact.
    pub freed_bytes: u64,
    /// Live sampled blocks.
    pub samples_live: u64,
    /// Mean distance of samples now, requested bytes.
    pub mean_bytes: u64,
    /// Estimate of blocks that another thread freed than allocated.
    pub cross_thread_frees: u64,
    /// Estimate of their requested bytes.
    pub cross_thread_freed_bytes: u64,
    /// Threads that have had a row, of which some may have exited.
    pub threads: u64,
    /// Size classes with anything in them, smallest first; estimates.
    pub classes: Vec<Class>,
    /// Threads by role; estimates.
    pub roles: Vec<Role>,
    /// How long timed calls took, shortest first: the same buckets every time.
    pub latencies: Vec<Bucket>,
    /// What did not fit.
    pub lost: Lost,
    /// Time in the meter's slow path, ns.
    pub slow_ns: u64,
}

impl Figures {
    /// Requested bytes handed out and not taken back, exact.
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.freed_bytes)
    }

    /// Blocks handed out and not taken back, exact.
    pub fn live_blocks(&self) -> u64 {
        self.allocations.saturating_sub(self.frees)
    }
}

/// Allocations of similar size, estimated from samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Largest size in it, requested bytes.
    pub upper_bytes: u64,
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks taken back.
    pub frees: u64,
    /// Requested bytes handed out and not taken back; 0 where the estimate would be less.
    pub live_bytes: u64,
}

/// Threads of one name (without digits at its end), estimated from samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name; `main` for the first thread.
    pub name: String,
    /// Threads so far.
    pub threads: u32,
    /// Requested bytes they were handed.
    pub allocated_bytes: u64,
    /// Requested bytes they gave back, whoever had been handed them.
    pub freed_bytes: u64,
}

/// Timed calls of similar duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// First duration that is past it, ns.
    pub upper_ns: u64,
    /// Allocating calls.
    pub allocations: u64,
    /// Freeing calls.
    pub frees: u64,
}

/// What the meter could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Samples without a place in the table.
    pub samples: u64,
    /// Stacks without a place.
    pub stacks: u64,
    /// Threads that share a row: they count exactly, but each call of theirs is slower.
    pub threads: u64,
}

/// The figures of now, or `None` when the meter is off. Takes some ten microseconds and allocates a few short lists.
pub fn figures() -> Option<Figures> {
    let meter = map::meter()?;
    let (cross_thread_frees, cross_thread_freed_bytes) = crossed();
    // Before the lists below, which are blocks themselves.
    let mut exact = Figures::default();
    add_threads(meter, &mut exact);
    Some(Figures {
        samples_live: counter!(meter, samples_live).load(Relaxed),
        mean_bytes: meter.pace.mean_bytes(),
        cross_thread_frees,
        cross_thread_freed_bytes,
        threads: counter!(meter, threads_seen).load(Relaxed),
        classes: classes(),
        roles: named(),
        latencies: latencies(),
        lost: Lost {
            samples: counter!(meter, samples_dropped_full).load(Relaxed),
            stacks: counter!(meter, stacks_dropped).load(Relaxed),
            threads: counter!(meter, threads_overflowed).load(Relaxed),
        },
        slow_ns: counter!(meter, slow_ns).load(Relaxed),
        ..exact
    })
}

/// All that was ever written of a section's row; another thread may be writing a field of it.
fn read<T: Copy>(kind: SectionKind, at: usize) -> T {
    // SAFETY: inside the section; rows are integers only.
    unsafe { map::row_at::<T>(kind, at).read_volatile() }
}

fn add_threads(meter: &Meter, figures: &mut Figures) {
    // Frees first: a block freed between the two sums would otherwise make live bytes negative.
    // SAFETY: a word of a row of the mapping, which its thread writes through atomics.
    let load = |word: *mut u64| unsafe { atomic(word) }.load(Relaxed);
    let rows = || meter.threads.rows();
    // SAFETY: fields of a row of the mapping.
    rows().for_each(|row: *mut Thread| unsafe {
        figures.frees = figures.frees.wrapping_add(load(&raw mut (*row).frees));
        let bytes = load(&raw mut (*row).usable_freed_bytes);
        figures.freed_bytes = figures.freed_bytes.wrapping_add(bytes);
    });
    // SAFETY: as above.
    rows().for_each(|row: *mut Thread| unsafe {
        figures.allocations = figures
            .allocations
            .wrapping_add(load(&raw mut (*row).allocs));
        let bytes = load(&raw mut (*row).usable_allocated_bytes);
        figures.allocated_bytes = figures.allocated_bytes.wrapping_add(bytes);
    });
}

fn classes() -> Vec<Class> {
    let rows = (0..abi::CLASSES).map(|at| (at, read::<abi::Class>(SectionKind::Classes, at)));
    rows.filter(|(_, row)| row.allocated_blocks > 0)
        .map(|(at, row)| Class {
            upper_bytes: class_upper_bytes(at),
            allocations: row.allocated_blocks,
            frees: row.freed_blocks,
            live_bytes: row.allocated_bytes.saturating_sub(row.freed_bytes),
        })
        .collect()
}

/// Those that a thread has had. Two rows may have one name: of two threads that came at the same time, or of one called
/// as the row of the rest.
fn named() -> Vec<Role> {
    let rows = (0..abi::ROLES).map(|at| read::<abi::Role>(SectionKind::Roles, at));
    let mut roles: Vec<Role> = Vec::new();
    let is_had = |row: &abi::Role| row.threads > 0 || row.allocated_bytes + row.freed_bytes > 0;
    for row in rows.filter(|row| row.state == 2 && is_had(row)) {
        let name = String::from_utf8_lossy(&row.name);
        let name = name.trim_end_matches('\0');
        let at = roles.iter().position(|role| role.name == name);
        let at = at.unwrap_or_else(|| {
            roles.push(Role {
                name: name.into(),
                threads: 0,
                allocated_bytes: 0,
                freed_bytes: 0,
            });
            roles.len() - 1
        });
        roles[at].threads += row.threads;
        roles[at].allocated_bytes += row.allocated_bytes;
        roles[at].freed_bytes += row.freed_bytes;
    }
    roles
}

fn latencies() -> Vec<Bucket> {
    let rows = (0..abi::LATENCIES).map(|at| (at, read::<abi::Latency>(SectionKind::Latencies, at)));
    rows.map(|(at, row)| Bucket {
        upper_ns: latency_upper_ns(at),
        allocations: row.allocs,
        frees: row.frees,
    })
    .collect()
}
