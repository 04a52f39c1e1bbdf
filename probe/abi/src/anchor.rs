//! The fixed point in the probe library's own data: found even where no mapping could be named, or
//! none exists.

use crate::pod::{Pod, pod_at};

/// First 16 bytes of an [`Anchor`]; a multiple of 8 from the start of the mapping.
pub const ANCHOR_MAGIC: [u8; 16] = *b"hw-probe-anchor\n";

/// What the library's writable data says about the probe, aligned to 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// [`ANCHOR_MAGIC`].
    pub magic: [u8; 16],
    /// Layout version, as in the header.
    pub version: u32,
    /// [`crate::State`] as a number.
    pub state: u32,
    /// Address of the header in this process; 0 when nothing is mapped.
    pub header_address: u64,
    /// Length of the whole mapping from there, bytes.
    pub total_bytes: u64,
    /// Why it is off ([`crate::off_reason`]); 0 when it is on.
    pub off_reason: u32,
    /// Always 0.
    pub reserved: u32,
    /// Process id as the process saw it when the probe started.
    pub pid: u64,
}

// SAFETY: integers only, no padding (16 + 8 + 16 + 8 + 8 = 56).
unsafe impl Pod for Anchor {}

const _: () = assert!(size_of::<Anchor>() == 56);

impl Anchor {
    /// The first anchor in a copy of a writable mapping, or `None`.
    pub fn find(bytes: &[u8]) -> Option<Anchor> {
        let last = bytes.len().checked_sub(size_of::<Anchor>())?;
        (0..=last)
            .step_by(8)
            .find(|at| bytes[*at..].starts_with(&ANCHOR_MAGIC))
            .and_then(|at| pod_at(bytes, at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_at_a_multiple_of_eight_only() {
        let mut bytes = [0u8; 256];
        bytes[40..56].copy_from_slice(&ANCHOR_MAGIC);
        bytes[64..72].copy_from_slice(&0x7f00_0000_1000u64.to_le_bytes());
        assert_eq!(
            Anchor::find(&bytes).unwrap().header_address,
            0x7f00_0000_1000
        );
        let mut shifted = [0u8; 256];
        shifted[41..57].copy_from_slice(&ANCHOR_MAGIC);
        assert!(Anchor::find(&shifted).is_none());
    }

    #[test]
    fn a_cut_anchor_is_none() {
        let mut bytes = [0u8; 40];
        bytes[8..24].copy_from_slice(&ANCHOR_MAGIC);
        assert!(Anchor::find(&bytes).is_none());
        assert!(Anchor::find(&[]).is_none());
    }
}
