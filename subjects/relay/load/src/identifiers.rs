//! Names as atproto has them, derived from numbers, so that the same seed gives the same names.

use std::fmt::Write;

use ipld_core::cid::{Cid, multihash::Multihash};
use sha2::{Digest, Sha256};

const CODEC_DAG_CBOR: u64 = 0x71;
const CODEC_RAW: u64 = 0x55;
const HASH_SHA2_256: u64 = 0x12;

/// Digits of sortable base 32.
const SORTABLE: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
const TID_SIZE: usize = 13;

/// Microseconds since 1970 of message 0: 2026-01-01. Times are made up, so that a seed gives the
/// same bytes on any day.
const FIRST_US: u64 = 1_767_225_600_000_000;

/// A `did:plc:` of 24 base 32 characters.
pub fn did(random: &mut fastrand::Rng) -> String {
    let mut did = String::from("did:plc:");
    did.extend(
        (0..24).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[random.usize(0..32)])),
    );
    did
}

/// The revision of message `number`, and the key of its record `index`. Different for each pair;
/// `index` is below 1024.
pub fn tid(number: u64, index: u64) -> String {
    let value = ((FIRST_US + number) << 10) | index;
    (0..TID_SIZE)
        .rev()
        .map(|digit| char::from(SORTABLE[(value >> (5 * digit)) as usize & 31]))
        .collect()
}

/// The message number inside a [`tid`]; None for anything else.
pub fn number_of_tid(tid: &str) -> Option<u64> {
    if tid.len() != TID_SIZE {
        return None;
    }
    let value = tid.bytes().try_fold(0u64, |value, byte| {
        let digit = SORTABLE.iter().position(|known| *known == byte)?;
        value.checked_mul(32)?.checked_add(digit as u64)
    })?;
    (value >> 10).checked_sub(FIRST_US)
}

/// The made-up time of message `number`, a millisecond after the one before.
pub fn date_time(number: u64) -> String {
    let ms = number % 86_400_000;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "2026-01-01T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1000
    );
    text
}

/// The CID of a DAG-CBOR block.
pub fn cid_of(block: &[u8]) -> Cid {
    cid(CODEC_DAG_CBOR, &Sha256::digest(block))
}

/// A CID of nothing in particular, for links that lead out of a frame.
pub fn random_cid(random: &mut fastrand::Rng) -> Cid {
    cid(CODEC_DAG_CBOR, &random_digest(random))
}

/// A CID as of a picture.
pub fn random_blob(random: &mut fastrand::Rng) -> Cid {
    cid(CODEC_RAW, &random_digest(random))
}

fn random_digest(random: &mut fastrand::Rng) -> [u8; 32] {
    let mut digest = [0; 32];
    random.fill(&mut digest);
    digest
}

fn cid(codec: u64, digest: &[u8]) -> Cid {
    // 32 bytes fit the 64 of the multihash type.
    Cid::new_v1(
        codec,
        Multihash::wrap(HASH_SHA2_256, digest).expect("a digest of 32 bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tid_leads_back_to_its_number() {
        for number in [0, 1, 699, u64::from(u32::MAX)] {
            assert_eq!(number_of_tid(&tid(number, 7)), Some(number));
        }
        assert!(
            tid(1, 0) < tid(1, 1) && tid(1, 1023) < tid(2, 0),
            "they sort by time"
        );
        for bad in ["", "1234567890123", "3jzfcijpj2z2", "2222222222222"] {
            assert_eq!(number_of_tid(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_and_names_have_their_shape() {
        assert_eq!(date_time(0), "2026-01-01T00:00:00.000Z");
        assert_eq!(date_time(86_399_999), "2026-01-01T23:59:59.999Z");
        assert_eq!(did(&mut fastrand::Rng::with_seed(1)).len(), 32);
    }

    #[test]
    fn the_empty_map_has_its_well_known_cid() {
        let known = "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua";
        assert_eq!(cid_of(&[0xa0]).to_string(), known);
    }
}
