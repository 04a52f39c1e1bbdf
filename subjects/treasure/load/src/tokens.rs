//! A file of the tokens of sessions, 8 bytes each: a load that was ended and goes on plays the same sessions.

use std::fs;
use std::io;
use std::path::Path;

/// The tokens of a file; none when there is no file.
///
/// # Errors
/// When it cannot be read, or is no such file.
pub fn read(path: &Path) -> io::Result<Vec<u64>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let (tokens, rest) = bytes.as_chunks();
    if !rest.is_empty() || tokens.contains(&[0; 8]) {
        let words = format!("{} is no file of tokens", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(tokens
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect())
}

/// Puts the file in its place whole.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, tokens: &[u64]) -> io::Result<()> {
    let bytes: Vec<u8> = tokens
        .iter()
        .flat_map(|token| token.to_le_bytes())
        .collect();
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        assert!(read(&path).unwrap().is_empty());
        write(&path, &[1, u64::MAX, 7]).unwrap();
        assert_eq!(read(&path).unwrap(), [1, u64::MAX, 7]);
        for bytes in [&[1, 2, 3][..], &[0; 16]] {
            fs::write(&path, bytes).unwrap();
            assert!(
                read(&path)
                    .unwrap_err()
                    .to_string()
                    .contains("no file of tokens")
            );
        }
    }
}
