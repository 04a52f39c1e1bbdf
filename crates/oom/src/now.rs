//! A cgroup as it is now, if it is still there: its limits and how often they were reached.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use observe::cgroup::{Cgroup, Folders, find_folders, parse_key, read_cgroup};

/// Largest file that is read here: mountinfo of a machine with thousands of containers.
const MOUNTS_BYTES_MAX: u64 = 16 << 20;

/// Where a hierarchy with the memory controller is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The cgroup that is mounted; not `/` within some containers.
    root: PathBuf,
    point: PathBuf,
}

/// What a cgroup's files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupNow {
    pub folder: PathBuf,
    pub is_v2: bool,
    pub memory: Cgroup,
    /// cgroup v2: the limit above which processes are slowed down.
    pub high_bytes: Option<u64>,
    /// cgroup v2: how often they were.
    pub high_events: Option<u64>,
    /// cgroup v2: how often the limit was hit, and v1's `failcnt`.
    pub max_events: Option<u64>,
    /// cgroup v2: the kernel kills all of it or nothing.
    pub is_group: bool,
    /// cgroup v1: the kernel kills nothing here; what asks for memory waits.
    pub is_killing_off: bool,
}

/// Hierarchies of this machine with the memory controller, from `/proc/self/mountinfo`.
pub fn read_mounts() -> Vec<Mount> {
    let file =
        observe::foreign::open_file_within(Path::new("/proc/self/mountinfo"), MOUNTS_BYTES_MAX);
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
        (kind == b"cgroup2" || (kind == b"cgroup" && has_memory)).then(|| Mount {
            root: path(fields[3]),
            point: path(fields[4]),
        })
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

/// The cgroup that a log calls `path`; `None`: it is gone, or its hierarchy is not mounted here.
pub fn read_now(mounts: &[Mount], path: &str) -> Option<CgroupNow> {
    let path = Path::new(path);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // The root has no limit and no counters.
    if !is_plain || !path.has_root() || path.parent().is_none() {
        return None;
    }
    mounts.iter().find_map(|mount| {
        let below = path.strip_prefix(&mount.root).ok()?;
        let folder = mount.point.join(below);
        folder.is_dir().then(|| read_folder(folder))?
    })
}

fn read_folder(folder: PathBuf) -> Option<CgroupNow> {
    let folders = find_folders(&folder)?;
    let memory = read_cgroup(&folders).ok()?;
    let text = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let number = |name: &str| observe::cgroup::parse_bytes(&text(name));
    let events = text("memory.events");
    let is_v2 = matches!(folders, Folders::V2(_));
    // A controller that is off here has no files.
    memory.memory_bytes?;
    Some(CgroupNow {
        is_v2,
        memory,
        high_bytes: number("memory.high"),
        high_events: parse_key(&events, b"high"),
        max_events: parse_key(&events, b"max").or_else(|| number("memory.failcnt")),
        is_group: number("memory.oom.group") == Some(1),
        is_killing_off: parse_key(&text("memory.oom_control"), b"oom_kill_disable") == Some(1),
        folder,
    })
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
        let mount = |root: &str, point: &str| Mount {
            root: root.into(),
            point: point.into(),
        };
        let expected = [
            mount("/", "/sys/fs/cgroup/memory"),
            mount("/docker/a b", "/cg"),
        ];
        assert_eq!(parse_mounts(text), expected);
    }

    #[test]
    fn a_cgroup_of_v2_is_read_and_nothing_outside() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/b");
        std::fs::create_dir_all(&own).unwrap();
        let files = [
            ("memory.current", "4096\n"),
            ("memory.max", "8192\n"),
            ("memory.high", "6000\n"),
            (
                "memory.events",
                "low 0\nhigh 170\nmax 35\noom 1\noom_kill 1\noom_group_kill 0\n",
            ),
            ("memory.oom.group", "1\n"),
        ];
        for (name, text) in files {
            std::fs::write(own.join(name), text).unwrap();
        }
        let mounts = [Mount {
            root: "/".into(),
            point: folder.path().to_path_buf(),
        }];
        let now = read_now(&mounts, "/a/b").unwrap();
        assert_eq!((now.is_v2, now.is_group), (true, true));
        assert_eq!(
            (now.high_bytes, now.high_events, now.max_events),
            (Some(6000), Some(170), Some(35))
        );
        assert_eq!(
            (now.memory.memory_limit_bytes, now.memory.oom_kills),
            (Some(8192), Some(1))
        );
        for path in ["/a/../a/b", "a/b", "/", "", "/a", "/gone"] {
            assert_eq!(read_now(&mounts, path), None, "{path}");
        }
    }
}
