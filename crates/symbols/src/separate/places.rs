//! Where a file with debug information may lie, by gdb's rules ("Debugging Information in Separate Files").

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::elf::{self, Facts};
use crate::debug_files::SYMBOLISED_BYTES_MAX;
use observe::foreign::open_file_itself;

/// Where distributions put them.
pub const DEBUG: &str = "/usr/lib/debug";

/// A path to try.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// Its last part may be a symbolic link: in the system's own folders, which only root can write.
    follows_links: bool,
}

impl Place {
    pub fn open(&self) -> Option<(File, Facts)> {
        if self.follows_links {
            return elf::open(&self.path);
        }
        let file = open_file_itself(&self.path, SYMBOLISED_BYTES_MAX).ok()?;
        let facts = elf::facts(&file)?;
        Some((file, facts))
    }
}

/// Those of the root that the path is seen through (`/proc/PID/root`) come before those of this machine.
pub fn places(path: &Path, facts: &Facts, folders: &[PathBuf]) -> Vec<Place> {
    let (root, inner) = root_of(path);
    let mut found = Vec::new();
    let mut put = |path: PathBuf, follows_links: bool| {
        found.push(Place {
            path,
            follows_links,
        })
    };
    if let Some(id) = facts.build_id.as_deref().and_then(by_build_id) {
        for folder in folders {
            if let Some(root) = &root {
                put(root.join(below(folder)).join(&id), false);
            }
            put(folder.join(&id), true);
        }
    }
    let name = facts
        .debug_link
        .as_ref()
        .map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    let Some(name) = name.filter(|name| is_plain(name)) else {
        return found;
    };
    // Of a link the folder of the file that it leads to.
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let mut beside: Vec<&Path> = [path.parent(), real.parent()]
        .into_iter()
        .flatten()
        .collect();
    beside.dedup();
    for folder in beside {
        put(folder.join(name), false);
        put(folder.join(".debug").join(name), false);
    }
    if let Some(beside) = inner.parent() {
        for folder in folders {
            if let Some(root) = &root {
                put(
                    root.join(below(folder)).join(below(beside)).join(name),
                    false,
                );
            }
            put(folder.join(below(beside)).join(name), true);
        }
    }
    found
}

/// `.build-id/12/3456.debug`.
fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let digits = hexadecimal(id);
    let (folder, name) = digits
        .split_at_checked(2)
        .filter(|(_, name)| !name.is_empty())?;
    Some(
        Path::new(".build-id")
            .join(folder)
            .join(format!("{name}.debug")),
    )
}

pub fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `/proc/PID/root`, and the path below it.
fn root_of(path: &Path) -> (Option<PathBuf>, PathBuf) {
    let mut parts = path.components();
    let head: PathBuf = parts.by_ref().take(4).collect();
    let is_root = head.starts_with("/proc") && head.file_name() == Some(OsStr::new("root"));
    match is_root {
        true => (Some(head), Path::new("/").join(parts.as_path())),
        false => (None, path.to_owned()),
    }
}

fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// A name, not a path: another one would lead out of the folders.
fn is_plain(name: &Path) -> bool {
    let mut parts = name.components();
    matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_gdbs_within_the_process_first() {
        let facts = Facts {
            build_id: Some(vec![0x12, 0x34, 0x56]),
            debug_link: Some((b"server.debug".to_vec(), 7)),
            ..Facts::default()
        };
        let found = places(
            Path::new("/proc/42/root/opt/app/server"),
            &facts,
            &[DEBUG.into()],
        );
        let paths: Vec<&str> = found
            .iter()
            .map(|place| place.path.to_str().unwrap())
            .collect();
        let expected = [
            "/proc/42/root/usr/lib/debug/.build-id/12/3456.debug",
            "/usr/lib/debug/.build-id/12/3456.debug",
            "/proc/42/root/opt/app/server.debug",
            "/proc/42/root/opt/app/.debug/server.debug",
        ];
        assert_eq!(paths[..4], expected);
        assert!(paths.contains(&"/proc/42/root/usr/lib/debug/opt/app/server.debug"));
        assert!(paths.contains(&"/usr/lib/debug/opt/app/server.debug"));
        let links = found.iter().filter(|place| place.follows_links);
        assert!(links.into_iter().all(|place| place.path.starts_with(DEBUG)));
    }

    #[test]
    fn a_link_that_is_a_path_is_not_followed() {
        for name in ["../../etc/shadow", "/etc/shadow", "..", "", "a/b"] {
            let facts = Facts {
                debug_link: Some((name.as_bytes().to_vec(), 7)),
                ..Facts::default()
            };
            assert_eq!(
                places(Path::new("/opt/server"), &facts, &[DEBUG.into()]),
                [],
                "{name}"
            );
        }
    }
}
