//! The physical limit of the live heap: what is live lies in RAM or in swap, and glibc's headers say what is in use.
//!
//! A probe that counts more than that misses frees: a library calls another `free` than the probe's. Its samples then
//! keep blocks that are gone, and no site can be named from them.

/// Standard errors of the count within which it proves nothing.
pub const ERRORS: f64 = 3.0;
/// Readings of one instant are microseconds apart, and a program allocates in between.
const SKEW_BYTES: f64 = 1_048_576.0;
/// Glibc's headers count in units of chunks, with blocks in its thread caches as in use.
const HEADERS_SHARE: f64 = 0.2;

/// Live bytes that are resident or swapped out, as the probe counts them.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    pub bytes: f64,
    /// Standard error.
    pub error: f64,
}

/// More live bytes than there can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overcount {
    pub counted: f64,
    /// The most that can be live.
    pub most: f64,
    /// By glibc's headers; by RSS and swap otherwise.
    pub by_headers: bool,
}

/// `resident`: RSS and swap. `in_use`: by glibc's headers, where all of the heap is theirs.
pub fn overcount(counted: Counted, resident: f64, in_use: Option<f64>) -> Option<Overcount> {
    let least = counted.bytes - ERRORS * counted.error - SKEW_BYTES;
    let over = |most: f64, by_headers: bool| Overcount {
        counted: counted.bytes,
        most,
        by_headers,
    };
    let in_use = in_use.filter(|in_use| least > in_use + HEADERS_SHARE * counted.bytes);
    let by_headers = in_use.map(|in_use| over(in_use, true));
    by_headers.or_else(|| (least > resident).then(|| over(resident, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn over(counted_mib: f64, error_mib: f64, in_use_mib: Option<f64>) -> Option<Overcount> {
        let counted = Counted {
            bytes: counted_mib * MIB,
            error: error_mib * MIB,
        };
        overcount(counted, 100.0 * MIB, in_use_mib.map(|mib| mib * MIB))
    }

    #[test]
    fn no_more_is_live_than_is_resident_or_swapped_out() {
        assert_eq!(over(99.0, 0.0, None), None);
        assert_eq!(over(101.0, 0.0, None), None, "between two readings");
        let found = over(5000.0, 10.0, None).unwrap();
        assert_eq!((found.most, found.by_headers), (100.0 * MIB, false));
        assert_eq!(over(150.0, 20.0, None), None, "within its error");
        assert!(over(150.0, 10.0, None).is_some());
    }

    #[test]
    fn no_more_is_live_than_the_headers_show() {
        assert_eq!(over(60.0, 0.0, Some(50.0)), None);
        let found = over(60.0, 0.0, Some(30.0)).unwrap();
        assert_eq!((found.most, found.by_headers), (30.0 * MIB, true));
        assert_eq!(over(60.0, 10.0, Some(30.0)), None, "within its error");
        assert_eq!(
            over(30.0, 0.0, Some(60.0)),
            None,
            "that is the other way round"
        );
    }
}
