//! The table of live sampled blocks: 16-way buckets of addresses, no tombstones, no locks.
//!
//! A row is claimed by swapping its key from free to busy, written, and published by storing the
//! address. Taking it out is the reverse, so at any instant a row belongs to one thread. A lookup
//! reads two cache lines and stops.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::{Sample, sample_check};

use crate::draw;
use crate::filter::Filter;
use crate::word::{AtomicU64, atomic, pause};

const WAYS: usize = if cfg!(loom) { 2 } else { 16 };
const FREE: u64 = 0;
const BUSY: u64 = 1;
/// A row is busy for some ten nanoseconds, unless its thread lost its CPU.
const SPINS: usize = if cfg!(loom) { 2 } else { 2_000 };

/// Words of a row.
const WORDS: usize = size_of::<Sample>() / size_of::<u64>();
const _: () = assert!(
    size_of::<Sample>() == WORDS * size_of::<u64>() && align_of::<Sample>() == align_of::<u64>()
);

/// The fields by their places, two or three to a word in the order of memory.
fn words_of(sample: &Sample) -> [u64; WORDS] {
    // SAFETY: as large, and integers without padding (`abi` checks the size).
    unsafe { core::mem::transmute_copy(sample) }
}

fn sample_of(words: [u64; WORDS]) -> Sample {
    // SAFETY: as large and as aligned, and any bits are integers.
    unsafe { core::mem::transmute(words) }
}

/// The table, over two sections of the mapping.
pub struct Samples {
    keys: *mut u64,
    rows: *mut Sample,
    capacity: usize,
}

/// What became of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in.
    Done,
    /// It is in, and took the place of a sample at the same address whose free was not seen.
    Replaced(Sample),
    /// Its bucket is full.
    Full,
}

impl Samples {
    /// # Safety
    /// `keys` and `rows` are zeroed sections of `capacity` rows (a multiple of 16) that live for ever.
    pub unsafe fn new(keys: *mut u64, rows: *mut Sample, capacity: usize) -> Samples {
        Samples {
            keys,
            rows,
            capacity,
        }
    }

    /// Rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts a block in; to be done before the subject can know its address.
    pub fn insert(&self, address: u64, sample: Sample) -> Inserted {
        let replaced = self.remove(address);
        for at in self.bucket(address) {
            if self
                .key(at)
                .compare_exchange(FREE, BUSY, Acquire, Relaxed)
                .is_ok()
            {
                self.publish(at, address, sample);
                return replaced.map_or(Inserted::Done, Inserted::Replaced);
            }
        }
        Inserted::Full
    }

    /// Takes a block out; to be done before its memory can be handed out again.
    pub fn remove(&self, address: u64) -> Option<Sample> {
        for _ in 0..SPINS {
            let mut busy = false;
            for at in self.bucket(address) {
                let key = self.key(at).load(Relaxed);
                busy |= key == BUSY;
                if key == address && self.claim(at, address) {
                    let sample = self.row(at);
                    self.key(at).store(FREE, Release);
                    return Some(sample);
                }
            }
            if !busy {
                return None;
            }
            pause();
        }
        None
    }

    /// Raises the mean of rows `from..from + count` to at least `mean_bytes`: each is kept with the
    /// probability that makes it a sample of that mean, else dropped. Returns how many were
    /// dropped.
    pub fn thin(
        &self,
        from: usize,
        count: usize,
        mean_bytes: u64,
        filter: &Filter,
        random: &mut u64,
    ) -> u64 {
        let end = from.saturating_add(count).min(self.capacity);
        let thin = |at: &usize| self.thin_row(*at, mean_bytes, filter, random);
        (from.min(end)..end).filter(thin).count() as u64
    }

    fn thin_row(&self, at: usize, mean_bytes: u64, filter: &Filter, random: &mut u64) -> bool {
        let address = self.key(at).load(Relaxed);
        if address <= BUSY || self.row(at).mean_bytes >= mean_bytes || !self.claim(at, address) {
            return false;
        }
        let mut sample = self.row(at);
        let bytes = sample.requested_bytes.max(1);
        let keep =
            draw::probability(bytes, mean_bytes) / draw::probability(bytes, sample.mean_bytes);
        if draw::uniform(random) > keep {
            filter.remove(address);
            self.key(at).store(FREE, Release);
            return true;
        }
        sample.mean_bytes = sample.mean_bytes.max(mean_bytes);
        self.publish(at, address, sample);
        false
    }

    /// In a forked child, on its only thread: rows that other threads were writing are free.
    pub fn after_fork(&self) {
        for at in 0..self.capacity {
            let key = self.key(at);
            if key.load(Relaxed) == BUSY {
                key.store(FREE, Relaxed);
            }
        }
    }

    fn claim(&self, at: usize, address: u64) -> bool {
        self.key(at)
            .compare_exchange(address, BUSY, Acquire, Relaxed)
            .is_ok()
    }

    fn publish(&self, at: usize, address: u64, mut sample: Sample) {
        sample.check = sample_check(address, &sample);
        for (word, value) in words_of(&sample).into_iter().enumerate() {
            self.word(at, word).store(value, Relaxed);
        }
        self.key(at).store(address, Release);
    }

    /// Of a row that another thread owns the words may be of two samples: wrong numbers that nobody uses unclaimed.
    fn row(&self, at: usize) -> Sample {
        sample_of(core::array::from_fn(|word| {
            self.word(at, word).load(Relaxed)
        }))
    }

    fn word(&self, at: usize, word: usize) -> &AtomicU64 {
        debug_assert!(at < self.capacity && word < WORDS);
        // SAFETY: a word of a row below the capacity.
        unsafe { atomic(self.rows.add(at).cast::<u64>().add(word)) }
    }

    fn key(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < self.capacity);
        // SAFETY: `at` is below the capacity by `bucket` and `thin`.
        unsafe { atomic(self.keys.add(at)) }
    }

    fn bucket(&self, address: u64) -> core::ops::Range<usize> {
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let buckets = (self.capacity / WAYS) as u64;
        let first = ((hash * buckets) >> 32) as usize * WAYS;
        first..first + WAYS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn table(capacity: usize) -> (Samples, Vec<u64>, Vec<Sample>) {
        let (mut keys, mut rows) = (vec![0u64; capacity], vec![Sample::default(); capacity]);
        // SAFETY: the rows live as long as the table.
        let samples = unsafe { Samples::new(keys.as_mut_ptr(), rows.as_mut_ptr(), capacity) };
        (samples, keys, rows)
    }

    fn sample(requested_bytes: u64) -> Sample {
        Sample {
            requested_bytes,
            mean_bytes: 512,
            ..Sample::default()
        }
    }

    #[test]
    fn in_and_out() {
        let (table, _keys, _rows) = table(1024);
        assert_eq!(table.insert(0x1000, sample(1)), Inserted::Done);
        assert_eq!(table.insert(0x2000, sample(2)), Inserted::Done);
        assert_eq!(table.remove(0x1000).unwrap().requested_bytes, 1);
        assert_eq!(table.remove(0x1000), None);
        assert_eq!(table.remove(0x2000).unwrap().requested_bytes, 2);
    }

    #[test]
    fn an_address_that_comes_again_replaces_its_stale_sample() {
        let (table, _keys, _rows) = table(1024);
        table.insert(0x1000, sample(1));
        let Inserted::Replaced(old) = table.insert(0x1000, sample(2)) else {
            panic!("not replaced")
        };
        assert_eq!(old.requested_bytes, 1);
        assert_eq!(table.remove(0x1000).unwrap().requested_bytes, 2);
        assert_eq!(table.remove(0x1000), None);
    }

    #[test]
    fn a_full_bucket_is_said_and_harms_nothing() {
        let (table, _keys, _rows) = table(16);
        for block in 1..=16u64 {
            assert_eq!(table.insert(block << 12, sample(block)), Inserted::Done);
        }
        assert_eq!(table.insert(17 << 12, sample(17)), Inserted::Full);
        for block in 1..=16u64 {
            assert_eq!(table.remove(block << 12).unwrap().requested_bytes, block);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn at_the_thinning_mark_few_buckets_are_full() {
        let (table, _keys, _rows) = table(32_768);
        let mut state = 5;
        let full = (0..12_288)
            .filter(|_| table.insert(draw::random(&mut state) & !15, sample(64)) == Inserted::Full)
            .count();
        assert!(full < 25, "{full} of 12,288 did not fit");
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn thinning_keeps_the_estimate() {
        let (mut estimate, rounds) = (0.0, 200);
        for seed in 0..rounds {
            let (table, keys, _rows) = table(4096);
            let (filter, mut random) = (Box::new(Filter::new()), seed);
            for block in 1..=1000u64 {
                table.insert(block * 48, sample(100));
                assert!(filter.add(block * 48));
            }
            let dropped = table.thin(0, 4096, 2048, &filter, &mut random);
            let taken: Vec<u64> = keys.iter().copied().filter(|key| *key > BUSY).collect();
            let left: Vec<Sample> = taken.iter().filter_map(|key| table.remove(*key)).collect();
            assert_eq!(left.len() as u64 + dropped, 1000);
            assert!(left.iter().all(|sample| sample.mean_bytes == 2048));
            estimate += left
                .iter()
                .map(|s| draw::weight(s.requested_bytes, s.mean_bytes).1)
                .sum::<f64>();
        }
        let truth = 1000.0 * draw::weight(100, 512).1;
        let error = estimate / rounds as f64 / truth - 1.0;
        // One thinning of 1,000 to about 280: 5 % deviation, over 200 rounds 0.4 %.
        assert!(error.abs() < 0.015, "{error}");
    }

    /// A free that finds a row claimed by a thinner that lost its CPU gives up after [`SPINS`]: its
    /// sample stays, stale, until the address comes again. Every other sample that a free misses
    /// was thinned.
    #[test]
    fn what_a_free_misses_was_thinned_or_stays_stale() {
        let capacity = if cfg!(miri) { 64 } else { 8192 };
        let (table, keys, _rows) = table(capacity);
        let table = &Shared(table);
        let filter = &*Box::leak(Box::new(Filter::new()));
        let (missing, thinned) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3u64)
                .map(|worker| scope.spawn(move || churn(&table.0, filter, worker)))
                .collect();
            let mut random = 9;
            let thinned: u64 = (0..if cfg!(miri) { 2 } else { 300 })
                .map(|_| table.0.thin(0, capacity, 1024, filter, &mut random))
                .sum();
            let missing = workers.into_iter().map(|w| w.join().unwrap());
            (missing.sum::<u64>(), thinned)
        });
        let stale = keys.iter().filter(|key| **key > BUSY).count() as u64;
        assert!(!keys.contains(&BUSY), "a row stays claimed");
        assert_eq!(missing, thinned + stale, "{thinned} thinned, {stale} stale");
        assert!(stale < 600, "{stale} of 60,000 stale");
    }

    struct Shared(Samples);
    // SAFETY: the table is made for it.
    unsafe impl Sync for Shared {}

    /// Inserts and removes; returns how many were not there any more.
    fn churn(table: &Samples, filter: &Filter, worker: u64) -> u64 {
        let mut missing = 0;
        for round in 1..if cfg!(miri) { 20 } else { 20_000u64 } {
            let address = (worker * 1_000_000 + round) * 16;
            if !filter.add(address) {
                continue;
            }
            if table.insert(address, sample(64)) != Inserted::Done {
                filter.remove(address);
                continue;
            }
            match table.remove(address) {
                Some(_) => filter.remove(address),
                None => missing += 1,
            }
        }
        missing
    }
}
