//! What highwater itself writes into a trace: samples of the program's memory, facts, the threads alive.

use trace_abi::chunk::{Ended, Sample};

use crate::header::{u32_at, u64_at};

const SAMPLE_BYTES: usize = size_of::<Sample>();

/// Samples of a chunk; what is left at the end is no whole one.
pub(crate) fn parse_samples(bytes: &[u8]) -> Vec<Sample> {
    let rows = bytes.chunks_exact(SAMPLE_BYTES);
    rows.map(|row| Sample {
        time_ns: u64_at(row, 0),
        anon_bytes: u64_at(row, 8),
        file_bytes: u64_at(row, 16),
        shmem_bytes: u64_at(row, 24),
        other_bytes: u64_at(row, 32),
    })
    .collect()
}

/// A sample as it lies in the file.
pub(crate) fn sample_bytes(sample: &Sample) -> [u8; SAMPLE_BYTES] {
    let mut bytes = [0; SAMPLE_BYTES];
    let words = [
        sample.time_ns,
        sample.anon_bytes,
        sample.file_bytes,
        sample.shmem_bytes,
        sample.other_bytes,
    ];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Lines `name=value`.
pub(crate) fn parse_facts(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Rows of threads that have ended.
pub(crate) fn parse_ended(bytes: &[u8]) -> Vec<Ended> {
    let rows = bytes.chunks_exact(size_of::<Ended>());
    rows.map(|row| Ended {
        time_ns: u64_at(row, 0),
        tid: u64_at(row, 8),
    })
    .collect()
}

/// Such a row as it lies in the file.
pub(crate) fn ended_bytes(ended: &Ended) -> [u8; size_of::<Ended>()] {
    let mut bytes = [0; size_of::<Ended>()];
    bytes[..8].copy_from_slice(&ended.time_ns.to_le_bytes());
    bytes[8..].copy_from_slice(&ended.tid.to_le_bytes());
    bytes
}

/// Thread ids.
pub(crate) fn parse_alive(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|id| u32_at(id, 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back() {
        let sample = Sample {
            time_ns: 1,
            anon_bytes: 2,
            file_bytes: 3,
            shmem_bytes: 4,
            other_bytes: trace_abi::chunk::UNKNOWN,
        };
        let mut bytes = sample_bytes(&sample).to_vec();
        bytes.push(7);
        assert_eq!(parse_samples(&bytes), [sample]);
    }

    #[test]
    fn facts_are_lines() {
        let facts = parse_facts(b"program=redis\nnothing\nopts=a=b\n");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(facts, [pair("program", "redis"), pair("opts", "a=b")]);
    }
}
