//! Whether another user could replace a file, and so decide what a program loads.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where another user could replace a file, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writable {
    path: PathBuf,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Owner(u32),
    Others(u32),
    Unreadable,
}

impl fmt::Display for Writable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.how {
            How::Owner(user) => write!(
                out,
                "{path} belongs to user {user}, who is neither root nor you"
            ),
            How::Others(mode) => write!(
                out,
                "{path} may be written by its group or by everyone (mode {mode:o})"
            ),
            How::Unreadable => write!(out, "the owner of {path} cannot be read"),
        }
    }
}

/// The first of the file, its folder and the folders above that a user other than root and the caller can write;
/// `None` when there is none. Symbolic links are resolved, and the folders of each link are checked as well.
///
/// In a folder with the sticky bit, like /tmp, only the owner of an entry can replace it.
pub fn writable_by_others(file: &Path) -> Option<Writable> {
    let user = rustix::process::geteuid().as_raw();
    let unreadable = |path: &Path| Writable {
        path: path.to_owned(),
        how: How::Unreadable,
    };
    let Ok(named) = std::path::absolute(file) else {
        return Some(unreadable(file));
    };
    let Ok(resolved) = named.canonicalize() else {
        return Some(unreadable(&named));
    };
    let paths = named.ancestors().chain(resolved.ancestors());
    for path in paths {
        // The owner of a link can point it elsewhere; its mode says nothing.
        let Ok(data) = path.symlink_metadata() else {
            return Some(unreadable(path));
        };
        if let Some(how) = how(&data, user) {
            return Some(Writable {
                path: path.to_owned(),
                how,
            });
        }
    }
    None
}

fn how(data: &Metadata, user: u32) -> Option<How> {
    let owner = data.uid();
    if owner != 0 && owner != user {
        return Some(How::Owner(owner));
    }
    let mode = data.mode() & 0o7777;
    let is_sticky_folder = data.is_dir() && mode & 0o1000 != 0;
    // Where each user has a group of his own, of the same number, files are made writable by it.
    let is_own_group = user != 0 && data.gid() == user;
    let others = if is_own_group { 0o002 } else { 0o022 };
    let is_writable = !data.is_symlink() && mode & others != 0;
    (is_writable && !is_sticky_folder).then_some(How::Others(mode))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn library() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("lib");
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("library.so");
        std::fs::write(&file, "").unwrap();
        for (path, mode) in [(folder.path(), 0o755), (&inner, 0o755), (&file, 0o644)] {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        (folder, file)
    }

    #[test]
    fn below_the_sticky_tmp_a_library_is_its_owners() {
        let (_folder, file) = library();
        assert_eq!(writable_by_others(&file), None);
    }

    #[test]
    fn a_right_of_others_on_the_file_or_a_folder_above_is_found() {
        let (folder, file) = library();
        let inner = file.parent().unwrap();
        for (path, mode, good) in [
            (&*file, 0o666, 0o644),
            (inner, 0o777, 0o755),
            (folder.path(), 0o777, 0o755),
        ] {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let found = writable_by_others(&file).unwrap();
            assert_eq!((&*found.path, found.how), (path, How::Others(mode)));
            set_permissions(path, Permissions::from_mode(good)).unwrap();
        }
        let sticky = Permissions::from_mode(0o1777);
        set_permissions(folder.path(), sticky).unwrap();
        assert_eq!(writable_by_others(&file), None);
    }

    #[test]
    fn a_right_of_the_group_counts_unless_it_is_the_users_own() {
        let (_folder, file) = library();
        set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        let data = file.metadata().unwrap();
        let user = data.uid();
        let is_found = how(&data, user).is_some();
        assert_eq!(is_found, user == 0 || data.gid() != user);
        if user != 0 {
            assert_eq!(how(&data, user + 1), Some(How::Owner(user)));
        }
    }

    #[test]
    fn a_link_does_not_hide_the_folder_that_it_leads_to() {
        let (folder, file) = library();
        let link = folder.path().join("link.so");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(writable_by_others(&link), None);
        let inner = file.parent().unwrap();
        set_permissions(inner, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(writable_by_others(&link).unwrap().path, inner);
    }
}
