//! The two shapes of number that /proc prints: `Key:  12 kB` lines and rows of integers.
//!
//! Own parsers, because the procfs crate builds a map of strings per file: 24 us for a status where
//! these few lines take 2 us, which for 200 processes is 5 ms of the 20 ms that a snapshot may cost
//! (`bench/results/2026-11-22-observe.md`).

use thiserror::Error;

/// A file of /proc that does not look as its manual page says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct Malformed {
    pub file: &'static str,
    pub problem: String,
}

impl Malformed {
    pub fn new(file: &'static str, problem: impl Into<String>) -> Malformed {
        Malformed {
            file,
            problem: problem.into(),
        }
    }
}

/// The lines `Key: value`, without those that have no colon. Values keep their unit.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// A decimal number that may be followed by a blank and a unit. `None` when it is not one, or
/// does not fit.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &text[digits..];
    if digits == 0 || !(rest.is_empty() || rest[0].is_ascii_whitespace()) {
        return None;
    }
    text[..digits].iter().try_fold(0u64, |sum, &byte| {
        sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

/// `12 kB` in bytes. The kernel says kB and means KiB.
pub fn kib_in_bytes(text: &[u8]) -> Option<u64> {
    number(text)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b" 12 kB"), Some(12));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"12kB"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
        assert_eq!(kib_in_bytes(b"196 kB"), Some(196 * 1024));
    }

    #[test]
    fn lines_without_a_colon_are_left_out() {
        let found: Vec<_> = lines(b"VmRSS:\t 196 kB\nnoise\nThreads:\t1").collect();
        assert_eq!(found, [(&b"VmRSS"[..], &b"196 kB"[..]), (b"Threads", b"1")]);
    }
}
