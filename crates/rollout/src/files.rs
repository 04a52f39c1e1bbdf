//! Files that are whole or not there, after any kill: written beside, synced, moved into place, the folder synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::crash;

/// A file as it was found, to be put back byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Base64: the file need not be text.
    pub content: String,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_s: i64,
    pub modified_ns: u32,
}

/// What a file is to be.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    pub content: &'a [u8],
    pub mode: u32,
    /// Owner and group; `None`: whoever runs this.
    pub owner: Option<(u32, u32)>,
    pub modified: Option<(i64, u32)>,
}

impl<'a> Shape<'a> {
    pub fn new(content: &'a [u8], mode: u32) -> Shape<'a> {
        Shape {
            content,
            mode,
            owner: None,
            modified: None,
        }
    }
}

/// Reads a file with all that makes it; `None` when there is none.
///
/// # Errors
/// What is there and is no regular file (a link, a folder): it is not ours to replace.
pub fn keep(path: &Path) -> io::Result<Option<Kept>> {
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !data.is_file() {
        return Err(io::Error::other("it is a link or a folder, and no file"));
    }
    use base64::Engine;
    Ok(Some(Kept {
        content: base64::engine::general_purpose::STANDARD.encode(fs::read(path)?),
        mode: data.mode() & 0o7777,
        uid: data.uid(),
        gid: data.gid(),
        modified_s: data.mtime(),
        modified_ns: data.mtime_nsec() as u32,
    }))
}

impl Kept {
    /// # Errors
    /// A record that was damaged.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.content);
        bytes.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

/// The name under which a file is written before it is moved into place. systemd reads no drop-in that does not end
/// in `.conf`; the rollout's id makes it ours.
pub fn beside(path: &Path, id: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{id}.new"))
}

/// Puts a file in place; a reader sees the old one or the new one.
pub fn write(path: &Path, id: &str, shape: Shape<'_>) -> io::Result<()> {
    let new = beside(path, id);
    remove_if_there(&new)?;
    crash::point("file: before");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    crash::point("file: created beside");
    let half = shape.content.len() / 2;
    file.write_all(&shape.content[..half])?;
    crash::point("file: half written");
    file.write_all(&shape.content[half..])?;
    if let Some((uid, gid)) = shape.owner {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    file.set_permissions(fs::Permissions::from_mode(shape.mode))?;
    if let Some((seconds, ns)) = shape.modified {
        set_modified(&file, seconds, ns)?;
    }
    file.sync_all()?;
    crash::point("file: synced beside");
    fs::rename(&new, path)?;
    crash::point("file: moved into place");
    sync_folder(path)
}

fn set_modified(file: &File, seconds: i64, ns: u32) -> io::Result<()> {
    let time = rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: ns.into(),
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Makes a folder that anybody may enter; one that is there already is fine.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    crash::point("folder: before");
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(error),
    }
    crash::point("folder: made");
    sync_folder(path)
}

/// Takes a file away; one that is gone already is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    crash::point("remove: before");
    remove_if_there(path)?;
    crash::point("remove: done");
    sync_folder(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes an empty folder away; `false` when somebody has put something into it.
pub fn remove_folder(path: &Path) -> io::Result<bool> {
    crash::point("folder: before removal");
    match fs::remove_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => return Ok(false),
        Err(error) => return Err(error),
    }
    crash::point("folder: removed");
    sync_folder(path)?;
    Ok(true)
}

/// Makes the entry of `path` in its folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.exists() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_with_all_that_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.conf");
        assert_eq!(keep(&path).unwrap(), None);
        fs::write(&path, b"\xff\x00 no text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = keep(&path).unwrap().unwrap();
        write(&path, "id", Shape::new(b"other", 0o644)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");
        let bytes = before.bytes().unwrap();
        let shape = Shape {
            owner: Some((before.uid, before.gid)),
            modified: Some((before.modified_s, before.modified_ns)),
            ..Shape::new(&bytes, before.mode)
        };
        write(&path, "id", shape).unwrap();
        assert_eq!(keep(&path).unwrap().unwrap(), before);
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_link_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.conf");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(keep(&path).unwrap_err().to_string().contains("a link"));
        let full = folder.path().join("d");
        make_folder(&full, 0o755).unwrap();
        fs::write(full.join("x"), "").unwrap();
        assert!(!remove_folder(&full).unwrap());
        fs::remove_file(full.join("x")).unwrap();
        assert!(remove_folder(&full).unwrap() && remove_folder(&full).unwrap());
    }
}
