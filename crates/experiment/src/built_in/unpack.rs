//! Files that are part of this program, put where a dynamic linker and other users' processes can read them. They stay:
//! a program that outlives highwater may start others with the same LD_PRELOAD.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use sha2::{Digest, Sha256};

use crate::writable::writable_by_others;

/// Bytes of the content's hash in the folder's name: another version never replaces what a process has mapped.
const HASH_BYTES: usize = 8;

/// No place took the files.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Each place with what was wrong with it.
    #[error(
        "highwater's own files cannot be unpacked: {}. Set XDG_CACHE_HOME to a folder that you can write, on a file \
         system that may hold programs (no noexec)",
        .0.join("; ")
    )]
    NoPlace(Vec<String>),
    /// The files within this program are not as they were built.
    #[error(
        "highwater's own files cannot be unpacked: the program is damaged. Compare it with the checksums of its \
         release, and install it again"
    )]
    Damaged,
}

/// A folder with these files (name, content), in the first place that can hold them.
///
/// # Errors
/// Every place is read-only, full, not for programs, or another user's.
pub fn unpack(form: &str, files: &[(&str, &[u8])]) -> Result<PathBuf, UnpackError> {
    let below = Path::new(&format!("files-{}", hash(files))).join(form);
    let mut tried = Vec::new();
    for place in places() {
        match unpack_in(&place, &below, files) {
            Ok(folder) => return Ok(folder),
            Err(why) => tried.push(format!("{}: {why}", place.display())),
        }
    }
    Err(UnpackError::NoPlace(tried))
}

/// Root's come first where all users can read them. /run and /tmp are often mounted noexec.
fn places() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut places = match user {
        0 => vec![PathBuf::from("/var/cache/highwater")],
        _ => Vec::new(),
    };
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    let own = [cache, named("XDG_RUNTIME_DIR")].into_iter().flatten();
    places.extend(
        own.filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("highwater")),
    );
    places.push(PathBuf::from(format!("/dev/shm/highwater-{user}")));
    places.push(std::env::temp_dir().join(format!("highwater-{user}")));
    places
}

fn hash(files: &[(&str, &[u8])]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in files {
        hash.update(name.as_bytes());
        hash.update(content);
    }
    let mut words = String::new();
    for byte in &hash.finalize()[..HASH_BYTES] {
        let _ = write!(words, "{byte:02x}");
    }
    words
}

fn unpack_in(place: &Path, below: &Path, files: &[(&str, &[u8])]) -> Result<PathBuf, String> {
    let words = |error: io::Error| error.to_string();
    let folder = place.join(below);
    make_folders(place, below).map_err(words)?;
    if let Some(writable) = writable_by_others(&folder) {
        return Err(writable.to_string());
    }
    let flags = statvfs(&folder).map_err(|error| words(error.into()))?;
    if flags.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("mounted noexec".to_owned());
    }
    for (name, content) in files {
        put(&folder.join(name), content).map_err(words)?;
    }
    Ok(folder)
}

/// Programs of other users map what is in them: whatever the umask is, they can be passed through.
fn make_folders(place: &Path, below: &Path) -> io::Result<()> {
    let mut folder = place.to_owned();
    let above = place.parent().unwrap_or(place);
    fs::create_dir_all(above)?;
    for part in std::iter::once(Path::new("")).chain(below.iter().map(Path::new)) {
        folder.push(part);
        match fs::create_dir(&folder) {
            Ok(()) => fs::set_permissions(&folder, Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes it unless it is there. Two that do so at once put the same file there, each in one step.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let own = path.with_extension(format!("{}.new", std::process::id()));
    let written = write_new(&own, content).and_then(|()| fs::rename(&own, path));
    if written.is_err() {
        let _ = fs::remove_file(&own);
    }
    written
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &[u8]); 2] = [("a.so", b"library"), ("program", b"#!/bin/sh\necho 1\n")];

    #[test]
    fn what_is_there_is_taken_and_what_differs_is_written_anew() {
        let place = tempfile::tempdir().unwrap();
        let below = Path::new("probe-1/glibc");
        let folder = unpack_in(place.path(), below, &FILES).unwrap();
        let library = folder.join("a.so");
        let first = fs::metadata(&library).unwrap().modified().unwrap();
        assert_eq!(
            unpack_in(place.path(), below, &FILES).unwrap(),
            folder,
            "the same again"
        );
        assert_eq!(fs::metadata(&library).unwrap().modified().unwrap(), first);
        fs::write(&library, "half").unwrap();
        unpack_in(place.path(), below, &FILES).unwrap();
        assert_eq!(fs::read(&library).unwrap(), b"library");
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            2,
            "nothing is left of the writing"
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&library), mode(&folder)], [0o755, 0o755]);
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let why = unpack_in(&open, Path::new("probe-1/glibc"), &FILES).unwrap_err();
        assert!(why.contains("may be written by"), "{why}");
    }

    #[test]
    fn a_place_that_is_no_folder_is_said() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let why = unpack_in(&file, Path::new("probe-1"), &FILES).unwrap_err();
        assert!(why.contains("Not a directory"), "{why}");
    }

    #[test]
    fn another_content_has_another_folder() {
        let other = [("a.so", b"another".as_slice())];
        assert_ne!(hash(&FILES), hash(&other));
        assert_eq!(hash(&FILES).len(), 2 * HASH_BYTES);
    }
}
