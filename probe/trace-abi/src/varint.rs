//! Integers of variable length: 7 bits a byte, the lowest first, the highest bit set on all but the last (LEB128).

/// Longest encoding.
pub const BYTES_MAX: usize = 10;

/// Writes `value` at `at`; the place behind it.
///
/// # Safety
/// [`BYTES_MAX`] bytes at `at` can be written.
#[inline(always)]
pub unsafe fn write(mut at: *mut u8, mut value: u64) -> *mut u8 {
    // SAFETY: the caller's room; a value of 64 bits takes at most ten bytes.
    unsafe {
        while value >= 0x80 {
            at.write(value as u8 | 0x80);
            at = at.add(1);
            value >>= 7;
        }
        at.write(value as u8);
        at.add(1)
    }
}

/// Takes one from the front of `bytes`; `None`: cut, or longer than 64 bits.
#[inline(always)]
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0u32);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Small numbers of either sign become small numbers without one.
#[inline(always)]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Back again.
#[inline(always)]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut room = [0u8; BYTES_MAX];
                // SAFETY: the longest fits.
                let end = unsafe { write(room.as_mut_ptr(), value) };
                let used = end as usize - room.as_ptr() as usize;
                let mut bytes = &room[..used];
                assert_eq!(read(&mut bytes), Some(value));
                assert!(bytes.is_empty());
                assert_eq!(read(&mut &room[..used - 1]), None, "cut");
            }
        }
    }

    #[test]
    fn too_long_is_refused() {
        assert_eq!(read(&mut [0xff; 10].as_slice()), None);
        assert_eq!(read(&mut [0x80; 12].as_slice()), None);
    }

    #[test]
    fn signs_come_back() {
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
