//! What a call in front of a return address calls.
//!
//! A function that ends in a call (`return malloc(n)`) jumps instead of calling, and has no frame of its own: the
//! stack tells its caller and what it jumped to. The caller's code tells who was called.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::smaps::Area;

/// Bytes of a direct call.
#[cfg(target_arch = "x86_64")]
pub const CALL_BYTES: usize = 5;
#[cfg(not(target_arch = "x86_64"))]
pub const CALL_BYTES: usize = 4;

/// Reads the code of mapped files.
#[derive(Debug, Default)]
pub struct Calls {
    files: HashMap<String, Option<File>>,
}

impl Calls {
    /// Where the direct call goes that returns to `address`, in `area`; `paths`: where the area's file may be read.
    pub fn target(&mut self, area: &Area, address: u64, paths: &[PathBuf]) -> Option<u64> {
        let file = self.files.entry(area.name.clone()).or_insert_with(|| {
            let files = paths.iter().filter(|path| path.is_file());
            files.filter_map(|path| File::open(path).ok()).next()
        });
        let from = address
            .checked_sub(CALL_BYTES as u64)
            .filter(|at| *at >= area.start)?;
        let mut code = [0; CALL_BYTES];
        let at = from - area.start + area.offset;
        file.as_ref()?.read_exact_at(&mut code, at).ok()?;
        direct_call(&code, from)
    }
}

/// `call rel32`, relative to what follows it.
#[cfg(target_arch = "x86_64")]
pub fn direct_call(code: &[u8; CALL_BYTES], at: u64) -> Option<u64> {
    let [0xe8, a, b, c, d] = *code else {
        return None;
    };
    let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
    Some(at.wrapping_add_signed(distance + CALL_BYTES as i64))
}

/// `bl`, in words of four bytes from itself.
#[cfg(target_arch = "aarch64")]
pub fn direct_call(code: &[u8; CALL_BYTES], at: u64) -> Option<u64> {
    let word = u32::from_le_bytes(*code);
    let distance = i64::from((word << 6).cast_signed() >> 6) * 4;
    (word >> 26 == 0b10_0101).then(|| at.wrapping_add_signed(distance))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn direct_call(_: &[u8; CALL_BYTES], _: u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As gcc 12 and clang 14 write them.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn forwards_and_backwards() {
        assert_eq!(direct_call(&[0xe8, 0x10, 0, 0, 0], 0x1000), Some(0x1015));
        let back = [0xe8, 0xfb, 0xff, 0xff, 0xff];
        assert_eq!(direct_call(&back, 0x1000), Some(0x1000));
        assert_eq!(direct_call(&[0x15, 0x10, 0, 0, 0], 0x1000), None);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn forwards_and_backwards() {
        let bl = |word: u32| direct_call(&word.to_le_bytes(), 0x1000);
        assert_eq!(bl(0x9400_0004), Some(0x1010));
        assert_eq!(bl(0x97ff_ffff), Some(0xffc));
        assert_eq!(bl(0xd63f_0000), None);
    }
}
