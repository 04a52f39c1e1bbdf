//! The file that makes a JVM take SIGQUIT for an attach request.
//!
//! The user of the JVM decides what its `/tmp` is: with a mount namespace of its own, any directory. So root creates
//! and removes the file with that user's rights. Where the rights cannot be changed, only what every user may do is
//! done.

use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::target::{Status, refused};
use crate::Error;

/// A trigger file that is ours; removed when dropped.
#[derive(Debug)]
pub(super) struct Trigger<'a> {
    tmp: &'a OwnedFd,
    name: String,
    user: User,
}

impl Trigger<'_> {
    /// `None`: another tool's file is there, or one that a killed tool has left.
    pub(super) fn create<'a>(
        tmp: &'a OwnedFd,
        status: &Status,
    ) -> Result<Option<Trigger<'a>>, Error> {
        let name = format!(".attach_pid{}", status.inner_pid);
        let user = User::of(status, tmp)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match user.run(|| openat(tmp, &name, flags, Mode::RUSR | Mode::WUSR)) {
            Ok(_) => Ok(Some(Trigger { tmp, name, user })),
            Err(Errno::EXIST) => check_found(tmp, &name, status).map(|()| None),
            Err(errno) => Err(refused(&format!("/tmp/{name} cannot be created"), errno)),
        }
    }
}

impl Drop for Trigger<'_> {
    fn drop(&mut self) {
        // It can only be gone already.
        let _ = self
            .user
            .run(|| unlinkat(self.tmp, &self.name, AtFlags::empty()));
    }
}

/// The JVM ignores the file of an unrelated user.
fn check_found(tmp: &OwnedFd, name: &str, status: &Status) -> Result<(), Error> {
    match statat(tmp, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(about) if about.st_uid == status.uid || about.st_uid == 0 => Ok(()),
        // It was removed meanwhile: the socket is there then.
        Err(Errno::NOENT) => Ok(()),
        _ => Err(Error::Refused(format!(
            "/tmp/{name} belongs to another user: remove it first"
        ))),
    }
}

/// With whose rights files are created and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Ours,
    Other(Uid, Gid),
}

impl User {
    pub(super) fn of(status: &Status, tmp: &OwnedFd) -> Result<User, Error> {
        let (uid, gid) = (Uid::from_raw(status.uid), Gid::from_raw(status.gid));
        let other = User::Other(uid, gid);
        if (uid, gid) == (geteuid(), getegid()) {
            return Ok(User::Ours);
        }
        let Err(errno) = other.run(|| Ok(())) else {
            return Ok(other);
        };
        let about = fstat(tmp).map_err(|errno| refused("its /tmp cannot be read", errno))?;
        if is_open_to(&about, status.uid) {
            return Ok(User::Ours);
        }
        Err(refused(
            "no file is created in its /tmp, because highwater may not take the rights of its user for that",
            errno,
        ))
    }

    /// A thread of its own takes the rights of another user: on Linux each thread has its own. Only the effective ids
    /// change, so that user may neither signal nor trace the thread.
    pub(super) fn run<R: Send>(
        self,
        operation: impl FnOnce() -> Result<R, Errno> + Send,
    ) -> Result<R, Errno> {
        let User::Other(uid, gid) = self else {
            return operation();
        };
        let with_rights = || {
            // Groups first: afterwards they may not be changed.
            set_thread_groups(&[])?;
            set_thread_res_gid(None, gid, None)?;
            set_thread_res_uid(None, uid, None)?;
            operation()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, with_rights);
            thread.map_or(Err(Errno::AGAIN), |thread| {
                thread.join().unwrap_or(Err(Errno::CANCELED))
            })
        })
    }
}

/// A directory where that user may create files itself, and which is not one that only root protects: `/tmp` as it
/// should be, or the user's own.
fn is_open_to(about: &Stat, uid: u32) -> bool {
    let mode = Mode::from_raw_mode(about.st_mode);
    let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
    is_directory && (about.st_uid == uid || mode.contains(Mode::SVTX | Mode::WOTH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, read_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::path::Path;

    const NOBODY: u32 = 65_534;

    fn folder(mode: u32) -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let opened = open(folder.path());
        (folder, opened)
    }

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    fn status(uid: u32, gid: u32) -> Status {
        Status {
            uid,
            gid,
            inner_pid: 7,
            ..Status::default()
        }
    }

    fn ours() -> Status {
        status(geteuid().as_raw(), getegid().as_raw())
    }

    fn is_root() -> bool {
        if !geteuid().is_root() {
            testkit::skipped("only root takes the rights of another user");
        }
        geteuid().is_root()
    }

    #[test]
    fn a_trigger_is_removed_and_another_tools_file_is_not() {
        let (folder, tmp) = folder(0o700);
        let path = folder.path().join(".attach_pid7");
        let trigger = Trigger::create(&tmp, &ours()).unwrap();
        assert!(trigger.is_some() && path.exists());
        assert!(Trigger::create(&tmp, &ours()).unwrap().is_none());
        assert!(path.exists());
        drop(trigger);
        assert!(!path.exists());
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(Trigger::create(&tmp, &ours()).unwrap().is_none());
        assert!(path.is_symlink());
    }

    #[test]
    fn root_creates_the_file_as_the_user_of_the_jvm() {
        if !is_root() {
            return;
        }
        let (folder, tmp) = folder(0o1777);
        let path = folder.path().join(".attach_pid7");
        let trigger = Trigger::create(&tmp, &status(NOBODY, 12_345)).unwrap();
        let about = path.metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (NOBODY, 12_345));
        assert!(geteuid().is_root(), "the ids of other threads stay");
        drop(trigger);
        assert!(!path.exists());

        std::fs::write(&path, "").unwrap();
        chown(&path, Some(12_345), None).unwrap();
        let error = Trigger::create(&tmp, &status(NOBODY, NOBODY)).unwrap_err();
        assert!(error.to_string().contains("another user"), "{error}");
    }

    /// As a bind mount of `/etc` over `/tmp` would be.
    #[test]
    fn root_creates_nothing_where_the_user_may_not() {
        if !is_root() {
            return;
        }
        for (mode, group) in [(0o755, 0), (0o775, 0), (0o770, 12_345)] {
            let (folder, tmp) = folder(mode);
            chown(folder.path(), Some(0), Some(group)).unwrap();
            let error = Trigger::create(&tmp, &status(NOBODY, NOBODY)).unwrap_err();
            assert!(
                error.to_string().contains("cannot be created"),
                "{mode:o}: {error}"
            );
            assert_eq!(read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_of_all_or_of_the_user_is_open_to_it() {
        let user = geteuid().as_raw();
        for (mode, uid, expected) in [
            (0o1777, user + 1, true),
            (0o777, user + 1, false),
            (0o1755, user + 1, false),
            (0o755, user, true),
        ] {
            let (_folder, tmp) = folder(mode);
            assert_eq!(is_open_to(&fstat(&tmp).unwrap(), uid), expected, "{mode:o}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_open_to(&rustix::fs::stat(file.path()).unwrap(), user));
    }
}
