//! Files whose names come from a process under observation: it may name a pipe, a device, or a file of any size.
//!
//! All of them are opened here. A library that opens paths by itself gets a path only after [`open_file_within`] has
//! opened it, or one below `/proc/self/fd`. Between the check and the library's own open the process may still
//! exchange the file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

/// Largest file that is opened; what reads it takes single sections. Programs with debug information reach 3 GB.
pub const FILE_BYTES_MAX: u64 = 4 << 30;

/// Opens a regular file for reading.
///
/// # Errors
/// It is not a regular file (a pipe or a device is not opened at all), is larger than [`FILE_BYTES_MAX`], or the kernel
/// refuses.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_file_within(path, FILE_BYTES_MAX)
}

/// [`open_file`] with a limit of the caller's.
///
/// # Errors
/// As those of [`open_file`].
pub fn open_file_within(path: &Path, bytes_max: u64) -> io::Result<File> {
    open(path, OFlags::empty(), bytes_max)
}

/// [`open_file_within`], but the last part of the path may not be a symbolic link.
///
/// # Errors
/// As those of [`open_file`], and for a symbolic link.
pub fn open_file_itself(path: &Path, bytes_max: u64) -> io::Result<File> {
    open(path, OFlags::NOFOLLOW, bytes_max)
}

/// The path of an open file, for a library that opens by path: it leads to this file, whatever becomes of its name.
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// First without opening (`O_PATH`): to open some devices, or a pipe that others wait for, has effects.
fn open(path: &Path, flags: OFlags, bytes_max: u64) -> io::Result<File> {
    let place = rustix::fs::open(path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    check(&place, bytes_max)?;
    let place = File::from(place);
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path_of(&place))
}

fn check(place: &OwnedFd, bytes_max: u64) -> io::Result<()> {
    let data = rustix::fs::fstat(place)?;
    let kind = FileType::from_raw_mode(data.st_mode);
    if kind == FileType::Symlink {
        return Err(refused("it is a symbolic link".to_owned()));
    }
    if kind != FileType::RegularFile {
        return Err(refused("it is not a regular file".to_owned()));
    }
    let bytes = data.st_size.max(0) as u64;
    if bytes > bytes_max {
        let mib = bytes >> 20;
        return Err(refused(format!(
            "it has {mib} MiB, and the limit is {} MiB",
            bytes_max >> 20
        )));
    }
    Ok(())
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_opened_within_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        let file = open_file_within(&path, 100).unwrap();
        assert_eq!(std::fs::read(path_of(&file)).unwrap(), [7; 100]);
        let error = open_file_within(&path, 99).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    /// Opening a pipe without a writer for reading blocks.
    #[test]
    fn pipes_devices_folders_and_sockets_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let socket = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [
            pipe.as_path(),
            &socket,
            folder.path(),
            Path::new("/dev/null"),
        ] {
            let error = open_file(path).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{path:?}");
        }
    }

    #[test]
    fn a_link_is_followed_only_where_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open_file(&link).is_ok());
        let error = open_file_itself(&link, 100).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(open_file_itself(&file, 100).is_ok());
    }
}
