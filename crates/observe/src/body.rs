//! The body of an HTTP answer, with a limit on what it takes once it is decompressed.

use std::io::Read;

/// Reads a body to its end.
///
/// ureq's own limit counts the bytes before decompression, where 1.5 MB of gzip may stand for 1.5 GB. This one counts
/// the bytes that are held.
///
/// # Errors
/// [`ureq::Error::BodyExceedsLimit`] for a body of more than `bytes_max` decompressed bytes; what ended the reading.
pub fn read_body(body: &mut ureq::Body, bytes_max: u64) -> Result<Vec<u8>, ureq::Error> {
    let mut bytes = Vec::new();
    let mut limited = body.as_reader().take(bytes_max + 1);
    limited.read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(ureq::Error::BodyExceedsLimit(bytes_max)),
        false => Ok(bytes),
    }
}
