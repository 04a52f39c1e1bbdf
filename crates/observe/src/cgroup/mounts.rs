//! Where the hierarchies of this machine's cgroups are mounted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Largest file that is read here: mountinfo of a machine with thousands of containers.
const MOUNTS_BYTES_MAX: u64 = 16 << 20;

/// Where a hierarchy with the memory controller is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The cgroup that is mounted; not `/` within some containers.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    pub fn new(root: impl Into<PathBuf>, point: impl Into<PathBuf>) -> Mount {
        Mount {
            root: root.into(),
            point: point.into(),
        }
    }
}

/// Hierarchies of this machine with the memory controller, from `/proc/self/mountinfo`.
pub fn read_mounts() -> Vec<Mount> {
    let file =
        crate::foreign::open_file_within(Path::new("/proc/self/mountinfo"), MOUNTS_BYTES_MAX);
    let mut text = Vec::new();
    let read = file.and_then(|file| {
        let mut file = std::io::Read::take(file, MOUNTS_BYTES_MAX);
        std::io::Read::read_to_end(&mut file, &mut text)
    });
    read.map_or_else(|_| Vec::new(), |_| parse_mounts(&text))
}

/// `36 35 0:30 ROOT POINT OPTIONS ... - TYPE SOURCE SUPER-OPTIONS` (proc_pid_mountinfo(5)).
pub fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let line = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let (kind, options) = (*fields.get(dash + 1)?, *fields.get(dash + 3)?);
        let has_memory = options
            .split(|&byte| byte == b',')
            .any(|option| option == b"memory");
        let path = |field: &[u8]| PathBuf::from(OsStr::from_bytes(&unescaped(field)));
        (kind == b"cgroup2" || (kind == b"cgroup" && has_memory))
            .then(|| Some(Mount::new(path(fields.get(3)?), path(fields.get(4)?))))
            .flatten()
    };
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// `\040` is a blank.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = rest.strip_prefix(b"\\").and_then(|octal| octal.get(..3));
        let byte =
            octal.and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &rest[4..] } else { tail };
    }
    bytes
}

/// The folders of a cgroup by its path, as `/proc/PID/cgroup` and the kernel's log have it; none: it is gone, or its
/// hierarchy is not mounted here. Nor for the root, which has no limit and no counters.
pub fn folders_of<'a>(mounts: &'a [Mount], path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let path = Path::new(path);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_named = is_plain && path.has_root() && path.parent().is_some();
    let mounts = mounts.iter().filter(move |_| is_named);
    let folders = mounts.filter_map(move |mount| {
        let below = path.strip_prefix(&mount.root).ok()?;
        Some(mount.point.join(below))
    });
    folders.filter(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_both_versions_are_found() {
        let text = b"36 35 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - tmpfs tmpfs rw\n\
            37 36 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            38 36 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            39 36 0:33 /docker/a\\040b /cg rw - cgroup2 cgroup2 rw,nsdelegate\nshort - x\n";
        let expected = [
            Mount::new("/", "/sys/fs/cgroup/memory"),
            Mount::new("/docker/a b", "/cg"),
        ];
        assert_eq!(parse_mounts(text), expected);
    }
}
