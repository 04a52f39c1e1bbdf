//! The table of live sampled blocks: open addressing in a window of 16 keys, no lock, no tombstone.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use abi::{Sample, SectionKind, sample_check};

use super::{filter, map, sampler};

const WINDOW: usize = 16;
const FREE: u64 = 0;
const BUSY: u64 = 1;
/// Above this the mean is doubled and the table thinned: windows of 16 are then hardly ever full.
const LIVE_MAX: u64 = map::SAMPLES as u64 * 5 / 8;

fn key(at: usize) -> &'static AtomicU64 {
    // SAFETY: aligned, and valid for ever.
    unsafe { AtomicU64::from_ptr(map::row_at(SectionKind::SampleKeys, at)) }
}

fn window(block: u64) -> impl Iterator<Item = usize> {
    let first = ((block >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..WINDOW).map(move |step| (first + step) % map::SAMPLES)
}

/// Puts a block in, before it is handed out; false (and counted) when its window is full.
pub(crate) fn insert(block: *mut u8, sample: Sample) -> bool {
    let address = block as u64;
    let counters = map::counters();
    if take_out(block).is_some() {
        counters.samples_stale.fetch_add(1, Relaxed);
    }
    let won = |at: &usize| {
        key(*at)
            .compare_exchange(FREE, BUSY, AcqRel, Relaxed)
            .is_ok()
    };
    let Some(at) = window(address).find(won) else {
        counters.samples_dropped_full.fetch_add(1, Relaxed);
        return false;
    };
    let check = sample_check(address, &sample);
    // SAFETY: the row is this thread's while its key is BUSY; the reader outside checks what it copied.
    unsafe {
        map::row_at::<Sample>(SectionKind::Samples, at).write_volatile(Sample { check, ..sample })
    };
    filter::add(block);
    key(at).store(address, Release);
    counters.samples_taken.fetch_add(1, Relaxed);
    if counters.samples_live.fetch_add(1, Relaxed) + 1 > LIVE_MAX {
        thin();
    }
    true
}

/// Takes a block out that is about to be freed.
pub(crate) fn remove(block: *mut u8) -> Option<Sample> {
    let sample = take_out(block)?;
    map::counters().samples_freed.fetch_add(1, Relaxed);
    Some(sample)
}

fn take_out(block: *mut u8) -> Option<Sample> {
    let address = block as u64;
    let won = |at: &usize| {
        key(*at).load(Relaxed) == address
            && key(*at)
                .compare_exchange(address, BUSY, AcqRel, Relaxed)
                .is_ok()
    };
    let at = window(address).find(won)?;
    Some(give_up(at, block))
}

/// Empties a row whose key this thread has made BUSY.
fn give_up(at: usize, block: *mut u8) -> Sample {
    // SAFETY: as in `insert`.
    let sample = unsafe { map::row_at::<Sample>(SectionKind::Samples, at).read_volatile() };
    filter::remove(block);
    key(at).store(FREE, Release);
    map::counters().samples_live.fetch_sub(1, Relaxed);
    sample
}

static THINNING: AtomicBool = AtomicBool::new(false);

/// In a forked child: whoever was thinning the table, or writing a row of it, is not there.
pub(crate) fn forked() {
    for at in 0..map::SAMPLES {
        let _ = key(at).compare_exchange(BUSY, FREE, AcqRel, Relaxed);
    }
    THINNING.store(false, Release);
}

/// Doubles the mean, and drops each sample with the chance that it would not have been taken under it.
fn thin() {
    if THINNING.swap(true, Acquire) {
        return;
    }
    let mean = sampler::coarsen(map::mean_bytes().load(Relaxed));
    sampler::keep_above(mean);
    let mut random = mean | 1;
    for at in 0..map::SAMPLES {
        let address = key(at).load(Relaxed);
        if address > BUSY
            && key(at)
                .compare_exchange(address, BUSY, AcqRel, Relaxed)
                .is_ok()
        {
            thin_row(at, address, mean, &mut random);
        }
    }
    THINNING.store(false, Release);
}

fn thin_row(at: usize, address: u64, mean: u64, random: &mut u64) {
    let row = map::row_at::<Sample>(SectionKind::Samples, at);
    // SAFETY: as in `insert`.
    let mut sample = unsafe { row.read_volatile() };
    if sample.mean_bytes >= mean {
        key(at).store(address, Release);
        return;
    }
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let drawn = (*random >> 11) as f64 / (1u64 << 53) as f64;
    let bytes = sample.requested_bytes;
    let kept = sampler::chance(bytes, mean) / sampler::chance(bytes, sample.mean_bytes);
    if drawn >= kept {
        give_up(at, address as *mut u8);
        map::counters().samples_thinned.fetch_add(1, Relaxed);
        return;
    }
    sample.mean_bytes = mean;
    sample.check = sample_check(address, &sample);
    // SAFETY: as in `insert`.
    unsafe { row.write_volatile(sample) };
    key(at).store(address, Release);
}
