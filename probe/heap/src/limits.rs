//! Limits of memory that the process has from its start. The probe's mapping counts against them, and what it takes the
//! program does not get.

use crate::layout::CAP_BYTES_MIN;

/// The mapping takes at most this part of a limit,
const SHARE: u64 = 64;
/// but the smallest mapping this part. Below that the probe stays off.
const SHARE_OF_SMALLEST: u64 = 16;

/// Most that the mapping may take, bytes; `None` where even the smallest is too much.
pub fn share_bytes() -> Option<usize> {
    let least = [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().map(limit);
    share_of(least.min()?)
}

fn share_of(limit: u64) -> Option<usize> {
    if limit / SHARE_OF_SMALLEST < CAP_BYTES_MIN as u64 {
        return None;
    }
    let bytes = usize::try_from(limit / SHARE).unwrap_or(usize::MAX);
    Some(bytes.max(CAP_BYTES_MIN))
}

/// How the C library numbers a limit.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// The soft limit; the largest number where there is none, and where it cannot be read.
fn limit(which: Resource) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: fills one record. The C library makes this call at its start too, so a filter allows it.
    unsafe { libc::getrlimit(which, &mut limit) };
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_gives_a_small_share() {
        assert_eq!(share_of(u64::MAX).unwrap(), (u64::MAX / 64) as usize);
        assert_eq!(share_of(256 << 20), Some(4 << 20));
        assert_eq!(share_of(64 << 20), Some(CAP_BYTES_MIN));
        assert_eq!(share_of(32 << 20), Some(CAP_BYTES_MIN));
        assert_eq!(share_of((32 << 20) - 1), None);
    }
}
