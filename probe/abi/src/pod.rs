//! Types that any bytes are a value of.

/// Integers without padding: any bytes are a value.
///
/// # Safety
/// The type must have no padding and no invalid bit pattern.
pub unsafe trait Pod: Copy {}

// SAFETY: an integer.
unsafe impl Pod for u64 {}

/// Copy of a `T` at byte `at`, or `None` past the end.
pub(crate) fn pod_at<T: Pod>(bytes: &[u8], at: u64) -> Option<T> {
    let start = usize::try_from(at).ok()?;
    let end = start.checked_add(size_of::<T>())?;
    let source = bytes.get(start..end)?;
    // SAFETY: `source` has exactly the bytes of a T, and T has no invalid patterns.
    Some(unsafe { source.as_ptr().cast::<T>().read_unaligned() })
}
